import ChappieClient
import ChappieCore
import ChappieRuntime
import ChappieTesting
import Testing

/// An observer receives what is added to a thread.
@Suite struct ThreadObservingTests {
    private let store = ChappieInMemoryThreadStore()
    private let observer = RecordingObserver()

    private func runtime(_ model: Model) -> ChappieRuntime {
        ChappieRuntime(client: model.client(), store: store, observer: observer)
    }

    @Test func `each addition is reported with its store and its size`() async throws {
        #expect(try await runtime(Model(.text("answer"))).send("question") == "answer")
        let sizes = observer.operations.compactMap { operation in
            if case .threadAppend(.memory, let byteCount) = operation { byteCount } else { nil }
        }
        #expect(sizes.count == 2 && sizes.allSatisfy { $0 > 20 && $0 < 4000 }, "\(observer.operations)")
        #expect(observer.endedCount == 2 && observer.failures.isEmpty)
    }

    @Test func `a conflict with another process is reported, and the addition has failed`() async throws {
        let first = runtime(Model(.text("one"), .text("two")))
        _ = try await first.send("question")
        let id = try #require(await first.currentThread?.id)
        let second = Model(.text("other")).client().runtime(store: store)
        try await second.openThread(id)
        _ = try await second.send("in between")
        _ = try await first.send("again")
        #expect(observer.facts.filter { $0 == .threadConflict(.memory) }.count == 1)
        #expect(observer.failures.count == 1)
    }

    @Test func `a store of the program is another one, and one that wraps a store is of its kind`() {
        let redacting = ChappieRedactingThreadStore(wrapping: store) { $0 }
        #expect(redacting.kind == .memory)
    }
}
