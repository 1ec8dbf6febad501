@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieClient

@Suite struct TurnPlanTests {
    /// A failure that asks for a pause of this many seconds.
    private func failed(_ kind: AttemptFailure.Kind, asking retryAfter: Double? = nil) -> AttemptFailure {
        AttemptFailure(kind, .httpError(500, ""), retryAfter: retryAfter)
    }

    private func plan(
        _ kind: ChappieTransportEvent.Kind = .webSocket, _ policy: ChappieStreamingTransportPolicy = .default,
        _ backoff: ChappieRateLimitBackoffPolicy = .default
    ) -> TurnPlan { TurnPlan(kind: kind, policy: policy, backoff: backoff) }

    /// What a list of failures leads to, one word each.
    private func steps(
        _ plan: inout TurnPlan, _ failures: [AttemptFailure], hasDelivered: Bool = false
    ) -> [String] {
        failures.map { failure in
            switch plan.next(after: failure, hasDelivered: hasDelivered, jitter: 1) {
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
            steps(&plan, Array(repeating: failed(.broken), count: 9)) == [
                "1/5 0.2 seconds", "2/5 0.4 seconds", "3/5 0.8 seconds", "4/5 1.6 seconds", "5/5 3.2 seconds",
                "sse 0.0 seconds", "1/2 0.2 seconds", "2/2 0.4 seconds", "fail",
            ])
        #expect(plan.hasGivenUpWebSocket)
    }

    @Test func withoutFallbackTheLastBreakIsTheError() {
        var plan = plan(
            .webSocket, .init(maxWebSocketReconnectionAttempts: 1, fallsBackToHTTPSSE: false))
        #expect(steps(&plan, [failed(.broken), failed(.broken)]) == ["1/1 0.2 seconds", "fail"])
    }

    @Test func aRefusedUpgradeFallsBackAtOnce() {
        var plan = plan()
        #expect(steps(&plan, [failed(.upgradeFailed)]) == ["sse 0.0 seconds"])
        #expect(plan.hasGivenUpWebSocket)
        #expect(plan.kind == .serverSentEvents)
    }

    @Test func aRefusedUpgradeAfterABreakIsAnotherBreak() {
        var plan = plan()
        #expect(
            steps(&plan, [failed(.broken), failed(.upgradeFailed)]) == ["1/5 0.2 seconds", "2/5 0.4 seconds"])
    }

    @Test func silenceFallsBackOnceAndThenFails() {
        var plan = plan()
        #expect(steps(&plan, [failed(.silent), failed(.silent)]) == ["sse 0.0 seconds", "fail"])
    }

    @Test func anUnreachableHostIsAnErrorAtOnceUnlessItWasReachedBefore() {
        var plan = plan()
        #expect(steps(&plan, [failed(.unreachable)]) == ["fail"])
        plan = self.plan()
        #expect(steps(&plan, [failed(.unreachable)], hasDelivered: true) == ["1/5 0.2 seconds"])
        plan = self.plan()
        #expect(
            steps(&plan, [failed(.broken), failed(.unreachable)]) == ["1/5 0.2 seconds", "2/5 0.4 seconds"])
    }

    @Test func aLostConversationIsMendedOnceUnseen() {
        var plan = plan()
        #expect(
            steps(&plan, [failed(.conversationLost), failed(.stale), failed(.conversationLost)])
                == ["again 0.0 seconds", "1/5 0.2 seconds", "2/5 0.4 seconds"])
    }

    @Test func rateLimitsHaveTheirOwnBudget() {
        var plan = plan()
        #expect(
            steps(
                &plan,
                [
                    failed(.broken), failed(.rateLimited(resetsIn: nil)),
                    failed(.rateLimited(resetsIn: nil), asking: 9_999_999), failed(.rateLimited(resetsIn: nil)),
                ]) == ["1/5 0.2 seconds", "wait 1/2 1.0 seconds", "wait 2/2 30.0 seconds", "fail"])
    }

    @Test func theServersPauseForItsOwnTroubleIsBounded() {
        var plan = plan(.serverSentEvents)
        #expect(
            steps(
                &plan,
                [
                    failed(.serverError, asking: 2),
                    failed(.serverError, asking: 1e9),
                    failed(.serverError),
                ]) == ["1/2 2.0 seconds", "2/2 30.0 seconds", "fail"])
    }

    @Test func aMessageTooLargeGoesByHTTPAndBlamesNobody() {
        var plan = plan()
        let tooLarge = AttemptFailure(.messageTooLarge, .messageTooLarge(bytes: 2, limit: 1))
        #expect(steps(&plan, [tooLarge]) == ["sse 0.0 seconds"])
        #expect(!plan.hasGivenUpWebSocket)
        plan = self.plan(.webSocket, .init(fallsBackToHTTPSSE: false))
        guard
            case .fail(ChappieClientError.messageTooLarge(bytes: 2, limit: 1)) = plan.next(
                after: tooLarge, hasDelivered: false, jitter: 1)
        else {
            Issue.record("not the error that names both sizes")
            return
        }
    }

    @Test func jitterScalesTheDelay() {
        var plan = plan()
        guard
            case .again(let delay, _) = plan.next(
                after: failed(.broken), hasDelivered: true, jitter: 1.1)
        else {
            Issue.record("no attempt")
            return
        }
        #expect(delay > .milliseconds(219) && delay < .milliseconds(221))
    }
}
