@_spi(ChappieInternals) import ChappieCore
import Testing

/// Sixteen times the bytes is about sixteen times the work, whatever the bytes are.
@Suite(.serialized) struct ServerSentEventLinearityTests {
    struct Shape: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let size: Int
        let chunk: Int
        let events: @Sendable (_ size: Int) -> Int
        let input: @Sendable (_ size: Int) -> [UInt8]
    }

    private static func oneEvent(_ size: Int) -> [UInt8] {
        Array("data: ".utf8) + [UInt8](repeating: 0x78, count: size) + Array("\n\n".utf8)
    }

    private static func lines(_ line: String, _ size: Int) -> [UInt8] {
        Array(String(repeating: line, count: size / line.utf8.count).utf8)
    }

    static let shapes: [Shape] = [
        .init(
            testDescription: "one event, 1 byte at a time", size: 1 << 16, chunk: 1, events: { _ in 1 }, input: oneEvent
        ),
        .init(
            testDescription: "one event of 16 MiB in 64 bytes", size: 1 << 20, chunk: 64, events: { _ in 1 },
            input: oneEvent),
        .init(
            testDescription: "one event of 16 MiB in 64 KiB", size: 1 << 20, chunk: 1 << 16, events: { _ in 1 },
            input: oneEvent),
        .init(
            testDescription: "bare CRs, 4 MiB in one chunk", size: 1 << 18, chunk: .max, events: { _ in 0 },
            input: { [UInt8](repeating: 0x0D, count: $0) }),
        .init(
            testDescription: "CRLFs in one chunk", size: 1 << 18, chunk: .max, events: { _ in 0 },
            input: { lines("\r\n", $0) }),
        .init(
            testDescription: "CR lines before a far LF", size: 1 << 16, chunk: .max, events: { $0 / 9 },
            input: { lines("data: x\r\r", $0) + [0x0A] }),
        .init(
            testDescription: "one event of many lines", size: 1 << 16, chunk: 4096, events: { _ in 1 },
            input: { lines("data: x\n", $0) }),
    ]

    @Test("grows linearly", arguments: shapes)
    func growsLinearly(_ shape: Shape) {
        let factor = Growth.factor(shape.testDescription, size: shape.size) { size in
            let input = shape.input(size)
            var decoder = ServerSentEventDecoder()
            var events = 0
            do {
                for chunk in Chunking.chunks(of: input, size: min(shape.chunk, input.count)) {
                    events += try decoder.receivedBytes(chunk).count
                }
                events += try decoder.connectionClosed().count
            } catch {
                Issue.record(error)
            }
            #expect(events == shape.events(size))
        }
        #expect(factor < Growth.limit)
    }
}
