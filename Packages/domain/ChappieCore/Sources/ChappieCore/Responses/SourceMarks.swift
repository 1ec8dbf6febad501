/// A filter that removes the marks of sources from an answer's text, piece by piece. It is sans-IO.
///
/// The service writes such marks for its own clients, which draw a link or a name in their place:
///
/// - A mark from U+E200 to U+E201 contains the kind and then its values, as in `cite` and `turn0search1`, with U+E202
///   between the parts. A citation is left out, because the answer's list of sources has its page. An `entity` becomes
///   its name, and a `url` becomes a link.
/// - `:codex-file-citation[label]{path=a.md line_range_start=3}` becomes `a.md:3`.
///
/// A mark may arrive in pieces. Its beginning is held back until its end arrives, up to ``limit`` bytes.
@_spi(ChappieInternals) public struct SourceMarks: Sendable {
    /// The longest mark, in bytes. A text that begins like a mark and is longer is not a mark.
    public static let limit = 1000

    private var held = ""
    /// The last piece of the text so far that is not empty.
    private var lastPiece = ""
    /// Whether a mark was left out between two spaces, of which one is enough.
    private var dropsSpace = false

    /// Creates a filter for one message.
    public init() {}

    /// Returns `text` without its marks.
    public static func removed(from text: String) -> String {
        var marks = SourceMarks()
        return marks.append(text) + marks.finish()
    }

    /// Takes the next piece of the text, and returns the text that can be shown now, which may be empty.
    public mutating func append(_ piece: String) -> String {
        if held.isEmpty, !dropsSpace, !Self.mayContainMark(piece) {
            if !piece.isEmpty { lastPiece = piece }
            return piece
        }
        held += piece
        return read(isEnd: false)
    }

    /// Returns the rest of the text at the end of the message. A mark that has no end is left out.
    public mutating func finish() -> String {
        let rest = read(isEnd: true)
        self = SourceMarks()
        return rest
    }

    /// Returns whether a mark may begin with this byte, which is a colon or the first byte of U+E200.
    private static func mayBegin(_ byte: UInt8) -> Bool { byte == 0x3A || byte == 0xEE }

    /// Returns whether one of the bytes may begin a mark. Almost every piece of an answer is asked about, so that this
    /// reads the bytes of the string in place.
    private static func mayContainMark(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { $0.contains { mayBegin($0) } }
    }

    /// The last character of the text so far.
    private var previous: Character? { lastPiece.last }

    private mutating func read(isEnd: Bool) -> String {
        var output = ""
        var rest = held[...]
        while let start = rest.utf8.firstIndex(where: Self.mayBegin) {
            add(rest[..<start], to: &output)
            rest = rest[start...]
            switch SourceMark.reading(rest, isEnd: isEnd) {
            case .unfinished:
                held = String(rest)
                return output
            case .text:
                let scalars = rest.unicodeScalars
                let next = scalars.index(after: scalars.startIndex)
                add(rest[..<next], to: &output)
                rest = rest[next...]
            case .mark(let mark, let end):
                let text = mark.text(isAfterWord: previous.map { !$0.isWhitespace } ?? false)
                if text.isEmpty { dropsSpace = dropsSpace || previous?.isWhitespace ?? true }
                add(text[...], to: &output)
                rest = rest[end...]
            }
        }
        add(rest, to: &output)
        held = ""
        return output
    }

    private mutating func add(_ text: Substring, to output: inout String) {
        guard let first = text.first else { return }
        let shown = dropsSpace && first == " " ? text.dropFirst() : text
        dropsSpace = false
        output += shown
        if !shown.isEmpty { lastPiece = String(shown) }
    }
}

/// A mark in a text.
private enum SourceMark {
    /// A mark of U+E200, with its kind and its values.
    case bracketed(kind: Substring, values: [Substring])
    /// A place in a file.
    case file(name: Substring, line: String?)
    /// A mark that is left out of the text.
    case nothing

    /// The result of reading the beginning of a text.
    enum Reading {
        case text
        /// A mark whose end has not arrived.
        case unfinished
        case mark(SourceMark, end: Substring.Index)
    }

    static func reading(_ text: Substring, isEnd: Bool) -> Reading {
        let mayGrow = !isEnd && text.utf8.count < SourceMarks.limit
        return text.first == ":" ? directive(text, mayGrow) : bracketed(text, mayGrow)
    }

    /// Returns the text that replaces the mark.
    ///
    /// - Parameter isAfterWord: Whether the text before it ends without a space.
    func text(isAfterWord: Bool) -> String {
        switch self {
        case .nothing: return ""
        case .file(let name, let line):
            let place = line.map { "\(name):\($0)" } ?? String(name)
            return isAfterWord ? " (\(place))" : place
        case .bracketed("entity", let values):
            guard let value = values.first else { return "" }
            guard let list = try? ChappieJSON(parsing: String(value)) else { return String(value) }
            return list[1]?.string ?? list[0]?.string ?? ""
        case .bracketed("url", let values) where values.count == 2:
            let isAddress = ["https://", "http://"].contains { values[1].hasPrefix($0) }
            return isAddress ? "[\(values[0])](\(values[1]))" : String(values[0])
        case .bracketed: return ""
        }
    }

