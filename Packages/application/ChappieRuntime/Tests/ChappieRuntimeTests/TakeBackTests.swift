import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Testing

/// Turns that are taken back, and attempts that replace an answer.
@Suite(.timeLimit(.minutes(1))) struct TakeBackTests {
    private let store = ChappieInMemoryThreadStore()
    private let look = ChappieHostTool(name: "look", description: "Looks.") { _ in "seen" }

    /// The thread, read again as another process does it.
    private func read(_ runtime: ChappieRuntime) async throws -> ChappieThread {
        let current = try #require(await runtime.currentThread)
        let kept = try ChappieThread(id: current.id, records: store.records(of: current.id, from: 0))
        #expect(kept == current)
        #expect(store.summaries().first { $0.id == kept.id } == kept.summary)
        #expect(try ChappieThread(json: kept.json) == kept)
        return kept
    }

    private func isFound(_ word: String) async throws -> Bool {
        try await !store.search(ChappieThreadQuery(word)).isEmpty
    }

    private func runtime(_ answers: Model.Answer..., asking questions: [String]) async throws -> (
        ChappieRuntime, Model
    ) {
        let model = Model(answers)
        let runtime = model.client(tools: [look]).runtime(store: store)
        for question in questions { try await runtime.send(question) }
        return (runtime, model)
    }

    @discardableResult
    private func retry(_ runtime: ChappieRuntime) async throws -> ChappieResponse {
        let messages = try #require(await runtime.currentThread?.turns.last?.messages)
        let request = ChappieResponseRequest(messages: messages)
        return try await runtime.startRetry(request, endsWithItsStream: false).response()
    }

    // MARK: Taking back

    @Test func `a turn that was taken back is in no conversation, list or search, and its records stay`() async throws {
        let (runtime, model) = try await runtime(
            .text("one"), .calls([("look", "{}")]), .text("two"), .text("three"), asking: ["first", "second"])
        let before = try await read(runtime)
        try await runtime.renameThread(before.id, to: "Numbers")
        let taken = try #require(try await runtime.takeBackLastTurn())
        #expect(taken.outputText == "two" && taken.toolCalls.count == 1)
        let thread = try await read(runtime)
        #expect(thread.turns.map(\.outputText) == ["one"] && thread.summary.turnCount == 1)
        #expect(thread.summary.name == "Numbers" && thread.records.starts(with: before.records))
        for word in ["second", "look", "two"] { #expect(try await !isFound(word), "\(word)") }
        #expect(try await isFound("first"))
        try await runtime.send("third")
        #expect(Model.words(model.inputs[3]) == ["first", "one", "third"])
        let later = try await read(runtime)
        #expect(later.turns.map(\.number) == [1, 2] && later.last(1).turns.map(\.outputText) == ["three"])
        let fork = try await store.fork(later.id)
        #expect(fork.turns.map(\.outputText) == ["one", "three"])
        #expect(!fork.records.contains { $0.kind == .turnTakenBack || $0.searchableText == "second" })
    }

    @Test func `all turns are taken back, one after another`() async throws {
        let (runtime, _) = try await runtime(.text("one"), .failure(400), .text("two"), asking: ["first"])
        await #expect(throws: (any Error).self) { try await runtime.send("refused") }
        try await runtime.send("second")
        #expect(try await runtime.takeBackLastTurn()?.outputText == "two")
        // A turn that failed is not part of the conversation.
        #expect(try await runtime.takeBackLastTurn()?.outputText == "one")
        #expect(try await runtime.takeBackLastTurn() == nil)
        let thread = try await read(runtime)
        #expect(thread.turns.isEmpty && thread.context.items.isEmpty && thread.context.model == "")
        #expect(thread.summary.turnCount == 0 && thread.summary.name == "New thread")
    }

    @Test func `the conversation before the turn has no compaction that was made after it`() async throws {
        let (runtime, model) = try await runtime(
            .text("one"), .compaction, .text("two"), .compaction, .text("three"), asking: ["first"])
        try await runtime.compact()
        try await runtime.send("second")
        try await runtime.compact()
        try await runtime.takeBackLastTurn()
        try await runtime.send("third")
        #expect(Model.words(model.inputs[4]) == ["first", "compacted", "third"])
        _ = try await read(runtime)
    }

    @Test func `a turn is taken back after the records of another process`() async throws {
        let (runtime, model) = try await runtime(.text("one"), .text("two"), asking: ["first"])
        let id = try await read(runtime).id
        let other = model.client().runtime(store: store)
        try await other.openThread(id)
        try await other.send("second")
        #expect(try await runtime.takeBackLastTurn()?.outputText == "two")
        #expect(try await read(runtime).turns.map(\.outputText) == ["one"])
    }

    @Test func `records without some that are lost still take back the right turn`() async throws {
        let (runtime, _) = try await runtime(.text("one"), .text("two"), asking: ["first", "second"])
        try await runtime.takeBackLastTurn()
        let records = try await read(runtime).records.filter { $0.position != 1 }
        let thread = try ChappieThread(id: "salvaged", records: records.renumbered)
        #expect(thread.turns.map(\.messages.first?.text) == ["first"])
    }

    @Test func `a record takes back only earlier records`() throws {
        let record = ChappieThreadRecord(
            position: 2, kind: .turnTakenBack, date: Date(timeIntervalSince1970: 0),
            body: ["turn": "t", "records": [-1, 0, 1, 2, 4_294_967_296, "1"]])
        #expect(record.positionsTakenBack == [0, 1])
    }

    // MARK: Another attempt

    @Test func `a new answer replaces the earlier one, which the model does not see`() async throws {
        let (runtime, model) = try await runtime(
            .text("one"), .text("two"), .text("better"), .text("three"), asking: ["first", "second"])
        #expect(try await retry(runtime).outputText == "better")
        #expect(Model.words(model.inputs[2]) == ["first", "one", "second"])
        let thread = try await read(runtime)
        #expect(thread.turns.map(\.outputText) == ["one", "better"] && thread.summary.turnCount == 2)
        #expect(try await !isFound("two"))
        #expect(try await isFound("second"))
        try await runtime.send("third")
        #expect(Model.words(model.inputs[3]) == ["first", "one", "second", "better", "third"])
    }

    @Test func `an attempt that fails or is interrupted leaves the earlier answer`() async throws {
        let gate = ScriptedGate()
        let (runtime, model) = try await runtime(
            .text("one"), .failure(400), .half("half an ans", gate), .text("two"), .text("better"), asking: ["first"])
        await #expect(throws: (any Error).self) { try await retry(runtime) }
        let attempt = Task { try await retry(runtime) }
        await gate.reached()
        await runtime.interrupt()
        #expect(try await attempt.value.isInterrupted)
        let thread = try await read(runtime)
        #expect(thread.turns.map(\.isPartOfConversation) == [true, false, false] && thread.resumableTurn == nil)
        try await runtime.send("second")
        #expect(Model.words(model.inputs[3]) == ["first", "one", "second"])
        _ = try await read(runtime)
        gate.open()
    }

    @Test func `the earlier attempts are taken back with the answer`() async throws {
        let (runtime, model) = try await runtime(.text("one"), .failure(400), .text("better"), asking: ["first"])
        await #expect(throws: (any Error).self) { try await retry(runtime) }
        #expect(try await retry(runtime).outputText == "better")
        #expect(Model.words(model.inputs[2]) == ["first"])
        let thread = try await read(runtime)
        #expect(thread.turns.map(\.outputText) == ["better"] && thread.summary.turnCount == 1)
    }

    @Test func `another process continues from the earlier answer while an attempt runs`() async throws {
        let gate = ScriptedGate()
        let (runtime, model) = try await runtime(
            .text("one"), .waiting(gate, "better"), .text("two"), asking: ["first"])
        let attempt = Task { try await retry(runtime) }
        await gate.reached()
        let other = model.client().runtime(store: store)
        let thread = try await other.openThread(try #require(await runtime.currentThread?.id))
        #expect(thread.resumableTurn == nil && thread.turns.map(\.status) == [.finished, .running])
        try await other.send("second")
        #expect(Model.words(model.inputs[2]) == ["first", "one", "second"])
        gate.open()
        #expect(try await attempt.value.outputText == "better")
        #expect(try await read(runtime).turns.map(\.outputText) == ["better", "two"])
    }

    @Test func `an attempt that called tools replaces the answer even if it fails`() async throws {
        let (runtime, model) = try await runtime(
            .text("one"), .calls([("look", "{}")]), .failure(400), .text("two"), asking: ["first"])
        await #expect(throws: (any Error).self) { try await retry(runtime) }
        let thread = try await read(runtime)
        #expect(thread.turns.map(\.status) == [.failed] && thread.resumableTurn != nil)
        // The model must know of the calls, so that no further attempt replaces them.
        try await retry(runtime)
        #expect(Model.words(model.inputs[3]) == ["first", "call look", "output seen", "first"])
        _ = try await read(runtime)
    }

    @Test func `a question that failed without an answer is asked again in the same conversation`() async throws {
        let (runtime, model) = try await runtime(.text("one"), .failure(400), .text("two"), asking: ["first"])
        await #expect(throws: (any Error).self) { try await runtime.send("second") }
        try await retry(runtime)
        #expect(Model.words(model.inputs[2]) == ["first", "one", "second"])
        #expect(try await read(runtime).turns.map(\.outputText) == ["one", "", "two"])
    }

    @Test func `a compaction of an attempt counts with the attempt`() throws {
        func answer(_ text: String) -> ChappieJSON {
            ["type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(text)]]]
        }
        let bodies: [(ChappieThreadRecord.Kind, ChappieJSON)] = [
            (.turnStarted, ["turn": "a", "messages": [ChappieInputMessage.user("first").inputItem]]),
            (.turnFinished, ["turn": "a", "from": 1, "items": [answer("one")]]),
            (.turnStarted, ["turn": "b", "replaces": "a", "messages": [ChappieInputMessage.user("first").inputItem]]),
            (.compacted, ["turn": "b", "context": ["items": [["type": "compaction"]]]]),
            (.turnTakenBack, ["turn": "a", "records": [0, 1]]),
            (.turnFinished, ["turn": "b", "from": 1, "items": [answer("better")]]),
        ]
        let records = bodies.enumerated().map { position, entry in
            ChappieThreadRecord(
                position: position, kind: entry.0, date: Date(timeIntervalSince1970: 0), body: entry.1)
        }
        let running = try ChappieThread(id: "t", records: Array(records[..<4]))
        #expect(Model.words(running.context.items) == ["first", "one"])
        let replaced = try ChappieThread(id: "t", records: records)
        #expect(Model.words(replaced.context.items) == ["compacted", "first", "better"])
    }

    // MARK: Size

    @Test func `ten more attempts at the last of 20 questions add ten turns and no copy`() async throws {
        let answers = (0..<30).map { Model.Answer.text("answer\($0) " + String(repeating: "word ", count: 1000)) }
        let runtime = Model(answers).client().runtime(store: store)
        for number in 0..<20 { try await runtime.send("question\(number)") }
        let before = try await store.usage()
        for _ in 0..<10 { try await retry(runtime) }
        let after = try await store.usage()
        #expect(after.threads == 1 && after.records == before.records + 30)
        #expect(after.bytes - before.bytes < before.bytes)
        for number in 0..<30 { #expect(try await isFound("answer\(number) word") == (number < 19 || number == 29)) }
        #expect(try await read(runtime).turns.count == 20)
    }
}
