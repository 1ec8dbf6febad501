import ChappieCore
import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct GeneratedStreamTests {
    /// What a server might send, and what has to come of it.
    private struct Stream {
        var bytes: [UInt8] = []
        var expected = CodecRun()
    }

    @Test("streams of any shape read the same in any chunks", arguments: 0..<24)
    func readsGeneratedStreams(_ seed: Int) throws {
        var generator = SplitMix64(seed: UInt64(seed))
        let stream = try makeStream(&generator)
        for largest in [1, 7, 300, 5000, 1 << 20] {
            var codec = WebSocketCodec(compression: DeflateParameters())
            var run = CodecRun()
            var rest = stream.bytes[...]
            while !rest.isEmpty {
                let chunk = rest.prefix(Int.random(in: 1...largest, using: &generator))
                rest = rest.dropFirst(chunk.count)
                run.receive(Array(chunk), &codec)
            }
            #expect(run == stream.expected, "seed \(seed), chunks up to \(largest)")
        }
    }

    private func makeStream(_ generator: inout SplitMix64) throws -> Stream {
        var stream = Stream()
        for number in 0..<Int.random(in: 1...6, using: &generator) {
            let size = [0, 1, 125, 126, 3000, 20_000].randomElement(using: &generator) ?? 0
            let text = String(repeating: "é\(number)€😀 plain words ", count: size / 20) + "."
            let isText = Bool.random(using: &generator)
            let payload = Array(text.utf8)
            stream.expected.messages.append(isText ? .text(text) : .binary(payload))
            let isCompressed = Bool.random(using: &generator)
            let wire = isCompressed ? try DeflateOracle.message(payload) : payload
            append(wire, isText: isText, isCompressed: isCompressed, to: &stream, &generator)
        }
        if Bool.random(using: &generator) {
            stream.bytes += ServerFrame.close(1001, Array("done".utf8))
            stream.expected.sent += CodecRun.close(1001)
            stream.expected.ending = .peerClosed(WebSocketCloseReason(code: 1001, reason: "done"))
            stream.bytes += ServerFrame.text("never read")
        }
        return stream
    }

    /// In fragments of any size, some of them empty, with pings and pongs between them.
    private func append(
        _ wire: [UInt8], isText: Bool, isCompressed: Bool, to stream: inout Stream, _ generator: inout SplitMix64
    ) {
        var rest = wire[...]
        var opcode: UInt8 = isText ? 1 : 2
        var reserved: UInt8 = isCompressed ? 4 : 0
        var isFinal = false
        while !isFinal {
            let piece = rest.prefix(Int.random(in: 0...max(rest.count, 1), using: &generator))
            rest = rest.dropFirst(piece.count)
            isFinal = rest.isEmpty
            stream.bytes += ServerFrame.frame(opcode, Array(piece), isFinal: isFinal, reserved: reserved)
            (opcode, reserved) = (0, 0)
            guard Int.random(in: 0..<4, using: &generator) == 0 else { continue }
            let note = (0..<Int.random(in: 0...125, using: &generator)).map { UInt8($0) }
            let isPing = Bool.random(using: &generator)
            stream.bytes += ServerFrame.frame(isPing ? 0x9 : 0xA, note)
            if isPing { stream.expected.sent += CodecRun.clientFrame(0x8A, note) }
        }
    }
}
