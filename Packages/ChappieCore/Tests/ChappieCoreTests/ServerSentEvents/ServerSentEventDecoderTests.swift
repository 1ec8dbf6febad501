@_spi(ChappieInternals) import ChappieCore
import Testing

@Suite struct ServerSentEventDecoderTests {
    @Test("the table, at every chunk size and split point", arguments: ServerSentEventCase.table)
    func decodesTheSameInAnyChunking(_ example: ServerSentEventCase) {
        Chunking.forEach(example.input) { chunks, label in
            #expect(decodeToEnd(chunks) == example.events, "\(label)")
        }
    }

    @Test("the table agrees with a second reading of the standard", arguments: ServerSentEventCase.table)
    func agreesWithTheReference(_ example: ServerSentEventCase) {
        #expect(ReferenceEventStream.events(of: example.input) == example.events)
    }

    @Test("every early end gives what has come, in any chunking", arguments: ServerSentEventCase.table)
    func endsEarlyAnywhere(_ example: ServerSentEventCase) {
        for end in 0...example.input.count {
            let input = Array(example.input[..<end])
            let expected = ReferenceEventStream.events(of: input)
            #expect(decodeToEnd([input]) == expected, "ended at \(end)")
            #expect(decodeToEnd(input.map { [$0] }) == expected, "ended at \(end), byte by byte")
        }
    }

    @Test("trailing bytes don't change what came before", arguments: ServerSentEventCase.table)
    func ignoresNothingBeforeTrailingBytes(_ example: ServerSentEventCase) {
        // A blank line first, so that what the case leaves open is closed.
        let trailing = Array("\n\ndata: after\n\nda".utf8)
        let expected = ReferenceEventStream.events(of: example.input + trailing)
        for chunks in [[example.input, trailing], [example.input + trailing], (example.input + trailing).map { [$0] }] {
            let events = decodeToEnd(chunks)
            #expect(events == expected)
            #expect(events?.dropLast().map(\.data) == example.events.map(\.data))
            #expect(events?.last?.data == "after")
        }
    }

    @Test func deliversAnEventWithItsBlankLineAndNotLater() throws {
        var decoder = ServerSentEventDecoder()
        #expect(try decoder.receivedBytes(Array("data: a\r\n".utf8)) == [])
        #expect(try decoder.receivedBytes(Array("\r".utf8)) == [ServerSentEvent(data: "a")])
        #expect(try decoder.receivedBytes(Array("\n".utf8)) == [])
        #expect(try decoder.connectionClosed() == [])
    }

    @Test func keepsTheHalfOfACRLFOverEmptyChunks() throws {
        var decoder = ServerSentEventDecoder()
        for chunk in ["", "data: a\r", "", "", "\ndata: b\r", "", "\n", "", "\r", "", "\n"] {
            let events = try decoder.receivedBytes(Array(chunk.utf8))
            #expect(events == (chunk == "\r" ? [ServerSentEvent(data: "a\nb")] : []))
        }
        #expect(try decoder.connectionClosed() == [])
    }

    @Test func givesNothingTwiceAtTheEnd() throws {
        var decoder = ServerSentEventDecoder()
        #expect(try decoder.receivedBytes(Array("data: a".utf8)) == [])
        #expect(try decoder.connectionClosed() == [ServerSentEvent(data: "a")])
        #expect(try decoder.connectionClosed() == [])
    }

    @Test func copiesAreIndependent() throws {
        var first = ServerSentEventDecoder()
        #expect(try first.receivedBytes(Array("data: a\nda".utf8)) == [])
        var second = first
        #expect(try first.receivedBytes(Array("ta: b\n\n".utf8)) == [ServerSentEvent(data: "a\nb")])
        #expect(try second.receivedBytes(Array("mn\n\n".utf8)) == [ServerSentEvent(data: "a")])
    }

    @Test func agreesWithTheReferenceOnGeneratedStreams() {
        let pieces: [[UInt8]] =
            [
                "\n", "\r", "\r\n", "\n\n", "data", "data:", "data: ", ":", " ", "event: x", "id: 1", "id:\0", "é😀",
                "a", "retry:1",
            ]
            .map { Array($0.utf8) } + [[0xEF], [0xBB], [0xBF], [0xEF, 0xBB, 0xBF], [0xFF], [0xF0, 0x9F]]
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
            #expect(decodeToEnd(chunks) == expected, "round \(round): \(input)")
            #expect(decodeToEnd(input.map { [$0] }) == expected, "round \(round): \(input)")
        }
    }

    private func decodeToEnd(_ chunks: [[UInt8]]) -> [ServerSentEvent]? {
        var decoder = ServerSentEventDecoder()
        var events: [ServerSentEvent] = []
        do {
            for chunk in chunks { events += try decoder.receivedBytes(chunk) }
            return events + (try decoder.connectionClosed())
        } catch {
            return nil
        }
    }
}
