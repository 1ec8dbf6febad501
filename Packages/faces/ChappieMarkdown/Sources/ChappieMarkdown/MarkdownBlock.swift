/// A block of Markdown as a value. A terminal and a window draw the same blocks.
///
/// ```swift
/// for block in MarkdownBlock.blocks(of: "# Title\n\nText with `code`.") { draw(block) }
/// ```
/// Its texts have no characters that a terminal would obey or that would change the direction of text.
public enum MarkdownBlock: Sendable, Hashable {
    /// Text whose line feeds begin new lines.
    case paragraph([MarkdownRun])
    /// A heading of the levels 1 to 6.
    case heading(level: Int, [MarkdownRun])
    /// Code, with the first word after its fence, which may be empty. The text has no line feed at its end.
    case code(language: String, text: String)
    /// The blocks of a quotation.
    case quote([MarkdownBlock])
    /// The items of a list.
    case list(MarkdownList)
    /// Rows of cells.
    case table(MarkdownTable)
    /// A line across.
    case rule
    /// Unchanged text: HTML, and text that is too large to be read as Markdown.
    case verbatim(String)
}

/// Text in one style.
public struct MarkdownRun: Sendable, Hashable {
    /// The text.
    public var text: String
    /// The style of the text.
    public var style: MarkdownStyle
    /// The address of the link that the text belongs to, as the source has it, or `nil` outside of links. If the text
    /// of a link is not its address, the address follows as a run of the same link, so that the user sees the target.
    public var link: String?

    /// Creates a run with the given properties.
    public init(text: String, style: MarkdownStyle = [], link: String? = nil) {
        self.text = text
        self.style = style
        self.link = link
    }
}

/// The style of a piece of text, by meaning.
public struct MarkdownStyle: OptionSet, Sendable, Hashable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// Strong emphasis, and headings.
    public static let bold = MarkdownStyle(rawValue: 1 << 0)
    /// Secondary text: the address of a link.
    public static let dim = MarkdownStyle(rawValue: 1 << 1)
    /// Emphasis.
    public static let italic = MarkdownStyle(rawValue: 1 << 2)
    /// The text of a link.
    public static let underline = MarkdownStyle(rawValue: 1 << 3)
    /// Text that has been struck out.
    public static let strike = MarkdownStyle(rawValue: 1 << 4)
    /// Code in a line.
    public static let code = MarkdownStyle(rawValue: 1 << 5)
}

/// A list. While it streams in, each item arrives as a separate list.
public struct MarkdownList: Sendable, Hashable {
    /// The mark before an item.
    public enum Mark: Sendable, Hashable {
        /// A bullet.
        case bullet
        /// A number, with its full stop or bracket.
        case number(Int, String)
        /// A box, which is ticked or not.
        case task(isDone: Bool)
    }

    /// An item, which may hold further lists.
    public struct Item: Sendable, Hashable {
        /// The mark before the item.
        public var mark: Mark
        /// The item's content.
        public var blocks: [MarkdownBlock]
    }

    /// The items, in order.
    public var items: [Item]
    /// Whether the source has no blank lines between the items.
    public var isTight: Bool
}

/// A table of GitHub's Markdown.
public struct MarkdownTable: Sendable, Hashable {
    /// The side of a column at which the text of its cells begins.
    public enum Alignment: Sendable, Hashable {
        /// At the left. This is also the alignment of a column that specifies none.
        case left
        /// At the right.
        case right
        /// In the middle.
        case center
    }

    /// The rows, of which the first is the head. A row may have fewer cells than the head.
    public var rows: [[[MarkdownRun]]]
    /// The alignments, one for each column.
    public var alignments: [Alignment]
}
