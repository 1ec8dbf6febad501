public import FoundationEssentials

/// How often, and after what pauses, a rate-limited request (status 429) is tried again.
///
/// A body that says the plan's usage limit is reached is final and never retried, whatever the policy.
public struct ChappieRateLimitBackoffPolicy: Sendable, Hashable {
    /// Tries after the first one. Default 2.
    public let maxRetries: Int
    /// Seconds before the first retry; doubles from retry to retry. Default 1.
    public let initialDelay: TimeInterval
    /// Seconds; the bound for every pause, the server's included. Default 30.
    public let maximumDelay: TimeInterval
    /// Whether the server's `Retry-After` (RFC 9110, 10.2.3) replaces the computed pause. Default `true`.
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

    /// The policy of a client that names no other.
    public static let `default` = ChappieRateLimitBackoffPolicy()
    /// No retries: the first 429 is the error.
    public static let disabled = ChappieRateLimitBackoffPolicy(maxRetries: 0)

    /// The pause before retry number `retry` (the first is 1), in seconds.
    ///
    /// - Parameters:
    ///   - retryAfter: the header's value, as it came.
    ///   - now: what an HTTP date in it is compared with.
    public func delay(beforeRetry retry: Int, retryAfter: String?, now: Date) -> TimeInterval {
        if respectsRetryAfterHeader, let asked = retryAfter.flatMap({ RetryAfter.seconds($0, now: now) }) {
            return min(asked, maximumDelay)
        }
        var delay = initialDelay
        var doublings = max(retry, 1) - 1
        while doublings > 0, delay > 0, delay < maximumDelay {
            delay *= 2
            doublings -= 1
        }
        return min(delay, maximumDelay)
    }

    private static func clamped(_ seconds: TimeInterval) -> TimeInterval {
        // A day is as good as for ever, and safe to turn into a Duration.
        seconds.isNaN ? 0 : min(max(seconds, 0), 86_400)
    }
}
