@_spi(ChappieInternals) import ChappieCore

/// Markdown with text of others, which cannot break out of its place. Everything that the text opens ends with it, and
/// it contains nothing that a terminal would obey.
public enum SafeMarkdown {
    /// Returns Markdown as a quote. Images and HTML are treated as in ``passage(_:headingLevel:)``.
    public static func quoted(_ text: String, headingLevel: Int) -> String {
        lines(of: passage(text, headingLevel: headingLevel)).map { $0.isEmpty ? ">" : "> " + $0 }
            .joined(separator: "\n")
    }

    /// Returns the text in a block of code, whatever it contains.
    public static func fenced(_ text: String, _ language: String = "") -> String {
        let text = lines(of: text).joined(separator: "\n")
        let fence = String(repeating: "`", count: max(3, longestTicks(text) + 1))
        return [fence + language, text, fence].joined(separator: "\n")
    }

    /// Returns a word as verbatim code within a line.
    public static func code(_ text: String) -> String {
        let text = oneLine(text)
        guard !text.isEmpty else { return "-" }
        let ticks = String(repeating: "`", count: longestTicks(text) + 1)
        let pad = text.hasPrefix("`") || text.hasSuffix("`") ? " " : ""
        return ticks + pad + text + pad + ticks
    }

    /// Returns an address of a page as a link that shows it. Other text, or an address with unusual characters, becomes
    /// code.
    public static func address(_ text: String) -> String {
        let isPage = ["https://", "http://"].contains { text.lowercased().hasPrefix($0) }
        // (https://spec.commonmark.org/0.31.2/#autolinks)
        let isPlain = text.utf8.allSatisfy { (0x21..<0x7F).contains($0) && !"<>`\\;".utf8.contains($0) }
        return isPage && isPlain ? "<\(text)>" : code(text)
    }

    /// Returns the text as a part of a line. No character of it has a meaning
    /// (https://spec.commonmark.org/0.31.2/#backslash-escapes).
    public static func line(_ text: String) -> String {
        oneLine(text).unicodeScalars.reduce(into: "") { line, scalar in
            if "\\`*_[]<>#|~&$".unicodeScalars.contains(scalar) { line += "\\" }
            line.unicodeScalars.append(scalar)
        }
    }

    /// Returns Markdown as a part of a larger text, with its headings moved down. A passage that leaves a block open,
    /// or has HTML, is shown as code instead.
    public static func passage(_ text: String, headingLevel: Int) -> String {
        let safe = lines(of: text).joined(separator: "\n")
        return EmbeddedMarkdown.text(of: safe, headingLevel: headingLevel) ?? fenced(safe, "markdown")
    }

    private static func oneLine(_ text: String) -> String {
        UntrustedText.forTerminal(
            text.unicodeScalars.split { $0.properties.isWhitespace }.map { String($0) }.joined(separator: " "))
    }

    /// Returns the lines as Markdown has them, where a carriage return also ends a line. They are made fit for a
    /// terminal before marks are counted in them, because the removed characters may be between two marks.
    private static func lines(of text: String) -> [String] {
        var lines = [[UInt8]()]
        var wasReturn = false
        for byte in text.utf8 {
            if byte == 0x0A || byte == 0x0D {
                if !(byte == 0x0A && wasReturn) { lines.append([]) }
            } else {
                lines[lines.count - 1].append(byte)
            }
            wasReturn = byte == 0x0D
        }
        if lines.count > 1, lines.last?.isEmpty == true { lines.removeLast() }
        return lines.map { UntrustedText.forTerminal(String(decoding: $0, as: UTF8.self)) }
    }

    private static func longestTicks(_ text: String) -> Int {
        var (longest, run) = (0, 0)
        for byte in text.utf8 {
            run = byte == UInt8(ascii: "`") ? run + 1 : 0
            longest = max(longest, run)
        }
        return longest
    }
}
