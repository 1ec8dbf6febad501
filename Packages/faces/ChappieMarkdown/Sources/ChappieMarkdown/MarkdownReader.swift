/// A reader that turns streamed Markdown into blocks for a window.
///
/// A finished block does not change again. Until then its source grows as plain text, which the block replaces. Code is
/// final line by line. The blocks at the end do not depend on how the text was cut into deltas.
///
/// ```swift
/// var reader = MarkdownReader()
/// for delta in deltas { for event in reader.append(delta) { draw(event) } }
/// for event in reader.finish() { draw(event) }
/// ```
///
/// It is a value without input and output. The time is linear in the size of the text.
public struct MarkdownReader: Sendable {
    /// A change at the end of the text.
    public enum Event: Sendable, Hashable {
        /// The unfinished block has more text, as its source.
        case grew(String)
        /// A block is complete. It replaces the text that grew. A list has one item.
        case block(MarkdownBlock)
        /// A block of code begins. It replaces the text that grew. The language may be empty.
        case codeBegan(language: String)
        /// A line of the code, without a line feed.
        case code(String)
        /// The block of code is complete.
        case codeEnded
    }

    private var splitter = BlockSplitter()
    private var order = BlockOrder()

    /// Creates a reader at the beginning of a text.
    public init() {}

    /// Takes more of the text, and returns the changes.
    public mutating func append(_ delta: String) -> [Event] { events(of: splitter.append(delta)) }

    /// Ends the text, because it is complete or something else follows it.
    public mutating func finish() -> [Event] {
        defer { order.end() }
        return events(of: splitter.finish())
    }

    private mutating func events(of changes: [BlockSplitter.Event]) -> [Event] {
        changes.flatMap { change -> [Event] in
            switch change {
            case .grew(let text, _): return [.grew(text.visible)]
            case .blank:
                order.blanks += 1
                return []
            case .finished(let source, let start, let blanks):
                let number = order.follow(start)
                order.blanks = blanks
                return MarkdownBlock.blocks(of: source, number: number).map(Event.block)
            case .codeBegan(let info, let start):
                _ = order.follow(start)
                return [.codeBegan(language: MarkdownBlock.language(of: info))]
            case .code(let line): return [.code(line.visible)]
            case .codeEnded: return [.codeEnded]
            }
        }
    }
}
