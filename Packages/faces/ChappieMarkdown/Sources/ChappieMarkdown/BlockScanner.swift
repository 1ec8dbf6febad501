/// The block that a line begins, by CommonMark's block structure
/// (https://spec.commonmark.org/0.31.2/#blocks-and-inlines).
///
/// It only has to find the ends of blocks on the outermost level. The parser handles the inside of a block.
struct LineStart: Equatable {
    enum Kind: Equatable {
        case blank, text, indented, heading, rule, quote, html, definition
        case fence(Fence)
        /// `number` is `nil` for bullets. `content` is the first column of the item's text.
        case item(mark: UInt8, number: Int?, content: Int, isEmpty: Bool)
    }

    let kind: Kind
    /// The indentation in columns. Tabs stop at every fourth column.
    let indent: Int

    /// Reads the start of a line.
    ///
    /// - Parameter column: the column at which the text of the line's list item begins.
    init(_ line: ArraySlice<UInt8>, inside column: Int = 0) {
        var indent = 0
        var rest = line
        while let byte = rest.first, byte == 0x20 || byte == 0x09 {
            indent += byte == 0x09 ? 4 - indent % 4 : 1
            rest.removeFirst()
        }
        self.indent = indent
        guard let first = rest.first else {
            kind = .blank
            return
        }
        kind = indent - column >= 4 ? .indented : Self.kind(of: rest, first, indent)
    }

    private static func kind(of rest: ArraySlice<UInt8>, _ first: UInt8, _ indent: Int) -> Kind {
        switch first {
        case UInt8(ascii: ">"): return .quote
        case UInt8(ascii: "<"): return .html
        case UInt8(ascii: "#"):
            let hashes = rest.prefix { $0 == first }.count
            let next = rest.dropFirst(hashes).first
            return hashes <= 6 && (next == nil || next == 0x20 || next == 0x09) ? .heading : .text
        case UInt8(ascii: "`"), UInt8(ascii: "~"):
            return Fence(rest).map(Kind.fence) ?? .text
        case UInt8(ascii: "["):
            guard let end = rest.firstIndex(of: UInt8(ascii: "]")), rest[rest.index(after: end)...].first == 0x3A else {
                return .text
            }
            return .definition
        case UInt8(ascii: "-"), UInt8(ascii: "*"), UInt8(ascii: "_"), UInt8(ascii: "+"):
            return isRule(rest, first) ? .rule : item(rest, marker: 1, mark: first, number: nil, indent) ?? .text
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
            let digits = rest.prefix { (0x30...0x39).contains($0) }
            guard digits.count <= 9, let mark = rest.dropFirst(digits.count).first,
                mark == UInt8(ascii: ".") || mark == UInt8(ascii: ")")
            else { return .text }
            let number = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
            return item(rest, marker: digits.count + 1, mark: mark, number: number, indent) ?? .text
        default: return .text
        }
    }

    /// Returns whether the line has only three or more of `*`, `-` or `_`, and blanks.
    private static func isRule(_ rest: ArraySlice<UInt8>, _ mark: UInt8) -> Bool {
        guard mark != UInt8(ascii: "+") else { return false }
        var count = 0
        for byte in rest {
            if byte == mark { count += 1 } else if byte != 0x20, byte != 0x09 { return false }
        }
        return count >= 3
    }

    private static func item(
        _ rest: ArraySlice<UInt8>, marker: Int, mark: UInt8, number: Int?, _ indent: Int
    ) -> Kind? {
        let after = rest.dropFirst(marker)
        guard mark != UInt8(ascii: "_"), after.first == nil || after.first == 0x20 || after.first == 0x09 else {
            return nil
        }
        var blanks = 0
        for byte in after {
            guard byte == 0x20 || byte == 0x09 else { break }
            blanks += byte == 0x09 ? 4 - (indent + marker + blanks) % 4 : 1
        }
        let isEmpty = after.allSatisfy { $0 == 0x20 || $0 == 0x09 }
        return .item(
            mark: mark, number: number, content: indent + marker + (isEmpty || blanks > 4 ? 1 : blanks),
            isEmpty: isEmpty)
    }

