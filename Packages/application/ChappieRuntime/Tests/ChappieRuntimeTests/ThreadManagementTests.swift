@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Synchronization
import Testing

struct ThreadManagementTests {
    private let store = ChappieInMemoryThreadStore()

    /// Keeps a thread of one turn.
    private func keep(_ id: String, saying text: String = "words", at seconds: Double = 0) throws {
        let start = Date(timeIntervalSince1970: 1_790_000_000 + seconds)
        let message: ChappieJSON = [
            "type": "message", "role": "user", "content": [["type": "input_text", "text": .string(text)]],
        ]
        let records = [
            ChappieThreadRecord(
                position: 0, kind: .turnStarted, date: start, body: ["turn": "a", "messages": [message]]),
            ChappieThreadRecord(position: 1, kind: .turnFinished, date: start, body: ["turn": "a"]),
        ]
        try store.append(records, to: try #require(ChappieThreadSummary(id: id, records: records)), at: 0)
    }

    // MARK: With a store alone

    @Test func theLastWrittenThreadIsListedFirst() async throws {
        try keep("a", at: 0)
        try keep("b", at: 2)
        try keep("c", at: 1)
        #expect(try await store.threads().map(\.id) == ["b", "c", "a"])
        try await store.archive("b", clock: ManualClock(now: Date(timeIntervalSince1970: 1_790_000_009)))
        #expect(try await store.threads().map(\.id) == ["c", "a"])
        #expect(try await store.threads(includeArchived: true).map(\.id) == ["b", "c", "a"])
        try await store.unarchive("b")
        #expect(try await store.threads().map(\.id) == ["b", "c", "a"])
    }

    @Test func `a thread is named after the question, and not after what precedes it`() throws {
        func message(_ role: String, _ texts: String...) -> ChappieJSON {
            let parts = texts.map { ["type": "input_text", "text": .string($0)] as ChappieJSON }
            return ["type": "message", "role": .string(role), "content": .array(parts)]
        }
        func name(_ messages: ChappieJSON...) -> String? {
            let record = ChappieThreadRecord(
                position: 0, kind: .turnStarted, date: Date(timeIntervalSince1970: 0),
                body: ["messages": .array(messages)])
            return ChappieThreadSummary(id: "a", records: [record])?.name
        }
        #expect(name(message("system", "You are brief"), message("user", "What is X?")) == "What is X?")
        #expect(
            name(message("user", "<document name=\"notes.txt\">…</document>\n\n", "Who wrote this?"))
                == "Who wrote this?")
        #expect(name(message("user", "a document", " ")) == "a document")
        #expect(name(message("developer", "Begin.")) == "Begin.")
    }

    @Test func `a thread is named after the user's text in a longer message`() async throws {
        var request = ChappieResponseRequest(messages: [.user("Review this: let q = 1")])
        request.question = "let q = 1"
        let runtime = Model(.text("Good.")).client().runtime(store: store)
        _ = try await runtime.response(request)
        #expect(try await store.threads().map(\.name) == ["let q = 1"])
    }

    @Test func `a thread that was continued in two places is kept twice`() async throws {
        func thread(_ texts: String...) throws -> ChappieThread {
            let records = texts.enumerated().flatMap { index, text in
                let body: ChappieJSON = ["turn": .string(text), "items": [.string(text)]]
                return [ChappieThreadRecord.Kind.turnStarted, .turnFinished].enumerated().map { place, kind in
                    ChappieThreadRecord(
                        position: 2 * index + place, kind: kind, date: Date(timeIntervalSince1970: 1_790_000_000),
                        body: body)
                }
            }
            return try ChappieThread(id: "a", records: records)
        }
        let (here, elsewhere) = (try thread("one", "here"), try thread("one", "elsewhere"))
        #expect(try await store.update(here) == .added)
        #expect(try await store.update(elsewhere) == .copied)
        #expect(try await store.update(elsewhere) == .unchanged)
        #expect(try await store.thread("a") == elsewhere)
        let copy = try #require(try await store.threads().first { $0.id != "a" })
        #expect(copy.title == "New thread (continued here)" && copy.turnCount == 2)
    }

    @Test func `a title that was set here remains, and does not make the thread older`() async throws {
        func thread(_ turns: Int, at seconds: Double) throws -> ChappieThread {
            let records = (0..<turns).map { turn in
                ChappieThreadRecord(
                    position: turn, kind: .turnStarted, date: Date(timeIntervalSince1970: 1_790_000_000 + seconds),
                    body: ["turn": .string("\(turn)"), "messages": [.integer(turn)], "imported": true])
            }
            return try ChappieThread(id: "a", records: records)
        }
        #expect(try await store.update(try thread(1, at: 0)) == .added)
        try await store.rename("a", to: "Mine", clock: ManualClock(now: Date(timeIntervalSince1970: 1_790_000_050)))
        #expect(try await store.update(try thread(2, at: 100)) == .continued)
        let summary = try #require(try await store.summary(of: "a"))
        #expect(summary.title == "Mine" && summary.turnCount == 2)
        #expect(summary.updatedAt == Date(timeIntervalSince1970: 1_790_000_100))
        #expect(try await store.update(try thread(2, at: 100)) == .unchanged)
    }

