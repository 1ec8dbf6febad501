/// Limits the numbers of a peer to values that can be shown, added to a date and converted to an integer.
@_spi(ChappieInternals) public enum PeerNumber {
    /// The start of the year 10000, in seconds since 1970.
    static let end = 253_402_300_800.0

    /// `seconds` since 1970 as a date; `nil` unless it is before the year 10000.
    public static func date(_ seconds: Double?) -> Date? {
        seconds.flatMap { (0..<end).contains($0) ? Date(timeIntervalSince1970: $0) : nil }
    }

    /// An amount, which is sent as a string or as a number.
    static func text(_ json: ChappieJSON?) -> String? {
        if case .number(let number)? = json { number.literal } else { json?.string }
    }

    /// A percentage, limited to a million in both directions.
    static func percent(_ number: Double?) -> Double? {
        number.flatMap { $0.isNaN || $0.isInfinite ? nil : min(max($0, -1_000_000), 1_000_000) }
    }
}
