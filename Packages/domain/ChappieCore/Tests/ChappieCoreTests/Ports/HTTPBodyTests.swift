@_spi(ChappieInternals) import ChappieCore
import Synchronization
import Testing

@Suite struct HTTPBodyTests {
    /// Counts what a source is asked for.
    private final class Source: Sendable {
        private let state: Mutex<(chunks: [[UInt8]], reads: Int, cancels: Int)>

        init(_ chunks: [[UInt8]]) { state = Mutex((chunks, 0, 0)) }

        var reads: Int { state.withLock { $0.reads } }
        var cancels: Int { state.withLock { $0.cancels } }

        func body() -> HTTPBody {
            HTTPBody(
                next: {
                    self.state.withLock {
                        $0.reads += 1
                        return $0.chunks.isEmpty ? nil : $0.chunks.removeFirst()
                    }
                },
                cancel: { self.state.withLock { $0.cancels += 1 } })
        }
    }

    private struct Broken: Error {}

    @Test func givesItsChunksInOrderWhateverCopyAsks() async throws {
        let body = HTTPBody(chunks: [[1, 2], [], [3]])
        let copy = body
        #expect(try await body.next() == [1, 2])
        #expect(try await copy.next() == [3])
        #expect(try await body.next() == nil)
        #expect(try await HTTPBody(bytes: []).next() == nil)
    }

    @Test func readsNothingBeforeItIsAsked() async throws {
        let source = Source([[1], [2]])
        let body = source.body()
        #expect(source.reads == 0)
        #expect(try await body.next() == [1])
        #expect(source.reads == 1)
        body.cancel()
        #expect(source.cancels == 1)
    }

    @Test func `a cancelled reader gets nothing of what has arrived, and the transfer ends`() async throws {
        let source = Source([[1], [2]])
        let body = source.body()
        let reader = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await body.next()
        }
        await #expect(throws: CancellationError.self) { try await reader.value }
        #expect(source.reads == 0 && source.cancels == 1)
    }

    @Test func lettingGoOfTheLastCopyCancels() async throws {
        let source = Source([[1], [2]])
        func readOne() async throws {
            let body = source.body()
            let copy = body
            #expect(try await copy.next() == [1])
            #expect(source.cancels == 0)
        }
        try await readOne()
        #expect(source.cancels == 1)
    }

    @Test func leavingALoopCancels() async throws {
        let source = Source([[1], [2], [3]])
        for try await chunk in source.body() where chunk == [2] { break }
        #expect(source.reads == 2 && source.cancels >= 1)
    }

    @Test("collects up to its limit", arguments: [[[1, 2, 3]], [[1], [2], [3]], [[1, 2], [3]]] as [[[UInt8]]])
    func collectsUpToItsLimit(_ chunks: [[UInt8]]) async throws {
        #expect(try await HTTPBody(chunks: chunks).collect(upTo: 3) == [1, 2, 3])
        #expect(try await HTTPBody(chunks: chunks).collect(upTo: .max) == [1, 2, 3])
        let source = Source(chunks)
        let body = source.body()
        let error = await #expect(throws: ChappieTransportError.self) {
            try await body.collect(upTo: 2, host: "example.org")
        }
        #expect(error?.code == .bodyTooLarge)
        #expect(error?.stage == .responseBody)
        #expect(error?.host == "example.org")
        #expect(source.cancels == 1)
        #expect(try await HTTPBody(bytes: []).collect(upTo: 0) == [])
    }

    @Test func passesTheErrorOfItsSourceOn() async {
        let body = HTTPBody(next: { throw Broken() }, cancel: {})
        await #expect(throws: Broken.self) { try await body.next() }
        await #expect(throws: Broken.self) { try await body.collect(upTo: 10) }
    }

    @Test func whatComesOfAnErrorsBodyCounts() async throws {
        #expect(try await HTTPBody(chunks: [[1, 2], [3]]).beginning() == [1, 2, 3])
        #expect(try await HTTPBody(chunks: [[1, 2], [3]]).beginning(upTo: 2) == [1, 2])
        #expect(try await HTTPBody(next: { throw Broken() }, cancel: {}).beginning() == [])
        #expect(try await HTTPBody(next: { [7, 7] }, cancel: {}).beginning(upTo: 999).count == 999)
        let end = Promise<[UInt8]?>()
        let stalled = HTTPBody(
            next: { try await end.value() }, cancel: { end.fulfil(.failure(CancellationError())) })
        #expect(try await stalled.beginning(within: .milliseconds(10)) == [])
        let cancelled = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await HTTPBody(bytes: [1]).beginning()
        }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
    }
}
