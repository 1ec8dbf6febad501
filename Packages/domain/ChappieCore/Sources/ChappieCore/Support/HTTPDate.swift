/// Parsers for the two formats of a time in this protocol.
@_spi(ChappieInternals) public enum HTTPDate {
    /// Parses a time such as `2026-11-20T23:42:00Z`, with an optional fraction and offset (RFC 3339, 5.6).
    public static func rfc3339(_ text: String) -> Date? {
        try? Date.ISO8601FormatStyle(includingFractionalSeconds: text.contains(".")).parse(text)
    }

    /// Parses a time such as `Fri, 20 Nov 2026 23:42:00 GMT` (RFC 9110, 5.6.7).
    public static func imfFixdate(_ text: String) -> Date? {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = months.firstIndex(where: { $0 == words[2] }) else {
            return nil
        }
        return rfc3339("\(words[3])-\(month < 9 ? "0" : "")\(month + 1)-\(words[1])T\(words[4])Z")
    }
}

extension Duration {
    /// The duration as text for a sentence, such as `250 ms`, `2 s`, `1.5 s` or `3 min`. It is rounded to milliseconds.
    ///
    /// Full minutes are written as `min` only from two minutes on, because limits are written as `60 s`.
    @_spi(ChappieInternals) public var words: String {
        let (seconds, attoseconds) = components
        let milliseconds = attoseconds / 1_000_000_000_000_000
        if milliseconds == 0 { return seconds >= 120 && seconds % 60 == 0 ? "\(seconds / 60) min" : "\(seconds) s" }
        return seconds == 0 ? "\(milliseconds) ms" : "\(Double(seconds) + Double(milliseconds) / 1000) s"
    }
}
