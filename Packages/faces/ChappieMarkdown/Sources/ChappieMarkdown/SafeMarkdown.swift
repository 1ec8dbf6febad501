@_spi(ChappieInternals) import ChappieCore

/// Text of others in Markdown that is written here. It can't break out of its place: what it opens ends with it, and a
/// terminal has nothing to obey in it.
public enum SafeMarkdown {
    /// Text as a quote: what it opens ends with it.
    public static func quoted(_ text: String) -> String {
        lines(of: text).map { $0.isEmpty ? ">" : "> " + $0 }.joined(separator: "\n")
    }

    /// Text in a block of code, whatever it says.
    public static func fenced(_ text: String, _ language: String = "") -> String {
        let text = lines(of: text).joined(separator: "\n")
        let fence = String(repeating: "`", count: max(3, longestTicks(text) + 1))
        return [fence + language, text, fence].joined(separator: "\n")
    }

    /// A word in a line, as it is.
    public static func code(_ text: String) -> String {
        let text = oneLine(text)
        guard !text.isEmpty else { return "-" }
        let ticks = String(repeating: "`", count: longestTicks(text) + 1)
        let pad = text.hasPrefix("`") || text.hasSuffix("`") ? " " : ""
        return ticks + pad + text + pad + ticks
    }

    /// Text in a line: no character of it means anything (https://spec.commonmark.org/0.31.2/#backslash-escapes).
    public static func line(_ text: String) -> String {
        oneLine(text).unicodeScalars.reduce(into: "") { line, scalar in
            if "\\`*_[]<>#|~&$".unicodeScalars.contains(scalar) { line += "\\" }
            line.unicodeScalars.append(scalar)
        }
    }

    /// Markdown as a part of a larger text: its headings are moved down. A passage that leaves a block open, or has HTML, is
    /// shown as code instead.
    public static func passage(_ text: String, headingLevel: Int) -> String {
        let safe = lines(of: text).joined(separator: "\n")
        return EmbeddedMarkdown.text(of: safe, headingLevel: headingLevel) ?? fenced(safe, "markdown")
    }

    private static func oneLine(_ text: String) -> String {
        UntrustedText.forTerminal(
            text.unicodeScalars.split { $0.properties.isWhitespace }.map { String($0) }.joined(separator: " "))
    }

    /// Lines as Markdown has them, a carriage return ends one too; fit for a terminal before marks are counted in them,
    /// since what is taken out may stand between two.
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
