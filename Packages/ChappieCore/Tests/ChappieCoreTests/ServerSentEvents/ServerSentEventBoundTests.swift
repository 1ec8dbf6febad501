@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

/// The limit holds the same line in every chunking: exactly at it passes, one byte past it fails and stays failed.
@Suite struct ServerSentEventBoundTests {
    static let limit = 24
    static let tooLarge = ServerSentEventError.eventTooLarge(limitBytes: limit)

    struct Bound: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The stream whose decisive part is `count` bytes long.
        let input: @Sendable (_ count: Int) -> String
        /// The largest count that passes.
        let largest: Int
        let events: Int
    }

    private static func run(_ count: Int) -> String { String(repeating: "x", count: count) }

    static let bounds: [Bound] = [
        .init(testDescription: "one line of data", input: { "data: \(run($0))\n\n" }, largest: limit, events: 1),
        .init(testDescription: "one line without its end", input: { "data: \(run($0))" }, largest: limit, events: 1),
        .init(testDescription: "data without a space", input: { "data:\(run($0))\n\n" }, largest: limit, events: 1),
        .init(
            testDescription: "many lines of data, line feeds counted",
            input: { "data: aaaa\ndata: bbbb\ndata: cccc\ndata: \(run($0))\n\n" }, largest: limit - 15, events: 1),
        .init(
            testDescription: "many empty lines of data",
            input: { String(repeating: "data\n", count: $0) + "\n" }, largest: limit + 1, events: 1),
        .init(
            testDescription: "a type", input: { "event: \(run($0))\ndata: a\n\n" }, largest: limit, events: 1),
        .init(testDescription: "an id", input: { "id: \(run($0))\ndata: a\n\n" }, largest: limit, events: 1),
        .init(testDescription: "a comment", input: { ":\(run($0))\n\n" }, largest: limit + 7, events: 0),
        .init(testDescription: "a comment without an end", input: { ":\(run($0))" }, largest: limit + 7, events: 0),
        .init(testDescription: "an unknown field", input: { "x: \(run($0))\n\n" }, largest: limit + 5, events: 0),
        .init(testDescription: "a name without a colon", input: { "\(run($0))\n\n" }, largest: limit + 8, events: 0),
    ]

    @Test("passes exactly at the limit", arguments: bounds)
    func passesAtTheLimit(_ bound: Bound) {
        Chunking.forEach(Array(bound.input(bound.largest).utf8)) { chunks, label in
            #expect(decode(chunks).map(\.count) == .success(bound.events), "\(label)")
        }
    }

    @Test("fails one past the limit", arguments: bounds)
    func failsPastTheLimit(_ bound: Bound) {
        Chunking.forEach(Array(bound.input(bound.largest + 1).utf8)) { chunks, label in
            #expect(decode(chunks) == .failure(Self.tooLarge), "\(label)")
        }
    }

    @Test("an event before the failure is delivered first, in any chunking", arguments: bounds)
    func deliversWhatCameWhole(_ bound: Bound) throws {
        Chunking.forEach(Array(("data: first\n\n" + bound.input(bound.largest + 1)).utf8)) { chunks, label in
            var decoder = ServerSentEventDecoder(maximumEventBytes: Self.limit)
            var events: [ServerSentEvent] = []
            var failures = 0
            for chunk in chunks {
                do { events += try decoder.receivedBytes(chunk) } catch { failures += 1 }
            }
            do { events += try decoder.connectionClosed() } catch { failures += 1 }
            #expect(events == [ServerSentEvent(data: "first")], "\(label)")
            #expect(failures > 0, "\(label)")
        }
    }

    @Test func failsAgainOnEveryLaterCall() {
        var decoder = ServerSentEventDecoder(maximumEventBytes: Self.limit)
        let long = Array("data: \(Self.run(100))\n\n".utf8)
        #expect(throws: Self.tooLarge) { try decoder.receivedBytes(long) }
        #expect(throws: Self.tooLarge) { try decoder.receivedBytes(Array("data: a\n\n".utf8)) }
        #expect(throws: Self.tooLarge) { try decoder.receivedBytes([]) }
        #expect(throws: Self.tooLarge) { try decoder.connectionClosed() }
        #expect(throws: Self.tooLarge) { try decoder.connectionClosed() }
    }

    @Test func failsBeforeTheLineHasEnded() {
        var decoder = ServerSentEventDecoder(maximumEventBytes: Self.limit)
        #expect(throws: Self.tooLarge) {
            for byte in Array("data: \(Self.run(1000))".utf8).prefix(Self.limit + 9) {
                _ = try decoder.receivedBytes([byte])
            }
        }
    }

    @Test func manySmallEventsAreNoLargeOne() throws {
        var decoder = ServerSentEventDecoder(maximumEventBytes: Self.limit)
        let events = try decoder.receivedBytes(Array(String(repeating: "data: 0123456789\n\n", count: 1000).utf8))
        #expect(events.count == 1000)
    }

    @Test func theDefaultIs64MiB() {
        #expect(ServerSentEventDecoder.defaultMaximumEventBytes == 64 * 1024 * 1024)
    }

    @Test func aLimitBelowOneIsOne() throws {
        for limit in [0, -1, Int.min] {
            var decoder = ServerSentEventDecoder(maximumEventBytes: limit)
            #expect(try decoder.receivedBytes(Array("data: a\n\n".utf8)) == [ServerSentEvent(data: "a")])
            #expect(throws: ServerSentEventError.eventTooLarge(limitBytes: 1)) {
                try decoder.receivedBytes(Array("data: ab\n\n".utf8))
            }
        }
    }

    @Test func theLargestLimitDoesNotOverflow() throws {
        var decoder = ServerSentEventDecoder(maximumEventBytes: .max)
        var events: [ServerSentEvent] = []
        for byte in Array("data: a\ndata: b\n\n".utf8) { events += try decoder.receivedBytes([byte]) }
        #expect(events == [ServerSentEvent(data: "a\nb")])
    }

    @Test func saysTheLimit() {
        #expect(Self.tooLarge.errorDescription?.contains("24 bytes") == true)
    }

    private func decode(_ chunks: [[UInt8]]) -> Result<[ServerSentEvent], ServerSentEventError> {
        var decoder = ServerSentEventDecoder(maximumEventBytes: Self.limit)
        var events: [ServerSentEvent] = []
        do throws(ServerSentEventError) {
            for chunk in chunks { events += try decoder.receivedBytes(chunk) }
            return .success(events + (try decoder.connectionClosed()))
        } catch {
            return .failure(error)
        }
    }
}
