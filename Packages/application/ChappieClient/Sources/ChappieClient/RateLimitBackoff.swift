@_spi(ChappieInternals) public import ChappieCore

/// How often, and after what pauses, a rate-limited request (status 429) is tried again.
///
/// A usage limit counts as a rate limit, unless the reset that it names is further away than ``maximumDelay``: then it is
/// an error at once.
public struct ChappieRateLimitBackoffPolicy: Sendable, Hashable, Codable {
    /// Tries after the first one. Default 2.
    public let maxRetries: Int
    /// Seconds before the first retry; doubles from retry to retry. Default 1.
    public let initialDelay: TimeInterval
    /// Seconds; the bound for every pause, the server's included. Default 30.
    public let maximumDelay: TimeInterval
    /// Whether the pause that the server asks for, in `Retry-After` (RFC 9110, 10.2.3) or in its message, replaces the
    /// computed one. Default `true`.
    public let respectsRetryAfterHeader: Bool

    /// Negative values, and values that are no number, become 0.
    public init(
        maxRetries: Int = 2, initialDelay: TimeInterval = 1, maximumDelay: TimeInterval = 30,
        respectsRetryAfterHeader: Bool = true
    ) {
        self.maxRetries = max(maxRetries, 0)
        self.initialDelay = Self.clamped(initialDelay)
        self.maximumDelay = Self.clamped(maximumDelay)
        self.respectsRetryAfterHeader = respectsRetryAfterHeader
    }

    /// Reads an encoded policy; its values are clamped like those of the other initialiser.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            maxRetries: try values.decode(Int.self, forKey: .maxRetries),
            initialDelay: try values.decode(TimeInterval.self, forKey: .initialDelay),
            maximumDelay: try values.decode(TimeInterval.self, forKey: .maximumDelay),
            respectsRetryAfterHeader: try values.decode(Bool.self, forKey: .respectsRetryAfterHeader))
    }

    /// Two retries, after one second and two.
    public static let `default` = ChappieRateLimitBackoffPolicy()
    /// No retries: the first 429 is the error.
    public static let disabled = ChappieRateLimitBackoffPolicy(maxRetries: 0)

    /// The pause before retry number `retry` (the first is 1); `nil` when there is none.
    ///
    /// - Parameters:
    ///   - asked: the pause that the server asks for, in seconds.
    ///   - resetsIn: seconds until the usage limit ends, where the server names that moment.
    func pause(beforeRetry retry: Int, asked: TimeInterval?, resetsIn: TimeInterval?) -> Duration? {
        guard retry <= maxRetries, resetsIn ?? 0 <= maximumDelay else { return nil }
        if respectsRetryAfterHeader, let asked { return .seconds(min(asked, maximumDelay)) }
        let doubled = initialDelay * Double(1 << min(retry - 1, 60))
        // A try before the reset would be in vain.
        return .seconds(max(min(doubled, maximumDelay), resetsIn ?? 0))
    }

    private static func clamped(_ seconds: TimeInterval) -> TimeInterval {
        // A day is as good as forever, and safe to turn into a Duration.
        seconds.isNaN ? 0 : min(max(seconds, 0), 86_400)
    }
}

/// Reads how long a server asks its clients to wait.
enum RetryAfter {
    /// The value of `Retry-After` (RFC 9110, 10.2.3): seconds, or an HTTP date in one of its three forms (5.6.7).
    ///
    /// - Returns: seconds from `now`, never negative; `nil` when the value is neither.
    static func seconds(_ value: String, now: Date) -> TimeInterval? {
        let number = value.split(separator: " ")
        if number.count == 1, number[0].first?.isNumber == true, let seconds = Double(number[0]), seconds.isFinite {
            return seconds
        }
        let words = value.split(whereSeparator: { " ,-".contains($0) }).map(String.init)
        var date: Date?
        if words.count == 6 {
            // Two digits stand for the hundred years around 2000, as in `Sunday, 06-Nov-94 08:49:37 GMT`.
            let century = words[3].utf8.count > 2 ? "" : words[3] < "70" ? "20" : "19"
            date = HTTPDate.imfFixdate("Day, \(words[1]) \(words[2]) \(century)\(words[3]) \(words[4]) \(words[5])")
        } else if words.count == 5 {
            // `Sun Nov  6 08:49:37 1994`
            let day = words[2].utf8.count == 1 ? "0\(words[2])" : words[2]
            date = HTTPDate.imfFixdate("Day, \(day) \(words[1]) \(words[4]) \(words[3]) GMT")
        }
        return date.map { max($0.timeIntervalSince(now), 0) }
    }

    /// The pause that a message names, as in "Please try again in 1.5s.": seconds or milliseconds.
    static func seconds(inMessage message: String) -> TimeInterval? {
        let message = message.lowercased()
        guard let phrase = message.firstRange(of: "try again in") else { return nil }
        let rest = message[phrase.upperBound...].drop(while: \.isWhitespace)
        let number = rest.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        guard let value = Double(number), value.isFinite else { return nil }
        switch rest.dropFirst(number.count).drop(while: \.isWhitespace).prefix(while: \.isLetter) {
        case "s", "second", "seconds": return value
        case "ms", "millisecond", "milliseconds": return value / 1000
        default: return nil
        }
    }
}