    /// Whether the line ends a paragraph directly above it.
    var interruptsText: Bool {
        switch kind {
        case .blank, .heading, .rule, .quote, .fence: true
        case .item(_, let number, _, let isEmpty): !isEmpty && (number ?? 1) == 1
        case .text, .indented, .html, .definition: false
        }
    }

    /// Returns the block that an incomplete line begins if no later text of the line can change it, otherwise `nil`.
    static func certainlyInterrupts(_ beginning: ArraySlice<UInt8>) -> LineStart? {
        guard let last = beginning.last, last != 0x20, last != 0x09 else { return nil }
        let start = LineStart(beginning)
        switch start.kind {
        case .quote: return start
        // `#` may become `#tag`, and `-` may become `---`, which underlines.
        case .heading: return beginning.contains(0x20) ? start : nil
        case .item(_, _, _, let isEmpty): return isEmpty ? nil : start
        default: return nil
        }
    }

    /// Returns whether a line underlines the paragraph above it, which makes it a heading.
    static func isUnderline(_ line: ArraySlice<UInt8>) -> Bool {
        let text = line.drop { $0 == 0x20 }
        guard line.count - text.count < 4, let mark = text.first, mark == UInt8(ascii: "=") || mark == UInt8(ascii: "-")
        else { return false }
        return text.drop { $0 == mark }.allSatisfy { $0 == 0x20 || $0 == 0x09 }
    }
}

/// The marks that a block of code begins with (https://spec.commonmark.org/0.31.2/#fenced-code-blocks).
struct Fence: Equatable {
    let mark: UInt8
    let length: Int

    /// Reads the marks at the beginning of a line. Returns `nil` if the line begins no block of code.
    ///
    /// - Parameter line: the line from its first visible character.
    init?(_ line: ArraySlice<UInt8>) {
        guard let mark = line.first, mark == UInt8(ascii: "`") || mark == UInt8(ascii: "~") else { return nil }
        let length = line.prefix { $0 == mark }.count
        // Later backticks make it code within a line.
        guard length >= 3, mark == UInt8(ascii: "~") || !line.dropFirst(length).contains(mark) else { return nil }
        self.mark = mark
        self.length = length
    }

    /// Returns whether the line ends the block, however far it is indented.
    func isClosed(by line: ArraySlice<UInt8>) -> Bool {
        let text = line.drop(while: Self.isBlank)
        let count = text.prefix { $0 == mark }.count
        return count >= length && text.dropFirst(count).allSatisfy(Self.isBlank)
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}

/// A block of the outermost level whose lines are still arriving.
struct OpenBlock {
    enum Kind: Equatable {
        /// A paragraph, a table or an underlined heading.
        case text
        case quote, html, indented
        case item(mark: UInt8, content: Int)
        case fence(Fence, indent: Int)
    }

    let kind: Kind
    /// The complete lines, each with its line feed.
    var source: [UInt8] = []
    /// The number of blank lines that belong to the block only if more of it follows.
    var blanks = 0

    /// Adds a line that belongs to the block. An empty array is a blank line.
    mutating func add(_ line: [UInt8]) {
        guard !line.isEmpty else {
            blanks += 1
            return
        }
        source.append(contentsOf: repeatElement(0x0A, count: blanks))
        source += line
        source.append(0x0A)
        blanks = 0
    }

    var isFence: Bool { if case .fence = kind { true } else { false } }

    /// Returns whether a line belongs to the block. `start` is the line's own block. The caller does not ask for
    /// fences.
    func continues(with start: LineStart) -> Bool {
        switch kind {
        case .text: return !start.interruptsText
        case .html: return start.kind != .blank
        case .quote: return start.kind == .quote || !start.interruptsText
        case .indented: return start.kind == .blank || start.kind == .indented
        case .item(_, let content):
            if start.kind == .blank || start.indent >= content { return true }
            // A paragraph in the item may continue without its indent. Here every number begins an item, not only 1.
            if case .item = start.kind { return false }
            return blanks == 0 && !start.interruptsText
        case .fence: return true
        }
    }
}
