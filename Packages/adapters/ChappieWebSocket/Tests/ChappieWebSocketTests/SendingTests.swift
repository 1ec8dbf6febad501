import ChappieCore
import ChappieTesting
import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct SendingTests {
    @Test func writesTheMaskedExampleOfTheRFC() throws {
        var codec = WebSocketCodec.test()
        #expect(try codec.send(.text("Hello")) == hex("81 85 37 fa 21 3d 7f 9f 4d 51 58"))
        #expect(codec.ping() == ClientFrame(first: 0x89, payload: []).bytes)
    }

    @Test(
        "every size reads the same on the other side",
        arguments: Array(0...130) + [1000, 65535, 65536, 70000])
    func writesEverySize(_ size: Int) throws {
        let payload = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let text = String(repeating: "x", count: size)
        for key: UInt32 in [0, 1, 0x8000_0000, 0xDEAD_BEEF] {
            var codec = WebSocketCodec(compression: nil, nextMaskingKey: { key })
            let frames = try codec.send(.binary(payload)) + codec.send(.text(text))
            let expected = [
                ClientFrame(first: 0x82, payload: payload), ClientFrame(first: 0x81, payload: Array(text.utf8)),
            ]
            #expect(ClientFrame.read(frames) == expected)
        }
    }

    @Test func `a message over the frame limit is refused, and nothing is lost`() throws {
        var codec = WebSocketCodec.test(limits: WebSocketLimits(frameBytes: 1000), compression: DeflateParameters())
        #expect(throws: WebSocketError.tooLarge("a message", limit: 1000)) {
            try codec.send(.text(String(repeating: "a", count: 1001)))
        }
        let bytes = try codec.send(.text(String(repeating: "a", count: 1000)))
        #expect(ClientFrame.read(bytes)?.count == 1)
    }

    @Test func `after our close, messages still arrive and nothing is answered`() {
        var codec = WebSocketCodec.test()
        let close = codec.close(WebSocketCloseReason(code: 1000, reason: "bye"))
        #expect(close == ClientFrame(first: 0x88, payload: [0x03, 0xE8] + Array("bye".utf8)).bytes)
        #expect(codec.close(.goingAway).isEmpty)
        let output = codec.receive(
            WebSocketFrames.text("late") + WebSocketFrames.ping() + WebSocketFrames.close(1000))
        #expect(output == WebSocketCodec.Output(messages: [.text("late")], end: .success(.normal)))
    }

    @Test func anErrorAfterOurCloseSendsNoSecondOne() {
        var codec = WebSocketCodec.test()
        #expect(!codec.close(.normal).isEmpty)
        let output = codec.receive([0x83, 0x00])
        #expect(output.bytes.isEmpty)
        #expect(output.end != nil)
    }

    @Test("codes that must not travel are left out", arguments: [0, 999, 1004, 1005, 1006, 1015, 2999, 5000])
    func leavesOutForbiddenCodes(_ code: UInt16) {
        var codec = WebSocketCodec.test()
        #expect(codec.close(WebSocketCloseReason(code: code, reason: "why")) == ClientFrame.close(nil))
    }

    @Test func aLongReasonEndsWithAWholeCharacter() {
        var codec = WebSocketCodec.test()
        let reason = String(repeating: "a", count: 122) + "é" + "more"
        let payload = [0x0F, 0xA0] + [UInt8](repeating: 0x61, count: 122)
        #expect(
            codec.close(WebSocketCloseReason(code: 4000, reason: reason))
                == ClientFrame(first: 0x88, payload: payload).bytes)
    }

    // MARK: The outbox

    @Test func `there is room up to the limit and for one message of any size`() {
        var outbox = WebSocketOutbox()
        #expect(outbox.hasRoom(for: 100 << 20))
        outbox.append([1])
        #expect(outbox.hasRoom(for: WebSocketOutbox.limitBytes - 1))
        #expect(!outbox.hasRoom(for: WebSocketOutbox.limitBytes))
    }

    /// TLS insists on it.
    @Test func `a piece keeps its bytes and its address until some of it is taken`() throws {
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
}
