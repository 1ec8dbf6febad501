import ChappieCore
import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketCodecReceivingTests {
    @Test("the examples of RFC 6455, 5.7", arguments: CodecCase.examples)
    func readsTheExamples(_ example: CodecCase) { verify(example) }

    @Test("every form of a length", arguments: CodecCase.lengths)
    func readsLengths(_ example: CodecCase) { verify(example) }

    @Test("reserved bits and opcodes, masks", arguments: CodecCase.reserved)
    func refusesWhatIsReserved(_ example: CodecCase) { verify(example) }

    @Test("control frames", arguments: CodecCase.control)
    func readsControlFrames(_ example: CodecCase) { verify(example) }

    @Test("fragments and limits", arguments: CodecCase.fragments)
    func readsFragments(_ example: CodecCase) { verify(example) }

    @Test("text", arguments: CodecCase.text)
    func readsText(_ example: CodecCase) { verify(example) }

    @Test("bytes that are not text", arguments: CodecCase.notText)
    func refusesWhatIsNotText(_ example: CodecCase) { verify(example) }

    @Test("closing", arguments: CodecCase.closing)
    func closes(_ example: CodecCase) { verify(example) }

    @Test("the examples of RFC 7692, 7.2.3", arguments: CodecCase.compressionExamples)
    func readsTheCompressedExamples(_ example: CodecCase) { verify(example) }

    @Test("compression", arguments: CodecCase.compression)
    func decompresses(_ example: CodecCase) { verify(example) }

    private func verify(_ example: CodecCase) {
        WireBytes.forEachChunking(example.input) { chunks, label in
            let run = CodecRun(chunks, limits: example.limits, compression: example.compression)
            #expect(run == example.expected, "\(example.name), \(label)")
        }
    }

    @Test("text is refused at the first wrong byte, inside its frame", arguments: CodecCase.invalidUTF8)
    func refusesTextEarly(_ bytes: [UInt8]) {
        // An ASCII byte behind it makes half a character wrong; the frame promises a hundred bytes more.
        let begun = [0x81, UInt8(bytes.count + 101)] + bytes + [0x61]
        let run = CodecRun([begun])
        #expect(run.ending == .failed(.invalidUTF8))
        #expect(run.sent == CodecRun.close(1007))
    }

    @Test func refusesTextEarlyInACompressedFragment() {
        // A stored block of two bytes, flushed; the message goes on.
        let run = CodecRun([WireBytes.hex("41 08 00 02 00 fd ff c3 28 00")], compression: DeflateParameters())
        #expect(run.ending == .failed(.invalidUTF8))
    }

    @Test func refusesAFrameByItsFirstTwoBytes() {
        #expect(CodecRun([[0xB1, 0x7F]]).ending == .failed(.reservedBitSet))
        #expect(CodecRun([[0x83, 0x7F]]).ending == .failed(.unknownOpcode(3)))
        #expect(CodecRun([[0x81, 0xFF]]).ending == .failed(.maskedFrame))
        #expect(CodecRun([[0x89, 0x7E]]).ending == .failed(.controlFrameTooLong))
    }

    @Test func deliversSmallMessagesTogether() {
        var codec = WebSocketCodec(compression: nil)
        let input = (0..<100).flatMap { ServerFrame.text("message \($0)") }
        let actions = input.withUnsafeBytes { codec.receivedBytes($0, nextMaskingKey: { 0 }) }
        #expect(actions == [.deliver((0..<100).map { .text("message \($0)") })])
    }

    @Test func deliversWhatCameBeforeAnErrorAndAnswersFirst() {
        var codec = WebSocketCodec(compression: nil)
        let input = ServerFrame.text("a") + ServerFrame.frame(0x9, [1]) + [0x83, 0x00]
        let actions = input.withUnsafeBytes { codec.receivedBytes($0, nextMaskingKey: { CodecRun.maskingKey }) }
        #expect(
            actions == [
                .send(CodecRun.clientFrame(0x8A, [1]) + CodecRun.close(1002)), .deliver([.text("a")]),
                .fail(.unknownOpcode(3)),
            ])
    }

    @Test func takesAnotherKeyForEachFrame() {
        var codec = WebSocketCodec(compression: nil)
        var keys: [UInt32] = [0x0102_0304, 0x0506_0708]
        let input = ServerFrame.frame(0x9, [0]) + ServerFrame.frame(0x9, [0])
        let actions = input.withUnsafeBytes { codec.receivedBytes($0, nextMaskingKey: { keys.removeFirst() }) }
        #expect(actions == [.send(WireBytes.hex("8a 81 01020304 01 8a 81 05060708 05"))])
    }

    @Test func aConnectionThatEndsWithoutACloseHasFailed() {
        for begun in [[], ServerFrame.text("a"), [0x81], [0x01, 0x01, 0x61]] {
            var codec = WebSocketCodec(compression: nil)
            var run = CodecRun()
            run.receive(begun, &codec)
            #expect(codec.connectionClosed() == [.fail(.endedWithoutClose)])
            #expect(codec.connectionClosed() == [])
            #expect(codec.phase == .closed)
        }
    }

    @Test func aConnectionThatEndsAfterACloseHasNot() {
        var codec = WebSocketCodec(compression: nil)
        var run = CodecRun()
        run.receive(ServerFrame.close(1000), &codec)
        #expect(run.ending == .peerClosed(.normal))
        #expect(codec.connectionClosed() == [])
    }

    @Test func aDeflateBombIsStoppedAtTheLimit() throws {
        let bomb = try DeflateOracle.message(.init(repeating: 0x61, count: 32 << 20))
        #expect(bomb.count < 64 << 10)
        let limits = WebSocketLimits(maximumMessageBytes: 1 << 20)
        let run = CodecRun(
            [ServerFrame.frame(0x1, bomb, reserved: 4)], limits: limits, compression: DeflateParameters())
        #expect(run == CodecRun(sent: CodecRun.close(1009), ending: .failed(.messageTooLarge(limitBytes: 1 << 20))))
    }

    @Test func aDeflateBombInFragmentsIsStoppedToo() throws {
        let bomb = try DeflateOracle.message(.init(repeating: 0x61, count: 4 << 20))
        var input = ServerFrame.frame(0x1, [], isFinal: false, reserved: 4)
        for byte in bomb { input += ServerFrame.continuation([byte], isFinal: false) }
        let limits = WebSocketLimits(maximumMessageBytes: 1 << 20)
        let run = CodecRun([input], limits: limits, compression: DeflateParameters())
        #expect(run.ending == .failed(.messageTooLarge(limitBytes: 1 << 20)))
    }

    @Test func decompressesToExactlyTheLimit() throws {
        for size in [125, Inflater.bufferBytes - 1, Inflater.bufferBytes, Inflater.bufferBytes + 1, 1 << 20] {
            let payload = [UInt8](repeating: 0x61, count: size)
            let frame = ServerFrame.frame(0x2, try DeflateOracle.message(payload), reserved: 4)
            let exact = CodecRun(
                [frame], limits: WebSocketLimits(maximumMessageBytes: size), compression: DeflateParameters())
            #expect(exact == CodecRun(messages: [.binary(payload)]), "\(size)")
            let short = CodecRun(
                [frame], limits: WebSocketLimits(maximumMessageBytes: size - 1), compression: DeflateParameters())
            #expect(size == 125 || short.ending == .failed(.messageTooLarge(limitBytes: size - 1)), "\(size)")
        }
    }

    @Test func aFinalBlockMayEndWhereTheBufferDoes() throws {
        for size in [Inflater.bufferBytes - 1, Inflater.bufferBytes, 2 * Inflater.bufferBytes] {
            let payload = [UInt8](repeating: 0x61, count: size)
            let frames =
                ServerFrame.frame(0x2, try DeflateOracle.message(payload, isFinal: true), reserved: 4)
                + ServerFrame.frame(0x2, try DeflateOracle.message(payload), reserved: 4)
            for chunks in [[frames], frames.map { [$0] }] {
                let run = CodecRun(chunks, compression: DeflateParameters())
                #expect(run == CodecRun(messages: [.binary(payload), .binary(payload)]), "\(size)")
            }
        }
    }
}
