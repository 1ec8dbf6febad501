@_spi(ChappieInternals) import ChappieCore

/// Decides what follows when an attempt has failed; sans-IO.
///
/// - A connection that breaks is opened again, after 0.2 s doubling with some jitter, as often as the policy says; then the
///   answer comes over server-sent events, if the policy allows that, with a budget of its own.
/// - A WebSocket that does not open although the host answers, and one on which nothing comes, are given up at once.
/// - A host that can't be reached is an error at once, unless it has answered before in this turn.
/// - A lost conversation and a kept connection that has died are repaired once, unseen.
/// - Rate limits have their own policy.
struct TurnPlan: Sendable {
    /// The next step.
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
    private var rateLimitRetries: RateLimitRetries
    private var hasRepairedUnseen = false

    init(
        kind: ChappieTransportEvent.Kind, policy: ChappieStreamingTransportPolicy,
        backoff: ChappieRateLimitBackoffPolicy
    ) {
        self.kind = kind
        self.policy = policy
        self.backoff = backoff
        rateLimitRetries = RateLimitRetries(backoff)
    }

    /// - Parameters:
    ///   - hasDelivered: whether the host has been shown a part of the answer.
    ///   - jitter: 0.9 to 1.1, drawn anew each time.
    mutating func next(after failure: AttemptFailure, hasDelivered: Bool, jitter: Double) -> Step {
        switch failure.kind {
        case .final: return .fail(failure.error)
        case .rateLimited(let resetsIn):
            guard let delay = rateLimitRetries.next(asked: failure.retryAfter, resetsIn: resetsIn) else {
                return .fail(failure.error)
            }
            return .again(
                after: delay,
                telling: .waiting(attempt: rateLimitRetries.count, maximum: backoff.maxRetries, delay: delay))
        case .stale, .conversationLost:
            guard hasRepairedUnseen else {
                hasRepairedUnseen = true
                return .again(after: .zero, telling: nil)
            }
            return reconnect(failure, jitter: jitter)
        case .broken, .serverError: return reconnect(failure, jitter: jitter)
        case .unreachable:
            let hasAnswered = hasDelivered || webSocketReconnections > 0 || httpReconnections > 0
            return hasAnswered ? reconnect(failure, jitter: jitter) : .fail(failure.error)
        case .upgradeFailed:
            // While an answer is being fetched again the host may just be coming back.
            return webSocketReconnections > 0 ? reconnect(failure, jitter: jitter) : fallBack(failure)
        case .silent: return fallBack(failure)
        case .messageTooLarge:
            guard policy.fallsBackToHTTPSSE, kind == .webSocket else { return .fail(failure.error) }
            kind = .serverSentEvents
            return .again(after: .zero, telling: .fellBack(.serverSentEvents))
        }
    }

    private mutating func reconnect(_ failure: AttemptFailure, jitter: Double) -> Step {
        let isWebSocket = kind == .webSocket
        let used = isWebSocket ? webSocketReconnections : httpReconnections
        let maximum =
            isWebSocket ? policy.maxWebSocketReconnectionAttempts : policy.maxHTTPSSEReconnectionAttempts
        guard used < maximum else { return fallBack(failure) }
        if isWebSocket { webSocketReconnections += 1 } else { httpReconnections += 1 }
        var seconds = 0.2 * Double(1 << min(used, 10)) * jitter
        if let asked = failure.retryAfter, backoff.respectsRetryAfterHeader { seconds = asked }
        let delay = Duration.seconds(min(seconds, backoff.maximumDelay))
        return .again(after: delay, telling: .reconnecting(attempt: used + 1, maximum: maximum, delay: delay))
    }

    private mutating func fallBack(_ failure: AttemptFailure) -> Step {
        guard kind == .webSocket else { return .fail(failure.error) }
        hasGivenUpWebSocket = true
        guard policy.fallsBackToHTTPSSE else { return .fail(failure.error) }
        kind = .serverSentEvents
        return .again(after: .zero, telling: .fellBack(.serverSentEvents))
    }
}
