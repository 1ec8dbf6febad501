import ChappieCore
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketLifetimeTests {
    private let deadlines = ChappieDeadlines(
        connect: .seconds(1), firstByte: .seconds(3), idle: .seconds(4), upgrade: .seconds(2),
        liveness: .seconds(60))

    @Test func theHandshakeHasTwoDeadlines() {
        var lifetime = WebSocketLifetime(deadlines: deadlines, startedAt: .seconds(10))
        #expect(lifetime.deadline == .seconds(11))
        #expect(lifetime.due(at: .seconds(11) - .nanoseconds(1)) == nil)
        #expect(lifetime.due(at: .seconds(11)) == .timeOut(.connect, allowance: .seconds(1)))
        lifetime.connected(at: .seconds(20))
        // Half an answer is no answer.
        lifetime.heard(at: .seconds(21))
        #expect(lifetime.deadline == .seconds(22))
        #expect(lifetime.due(at: .seconds(22)) == .timeOut(.responseHead, allowance: .seconds(2)))
    }

    @Test func silenceLeadsToAPingAndThenToTheEnd() {
        var lifetime = opened(at: .seconds(100))
        #expect(lifetime.due(at: .seconds(129)) == nil)
        #expect(lifetime.due(at: .seconds(130)) == .ping)
        lifetime.pinged()
        #expect(lifetime.deadline == .seconds(160))
        #expect(lifetime.due(at: .seconds(160)) == .timeOut(.liveness, allowance: .seconds(60)))
    }

    @Test func whateverIsHeardIsASignOfLife() {
        var lifetime = opened(at: .seconds(100))
        lifetime.pinged()
        lifetime.heard(at: .seconds(159))
        #expect(lifetime.deadline == .seconds(189))
        #expect(lifetime.due(at: .seconds(189)) == .ping)
    }

    @Test func whoDoesNotReadExpectsNothing() {
        var lifetime = opened(at: .seconds(100))
        lifetime.paused()
        #expect(lifetime.deadline == nil)
        #expect(lifetime.due(at: .seconds(1_000_000)) == nil)
        lifetime.resumed(at: .seconds(200))
        #expect(lifetime.deadline == .seconds(230))
    }

    @Test func aCloseHasFiveSecondsAndThePeerOneMore() {
        var lifetime = opened(at: .seconds(100))
        lifetime.closed(at: .seconds(110))
        // What still comes doesn't put it off.
        lifetime.heard(at: .seconds(114))
        #expect(lifetime.due(at: .seconds(115) - .nanoseconds(1)) == nil)
        #expect(lifetime.due(at: .seconds(115)) == .closeOverdue)
        lifetime.finished(at: .seconds(114))
        #expect(lifetime.deadline == .seconds(115))
        #expect(lifetime.due(at: .seconds(115)) == .closeOverdue)
        lifetime.ended()
        #expect(lifetime.deadline == nil)
    }

    @Test func aRefusalsBodyHasTheDeadlinesOfABody() {
        var lifetime = WebSocketLifetime(deadlines: deadlines, startedAt: .zero)
        lifetime.connected(at: .zero)
        lifetime.refused(at: .seconds(10))
        #expect(lifetime.due(at: .seconds(13)) == .timeOut(.firstByte, allowance: .seconds(3)))
        lifetime.heard(at: .seconds(12))
        #expect(lifetime.due(at: .seconds(16)) == .timeOut(.responseBody, allowance: .seconds(4)))
    }

    @Test func afterTheEndNothingBegins() {
        var lifetime = opened(at: .zero)
        lifetime.ended()
        lifetime.closed(at: .zero)
        #expect(lifetime.phase == .ended)
    }

    private func opened(at now: Duration) -> WebSocketLifetime {
        var lifetime = WebSocketLifetime(deadlines: deadlines, startedAt: .zero)
        lifetime.connected(at: .zero)
        lifetime.opened(at: now)
        return lifetime
    }
}
