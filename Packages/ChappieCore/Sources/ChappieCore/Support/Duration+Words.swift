extension Duration {
    /// The duration for a sentence: `250 ms`, `2 s`, `1.5 s`, `3 min`. Rounded to milliseconds.
    ///
    /// Whole minutes are named from two on, since `60 s` is how limits are written.
    @_spi(ChappieInternals) public var words: String {
        let (seconds, attoseconds) = components
        let milliseconds = attoseconds / 1_000_000_000_000_000
        if milliseconds == 0 { return seconds >= 120 && seconds % 60 == 0 ? "\(seconds / 60) min" : "\(seconds) s" }
        if seconds == 0 { return "\(milliseconds) ms" }
        var digits = String(abs(milliseconds) + 1000).dropFirst()
        while digits.last == "0" { digits.removeLast() }
        return "\(seconds).\(digits) s"
    }
}
