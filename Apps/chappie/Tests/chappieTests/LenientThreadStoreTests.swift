import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import ChappieSDK
import FoundationEssentials
import Synchronization
import Testing

@testable import chappie

/// Takes records until the disk is full.
private final class LimitedStore: ChappieThreadStore {
    let store = ChappieInMemoryThreadStore()
    let isFull = Mutex(false)

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) throws(ChappieThreadStoreError) {
        if isFull.withLock({ $0 }) { throw .full(bytes: 2, limit: 1) }
        try store.append(records, to: thread, at: position)
    }
    func summaries() -> [ChappieThreadSummary] { store.summaries() }
    func records(of thread: String, from position: Int) throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        try store.records(of: thread, from: position)
    }
    func delete(_ thread: String) { store.delete(thread) }
}

@Suite struct LenientThreadStoreTests {
    private let limited = LimitedStore()

    private func append(
        _ kind: ChappieThreadRecord.Kind, to thread: String, at position: Int, turn: String = "t",
        in store: LenientThreadStore
    ) async throws {
        let record = ChappieThreadRecord(
            position: position, kind: kind, date: Date(timeIntervalSince1970: 0), body: ["turn": .string(turn)])
        let summary = ChappieThreadSummary(id: thread, createdAt: record.date)
        try await store.append([record], to: summary, at: position)
    }

    @Test func `a thread that cannot be stored continues without being stored`() async throws {
        let store = LenientThreadStore(limited)
        try await append(.turnStarted, to: "one", at: 0, in: store)
        #expect(store.keeps("one") && store.news(of: "one") == nil)
        limited.isFull.withLock { $0 = true }
        try await append(.turnFinished, to: "one", at: 1, in: store)
        #expect(!store.keeps("one") && store.news(of: "one") == .full(bytes: 2, limit: 1))
        #expect(store.news(of: "one") == nil)
        #expect(try await store.records(of: "one", from: 2).isEmpty)
        limited.isFull.withLock { $0 = false }
        // Records with a gap before them would be no thread.
        try await append(.turnFinished, to: "one", at: 2, in: store)
        #expect(try limited.records(of: "one", from: 0).count == 1)
        try await append(.turnStarted, to: "two", at: 0, in: store)
        #expect(store.keeps("two") && limited.summaries().count == 2)
    }

    @Test func `the next turn stores what was refused`() async throws {
        let store = LenientThreadStore(limited)
        try await append(.turnStarted, to: "one", at: 0, in: store)
        let keeping = AnswerKeeping(thread: "one", store: store)
        limited.isFull.withLock { $0 = true }
        try await append(.turnFinished, to: "one", at: 1, in: store)
        try await append(.turnStarted, to: "one", at: 2, turn: "u", in: store)
        #expect(keeping.news()?.kind.rawValue == "not_kept")
        limited.isFull.withLock { $0 = false }
        try await append(.turnFinished, to: "one", at: 3, turn: "u", in: store)
        #expect(!store.keeps("one"))
        try await append(.turnStarted, to: "one", at: 4, turn: "v", in: store)
        #expect(store.keeps("one") && keeping.keptThread == "one")
        #expect(keeping.news()?.kind.rawValue == "kept_again" && keeping.news() == nil)
        #expect(try limited.records(of: "one", from: 0).map(\.position) == [0, 1, 2, 3, 4])
        try await append(.toolsStarted, to: "one", at: 5, turn: "v", in: store)
        #expect(try await store.records(of: "one", from: 0).count == 6)
    }

    @Test func `a thread that another program has changed is not stored again`() async throws {
        let store = LenientThreadStore(limited)
        try await append(.turnStarted, to: "one", at: 0, in: store)
        limited.isFull.withLock { $0 = true }
        try await append(.turnFinished, to: "one", at: 1, in: store)
        limited.isFull.withLock { $0 = false }
        try await append(.turnFinished, to: "one", at: 1, in: LenientThreadStore(limited))
        try await append(.turnStarted, to: "one", at: 2, turn: "u", in: store)
        try await append(.turnStarted, to: "one", at: 3, turn: "v", in: store)
        #expect(try !store.keeps("one") && limited.records(of: "one", from: 0).count == 2)
    }

