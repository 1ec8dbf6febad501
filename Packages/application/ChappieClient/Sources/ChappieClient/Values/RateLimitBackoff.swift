@_spi(ChappieInternals) public import ChappieCore

/// The number of retries of a rate-limited request (status 429), and the pauses before them.
///
/// A request whose model has no capacity is repeated by the same rules, with one more retry.
///
/// A limit is an error at once if its reset is further away than ``maximumDelay``, or if the server requests a pause
/// that is longer than this and than a minute. The same applies to a usage limit without a known reset.
public struct ChappieRateLimitBackoffPolicy: Sendable, Hashable, Codable {
    /// The maximum number of retries. Default 2.
    public let maxRetries: Int
    /// The pause before the first retry, in seconds. It doubles from retry to retry. Default 1.
    public let initialDelay: TimeInterval
    /// The maximum of every pause, in seconds, including the server's. Default 30.
    public let maximumDelay: TimeInterval
    /// Whether the pause that the server requests, in `Retry-After` (RFC 9110, 10.2.3) or in its message, replaces the
    /// computed one. Default `true`.
    public let respectsRetryAfterHeader: Bool

    /// Creates a policy. Negative values, and NaN, become 0.
    public init(
        maxRetries: Int = 2, initialDelay: TimeInterval = 1, maximumDelay: TimeInterval = 30,
        respectsRetryAfterHeader: Bool = true
    ) {
        self.maxRetries = max(maxRetries, 0)
        self.initialDelay = Self.clamped(initialDelay)
        self.maximumDelay = Self.clamped(maximumDelay)
        self.respectsRetryAfterHeader = respectsRetryAfterHeader
    }

    /// Decodes a policy. Its values are clamped as in the other initialiser.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            maxRetries: try values.decode(Int.self, forKey: .maxRetries),
            initialDelay: try values.decode(TimeInterval.self, forKey: .initialDelay),
            maximumDelay: try values.decode(TimeInterval.self, forKey: .maximumDelay),
            respectsRetryAfterHeader: try values.decode(Bool.self, forKey: .respectsRetryAfterHeader))
    }

    /// Two retries, after one second and after two.
    public static let `default` = ChappieRateLimitBackoffPolicy()
    /// No retries. The first 429 is the error.
    public static let disabled = ChappieRateLimitBackoffPolicy(maxRetries: 0)

    /// Returns the pause before retry number `retry` (the first is 1), or `nil` if there is none.
    ///
    /// - Parameters:
    ///   - asked: the pause that the server requests, in seconds.
    ///   - resetsIn: the seconds until the usage limit ends, if the server gives a time.
    func pause(beforeRetry retry: Int, asked: TimeInterval?, resetsIn: TimeInterval?) -> Duration? {
        guard retry <= maxRetries, resetsIn ?? 0 <= maximumDelay else { return nil }
        if respectsRetryAfterHeader, let asked {
            return asked > max(maximumDelay, Self.shortestHopeless) ? nil : .seconds(min(asked, maximumDelay))
        }
        // A retry before the reset would fail.
        return .seconds(max(min(doubled(retry), maximumDelay), resetsIn ?? 0))
    }

    /// The pause that a server requests, in seconds, above which a retry after a shorter pause would fail.
    private static let shortestHopeless: TimeInterval = 60

    /// The maximum number of retries while a model has no capacity. That state ends within seconds or minutes.
    var maxOverloadRetries: Int { maxRetries == 0 ? 0 : maxRetries &+ 1 }

    /// Returns the pause before retry number `retry` of a request whose model has no capacity, or `nil` if there is
    /// none.
    ///
    /// - Parameter asked: the pause that the server requests, in seconds. A pause longer than ``maximumDelay`` is
    ///   shortened to it.
    func pause(beforeOverloadRetry retry: Int, asked: TimeInterval?) -> Duration? {
        guard retry <= maxOverloadRetries else { return nil }
        return .seconds(min(respectsRetryAfterHeader ? asked ?? doubled(retry) : doubled(retry), maximumDelay))
    }

    private func doubled(_ retry: Int) -> TimeInterval { initialDelay * Double(1 << min(retry - 1, 60)) }

    private static func clamped(_ seconds: TimeInterval) -> TimeInterval {
        // A day is long enough for every purpose, and can safely be converted into a Duration.
        seconds.isNaN ? 0 : min(max(seconds, 0), 86_400)
    }
}
