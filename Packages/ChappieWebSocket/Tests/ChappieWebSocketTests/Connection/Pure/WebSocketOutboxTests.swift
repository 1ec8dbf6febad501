import TestFixtures
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
    @Test func aPieceStaysWhatAndWhereItIsUntilSomethingOfItIsTaken() throws {
        var outbox = WebSocketOutbox()
        outbox.append([1, 2, 3])
        let firstPiece = outbox.nextPiece()
        let first = try #require(firstPiece)
        let address = first.bytes.withUnsafeBytes { $0.baseAddress }
        outbox.append([4])
        outbox.append([5, 6])
        let againPiece = outbox.nextPiece()
        let again = try #require(againPiece)
        #expect(again.bytes == [1, 2, 3] && again.range == 0..<3)
        #expect(again.bytes.withUnsafeBytes { $0.baseAddress } == address)
        _ = outbox.took(2)
        let piece1 = outbox.nextPiece()
        #expect(piece1?.range == 2..<3)
        #expect(outbox.byteCount == 4)
        _ = outbox.took(1)
        let secondPiece = outbox.nextPiece()
        let second = try #require(secondPiece)
        #expect(second.bytes == [4, 5, 6] && second.range == 0..<3)
        _ = outbox.took(3)
        #expect(outbox.isEmpty)
        let piece2 = outbox.nextPiece()
        #expect(piece2?.range == nil)
    }

    @Test func aLargeMessageIsOfferedInRecords() throws {
        var outbox = WebSocketOutbox()
        outbox.append([UInt8](repeating: 1, count: 40_000))
        var sizes: [Int] = []
        while let (_, range) = outbox.nextPiece() {
            outbox.append([2])
            let piece3 = outbox.nextPiece()
            #expect(piece3?.range == range)
            sizes.append(range.count)
            _ = outbox.took(range.count)
            if sizes.count == 4 { break }
        }
        #expect(sizes == [16_384, 16_384, 7232, 3])
    }

    @Test func onlyWhatGoesOutAfterABlockIsNews() {
        var outbox = WebSocketOutbox()
        outbox.append([1, 2, 3])
        _ = outbox.nextPiece()
        let first = outbox.took(1)
        outbox.blocked(at: 0)
        let second = outbox.took(1)
        let third = outbox.took(1)
        #expect([first, second, third] == [false, true, false])
    }
}
