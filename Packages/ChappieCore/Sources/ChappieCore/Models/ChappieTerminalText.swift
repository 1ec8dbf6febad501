/// Text of a model, a server or a stranger, made fit for a terminal.
///
/// A terminal obeys what is written to it: an escape sequence in an answer could rewrite the screen or set the clipboard.
public enum ChappieTerminalText {
    /// `text` without control characters.
    ///
    /// U+FFFD stands for each of C0, DEL and C1, but for line feed and tab, which stay, and carriage return, which is left
    /// out: it would let a line write over itself. Text without any, which is nearly all, is returned as it is.
    public static func safe(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isControl) else { return text }
        var safe = String.UnicodeScalarView()
        for scalar in text.unicodeScalars where scalar != "\r" { safe.append(isControl(scalar) ? "\u{FFFD}" : scalar) }
        return String(safe)
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09, 0x0A: false
        case 0..<0x20, 0x7F..<0xA0: true
        default: false
        }
    }
}
