@_spi(ChappieInternals) import ChappieCore
import TestFixtures
import Testing

@Suite struct ServerSentEventDecoderTests {
    @Test("the table, at every chunk size and split point", arguments: ServerSentEventCase.table)
    func decodesTheSameInAnyChunking(_ example: ServerSentEventCase) {
        #expect(ReferenceEventStream.events(of: example.input) == example.data, "a second reading of the standard")
        Chunking.forEach(example.input) { chunks, label in
            #expect(decode(chunks) == .success(example.data), "\(label)")
        }
    }

    @Test("every early end gives what has come", arguments: ServerSentEventCase.table)
    func endsEarlyAnywhere(_ example: ServerSentEventCase) {
        for end in 0...example.input.count {
            let input = Array(example.input[..<end])
            let expected = ReferenceEventStream.events(of: input)
            #expect(decode([input]) == .success(expected), "ended at \(end)")
            #expect(decode(input.map { [$0] }) == .success(expected), "ended at \(end), byte by byte")
        }
    }

    @Test func agreesWithTheReferenceOnGeneratedStreams() {
        let words = ["\n", "\r", "\r\n", "\n\n", "data", "data:", "data: ", ":", " ", "event: x", "id:\0", "é😀", "a"]
        let pieces =
            words.map { Array($0.utf8) } + [[0xEF], [0xBB], [0xBF], [0xEF, 0xBB, 0xBF], [0xFF], [0xF0, 0x9F]]
        var random = SplitMix64(seed: 1)
        for round in 0..<3000 {
            let input = (0..<Int.random(in: 0...24, using: &random)).flatMap { _ in
                pieces.randomElement(using: &random) ?? []
            }
            let expected = ReferenceEventStream.events(of: input)
            var chunks: [[UInt8]] = []
            var rest = input[...]
            while !rest.isEmpty {
                let size = Int.random(in: 0...min(rest.count, 9), using: &random)
                chunks.append(Array(rest.prefix(size)))
                rest = rest.dropFirst(size)
            }
            #expect(decode(chunks) == .success(expected), "round \(round): \(input)")
        }
    }

    @Test func `an event is delivered with its blank line and not later`() throws {
        var decoder = ServerSentEventDecoder(maximumEventBytes: 100)
        // Half a CRLF is kept over empty chunks.
        let chunks = ["data: a\r", "", "\ndata: b\r", "", "\n", "", "\r", "", "\n", "data: c"]
        let delivered = try chunks.map { chunk in
            var events: [String] = []
            try decoder.receivedBytes(Array(chunk.utf8)) { events.append(String(decoding: $0, as: UTF8.self)) }
            return events
        }
        #expect(delivered == [[], [], [], [], [], [], ["a\nb"], [], [], []])
        var rest: [String] = []
        for _ in 0..<2 { try decoder.connectionClosed { rest.append(String(decoding: $0, as: UTF8.self)) } }
        #expect(rest == ["c"], "nothing comes twice")
    }

    // MARK: Bounds

    private static let limit = 24

    /// A stream whose decisive part is so long, the largest length that passes, and how many events there are then.
    static let bounds: [(input: @Sendable (Int) -> String, largest: Int, events: Int)] = [
        ({ "data: \(run($0))\n\n" }, limit, 1), ({ "data: \(run($0))" }, limit, 1),
        ({ "data:\(run($0))\n\n" }, limit, 1),
        ({ "data: aaaa\ndata: bbbb\ndata: cccc\ndata: \(run($0))\n\n" }, limit - 15, 1),
        ({ String(repeating: "data\n", count: $0) + "\n" }, limit + 1, 1),
        ({ ":\(run($0))\n\n" }, limit + 10, 0), ({ ":\(run($0))" }, limit + 10, 0),
        ({ "event: \(run($0))\ndata: a\n\n" }, limit + 4, 1), ({ "\(run($0))\n\n" }, limit + 11, 0),
    ]

    private static func run(_ count: Int) -> String { String(repeating: "x", count: count) }