    @Test func `no tool runs in a stored turn that cannot record the tool call`() async throws {
        let store = LenientThreadStore(limited)
        try await append(.turnStarted, to: "one", at: 0, in: store)
        limited.isFull.withLock { $0 = true }
        for kind in [ChappieThreadRecord.Kind.toolsCalled, .toolsStarted] {
            await #expect(throws: ChappieThreadStoreError.full(bytes: 2, limit: 1)) {
                try await append(kind, to: "one", at: 1, in: store)
            }
        }
        // A turn of which nothing is kept can't be gone on with.
        try await append(.turnStarted, to: "two", at: 0, in: store)
        try await append(.toolsCalled, to: "two", at: 1, in: store)
        #expect(!store.keeps("two"))
    }

    @Test(arguments: [ChappieThreadRecord.Kind.turnStarted, .turnResumed])
    func `after a refusal, no tool runs in a turn whose beginning is stored`(beginning: ChappieThreadRecord.Kind)
        async throws
    {
        let store = LenientThreadStore(limited)
        try await append(beginning, to: "one", at: 0, in: store)
        try await append(.toolsStarted, to: "one", at: 1, in: store)
        limited.isFull.withLock { $0 = true }
        try await append(.toolFinished, to: "one", at: 2, in: store)
        #expect(!store.keeps("one"))
        for kind in [ChappieThreadRecord.Kind.toolsCalled, .toolsStarted] {
            await #expect(throws: ChappieThreadStoreError.full(bytes: 2, limit: 1)) {
                try await append(kind, to: "one", at: 3, in: store)
            }
        }
        // Nothing of the next turn is kept, so that no one resumes it.
        try await append(.turnStarted, to: "one", at: 3, turn: "next", in: store)
        try await append(.toolsCalled, to: "one", at: 4, turn: "next", in: store)
        #expect(try limited.records(of: "one", from: 0).count == 2)
    }

    @Test func `a conflict with another program's record doesn't stop the storing`() async throws {
        let store = LenientThreadStore(limited)
        try await append(.turnStarted, to: "one", at: 0, in: store)
        await #expect(throws: ChappieThreadStoreError.conflict(thread: "one", expected: 0, actual: 1)) {
            try await append(.turnStarted, to: "one", at: 0, in: store)
        }
        #expect(store.keeps("one"))
    }

    @Test(arguments: [false, true]) func theUserIsToldOnce(asJSON: Bool) async throws {
        let store = LenientThreadStore(limited)
        limited.isFull.withLock { $0 = true }
        let recorder = Recorder()
        let console = recorder.console()
        for position in 0..<2 {
            try await append(.turnStarted, to: "one", at: position, in: store)
            var printer = AnswerPrinter(console, try GlobalOptions.parse(asJSON ? ["--json"] : []))
            printer.keeping = AnswerKeeping(thread: "one", store: store)
            try await printer.print(
                AsyncThrowingStream { stream in
                    stream.yield(.textDelta("Hi"))
                    stream.yield(.completed(ChappieResponse(id: "r", status: .completed)))
                    stream.finish()
                })
        }
        try await console.drained()
        #expect(
            recorder.text(of: .error) == """
                chappie: this conversation is not kept. The threads would take 2 bytes of the 1 they may have. Delete \
                threads that are not needed, or raise the limit (CHAPPIE_THREADS_LIMIT). Nothing was lost. \
                (Use --ephemeral if you want that.)

                """)
        let output = recorder.text(of: .output)
        guard asJSON else {
            #expect(output == "Hi\nHi\n")
            return
        }
        let lines = try output.split(separator: "\n").map { try ChappieJSON(parsing: String($0)) }
        #expect(
            lines.map { $0["type"]?.string } == ["text_delta", "notice", "completed", "text_delta", "completed"])
        #expect(lines[1]["kind"] == "not_kept" && lines.allSatisfy { $0["thread"] == nil })
    }
}
