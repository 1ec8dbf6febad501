import FoundationEssentials

/// Numbers of a peer, held to what can be shown, added to a date and turned into an integer.
enum PeerNumber {
    private static let yearTenThousand = 253_402_300_800.0

    /// `seconds` after 1970 began; `nil` when that is not before the year 10000.
    static func date(_ seconds: Double?) -> Date? {
        guard let seconds, (0..<yearTenThousand).contains(seconds) else { return nil }
        return Date(timeIntervalSince1970: seconds)
    }

    /// A length of time; one of more than some millennia is cut there.
    static func seconds(_ number: Double?) -> Double? { clamped(number, to: yearTenThousand) }

    /// A percentage; one beyond a million either way is cut there.
    static func percent(_ number: Double?) -> Double? { clamped(number, to: 1_000_000) }

    private static func clamped(_ number: Double?, to bound: Double) -> Double? {
        guard let number, number.isFinite else { return nil }
        return min(max(number, -bound), bound)
    }
}
