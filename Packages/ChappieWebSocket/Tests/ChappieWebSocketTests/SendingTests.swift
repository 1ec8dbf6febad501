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
        arguments: [0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 125, 126, 127, 1000, 65535, 65536, 70000])
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

    @Test func masksEveryLengthAtEveryAlignment() {
        let source = (0..<200).map { UInt8($0) }
        let key: [UInt8] = [0x0A, 0x1B, 0x2C, 0x3D]
        for start in 0..<16 {
            for count in 0...100 {
                var destination = [UInt8](repeating: 0xEE, count: 120)
                source.withUnsafeBytes { source in
                    destination.withUnsafeMutableBytes { destination in
                        WebSocketFrameWriter.mask(
                            UnsafeRawBufferPointer(rebasing: source[start..<(start + count)]),
                            into: UnsafeMutableRawBufferPointer(rebasing: destination[(start % 7)...]), key: 0x0A1B_2C3D
                        )
                    }
                }
                let masked = (0..<count).map { source[start + $0] ^ key[$0 % 4] }
                let expected = [UInt8](repeating: 0xEE, count: start % 7) + masked
                #expect(destination == expected + [UInt8](repeating: 0xEE, count: 120 - expected.count))
            }
        }
    }

    @Test func aMessageOverTheFrameLimitIsRefusedAndNothingIsLost() throws {
        var codec = WebSocketCodec.test(limits: WebSocketLimits(frameBytes: 1000), compression: DeflateParameters())
        #expect(throws: WebSocketError.tooLarge("a message", limit: 1000)) {
            try codec.send(.text(String(repeating: "a", count: 1001)))
        }
        let bytes = try codec.send(.text(String(repeating: "a", count: 1000)))
        #expect(ClientFrame.read(bytes)?.count == 1)
    }

    @Test func afterOurCloseMessagesStillArriveAndNothingIsAnswered() {
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
}
