import ChappieCore

/// A sans-IO state machine that decides the next step after a failed attempt.
///
/// - A connection that breaks is opened again, after 0.2 s doubling with some jitter, as often as the policy specifies.
///   After that, the answer comes over server-sent events, if the policy allows that, with a separate budget.
/// - The turn stops using WebSocket at once if it does not open although the host answers, or if no byte comes back.
/// - A request to which nothing came in time over HTTP is sent again once. A silence after that ends the turn, because
///   the user pays for each request.
/// - A host that can't be reached is an error at once, unless it has answered before in this turn.
/// - A name that does not resolve, and an outage of the service's edge, are tried again once after some seconds.
/// - A lost conversation and a kept connection that has died are repaired once, without an event for the host.
/// - Rate limits have their own policy. A model without capacity is asked again in the same way, with one more retry.
struct TurnPlan: Sendable {
    /// The next step.
    enum Step: Sendable {
        /// Send the complete request again.
        case again(after: Duration, telling: ChappieTransportEvent?)
        case fail(any Error)
    }

    /// The transport of the next attempt.
    private(set) var kind: ChappieTransportEvent.Kind
    let policy: ChappieStreamingTransportPolicy
    let backoff: ChappieRateLimitBackoffPolicy
    /// Whether the turn has stopped using WebSocket because of WebSocket's own faults. Later turns should then wait
    /// before they try it.
    private(set) var hasGivenUpWebSocket = false
    /// The number of reconnections over the present ``kind``.
    private var reconnections = 0
    private var hasReconnected = false
    private var hasRepairedUnseen = false
    private var hasWaitedForService = false
    private var hasAskedAgain = false
    private var rateLimitRetries = 0
    private var overloadRetries = 0

    init(
        kind: ChappieTransportEvent.Kind, policy: ChappieStreamingTransportPolicy,
        backoff: ChappieRateLimitBackoffPolicy
    ) {
        self.kind = kind
        self.policy = policy
        self.backoff = backoff
    }

    /// Returns the next step.
    ///
    /// - Parameters:
    ///   - hasDelivered: whether the host has been shown a part of the answer.
    ///   - jitter: a factor from 0.9 to 1.1, drawn again for each failure.
    mutating func next(after failure: AttemptFailure, hasDelivered: Bool, jitter: Double) -> Step {
        switch failure.kind {
        case .rateLimited(let resetsIn):
            let retry = rateLimitRetries + 1
            guard let delay = backoff.pause(beforeRetry: retry, asked: failure.retryAfter, resetsIn: resetsIn) else {
                return .fail(failure.error)
            }
            rateLimitRetries = retry
            return .again(after: delay, telling: .waiting(attempt: retry, maximum: backoff.maxRetries, delay: delay))
        case .overloaded:
            let retry = overloadRetries + 1
            guard let delay = backoff.pause(beforeOverloadRetry: retry, asked: failure.retryAfter) else {
                return .fail(failure.error)
            }
            overloadRetries = retry
            return .again(
                after: delay, telling: .waiting(attempt: retry, maximum: backoff.maxOverloadRetries, delay: delay))
        case .stale where !hasRepairedUnseen:
            hasRepairedUnseen = true
            return .again(after: .zero, telling: nil)
        case .unanswered where !hasAskedAgain && !hasDelivered && policy.maxHTTPSSEReconnectionAttempts > 0:
            hasAskedAgain = true
            return .again(after: .zero, telling: .reconnecting(attempt: 1, maximum: 1, delay: .zero))
        // While an answer is being repeated, the host may be about to come back.
        case .unreachable where hasDelivered || hasReconnected, .unresolved where hasDelivered || hasReconnected,
            .upgradeFailed where hasReconnected, .stale, .broken:
            return reconnect(failure, jitter: jitter)
        case .unresolved where !hasWaitedForService, .outage where !hasWaitedForService:
            hasWaitedForService = true
            let delay = Self.servicePause * jitter
            return .again(after: delay, telling: .reconnecting(attempt: 1, maximum: 1, delay: delay))
        case .upgradeFailed, .blocked, .messageTooLarge: return fallBack(failure)
        case .unreachable, .unresolved, .outage, .unanswered, .unreadableReasoning, .final: return .fail(failure.error)
        }
    }

    /// The wait for a service or a network that may come back soon.
    static let servicePause = Duration.seconds(3)

    private mutating func reconnect(_ failure: AttemptFailure, jitter: Double) -> Step {
        let maximum =
            kind == .webSocket ? policy.maxWebSocketReconnectionAttempts : policy.maxHTTPSSEReconnectionAttempts
        guard reconnections < maximum else { return fallBack(failure) }
        var seconds = 0.2 * Double(1 << min(reconnections, 10)) * jitter
        if let asked = failure.retryAfter, backoff.respectsRetryAfterHeader { seconds = asked }
        let delay = Duration.seconds(min(seconds, backoff.maximumDelay))
        reconnections += 1
        hasReconnected = true
        return .again(after: delay, telling: .reconnecting(attempt: reconnections, maximum: maximum, delay: delay))
    }

    private mutating func fallBack(_ failure: AttemptFailure) -> Step {
        guard kind == .webSocket else { return .fail(failure.error) }
        hasGivenUpWebSocket = failure.kind != .messageTooLarge
        guard policy.fallsBackToHTTPSSE else { return .fail(failure.error) }
        kind = .serverSentEvents
        reconnections = 0
        return .again(after: .zero, telling: .fellBack(.serverSentEvents))
    }
}