    private static func bracketed(_ text: Substring, _ mayGrow: Bool) -> Reading {
        let scalars = text.unicodeScalars
        guard scalars.first == "\u{E200}" else { return .text }
        let kind = scalars.dropFirst().prefix { ("a"..."z").contains($0) || $0 == "_" }
        guard kind.endIndex < scalars.endIndex else { return mayGrow ? .unfinished : .text }
        guard !kind.isEmpty, scalars[kind.endIndex] == "\u{E202}" || scalars[kind.endIndex] == "\u{E201}" else {
            return .text
        }
        // A mark contains neither a line feed nor another mark.
        let stop = scalars[kind.endIndex...].firstIndex { ["\u{E201}", "\u{E200}", "\n"].contains($0) }
        if let stop, scalars[stop] == "\u{E201}", text[..<stop].utf8.count <= SourceMarks.limit {
            let values = scalars[kind.endIndex..<stop].split(separator: "\u{E202}").map(Substring.init)
            return .mark(.bracketed(kind: Substring(kind), values: values), end: scalars.index(after: stop))
        }
        if stop == nil, mayGrow { return .unfinished }
        // The mark has no end. Characters that can belong to a value are left out, and the text after them stays.
        let rest = scalars[kind.endIndex...].drop { scalar in
            scalar == "\u{E202}" || scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
        }
        return .mark(.nothing, end: rest.startIndex)
    }

    private static let fileName = ":codex-file-citation"
    private static let terminalName = ":codex-terminal-citation"

    private static func directive(_ text: Substring, _ mayGrow: Bool) -> Reading {
        let names = [fileName, terminalName]
        guard let name = names.first(where: { text.utf8.starts(with: $0.utf8) }) else {
            return mayGrow && names.contains { $0.utf8.starts(with: text.utf8) } ? .unfinished : .text
        }
        var rest = text.dropFirst(name.count)
        var label: Substring?
        var attributes: [Substring: Substring] = [:]
        if rest.first == "[" {
            guard let end = rest.firstIndex(of: "]") else { return mayGrow ? .unfinished : cutOff(text) }
            label = rest[..<end].dropFirst()
            rest = rest[end...].dropFirst()
        }
        if rest.first == "{" {
            guard let read = Self.attributes(rest.dropFirst()) else { return mayGrow ? .unfinished : cutOff(text) }
            (attributes, rest) = read
        } else if rest.isEmpty, mayGrow {
            return .unfinished
        } else if label == nil {
            return .text
        }
        guard name == fileName else { return .mark(.nothing, end: rest.startIndex) }
        let isGeneric = label?.isEmpty ?? true || label == "codex-file-citation"
        guard let shown = isGeneric ? attributes["path"] : label else { return .mark(.nothing, end: rest.startIndex) }
        let line = attributes["line_range_start"] ?? attributes["line"]
        return .mark(.file(name: shown, line: line.map(String.init)), end: rest.startIndex)
    }

    /// Returns the reading of a directive without an end. It is left out if it is shorter than ``SourceMarks/limit``,
    /// and is text otherwise.
    private static func cutOff(_ text: Substring) -> Reading {
        text.utf8.count < SourceMarks.limit ? .mark(.nothing, end: text.endIndex) : .text
    }

    /// Reads `path=a.md line=3}`, in which a value may be in quotation marks.
    ///
    /// - Returns: The attributes and the text after the brace, or `nil` if there is no brace.
    private static func attributes(_ text: Substring) -> ([Substring: Substring], rest: Substring)? {
        var attributes: [Substring: Substring] = [:]
        var rest = text
        while true {
            rest = rest.drop { $0.isWhitespace || $0 == "," }
            guard let first = rest.first else { return nil }
            if first == "}" { return (attributes, rest.dropFirst()) }
            let name = rest.prefix { !"=}".contains($0) && !$0.isWhitespace }
            rest = rest[name.endIndex...]
            guard rest.first == "=" else { continue }
            rest = rest.dropFirst()
            if let quote = rest.first, quote == "\"" || quote == "'" {
                guard let end = rest.dropFirst().firstIndex(of: quote) else { return nil }
                attributes[name] = rest[..<end].dropFirst()
                rest = rest[end...].dropFirst()
            } else {
                let value = rest.prefix { $0 != "}" && !$0.isWhitespace }
                attributes[name] = value
                rest = rest[value.endIndex...]
            }
        }
    }
}
