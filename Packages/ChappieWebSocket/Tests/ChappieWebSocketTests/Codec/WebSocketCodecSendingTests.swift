import ChappieCore
import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketCodecSendingTests {
    private func key() -> UInt32 { CodecRun.maskingKey }

    @Test func writesTheMaskedExampleOfTheRFC() throws {
        var codec = WebSocketCodec(compression: nil)
        let hello = try codec.send(.text("Hello"), nextMaskingKey: key)
        #expect(hello == WireBytes.hex("81 85 37 fa 21 3d 7f 9f 4d 51 58"))
    }

    @Test(
        "every size reads the same on the other side",
        arguments: [0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 125, 126, 127, 1000, 65535, 65536, 70000])
    func writesEverySize(_ size: Int) throws {
        let payload = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let text = String(repeating: "x", count: size)
        for key: UInt32 in [0, 1, 0x8000_0000, 0xDEAD_BEEF] {
            var codec = WebSocketCodec(compression: nil)
            let binary = try codec.send(.binary(payload), nextMaskingKey: { key })
            #expect(ClientFrameReader.frames(binary) == [.init(first: 0x82, payload: payload)])
            let written = try codec.send(.text(text), nextMaskingKey: { key })
            #expect(ClientFrameReader.frames(written) == [.init(first: 0x81, payload: Array(text.utf8))])
        }
    }

    @Test("compressed messages of every window", arguments: 9...15)
    func compressesWithEveryWindow(_ bits: Int) throws {
        var codec = WebSocketCodec(compression: DeflateParameters(clientMaxWindowBits: bits))
        var generator = SplitMix64(seed: UInt64(bits))
        // Long repetitions at every distance, so that a window too large would be found out.
        let noise = (0..<600).map { _ in UInt8.random(in: 0x20...0x7E, using: &generator) }
        let messages = (0..<20).map { Array(noise[..<(30 * $0 + 1)]) + noise.reversed() }
        var payloads: [[UInt8]] = []
        for message in messages {
            let frames = ClientFrameReader.frames(try codec.send(.binary(message), nextMaskingKey: key))
            let frame = try #require(frames?.first)
            #expect(frames?.count == 1)
            #expect(frame.first == 0xC2)
            payloads.append(frame.payload)
        }
        #expect(try DeflateOracle.contents(of: payloads, windowBits: bits) == messages.flatMap(\.self))
    }

    @Test func aMessageThatComesAgainShrinksToItsReference() throws {
        let text = WebSocketMessage.text((0..<200).map(String.init).joined(separator: " "))
        var codec = WebSocketCodec(compression: DeflateParameters())
        let first = try codec.send(text, nextMaskingKey: key)
        let second = try codec.send(text, nextMaskingKey: key)
        #expect(second.count < first.count / 10)
    }

    @Test func messagesForThemselvesAreAlwaysTheSame() throws {
        let text = WebSocketMessage.text("again and again and again")
        var codec = WebSocketCodec(compression: DeflateParameters(clientNoContextTakeover: true))
        let first = try codec.send(text, nextMaskingKey: key)
        let second = try codec.send(text, nextMaskingKey: key)
        #expect(second == first)
        let payload = try #require(ClientFrameReader.frames(first)?.first?.payload)
        #expect(try DeflateOracle.contents(of: [payload]) == Array("again and again and again".utf8))
    }

    @Test func aWindowThatZlibCannotKeepToMeansPlainMessages() throws {
        var codec = WebSocketCodec(compression: DeflateParameters(clientMaxWindowBits: 8))
        let bytes = try codec.send(.text("Hello"), nextMaskingKey: key)
        #expect(bytes == WireBytes.hex("81 85 37 fa 21 3d 7f 9f 4d 51 58"))
    }

    @Test func anEmptyMessageIsNotCompressed() throws {
        var codec = WebSocketCodec(compression: DeflateParameters())
        let bytes = try codec.send(.text(""), nextMaskingKey: key)
        #expect(bytes == WireBytes.hex("81 80 37 fa 21 3d"))
    }

    @Test(
        "compressed noise of every size stays in its bound", arguments: [1, 125, 126, 20_000, 65_530, 66_000, 1 << 20])
    func compressesNoise(_ size: Int) throws {
        var generator = SplitMix64(seed: 7)
        let noise = (0..<size).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        var codec = WebSocketCodec(compression: DeflateParameters())
        for _ in 0..<2 {
            let frames = ClientFrameReader.frames(try codec.send(.binary(noise), nextMaskingKey: key))
            #expect(frames?.map(\.first) == [0xC2])
        }
        var fresh = WebSocketCodec(compression: DeflateParameters())
        let frames = ClientFrameReader.frames(try fresh.send(.binary(noise), nextMaskingKey: key)) ?? []
        #expect(try DeflateOracle.contents(of: frames.map(\.payload)) == noise)
    }

    @Test func aMessageOverTheFrameLimitIsRefusedAndNothingIsLost() throws {
        var codec = WebSocketCodec(
            limits: WebSocketLimits(maximumFrameBytes: 1000), compression: DeflateParameters())
        let long = WebSocketMessage.text(String(repeating: "a", count: 1001))
        #expect(throws: WebSocketCodecError.messageTooLarge(limitBytes: 1000)) {
            try codec.send(long, nextMaskingKey: key)
        }
        let bytes = try codec.send(.text(String(repeating: "a", count: 1000)), nextMaskingKey: key)
        #expect(ClientFrameReader.frames(bytes)?.count == 1)
        #expect(codec.phase == .open)
    }

    @Test func pingsCarryAtMost125Bytes() {
        let codec = WebSocketCodec(compression: nil)
        let bytes = codec.ping(.init(repeating: 5, count: 200), nextMaskingKey: key)
        #expect(bytes == CodecRun.clientFrame(0x89, .init(repeating: 5, count: 125)))
        #expect(codec.ping(nextMaskingKey: key) == CodecRun.clientFrame(0x89, []))
    }

    @Test func afterOurCloseMessagesStillArriveAndNothingIsAnswered() {
        var codec = WebSocketCodec(compression: nil)
        #expect(
            codec.close(WebSocketCloseReason(code: 1000, reason: "bye"), nextMaskingKey: key)
                == CodecRun.clientFrame(0x88, [0x03, 0xE8] + Array("bye".utf8)))
        #expect(codec.phase == .closing)
        #expect(codec.close(.goingAway, nextMaskingKey: key) == [])
        #expect(codec.ping(nextMaskingKey: key) == [])
        #expect(throws: WebSocketCodecError.closed) { try codec.send(.text("a"), nextMaskingKey: key) }
        var run = CodecRun()
        run.receive(ServerFrame.text("late") + ServerFrame.frame(0x9, [1]) + ServerFrame.close(1000), &codec)
        #expect(run == CodecRun(messages: [.text("late")], ending: .peerClosed(.normal)))
        #expect(codec.phase == .closed)
        #expect(throws: WebSocketCodecError.closed) { try codec.send(.text("a"), nextMaskingKey: key) }
    }

    @Test func anErrorAfterOurCloseSendsNoSecondOne() {
        var codec = WebSocketCodec(compression: nil)
        #expect(!codec.close(.normal, nextMaskingKey: key).isEmpty)
        var run = CodecRun()
        run.receive([0x83, 0x00], &codec)
        #expect(run == CodecRun(ending: .failed(.unknownOpcode(3))))
    }

    @Test("codes that must not travel are left out", arguments: [0, 999, 1004, 1005, 1006, 1015, 2999, 5000])
    func leavesOutForbiddenCodes(_ code: UInt16) {
        var codec = WebSocketCodec(compression: nil)
        let bytes = codec.close(WebSocketCloseReason(code: code, reason: "why"), nextMaskingKey: key)
        #expect(bytes == CodecRun.close(nil))
    }

    @Test func aLongReasonEndsWithAWholeCharacter() {
        var codec = WebSocketCodec(compression: nil)
        let reason = String(repeating: "a", count: 122) + "é" + "more"
        let bytes = codec.close(WebSocketCloseReason(code: 4000, reason: reason), nextMaskingKey: key)
        #expect(bytes == CodecRun.clientFrame(0x88, [0x0F, 0xA0] + .init(repeating: 0x61, count: 122)))
    }
}
