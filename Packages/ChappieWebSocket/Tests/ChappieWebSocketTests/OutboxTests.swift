import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct OutboxTests {
    @Test func thereIsRoomUpToTheLimitAndForOneMessageHoweverLarge() {
        var outbox = WebSocketOutbox()
        #expect(outbox.hasRoom(for: 100 << 20))
        outbox.append([1])
        #expect(outbox.hasRoom(for: WebSocketOutbox.limitBytes - 1))
        #expect(!outbox.hasRoom(for: WebSocketOutbox.limitBytes))
    }

    /// TLS insists on it.
    @Test func aPieceStaysWhatAndWhereItIsUntilSomethingOfItIsTaken() throws {
        var outbox = WebSocketOutbox()
        outbox.append([1, 2, 3])
        let first = try #require(outbox.nextPiece)
        let address = first.bytes.withUnsafeBytes { $0.baseAddress }
        outbox.append([4])
        let again = try #require(outbox.nextPiece)
        #expect(again.bytes == [1, 2, 3] && again.range == 0..<3)
        #expect(again.bytes.withUnsafeBytes { $0.baseAddress } == address)
        _ = outbox.took(2)
        #expect(outbox.nextPiece?.range == 2..<3)
        #expect(outbox.byteCount == 2)
        _ = outbox.took(1)
        #expect(outbox.nextPiece?.bytes == [4])
        _ = outbox.took(1)
        #expect(outbox.isEmpty)
        #expect(outbox.nextPiece == nil)
    }

    @Test func aLargeMessageIsOfferedInRecords() throws {
        var outbox = WebSocketOutbox()
        outbox.append([UInt8](repeating: 1, count: 40_000))
        var sizes: [Int] = []
        while let (_, range) = outbox.nextPiece {
            sizes.append(range.count)
            _ = outbox.took(range.count)
        }
        #expect(sizes == [16_384, 16_384, 7232])
    }

    @Test func onlyWhatGoesOutAfterABlockIsNews() {
        var outbox = WebSocketOutbox()
        outbox.append([1, 2, 3])
        let first = outbox.took(1)
        outbox.blocked(at: 0)
        let second = outbox.took(1)
        let third = outbox.took(1)
        #expect([first, second, third] == [false, true, false])
    }
}
