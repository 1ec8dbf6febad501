import CCMark
@_spi(ChappieInternals) import ChappieCore

extension MarkdownStyle {
    /// The attributes' numbers (SGR: ECMA-48, 8.3.117). Code is cyan.
    private static let attributes: [(MarkdownStyle, String)] = [
        (.bold, "1"), (.dim, "2"), (.italic, "3"), (.underline, "4"), (.strike, "9"), (.code, "36"),
    ]

    /// The sequence that turns on exactly these attributes.
    var sequence: String {
        "\u{1B}[0" + Self.attributes.filter { contains($0.0) }.map { ";" + $0.1 }.joined() + "m"
    }
}

/// A line of the screen.
struct Line: Equatable {
    private(set) var runs: [MarkdownRun] = []
    private(set) var columns = 0

    init(_ text: String = "", _ style: MarkdownStyle = []) {
        if !text.isEmpty { append(text, style, columns: text.columns) }
    }

    /// Appends a text, which must be fit for a terminal. See ``Swift/String/visible``.
    mutating func append(_ text: String, _ style: MarkdownStyle, columns: Int) {
        self.columns += columns
        if let last = runs.indices.last, runs[last].style == style {
            runs[last].text += text
        } else {
            runs.append(MarkdownRun(text: text, style: style))
        }
    }

    mutating func append(_ line: Line) {
        for run in line.runs { append(run.text, run.style, columns: 0) }
        columns += line.columns
    }

    /// Adds blanks up to `width` columns.
    mutating func pad(to width: Int) {
        if columns < width { append(String(repeating: " ", count: width - columns), [], columns: width - columns) }
    }

    /// Returns the bytes of the line, without a line feed. A style never outlives its line, so that a pager may show
    /// any part.
    ///
    /// - Parameter base: the style of the complete line, which is added to the styles of its parts.
    func encoded(styled: Bool, base: MarkdownStyle = []) -> String {
        guard styled else { return runs.map(\.text).joined() }
        var output = ""
        var current: MarkdownStyle = []
        for run in runs {
            let style = run.style.union(base)
            if style != current { output += style.sequence }
            current = style
            output += run.text
        }
        return current.isEmpty ? output : output + "\u{1B}[0m"
    }
}

extension Unicode.Scalar {
    /// The number of columns that the character takes up on a terminal.
    var columns: Int {
        if (0x20..<0x7F).contains(value) { return 1 }
        let columns = Int(ccmark_columns(value))
        // The character is newer than the C library's tables. It is an emoji, or a letter of a rare script.
        return columns >= 0 ? columns : properties.generalCategory == .control ? 0 : value >= 0x1F000 ? 2 : 1
    }
}

extension String {
    /// The number of columns of text without line feeds.
    var columns: Int { unicodeScalars.reduce(0) { $0 + $1.columns } }

    /// The text without characters that a terminal obeys or that change its direction.
    var visible: String { UntrustedText.forTerminal(self) }
}

/// A layout that breaks text into lines of a width. It breaks at blanks, around wide characters, and within words that
/// are longer than a line.
struct TextFlow {
    private let width: Int
    private var lines: [Line] = []
    private var line = Line()
    private var word = Line()
    private var blanks = Line()
    private var hasBegun = false

    init(width: Int) { self.width = max(1, width) }

    /// Lays out `runs`, whose line feeds begin new lines.
    static func lines(of runs: [MarkdownRun], width: Int) -> [Line] {
        var flow = TextFlow(width: width)
        for run in runs { flow.add(run.text, run.style) }
        return flow.finished()
    }

    /// Returns the widths of the widest line and of the widest word if no line is broken.
    static func extent(of runs: [MarkdownRun]) -> (line: Int, word: Int) {
        var line = 0
        var word = 0
        var current = 0
        var currentWord = 0
        for run in runs {
            for scalar in run.text.unicodeScalars {
                if scalar == "\n" { current = 0 } else { current += scalar.columns }
                currentWord = scalar == " " || scalar == "\n" ? 0 : currentWord + scalar.columns
                line = max(line, current)
                word = max(word, currentWord)
            }
        }
        return (line, word)
    }

    mutating func add(_ text: String, _ style: MarkdownStyle) {
        hasBegun = hasBegun || !text.isEmpty
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": breakLine()
            case " ", "\t":
                placeWord()
                blanks.append(" ", style, columns: 1)
            default:
                let columns = scalar.columns
                // Text in wide characters has no blanks. It may be broken before and after each of them.
                if columns == 2 { placeWord() }
                if word.columns + columns > width { breakWord() }
                word.append(String(scalar), style, columns: columns)
                if columns == 2 { placeWord() }
            }
        }
    }

    mutating func finished() -> [Line] {
        placeWord()
        if hasBegun { lines.append(line) }
        return lines
    }

    private mutating func placeWord() {
        guard !word.runs.isEmpty else { return }
        if line.columns + blanks.columns + word.columns > width, line.columns > 0 {
            lines.append(line)
            line = Line()
        } else if line.columns + blanks.columns + word.columns <= width {
            line.append(blanks)
        }
        blanks = Line()
        line.append(word)
        word = Line()
    }

    private mutating func breakWord() {
        placeWord()
        lines.append(line)
        line = Line()
    }

    private mutating func breakLine() {
        placeWord()
        lines.append(line)
        line = Line()
        blanks = Line()
    }
}
