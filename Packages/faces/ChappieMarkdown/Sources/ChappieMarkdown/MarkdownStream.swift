/// Markdown that streams in, drawn on a terminal block by block.
///
/// A finished block is drawn once, in its style, and does not change again. The unfinished block is shown below as
/// growing plain text, and is replaced when it is finished; if it does not fit on the screen, its rest waits. Code is
/// drawn line by line, a list item by item. The screen at the end does not depend on how the text was cut into deltas.
///
/// ```swift
/// var markdown = MarkdownStream(width: 80, height: 24)
/// for delta in deltas { print(markdown.append(delta), terminator: "") }
/// print(markdown.finish(), terminator: "")
/// ```
///
/// It is a value: it takes text, and returns bytes for the terminal. The time is linear in the size of the answer. It
/// removes characters that a terminal would obey (control characters, also if they are written as entities) or that
/// would change the direction of text (bidirectional marks).
public struct MarkdownStream: Sendable {
    private var width: Int
    private var height: Int?
    private let isStyled: Bool
    /// Whether the next text is drawn dim, if styles may be used: for text beside the answer. Change it after
    /// ``finish()``.
    public var isDim = false

    private var block: OpenBlock?
    /// The bytes of the incomplete line.
    private var line: [UInt8] = []
    /// `nil` until a part of the unfinished block has come.
    private var preview: Preview?
    /// Whether anything is drawn, so that the next block needs a gap.
    private var hasDrawn = false
    /// The list of the last drawn item, and the number of the next item.
    private var list: (mark: UInt8, next: Int)?
    /// Blank lines since the last block ended.
    private var blanks = 0

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

    /// Sets the terminal's new size. Drawn blocks stay as they are; later blocks use the new size.
    public mutating func resize(width: Int, height: Int?) {
        self.width = max(8, width)
        self.height = height
        preview?.width = self.width
    }

    /// Takes more of the answer, and returns the text to write.
    public mutating func append(_ delta: String) -> String {
        var output = ""
        for piece in delta.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            if piece.offset > 0 { endLine(&output) }
            // A carriage return is a part of a line's end, or has no meaning.
            let bytes = piece.element.filter { $0 != 0x0D }
            guard !bytes.isEmpty else { continue }
            line += bytes
            growLine(by: bytes, &output)
        }
        return output
    }

    /// Draws the rest: at the end of the answer, or before other output.
    public mutating func finish() -> String {
        var output = ""
        if !line.isEmpty { endLine(&output) }
        closeBlock(&output)
        erasePreview(&output)
        list = nil
        blanks = 0
        return output
    }

    // MARK: Lines

    /// `bytes` have been added to the line, which is still incomplete.
    private mutating func growLine(by bytes: [UInt8], _ output: inout String) {
        guard height != nil, block?.isFence != true else { return }
        if line.count <= 64 {
            // The beginning may already show that the block above has ended.
            if let block, let start = LineStart.certainlyInterrupts(line[...]), !block.continues(with: start) {
                closeBlock(&output)
            }
            // A fence is never shown as text.
            if block == nil, line.allSatisfy({ $0 == 0x20 || $0 == 0x60 || $0 == 0x7E }) { return }
        }
        show(String(decoding: preview == nil ? line : bytes, as: UTF8.self), &output)
    }

    private mutating func endLine(_ output: inout String) {
        defer { line.removeAll(keepingCapacity: true) }
        // The block is changed in place and not bound to a name: otherwise its source would be copied for each line.
        if case .fence(let fence, let indent)? = block?.kind {
            return inFence(fence, indent, &output)
        }
        let start = LineStart(line[...])
        if block?.kind == .text, LineStart.isUnderline(line[...]) {
            block?.add(line)
            return closeBlock(&output)
        }
        if block?.continues(with: start) == true {
            block?.add(start.kind == .blank ? [] : line)
            return show("\n", &output)
        }
        closeBlock(&output)
        begin(start, &output)
    }

    /// The complete line `line` begins a block, or is blank.
    private mutating func begin(_ start: LineStart, _ output: inout String) {
        let kind: OpenBlock.Kind
        switch start.kind {
        case .blank:
            erasePreview(&output)
            blanks += 1
            return
        case .heading, .rule: return draw(line, start, &output)
        case .definition: return draw([UInt8(ascii: "\\")] + line.drop { $0 == 0x20 }, start, &output)
        case .fence(let fence):
            erasePreview(&output)
            stepOff(from: start, &output)
            let info = line.drop { $0 == 0x20 }.drop { $0 == fence.mark }
            for head in Line.codeHead(String(decoding: info, as: UTF8.self)) { write(head, &output) }
            block = OpenBlock(kind: .fence(fence, indent: start.indent))
            return
        case .quote: kind = .quote
        case .html: kind = .html
        case .indented: kind = .indented
        case .text: kind = .text
        case .item(let mark, _, let content, _): kind = .item(mark: mark, content: content)
        }
        block = OpenBlock(kind: kind, source: line + [0x0A])
        if preview == nil { show(String(decoding: line, as: UTF8.self), &output) }
        show("\n", &output)
    }

    /// A line of code is final as soon as it is complete.
    private mutating func inFence(_ fence: Fence, _ indent: Int, _ output: inout String) {
        if fence.isClosed(by: line[...]), LineStart(line[...]).kind != .indented {
            block = nil
            return
        }
        var code = line[...]
        for _ in 0..<indent where code.first == 0x20 { code.removeFirst() }
        write(Line.code(String(decoding: code, as: UTF8.self)), &output)
    }

    // MARK: Drawing

    private mutating func closeBlock(_ output: inout String) {
        guard let closed = block else { return }
        block = nil
        if !closed.isFence { draw(closed.source, LineStart(closed.source.prefix { $0 != 0x0A }), &output) }
        blanks = closed.blanks
    }

    private mutating func draw(_ source: [UInt8], _ start: LineStart, _ output: inout String) {
        erasePreview(&output)
        let number = stepOff(from: start, &output)
        for line in BlockDrawing.lines(of: source, width: width, number: number) { write(line, &output) }
    }

    /// Writes the gap above a block, and counts the items of a list. Between the items of a list the gap is the
    /// source's.
    @discardableResult
    private mutating func stepOff(from start: LineStart, _ output: inout String) -> Int? {
        output += String(repeating: "\n", count: gap(before: start))
        hasDrawn = true
        blanks = 0
        guard case .item(let mark, let number, _, _) = start.kind else {
            list = nil
            return nil
        }
        let count = list?.mark == mark ? list?.next : number
        list = (mark, (count ?? 0) + 1)
        return number == nil ? nil : count
    }

    private func gap(before start: LineStart) -> Int {
        if !hasDrawn { return 0 }
        if case .item(let mark, _, _, _) = start.kind, mark == list?.mark { return blanks > 0 ? 1 : 0 }
        return 1
    }

    private func write(_ line: Line, _ output: inout String) {
        output += line.encoded(styled: isStyled, base: isDim ? .dim : []) + "\n"
    }

    /// Shows more of the unfinished block.
    private mutating func show(_ text: String, _ output: inout String) {
        guard let height else { return }
        if preview == nil {
            // One row is for the cursor, and one for the last row above the block.
            preview = Preview(width: width, height: max(0, height - 2), gap: gap(before: LineStart(line[...])))
        }
        guard let more = preview?.add(text), !more.isEmpty else { return }
        output += isDim && isStyled ? Style.dim.sequence + more + Style().sequence : more
    }

    private mutating func erasePreview(_ output: inout String) {
        if let erased = preview?.erased(width: width) { output += erased }
        preview = nil
    }
}
