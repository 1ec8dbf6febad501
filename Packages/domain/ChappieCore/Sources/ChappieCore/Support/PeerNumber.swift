/// Conversions that limit the numbers of a peer to values that can be shown, added to a date and converted to an
/// integer.
@_spi(ChappieInternals) public enum PeerNumber {
    /// The start of the year 10000, in seconds since 1970.
    static let end = 253_402_300_800.0

    /// Returns `seconds` since 1970 as a date, or `nil` if the date is not from 1970 to 9999.
    public static func date(_ seconds: Double?) -> Date? {
        seconds.flatMap { (0..<end).contains($0) ? Date(timeIntervalSince1970: $0) : nil }
    }

    /// Returns a number that is sent as a number or as text, or `nil` unless it is finite.
    static func number(_ json: ChappieJSON?) -> Double? {
        let number = json?.double ?? json?.string.flatMap { Double($0.trimmingPrefix(while: \.isWhitespace)) }
        return number.flatMap { $0.isFinite ? $0 : nil }
    }

    /// Returns an integer that is sent as a number or as text.
    static func integer(_ json: ChappieJSON?) -> Int? { json?.int ?? number(json).flatMap { Int(exactly: $0) } }

    /// Returns a Boolean that is sent as a Boolean or as text.
    static func flag(_ json: ChappieJSON?) -> Bool? { json?.bool ?? json?.string.flatMap(flag) }

    /// Returns the Boolean that `text` represents.
    static func flag(_ text: String) -> Bool? {
        switch text.lowercased() {
        case "true", "1": true
        case "false", "0": false
        default: nil
        }
    }

    /// Returns a date for `seconds` since 1970, where 0 means no date.
    static func reset(_ seconds: Double?) -> Date? { seconds == 0 ? nil : date(seconds) }

    /// Returns a duration in seconds, limited so that it can be added to a date.
    static func duration(_ seconds: Double?) -> Double? { seconds.map { min(max($0, -end), end) } }

    /// Returns an amount, which is sent as a string or as a number.
    static func text(_ json: ChappieJSON?) -> String? {
        if case .number(let number)? = json { number.literal } else { json?.string }
    }

    /// Returns a percentage, limited to a million in both directions.
    static func percent(_ number: Double?) -> Double? {
        number.flatMap { $0.isNaN || $0.isInfinite ? nil : min(max($0, -1_000_000), 1_000_000) }
    }
}
