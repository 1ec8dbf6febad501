import ChappieCore
import Synchronization
import Testing

@testable import ChappieClient

@Suite(.timeLimit(.minutes(5))) struct ErrorBodyTests {
    private struct Broken: Error {}

    @Test func aWholeBodyIsRead() async throws {
        #expect(try await ErrorBody.bytes(of: HTTPBody(chunks: [[1, 2], [3]])) == [1, 2, 3])
        #expect(try await ErrorBody.bytes(of: HTTPBody(bytes: [])) == [])
    }

    @Test func whatCameBeforeABreakCounts() async throws {
        let chunks = Mutex<[[UInt8]]>([[1, 2], [3]])
        let body = HTTPBody(
            next: {
                guard let chunk = chunks.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) else { throw Broken() }
                return chunk
            }, cancel: {})
        #expect(try await ErrorBody.bytes(of: body) == [1, 2, 3])
    }

    @Test func whatCameBeforeAStallCounts() async throws {
        let chunks = Mutex<[[UInt8]]>([[1, 2], [3]])
        let (cancellation, continuation) = AsyncStream<Void>.makeStream()
        let body = HTTPBody(
            next: {
                if let chunk = chunks.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { return chunk }
                for await _ in cancellation {}
                throw CancellationError()
            }, cancel: { continuation.finish() })
        #expect(try await ErrorBody.bytes(of: body, within: .milliseconds(10)) == [1, 2, 3])
    }

    @Test func aBodyWithoutAnEndIsLeftAtTheLimit() async throws {
        let body = HTTPBody(next: { [UInt8](repeating: 7, count: 100_000) }, cancel: {})
        #expect(try await ErrorBody.bytes(of: body).count == ErrorBody.limit)
    }

    @Test func aCancelledTaskGetsNothing() async {
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await ErrorBody.bytes(of: HTTPBody(bytes: [1]))
        }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