    @Test func `the last turns of a long thread are read without the others`() async throws {
        let start = Date(timeIntervalSince1970: 1_790_000_000)
        let records = (0..<2000).map { position in
            ChappieThreadRecord(
                position: position, kind: position % 20 == 0 ? .turnStarted : .turnResumed, date: start,
                body: ["turn": .string("t\(position / 20)")])
        }
        try store.append(records, to: try #require(ChappieThreadSummary(id: "a", records: records)), at: 0)
        let thread = try await store.thread("a")
        for count in [1, 2, 7, 99, 100, 101, Int.max] {
            let end = try await store.thread("a", last: count)
            #expect(end == thread.last(count), "\(count)")
            #expect(end.turns.map(\.number) == Array((101 - min(count, 100))...100))
        }
        await #expect(throws: ChappieThreadStoreError.notFound(thread: "b")) { try await store.thread("b", last: 1) }
    }

    @Test func aTitleIsGivenAndTakenAway() async throws {
        try keep("a", saying: "about elephants")
        try await store.rename("a", to: "Big animals")
        #expect(try await store.threads().map(\.name) == ["Big animals"])
        try await store.rename("a", to: "")
        #expect(try await store.threads().map(\.name) == ["about elephants"])
        await #expect(throws: ChappieThreadStoreError.notFound(thread: "b")) { try await store.rename("b", to: "?") }
    }

    @Test func changesAtTheSameTimeAreAllKept() async throws {
        try keep("a")
        let store = store
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 { group.addTask { try await store.rename("a", to: "title \(number)") } }
            try await group.waitForAll()
        }
        let titles = try await store.thread("a").records.dropFirst(2).compactMap { $0.body["title"]?.string }
        #expect(Set(titles) == Set((0..<50).map { "title \($0)" }) && titles.count == 50)
    }

