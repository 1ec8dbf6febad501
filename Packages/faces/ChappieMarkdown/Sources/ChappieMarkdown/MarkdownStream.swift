/// A renderer that draws streamed Markdown on a terminal block by block.
///
/// A finished block is drawn once, in its style, and does not change again. The unfinished block is shown below as
/// growing plain text, and is replaced when it is finished. If it does not fit on the screen, its rest waits. Code is
/// drawn line by line, and a list item by item. The screen at the end does not depend on how the text was cut into
/// deltas.
///
/// ```swift
/// var markdown = MarkdownStream(width: 80, height: 24)
/// for delta in deltas { print(markdown.append(delta), terminator: "") }
/// print(markdown.finish(), terminator: "")
/// ```
///
/// It is a value that takes text and returns bytes for the terminal. The time is linear in the size of the answer. It
/// removes characters that a terminal would obey (control characters, even if they are written as entities) or that
/// would change the direction of text (bidirectional marks).
public struct MarkdownStream: Sendable {
    private var width: Int
    private var height: Int?
    private let isStyled: Bool
    /// Whether the next text is drawn dim if styles may be used, for text in addition to the answer. Change it after
    /// ``finish()``.
    public var isDim = false

    private var splitter = BlockSplitter()
    private var order = BlockOrder()
    /// The preview, or `nil` until a part of the unfinished block has arrived.
    private var preview: Preview?

    /// Creates a stream.
    ///
    /// - Parameters:
    ///   - width: the columns of the terminal.
    ///   - height: the rows of the terminal. `nil`, for a file or a pipe, shows a block only when it is finished.
    ///   - isStyled: whether styles and colours may be used. Default `true`.
    public init(width: Int, height: Int?, isStyled: Bool = true) {
        self.width = max(8, width)
        self.height = height
        self.isStyled = isStyled
    }

    /// Whether the cursor is at the start of a row, because no unfinished block is shown.
    public var isAtLineStart: Bool { preview?.isShown != true }

    /// Sets the terminal's new size. Drawn blocks stay unchanged. Later blocks use the new size.
    public mutating func resize(width: Int, height: Int?) {
        self.width = max(8, width)
        self.height = height
        preview?.width = self.width
    }

    /// Takes more of the answer, and returns the text to write.
    public mutating func append(_ delta: String) -> String {
        var output = ""
        for event in splitter.append(delta) { draw(event, &output) }
        return output
    }

    /// Draws the rest, at the end of the answer or before other output.
    public mutating func finish() -> String {
        var output = ""
        for event in splitter.finish() { draw(event, &output) }
        erasePreview(&output)
        order.end()
        return output
    }

    // MARK: Drawing

    private mutating func draw(_ event: BlockSplitter.Event, _ output: inout String) {
        switch event {
        case .grew(let text, let start): show(text, start, &output)
        case .blank:
            erasePreview(&output)
            order.blanks += 1
        case .finished(let source, let start, let blanks):
            erasePreview(&output)
            let number = stepOff(from: start, &output)
            for line in BlockDrawing.lines(of: source, width: width, number: number) { write(line, &output) }
            order.blanks = blanks
        case .codeBegan(let info, let start):
            erasePreview(&output)
            stepOff(from: start, &output)
            for head in Line.codeHead(MarkdownBlock.language(of: info)) { write(head, &output) }
        case .code(let line): write(Line.code(line.visible), &output)
        case .codeEnded: break
        }
    }

    /// Writes the gap above a block.
    ///
    /// - Returns: the number of an ordered item, otherwise `nil`.
    @discardableResult
    private mutating func stepOff(from start: LineStart, _ output: inout String) -> Int? {
        output += String(repeating: "\n", count: order.gap(before: start))
        return order.follow(start)
    }

    private func write(_ line: Line, _ output: inout String) {
        output += line.encoded(styled: isStyled, base: isDim ? .dim : []) + "\n"
    }

    /// Shows more of the unfinished block.
    private mutating func show(_ text: String, _ start: LineStart?, _ output: inout String) {
        guard let height else { return }
        if let start {
            // One row is for the cursor, and one for the last row above the block.
            preview = Preview(width: width, height: max(0, height - 2), gap: order.gap(before: start))
        }
        guard let more = preview?.add(text), !more.isEmpty else { return }
        output += isDim && isStyled ? MarkdownStyle.dim.sequence + more + MarkdownStyle().sequence : more
    }

    private mutating func erasePreview(_ output: inout String) {
        if let erased = preview?.erased(width: width) { output += erased }
        preview = nil
    }
}
