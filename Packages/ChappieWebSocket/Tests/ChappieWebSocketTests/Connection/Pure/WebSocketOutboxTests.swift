import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketOutboxTests {
    @Test func thereIsRoomUpToTheLimitAndForOneMessageHoweverLarge() {
        var outbox = WebSocketOutbox()
        #expect(outbox.hasRoom(for: 100 << 20))
        outbox.append([1])
        #expect(outbox.hasRoom(for: WebSocketOutbox.limitBytes - 1))
        #expect(!outbox.hasRoom(for: WebSocketOutbox.limitBytes))
    }

    /// TLS insists on it.
    @Test func whatIsOfferedStaysWhereItIsUntilItIsTaken() {
        var outbox = WebSocketOutbox()
        outbox.append([1, 2, 3])
        outbox.offer()
        let before = outbox.offered.withUnsafeBytes { $0.baseAddress }
        outbox.append([4])
        outbox.append([5, 6])
        outbox.offer()
        #expect(outbox.offered == [1, 2, 3])
        #expect(outbox.offered.withUnsafeBytes { $0.baseAddress } == before)
        _ = outbox.took(2)
        outbox.offer()
        #expect(outbox.offered == [1, 2, 3])
        #expect(outbox.offset == 2)
        #expect(outbox.byteCount == 4)
        _ = outbox.took(1)
        outbox.offer()
        #expect(outbox.offered == [4, 5, 6])
        #expect(outbox.offset == 0)
        _ = outbox.took(3)
        #expect(outbox.isEmpty)
    }

    @Test func onlyWhatGoesOutAfterABlockIsNews() {
        var outbox = WebSocketOutbox()
        outbox.append([1, 2, 3])
        outbox.offer()
        let first = outbox.took(1)
        outbox.blocked(at: .zero)
        let second = outbox.took(1)
        let third = outbox.took(1)
        #expect([first, second, third] == [false, true, false])
    }

    @Test func sendersGetTheirTurnInOrder() {
        var outbox = WebSocketOutbox()
        outbox.append([UInt8](repeating: 0, count: WebSocketOutbox.limitBytes))
        for id in 1...3 { outbox.wait(as: id, for: id == 1 ? 1 << 20 : 1) { _ in } }
        outbox.offer()
        let none = outbox.release(all: false).count
        _ = outbox.took(10)
        let notTheFirst = outbox.release(all: false).count
        _ = outbox.took(WebSocketOutbox.limitBytes - 10)
        let one = outbox.release(all: false).count
        let second = outbox.giveUp(2)
        let all = outbox.release(all: true).count
        #expect(none == 0)
        #expect(notTheFirst == 0, "a large message must not be overtaken for ever")
        #expect(one == 1)
        #expect(second != nil)
        #expect(all == 1)
        #expect(outbox.giveUp(3) == nil)
    }
}
