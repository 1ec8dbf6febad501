import ChappieCore
import FoundationEssentials
import Testing

@testable import ChappieClient

@Suite struct TurnPlanTests {
    private static let error = ChappieClientError.httpError(500, "")
    private let now = Date(timeIntervalSince1970: 1_795_176_000)

    private func plan(
        _ kind: ChappieTransportEvent.Kind = .webSocket, _ policy: ChappieStreamingTransportPolicy = .default,
        _ backoff: ChappieRateLimitBackoffPolicy = .default
    ) -> TurnPlan { TurnPlan(kind: kind, policy: policy, backoff: backoff) }

    /// What a list of failures leads to, one word each.
    private func steps(
        _ plan: inout TurnPlan, _ failures: [AttemptFailure], hasDelivered: Bool = false
    ) -> [String] {
        failures.map { failure in
            switch plan.next(after: failure, hasDelivered: hasDelivered, jitter: 1, now: now) {
            case .fail: return "fail"
            case .again(let delay, nil): return "again \(delay)"
            case .again(let delay, .reconnecting(let attempt, let maximum, let told)):
                return told == delay ? "\(attempt)/\(maximum) \(delay)" : "told another delay"
            case .again(let delay, .fellBack(let kind)): return "\(kind.rawValue) \(delay)"
            case .again(let delay, .waiting(let attempt, let maximum, _)): return "wait \(attempt)/\(maximum) \(delay)"
            case .again: return "?"
            }
        }
    }

    @Test func breaksAreMendedFiveTimesThenOverSSETwice() {
        var plan = plan()
        #expect(
            steps(&plan, Array(repeating: .broken(Self.error), count: 9)) == [
                "1/5 0.2 seconds", "2/5 0.4 seconds", "3/5 0.8 seconds", "4/5 1.6 seconds", "5/5 3.2 seconds",
                "sse 0.0 seconds", "1/2 0.2 seconds", "2/2 0.4 seconds", "fail",
            ])
        #expect(plan.hasGivenUpWebSocket)
    }

    @Test func withoutFallbackTheLastBreakIsTheError() {
        var plan = plan(
            .webSocket, .init(maxWebSocketReconnectionAttempts: 1, fallsBackToHTTPSSE: false))
        #expect(steps(&plan, [.broken(Self.error), .broken(Self.error)]) == ["1/1 0.2 seconds", "fail"])
    }

    @Test func aRefusedUpgradeFallsBackAtOnce() {
        var plan = plan()
        #expect(steps(&plan, [.upgradeFailed(Self.error)]) == ["sse 0.0 seconds"])
        #expect(plan.hasGivenUpWebSocket)
        #expect(plan.kind == .serverSentEvents)
    }

    @Test func aRefusedUpgradeAfterABreakIsAnotherBreak() {
        var plan = plan()
        #expect(
            steps(&plan, [.broken(Self.error), .upgradeFailed(Self.error)]) == ["1/5 0.2 seconds", "2/5 0.4 seconds"])
    }

    @Test func silenceFallsBackOnceAndThenFails() {
        var plan = plan()
        #expect(steps(&plan, [.silent(Self.error), .silent(Self.error)]) == ["sse 0.0 seconds", "fail"])
    }

    @Test func anUnreachableHostIsAnErrorAtOnceUnlessItWasReachedBefore() {
        var plan = plan()
        #expect(steps(&plan, [.unreachable(Self.error)]) == ["fail"])
        plan = self.plan()
        #expect(steps(&plan, [.unreachable(Self.error)], hasDelivered: true) == ["1/5 0.2 seconds"])
        plan = self.plan()
        #expect(
            steps(&plan, [.broken(Self.error), .unreachable(Self.error)]) == ["1/5 0.2 seconds", "2/5 0.4 seconds"])
    }

    @Test func aLostConversationIsMendedOnceUnseen() {
        var plan = plan()
        #expect(
            steps(&plan, [.conversationLost(Self.error), .stale(Self.error), .conversationLost(Self.error)])
                == ["again 0.0 seconds", "1/5 0.2 seconds", "2/5 0.4 seconds"])
    }

    @Test func rateLimitsHaveTheirOwnBudget() {
        var plan = plan()
        #expect(
            steps(
                &plan,
                [
                    .broken(Self.error), .rateLimited(Self.error, retryAfter: nil),
                    .rateLimited(Self.error, retryAfter: "9999999"), .rateLimited(Self.error, retryAfter: nil),
                ]) == ["1/5 0.2 seconds", "wait 1/2 1.0 seconds", "wait 2/2 30.0 seconds", "fail"])
    }

    @Test func theServersPauseForItsOwnTroubleIsBounded() {
        var plan = plan(.serverSentEvents)
        #expect(
            steps(
                &plan,
                [
                    .troubled(Self.error, retryAfter: "2"),
                    .troubled(Self.error, retryAfter: "Fri, 31 Dec 2037 23:59:59 GMT"),
                    .troubled(Self.error, retryAfter: nil),
                ]) == ["1/2 2.0 seconds", "2/2 30.0 seconds", "fail"])
    }

    @Test func aMessageTooLargeGoesByHTTPAndBlamesNobody() {
        var plan = plan()
        #expect(steps(&plan, [.messageTooLarge(bytes: 2, limit: 1)]) == ["sse 0.0 seconds"])
        #expect(!plan.hasGivenUpWebSocket)
        plan = self.plan(.webSocket, .init(fallsBackToHTTPSSE: false))
        guard
            case .fail(ChappieClientError.messageTooLarge(bytes: 2, limit: 1)) = plan.next(
                after: .messageTooLarge(bytes: 2, limit: 1), hasDelivered: false, jitter: 1, now: now)
        else {
            Issue.record("not the error that names both sizes")
            return
        }
    }

    @Test func jitterScalesTheDelay() {
        var plan = plan()
        guard
            case .again(let delay, _) = plan.next(
                after: .broken(Self.error), hasDelivered: true, jitter: 1.1, now: now)
        else {
            Issue.record("no attempt")
            return
        }
        #expect(delay > .milliseconds(219) && delay < .milliseconds(221))
    }
}
