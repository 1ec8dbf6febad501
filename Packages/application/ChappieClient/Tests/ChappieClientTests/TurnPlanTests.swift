@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieClient

/// Each list of failures leads to one list of steps.
@Suite struct TurnPlanTests {
    struct Case: Sendable {
        var kind = ChappieTransportEvent.Kind.webSocket
        var policy = ChappieStreamingTransportPolicy.default
        var hasDelivered = false
        let failures: [AttemptFailure]
        /// One word for each step.
        let steps: [String]
        var givesUpWebSocket = false
    }

    /// A failure that asks for a pause of this many seconds.
    private static func failed(_ kind: AttemptFailure.Kind, asking retryAfter: Double? = nil) -> AttemptFailure {
        AttemptFailure(kind, .httpError(500, ""), retryAfter: retryAfter)
    }

    private static let (broken, stale, blocked) = (failed(.broken), failed(.stale), failed(.blocked))
    private static let unanswered = failed(.unanswered)
    private static let (refused, unreachable) = (failed(.upgradeFailed), failed(.unreachable))
    private static let (tooLarge, busy) = (failed(.messageTooLarge), failed(.rateLimited(resetsIn: nil)))
    private static let (once, twice) = ("1/5 0.2 seconds", "2/5 0.4 seconds")
    private static let sse = "sse 0.0 seconds"
    private static let noFallback = ChappieStreamingTransportPolicy(
        maxWebSocketReconnectionAttempts: 1, fallsBackToHTTPSSE: false)

    static let cases = [
        // Breaks are repaired five times, then over SSE twice.
        Case(
            failures: Array(repeating: broken, count: 9),
            steps: [
                once, twice, "3/5 0.8 seconds", "4/5 1.6 seconds", "5/5 3.2 seconds", sse, "1/2 0.2 seconds",
                "2/2 0.4 seconds", "fail",
            ], givesUpWebSocket: true),
        Case(
            policy: noFallback, failures: [broken, broken], steps: ["1/1 0.2 seconds", "fail"], givesUpWebSocket: true),
        Case(failures: [refused], steps: [sse], givesUpWebSocket: true),
        // A refused upgrade after a break is another break.
        Case(failures: [broken, refused], steps: [once, twice]),
        Case(failures: [blocked, failed(.final)], steps: [sse, "fail"], givesUpWebSocket: true),
        Case(policy: noFallback, failures: [blocked], steps: ["fail"], givesUpWebSocket: true),
        // A request of which nothing came is sent once more, and each silence after that is the user's to judge.
        Case(kind: .serverSentEvents, failures: [unanswered, unanswered], steps: ["1/1 0.0 seconds", "fail"]),
        Case(
            failures: [blocked, unanswered, unanswered], steps: [sse, "1/1 0.0 seconds", "fail"], givesUpWebSocket: true
        ),
        Case(kind: .serverSentEvents, hasDelivered: true, failures: [unanswered], steps: ["fail"]),
        Case(
            kind: .serverSentEvents, policy: ChappieStreamingTransportPolicy(maxHTTPSSEReconnectionAttempts: 0),
            failures: [unanswered], steps: ["fail"]),
        // An unreachable host is an error at once unless it was reached before.
        Case(failures: [unreachable], steps: ["fail"]),
        Case(hasDelivered: true, failures: [unreachable], steps: [once]),
        Case(failures: [broken, unreachable], steps: [once, twice]),
        Case(
            policy: ChappieStreamingTransportPolicy(maxWebSocketReconnectionAttempts: 1),
            failures: [broken, broken, unreachable], steps: ["1/1 0.2 seconds", sse, "1/2 0.2 seconds"],
            givesUpWebSocket: true),
        // A lost conversation is repaired once, unseen.
        Case(failures: [stale, stale, stale], steps: ["again 0.0 seconds", once, twice]),
        // Rate limits have their own budget.
        Case(
            failures: [broken, busy, failed(.rateLimited(resetsIn: nil), asking: 30), busy],
            steps: [once, "wait 1/2 1.0 seconds", "wait 2/2 30.0 seconds", "fail"]),
        Case(failures: [failed(.rateLimited(resetsIn: nil), asking: 9_999_999)], steps: ["fail"]),
        Case(
            failures: [failed(.overloaded), failed(.overloaded, asking: 9_999_999), failed(.overloaded)],
            steps: ["wait 1/3 1.0 seconds", "wait 2/3 30.0 seconds", "wait 3/3 4.0 seconds"]),
        // The pause that a server in trouble asks for is bounded.
        Case(
            kind: .serverSentEvents, failures: [failed(.broken, asking: 2), failed(.broken, asking: 1e9), broken],
            steps: ["1/2 2.0 seconds", "2/2 30.0 seconds", "fail"]),
        // A name that does not resolve, and an outage, are tried once more.
        Case(failures: [failed(.unresolved), failed(.unresolved)], steps: ["1/1 3.0 seconds", "fail"]),
        Case(failures: [failed(.outage), failed(.outage)], steps: ["1/1 3.0 seconds", "fail"]),
        Case(hasDelivered: true, failures: [failed(.unresolved)], steps: [once]),
        // A message that is too large is not WebSocket's fault.
        Case(failures: [tooLarge], steps: [sse]),
        Case(policy: noFallback, failures: [tooLarge], steps: ["fail"]),
        Case(failures: [failed(.final)], steps: ["fail"]),
    ]

    @Test(arguments: cases) func failuresLeadToTheseSteps(example: Case) {
        var plan = TurnPlan(kind: example.kind, policy: example.policy, backoff: .default)
        let steps = example.failures.map { failure in
            switch plan.next(after: failure, hasDelivered: example.hasDelivered, jitter: 1) {
            case .fail: "fail"
            case .again(let delay, nil): "again \(delay)"
            case .again(let delay, .reconnecting(let attempt, let maximum, let told)):
                told == delay ? "\(attempt)/\(maximum) \(delay)" : "told another delay"
            case .again(let delay, .fellBack(let kind)): "\(kind.rawValue) \(delay)"
            case .again(let delay, .waiting(let attempt, let maximum, _)): "wait \(attempt)/\(maximum) \(delay)"
            case .again: "?"
            }
        }
        #expect(steps == example.steps)
        #expect(plan.hasGivenUpWebSocket == example.givesUpWebSocket)
        #expect((plan.kind == .serverSentEvents) == (example.kind == .serverSentEvents || steps.contains(Self.sse)))
    }

    @Test func jitterScalesTheDelay() {
        var plan = TurnPlan(kind: .webSocket, policy: .default, backoff: .default)
        guard case .again(let delay, _) = plan.next(after: Self.broken, hasDelivered: true, jitter: 1.1) else {
            Issue.record("no attempt")
            return
        }
        #expect(delay > .milliseconds(219) && delay < .milliseconds(221))
    }
}