    @Test func aCopyIsKeptAndAnExportComesBack() async throws {
        try keep("a")
        let copy = try await store.fork("a", at: 1)
        #expect(copy.id != "a" && copy.turns.map(\.id) == ["a"])
        #expect(try await store.thread(copy.id) == copy)
        await #expect(throws: ChappieRuntimeError.noSuchTurn(2, of: 1)) { try await store.fork("a", at: 2) }
        let elsewhere = ChappieInMemoryThreadStore()
        try await elsewhere.import(copy)
        #expect(try await elsewhere.thread(copy.id) == copy)
        await #expect(throws: ChappieThreadStoreError.conflict(thread: copy.id, expected: 0, actual: 3)) {
            try await elsewhere.import(copy)
        }
    }

    /// A session that was imported in the middle of a turn, and again later.
    @Test func `an update that fails leaves the existing thread`() async throws {
        let start = Date(timeIntervalSince1970: 1_790_000_000)
        func thread(_ items: [ChappieJSON]) throws -> ChappieThread {
            try ChappieThread(
                id: "a",
                records: [
                    ChappieThreadRecord(position: 0, kind: .turnStarted, date: start, body: ["turn": "a"]),
                    ChappieThreadRecord(
                        position: 1, kind: .turnFinished, date: start, body: ["turn": "a", "items": .array(items)]),
                ])
        }
        let (earlier, later) = (try thread([1]), try thread([1, 2]))
        let faulty = FaultyStore(failingAt: nil)
        #expect(try await faulty.update(earlier) == .added)
        await #expect(throws: ChappieThreadStoreError.self) { try await faulty.update(later) }
        #expect(try await faulty.thread("a") == earlier)
        #expect(try await store.update(earlier) == .added)
        #expect(try await store.update(later) == .continued)
        #expect(try await store.thread("a") == later)
        // A store of redacted threads redacts the replacement, too.
        let redacting = ChappieRedactingThreadStore(wrapping: store) { _ in "‹gone›" }
        let summary = ChappieThreadSummary(id: "a", createdAt: start)
        let words: ChappieJSON = ["turn": "a", "error": "words"]
        let record = ChappieThreadRecord(position: 0, kind: .turnFailed, date: start, body: words)
        try await redacting.replace([record], of: summary, expecting: 2)
        #expect(try await store.thread("a").records.map { $0.body["error"]?.string } == ["‹gone›"])
    }

    /// A store may have to look everywhere for a thread that it lacks: many new threads would cost their number squared.
    @Test func aNewThreadIsAddedWithoutASearchForIt() async throws {
        try keep("a")
        let calls = CallsOfStore()
        for id in ["b", "c"] {
            let thread = try ChappieThread(id: id, records: store.records(of: "a", from: 0))
            #expect(try await calls.update(thread) == .added)
        }
        #expect(calls.names.withLock(\.self) == ["append", "append"])
    }

    // MARK: While a turn runs

    @Test func aToolMayCareForThreadsInItsOwnTurn() async throws {
        for id in ["a", "b", "c"] { try keep(id) }
        let model = Model(.calls([("tidy", "{}")]), .text("It is tidy."), .text("Again."))
        let working = Mutex<ChappieRuntime?>(nil)
        let tool = ChappieHostTool(name: "tidy", description: "Tidies up.", timeout: .seconds(10)) { _ in
            guard let runtime = working.withLock(\.self), let own = await runtime.currentThread?.id else { return "?" }
            try await runtime.renameThread("a", to: "Big animals")
            try await runtime.archiveThread("b")
            try await runtime.deleteThread("c")
            try await runtime.renameThread(own, to: "Tidying")
            return ChappieToolResult(
                output: try await runtime.listThreads().map(\.name).sorted().joined(separator: ", "))
        }
        let runtime = model.client(tools: [tool]).runtime(store: store)
        working.withLock { $0 = runtime }
        #expect(try await runtime.send("Tidy up.") == "It is tidy.")
        working.withLock { $0 = nil }
        let thread = try #require(await runtime.currentThread)
        #expect(thread.turns.first?.toolCalls.map(\.result?.output) == ["Big animals, Tidying"])
        #expect(thread.summary.title == "Tidying" && thread.turns.map(\.status) == [.finished])
        #expect(try await store.thread(thread.id) == thread)
        #expect(try await runtime.send("Once more.") == "Again.")
    }

    @Test(.timeLimit(.minutes(1))) func anotherThreadWaitsForNoTurn() async throws {
        try keep("a")
        try keep("b")
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "late"))
        let runtime = model.client().runtime(store: store)
        let asking = Task { try await runtime.send("question") }
        await gate.reached()
        try await runtime.renameThread("a", to: "Renamed")
        try await runtime.deleteThread("b")
        let own = try #require(await runtime.currentThread?.id)
        try await runtime.archiveThread(own)
        #expect(try await runtime.listThreads().map(\.name) == ["Renamed"])
        // The open one goes after its turn.
        let deleting = Task { try await runtime.deleteThread(own) }
        gate.open()
        #expect(try await asking.value == "late")
        try await deleting.value
        #expect(try await runtime.listThreads(includeArchived: true).map(\.id) == ["a"])
    }

    @Test(.timeLimit(.minutes(1))) func `a thread that is opened while it is renamed has the name once`() async throws {
        try keep("a")
        let slow = SlowStore(store)
        let runtime = Model(.text("The answer.")).client().runtime(store: slow)
        try await runtime.openThread("a")
        let renaming = Task { try await runtime.renameThread("a", to: "Renamed") }
        await slow.kept.reached()
        try await runtime.openThread("a")
        slow.kept.open()
        try await renaming.value
        #expect(try await runtime.currentThread == store.thread("a"))
        #expect(try await runtime.send("question") == "The answer.")
        #expect(try await runtime.currentThread == store.thread("a"))
    }
}

/// Keeps records at once, and says so when its gate is open.
private struct SlowStore: ChappieThreadStore {
    private let store: ChappieInMemoryThreadStore
    let kept = ScriptedGate()

    init(_ store: ChappieInMemoryThreadStore) { self.store = store }

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        try store.append(records, to: thread, at: position)
        try? await kept.pass()
    }
    func summaries() -> [ChappieThreadSummary] { store.summaries() }
    func records(of thread: String, from position: Int) throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        try store.records(of: thread, from: position)
    }
    func delete(_ thread: String) { store.delete(thread) }
}

/// Passes on, and notes the calls.
private final class CallsOfStore: ChappieThreadStore {
    let names = Mutex<[String]>([])
    private let store = ChappieInMemoryThreadStore()

    private func note(_ name: String) { names.withLock { $0.append(name) } }

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) throws(ChappieThreadStoreError) {
        note("append")
        try store.append(records, to: thread, at: position)
    }
    func summaries() -> [ChappieThreadSummary] {
        note("summaries")
        return store.summaries()
    }
    func records(of thread: String, from position: Int) throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        note("records")
        return try store.records(of: thread, from: position)
    }
    func delete(_ thread: String) {
        note("delete")
        store.delete(thread)
    }
}
