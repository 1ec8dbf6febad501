import ChappieCore
import FoundationEssentials

/// Decides what follows when an attempt has failed; sans-IO.
///
/// - A connection that breaks is opened again, after 0.2 s doubling with some jitter, as often as the policy says; then the
///   answer comes over server-sent events, if the policy allows that, with a budget of its own.
/// - A WebSocket that can't be had although the host answers, and one on which nothing comes, are given up at once.
/// - A host that can't be reached is an error at once, unless it has answered before in this turn.
/// - A lost conversation and a kept connection that has died are mended once, unseen.
/// - Rate limits have their own policy.
struct TurnPlan: Sendable {
    /// What to do next.
    enum Step: Sendable {
        /// Send the request again, whole.
        case again(after: Duration, telling: ChappieTransportEvent?)
        case fail(any Error)
    }

    private let policy: ChappieStreamingTransportPolicy
    private let backoff: ChappieRateLimitBackoffPolicy
    /// How the next attempt travels.
    private(set) var kind: ChappieTransportEvent.Kind
    /// Whether the turn has given WebSocket up for its own faults: later turns should wait before they try it.
    private(set) var hasGivenUpWebSocket = false
    private var webSocketReconnections = 0
    private var httpReconnections = 0
    private var rateLimitRetries = 0
    private var hasMendedUnseen = false

    init(
        kind: ChappieTransportEvent.Kind, policy: ChappieStreamingTransportPolicy,
        backoff: ChappieRateLimitBackoffPolicy
    ) {
        self.kind = kind
        self.policy = policy
        self.backoff = backoff
    }

    /// - Parameters:
    ///   - hasDelivered: whether the host has been shown a part of the answer.
    ///   - jitter: 0.9 to 1.1, drawn anew each time.
    ///   - now: what an HTTP date in a `Retry-After` is compared with.
    mutating func next(after failure: AttemptFailure, hasDelivered: Bool, jitter: Double, now: Date) -> Step {
        switch failure {
        case .final(let error): return .fail(error)
        case .rateLimited(let error, let retryAfter): return pause(error, retryAfter, now: now)
        case .stale(let error), .conversationLost(let error):
            guard hasMendedUnseen else {
                hasMendedUnseen = true
                return .again(after: .zero, telling: nil)
            }
            return reconnect(error, jitter: jitter)
        case .broken(let error): return reconnect(error, jitter: jitter)
        case .troubled(let error, let retryAfter):
            return reconnect(error, asked: retryAfter.flatMap { RetryAfter.seconds($0, now: now) }, jitter: jitter)
        case .unreachable(let error):
            let hasAnswered = hasDelivered || webSocketReconnections > 0 || httpReconnections > 0
            return hasAnswered ? reconnect(error, jitter: jitter) : .fail(error)
        case .upgradeFailed(let error):
            // While an answer is being fetched again the host may just be coming back.
            return webSocketReconnections > 0 ? reconnect(error, jitter: jitter) : fallBack(or: error)
        case .silent(let error): return fallBack(or: error)
        case .messageTooLarge(let bytes, let limit):
            guard policy.fallsBackToHTTPSSE, kind == .webSocket else {
                return .fail(ChappieClientError.messageTooLarge(bytes: bytes, limit: limit))
            }
            kind = .serverSentEvents
            return .again(after: .zero, telling: .fellBack(.serverSentEvents))
        }
    }

    private mutating func pause(_ error: ChappieClientError, _ retryAfter: String?, now: Date) -> Step {
        guard rateLimitRetries < backoff.maxRetries else { return .fail(error) }
        rateLimitRetries += 1
        let delay = Duration.seconds(backoff.delay(beforeRetry: rateLimitRetries, retryAfter: retryAfter, now: now))
        return .again(
            after: delay, telling: .waiting(attempt: rateLimitRetries, maximum: backoff.maxRetries, delay: delay))
    }

    private mutating func reconnect(_ error: ChappieClientError, asked: TimeInterval? = nil, jitter: Double) -> Step {
        let used: Int
        let maximum: Int
        switch kind {
        case .webSocket: (used, maximum) = (webSocketReconnections, policy.maxWebSocketReconnectionAttempts)
        case .serverSentEvents: (used, maximum) = (httpReconnections, policy.maxHTTPSSEReconnectionAttempts)
        @unknown default: return .fail(error)
        }
        guard used < maximum else { return fallBack(or: error) }
        if kind == .webSocket { webSocketReconnections += 1 } else { httpReconnections += 1 }
        var seconds = 0.2 * Double(1 << min(used, 10)) * jitter
        if let asked, backoff.respectsRetryAfterHeader { seconds = asked }
        let delay = Duration.seconds(min(seconds, backoff.maximumDelay))
        return .again(after: delay, telling: .reconnecting(attempt: used + 1, maximum: maximum, delay: delay))
    }

    private mutating func fallBack(or error: ChappieClientError) -> Step {
        guard kind == .webSocket else { return .fail(error) }
        hasGivenUpWebSocket = true
        guard policy.fallsBackToHTTPSSE else { return .fail(error) }
        kind = .serverSentEvents
        return .again(after: .zero, telling: .fellBack(.serverSentEvents))
    }
}