    @Test("the limit is the same in any chunking", arguments: bounds.indices)
    func failsPastTheLimit(_ index: Int) {
        let bound = Self.bounds[index]
        Chunking.forEach(Array(bound.input(bound.largest).utf8)) { chunks, label in
            #expect((try? decode(chunks, limit: Self.limit).get())?.count == bound.events, "\(label)")
        }
        Chunking.forEach(Array(("data: first\n\n" + bound.input(bound.largest + 1)).utf8)) { chunks, label in
            var decoder = ServerSentEventDecoder(maximumEventBytes: Self.limit)
            var events: [String] = []
            let error = ResponsesStreamError.eventTooLarge(limitBytes: Self.limit)
            #expect(throws: error, "\(label)") {
                for chunk in chunks {
                    try decoder.receivedBytes(chunk) { events.append(String(decoding: $0, as: UTF8.self)) }
                }
                try decoder.connectionClosed { events.append(String(decoding: $0, as: UTF8.self)) }
            }
            #expect(events == ["first"], "\(label)")
            #expect(throws: error) { try decoder.receivedBytes([]) { _ in } }
            #expect(throws: error) { try decoder.connectionClosed { _ in } }
        }
    }

    @Test func failsBeforeTheLineHasEnded() {
        let line = Array("data: \(Self.run(1000))".utf8).prefix(Self.limit + 12)
        #expect(decode(line.map { [$0] }, limit: Self.limit) == .failure(.eventTooLarge(limitBytes: Self.limit)))
    }

    @Test func manySmallEventsAreNoLargeOne() throws {
        let stream = Array(String(repeating: "data: 0123456789\n\n", count: 1000).utf8)
        #expect(try decode([stream], limit: Self.limit).get().count == 1000)
    }

    @Test func anyLimitIsUsable() {
        for limit in [0, -1, Int.min] {
            #expect(decode([Array("data: a\n\n".utf8)], limit: limit) == .success(["a"]))
            #expect(decode([Array("data: ab\n\n".utf8)], limit: limit) == .failure(.eventTooLarge(limitBytes: 1)))
        }
        #expect(decode(Array("data: a\ndata: b\n\n".utf8).map { [$0] }, limit: .max) == .success(["a\nb"]))
    }

    // MARK: Linearity

    static let shapes: [(name: String, size: Int, chunk: Int, piece: String)] = [
        ("one event, 1 byte at a time", 1 << 13, 1, "x"), ("one event in 64 bytes", 1 << 17, 64, "x"),
        ("one event in 64 KiB", 1 << 20, 1 << 16, "x"), ("bare CRs in one chunk", 1 << 16, .max, "\r"),
        ("CRLFs in one chunk", 1 << 16, .max, "\r\n"), ("CR lines before a far LF", 1 << 16, .max, "data: x\r\r"),
        ("one event of many lines", 1 << 16, 4096, "data: x\n"),
    ]

    @Test("sixteen times the bytes is about sixteen times the work", arguments: shapes.indices)
    func growsLinearly(_ index: Int) {
        let shape = Self.shapes[index]
        let factor = Growth.factor(shape.name, size: shape.size) { size in
            let body = String(repeating: shape.piece, count: size / shape.piece.utf8.count)
            let input = Array("data: \(body)\n\n".utf8)
            let events = decode(Chunking.chunks(of: input, size: min(shape.chunk, input.count)))
            #expect((try? events.get())?.isEmpty == false)
        }
        #expect(factor < Growth.limit)
    }

    private func decode(
        _ chunks: [[UInt8]], limit: Int = 64 << 20
    ) -> Result<[String], ResponsesStreamError> {
        var decoder = ServerSentEventDecoder(maximumEventBytes: limit)
        var events: [String] = []
        do throws(ResponsesStreamError) {
            for chunk in chunks {
                try decoder.receivedBytes(chunk) { events.append(String(decoding: $0, as: UTF8.self)) }
            }
            try decoder.connectionClosed { events.append(String(decoding: $0, as: UTF8.self)) }
            return .success(events)
        } catch {
            return .failure(error)
        }
    }
}

/// A second reading of WHATWG HTML 9.2.6, written for clarity only: the whole stream at once, scalar by scalar. The
/// decoder is compared with it on streams that no table foresees.
private enum ReferenceEventStream {
    static func events(of bytes: [UInt8]) -> [String] {
        var events: [String] = []
        var data: [String] = []
        // What follows the last line end is a line like the others; an event needs no blank line at the end.
        for line in lines(of: bytes) + [[]] {
            let colon = line.firstIndex(of: ":") ?? line.endIndex
            if line.isEmpty, !data.isEmpty {
                events.append(data.joined(separator: "\n"))
                data = []
            } else if String(String.UnicodeScalarView(line[..<colon])) == "data" {
                let value = line[colon...].dropFirst()
                data.append(String(String.UnicodeScalarView(value.first == " " ? value.dropFirst() : value)))
            }
        }
        return events
    }

    private static func lines(of bytes: [UInt8]) -> [[Unicode.Scalar]] {
        var scalars = Array(String(decoding: bytes, as: UTF8.self).unicodeScalars)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { scalars.removeFirst() }
        var lines: [[Unicode.Scalar]] = [[]]
        for (index, scalar) in scalars.enumerated() {
            switch scalar {
            case "\n" where index > 0 && scalars[index - 1] == "\r": continue
            case "\n", "\r": lines.append([])
            default: lines[lines.count - 1].append(scalar)
            }
        }
        // A stream that ends in a line end has no blank line there.
        return lines.last?.isEmpty == true ? lines.dropLast() : lines
    }
}
