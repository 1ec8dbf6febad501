@_spi(ChappieInternals) public import ChappieCore

/// How often, and after what pauses, a rate-limited request (status 429) is tried again.
///
/// A request whose model has no capacity is tried again by the same rules, and once more often.
///
/// A limit is an error at once if its reset is further away than ``maximumDelay``, or if the server asks for a pause
/// that is longer than this and than a minute. So is a usage limit without a known reset.
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

    /// Negative values, and NaN, become 0.
    public init(
        maxRetries: Int = 2, initialDelay: TimeInterval = 1, maximumDelay: TimeInterval = 30,
        respectsRetryAfterHeader: Bool = true
    ) {
        self.maxRetries = max(maxRetries, 0)
        self.initialDelay = Self.clamped(initialDelay)
        self.maximumDelay = Self.clamped(maximumDelay)
        self.respectsRetryAfterHeader = respectsRetryAfterHeader
    }

    /// Reads an encoded policy; its values are clamped as in the other initialiser.
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

    /// Returns the pause before retry number `retry` (the first is 1), or `nil` when there is none.
    ///
    /// - Parameters:
    ///   - asked: the pause that the server asks for, in seconds.
    ///   - resetsIn: seconds until the usage limit ends, if the server says when.
    func pause(beforeRetry retry: Int, asked: TimeInterval?, resetsIn: TimeInterval?) -> Duration? {
        guard retry <= maxRetries, resetsIn ?? 0 <= maximumDelay else { return nil }
        if respectsRetryAfterHeader, let asked {
            return asked > max(maximumDelay, Self.shortestHopeless) ? nil : .seconds(min(asked, maximumDelay))
        }
        // A try before the reset would be in vain.
        return .seconds(max(min(doubled(retry), maximumDelay), resetsIn ?? 0))
    }

    /// The pause that a server asks for, in seconds, above which a try after a shorter one would be in vain.
    private static let shortestHopeless: TimeInterval = 60

    /// The most tries after the first one while a model has no capacity, which passes within seconds or minutes.
    var maxOverloadRetries: Int { maxRetries == 0 ? 0 : maxRetries &+ 1 }

    /// Returns the pause before retry number `retry` of a request whose model has no capacity; `nil` if there is none.
    ///
    /// - Parameter asked: the pause that the server asks for, in seconds. A longer one than ``maximumDelay`` is cut.
    func pause(beforeOverloadRetry retry: Int, asked: TimeInterval?) -> Duration? {
        guard retry <= maxOverloadRetries else { return nil }
        return .seconds(min(respectsRetryAfterHeader ? asked ?? doubled(retry) : doubled(retry), maximumDelay))
    }

    private func doubled(_ retry: Int) -> TimeInterval { initialDelay * Double(1 << min(retry - 1, 60)) }

    private static func clamped(_ seconds: TimeInterval) -> TimeInterval {
        // A day is as good as forever, and safe to turn into a Duration.
        seconds.isNaN ? 0 : min(max(seconds, 0), 86_400)
    }
}
