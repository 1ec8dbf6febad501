@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import HTTPTypes
import Synchronization
import Testing

@testable import ChappieClient

@Suite(.timeLimit(.minutes(2))) struct AnswerBoundsTests {
    private func bounds(limit: Int = 256 << 20) -> AnswerBounds {
        AnswerBounds(
            host: "h", stage: .message, firstEvent: .seconds(10), nextEvent: .seconds(20), now: .seconds(100),
            limit: limit)
    }

    @Test func theSizeIsUsedUpToTheLastByte() throws {
        var bounds = bounds(limit: 10)
        for count in [4, 6, 0] { try bounds.received(bytes: count) }
        #expect(
            throws: ChappieTransportError(
                .bodyTooLarge, stage: .responseBody, host: "h", reason: "the answer is over 10 bytes")
        ) { try bounds.received(bytes: 1) }
        var others = self.bounds()
        #expect(throws: ChappieTransportError.self) { try others.received(bytes: .max) }
    }

    @Test func silenceIsCountedFromEventToEvent() throws {
        var bounds = bounds()
        #expect(try bounds.timeLeft(at: .seconds(101)) == .seconds(9))
        #expect(throws: ChappieTransportError.self) { try bounds.timeLeft(at: .seconds(110)) }
        bounds.receivedEvent(at: .seconds(105))
        #expect(try bounds.timeLeft(at: .seconds(110)) == .seconds(15))
        #expect(
            throws: ChappieTransportError(
                .timedOut, stage: .message, host: "h",
                reason: "no event within 20 s, though the connection is alive")
        ) { try bounds.timeLeft(at: .seconds(125)) }
    }

    // MARK: The body of an error

    private func response(_ body: HTTPBody) -> HTTPExchangeResponse {
        HTTPExchangeResponse(status: .forbidden, body: body)
    }

    /// A body that goes on after its chunks as `then` says.
    private func body(_ chunks: [[UInt8]], then: @escaping @Sendable () async throws -> [UInt8]?) -> HTTPBody {
        let left = Mutex(chunks[...])
        return HTTPBody(
            next: {
                if let chunk = left.withLock({ $0.popFirst() }) { return chunk }
                return try await then()
            }, cancel: {})
    }

    @Test func whatComesOfAnErrorsBodyCounts() async throws {
        struct Broken: Error {}
        #expect(try await response(HTTPBody(chunks: [[1, 2], [3]])).errorBody() == [1, 2, 3])
        #expect(try await response(HTTPBody(bytes: [])).errorBody() == [])
        #expect(try await response(body([[1, 2], [3]]) { throw Broken() }).errorBody() == [1, 2, 3])
        let endless = body([]) { [UInt8](repeating: 7, count: 100_000) }
        #expect(try await response(endless).errorBody().count == HTTPExchangeResponse.errorBodyLimit)
    }

    @Test func aBodyThatStallsIsLeftWhenItsTimeIsOver() async throws {
        let gate = ScriptedGate()
        let stalling = body([[1, 2], [3]]) {
            try await gate.pass()
            throw CancellationError()
        }
        let clock = ManualClock()
        async let bytes = response(
            HTTPBody(next: { try await stalling.next() }, cancel: { gate.open() })
        ).errorBody(clock: clock)
        await gate.reached()
        await clock.waitForSleepers(count: 1)
        clock.advance(by: .seconds(5))
        #expect(try await bytes == [1, 2, 3])
    }

    @Test func aCancelledTaskGetsNothing() async {
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await response(HTTPBody(bytes: [1])).errorBody()
        }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
