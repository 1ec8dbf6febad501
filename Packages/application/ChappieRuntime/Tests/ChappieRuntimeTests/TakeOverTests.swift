import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Synchronization
import Testing

/// Several processes at one thread, and stores that fail at a step.
@Suite struct TakeOverTests {
    private let store = ChappieInMemoryThreadStore()
    private let full = ChappieThreadStoreError.unavailable("the disk is full")

    private func kept() throws -> ChappieThread {
        let id = try #require(store.summaries().first?.id)
        return try ChappieThread(id: id, records: store.records(of: id, from: 0))
    }

    // MARK: Another process

    @Test func `an answer that comes after another process's takeover is dropped`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "late"), .text("by the second"), .text("next"))
        let first = model.client().runtime(store: store)
        let asking = Task { try await first.send("question") }
        await gate.reached()
        let second = model.client().runtime(store: store)
        try await second.openThread(try kept().id)
        #expect(try await second.resumeTurn().outputText == "by the second")
        gate.open()
        await #expect(throws: ChappieRuntimeError.turnTakenOver) { try await asking.value }
        #expect(try kept().turns.map(\.outputText) == ["by the second"])
        // The first process goes on with the answer that is kept.
        #expect(try await first.send("and now?") == "next")
        #expect(Model.words(model.inputs[2]) == ["question", "by the second", "and now?"])
    }

    @Test func `cancelling a turn doesn't interrupt it in a process that took it over`() async throws {
        let gate = ScriptedGate()
        let answering = ScriptedGate()
        let model = Model(.waiting(gate, "never"), .waiting(answering, "by the second"))
        let first = model.client().runtime(store: store)
        let asking = Task { try await first.send("question") }
        await gate.reached()
        let second = model.client().runtime(store: store)
        try await second.openThread(try kept().id)
        let resuming = Task { try await second.resumeTurn() }
        await answering.reached()
        asking.cancel()
        await #expect(throws: CancellationError.self) { try await asking.value }
        #expect(try kept().turns.map(\.status) == [.running])
        answering.open()
        #expect(try await resuming.value.outputText == "by the second")
        #expect(try kept().turns.map(\.status) == [.finished])
        gate.open()
    }

    @Test func aNewNameDoesNotKeepATurnFromBeingResumed() async throws {
        let model = Model(.calls([("pay", "{}")]), .text("done"))
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in "paid" }
        let runtime = model.client(tools: [tool], approving: { _ in .deferred }).runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("pay it") }
        try await store.rename(try kept().id, to: "Payments")
        let decisions = ["call_1_0": ChappieApprovalDecision.approved()]
        #expect(try await runtime.resumeTurn(decisions: decisions).outputText == "done")
        let thread = try kept()
        #expect(thread.summary.title == "Payments" && thread.turns.map(\.status) == [.finished])
        #expect(await runtime.currentThread == thread)
    }

    @Test func `a turn that another process finished is not resumed`() async throws {
        let model = Model(.calls([("pay", "{}")]), .text("done"))
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in
            runs.withLock { $0 += 1 }
            return "paid"
        }
        let runtimes = (0..<2).map { _ in
            model.client(tools: [tool], approving: { _ in .deferred }).runtime(store: store)
        }
        await #expect(throws: ChappieClientError.self) { try await runtimes[0].send("pay it") }
        try await runtimes[1].openThread(try kept().id)
        let decisions = ["call_1_0": ChappieApprovalDecision.approved()]
        #expect(try await runtimes[1].resumeTurn(decisions: decisions).outputText == "done")
        await #expect { try await runtimes[0].resumeTurn(decisions: decisions) } throws: { error in
            if case .conflict = error as? ChappieThreadStoreError { true } else { false }
        }
        // Now it knows what the other process has done.
        await #expect(throws: ChappieRuntimeError.nothingToResume) {
            try await runtimes[0].resumeTurn(decisions: decisions)
        }
        #expect(runs.withLock(\.self) == 1 && model.inputs.count == 2)
    }

    @Test func `a compaction does not hide what another process has asked`() async throws {
        let gate = ScriptedGate()
        let model = Model(.text("one"), .waitingCompaction(gate), .text("two"), .text("three"))
        let runtime = model.client().runtime(store: store)
        try await runtime.send("first")
        let compacting = Task { try await runtime.compact() }
        await gate.reached()
        let other = model.client().runtime(store: store)
        try await other.openThread(try kept().id)
        try await other.send("second")
        gate.open()
        await #expect(throws: (any Error).self) { try await compacting.value }
        #expect(try kept().records.allSatisfy { $0.kind != .compacted })
        try await runtime.send("third")
        #expect(Model.words(model.inputs[3]) == ["first", "one", "second", "two", "third"])
    }

    @Test func `a thread that was deleted is started again by the next question`() async throws {
        let model = Model(.text("one"), .text("two"))
        let runtime = model.client().runtime(store: store)
        try await runtime.send("first")
        store.delete(try kept().id)
        #expect(try await runtime.send("second") == "two")
        #expect(Model.words(model.inputs[1]) == ["second"])
        #expect(try kept().turns.map(\.outputText) == ["two"])
    }

    // MARK: A store that fails

    @Test func `a question that cannot be stored is not asked, even if it is resumed`() async throws {
        let model = Model(.calls([("pay", "{}")]), .text("done"))
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in
            runs.withLock { $0 += 1 }
            return "paid"
        }
        let faulty = FaultyStore(failingAt: .turnResumed)
        let runtime = model.client(tools: [tool], approving: { _ in .deferred }).runtime(store: faulty)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("pay it") }
        let decisions = ["call_1_0": ChappieApprovalDecision.approved()]
        await #expect(throws: full) { try await runtime.resumeTurn(decisions: decisions) }
        #expect(runs.withLock(\.self) == 0 && model.inputs.count == 1)
        faulty.fails(at: nil)
        #expect(try await runtime.resumeTurn(decisions: decisions).outputText == "done")
        #expect(runs.withLock(\.self) == 1)
    }

    @Test func `an approval that cannot be stored is requested again`() async throws {
        let model = Model(.calls([("pay", "{}")]), .text("done"))
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in "paid" }
        let faulty = FaultyStore(failingAt: .approvalPending)
        let runtime = model.client(tools: [tool], approving: { _ in .deferred }).runtime(store: faulty)
        await #expect(throws: full) { try await runtime.send("pay it") }
        faulty.fails(at: nil)
        await #expect { try await runtime.resumeTurn() } throws: { error in
            guard case .approvalPending(let pending) = error as? ChappieClientError else { return false }
            return pending.approvals.map(\.call.name) == ["pay"]
        }
        #expect(try await runtime.resumeTurn(decisions: ["call_1_0": .approved()]).outputText == "done")
    }

    @Test func `the error of a turn is thrown even if it cannot be stored`() async throws {
        let model = Model(.failure(400), .text("two"))
        let faulty = FaultyStore(failingAt: .turnFailed)
        let runtime = model.client().runtime(store: faulty)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("first") }
        faulty.fails(at: nil)
        // The turn has no end in the store: the next one gives it one.
        #expect(try await runtime.send("second") == "two")
        #expect(Model.words(model.inputs[1]) == ["second"])
        #expect(await runtime.currentThread?.turns.map(\.status) == [.interrupted, .finished])
    }

    @Test func `a thread that cannot be read is not continued blindly`() async throws {
        let model = Model(.text("one"), .text("from the other"), .text("two"))
        let faulty = FaultyStore(failingAt: nil)
        let runtime = model.client().runtime(store: faulty)
        try await runtime.send("first")
        let id = try #require(await runtime.currentThread?.id)
        let other = model.client().runtime(store: faulty.store)
        try await other.openThread(id)
        try await other.send("elsewhere")
        faulty.canBeRead(false)
        await #expect(throws: ChappieThreadStoreError.unavailable("the disk can't be read")) {
            try await runtime.send("second")
        }
        #expect(model.inputs.count == 2)
        faulty.canBeRead(true)
        #expect(try await runtime.send("second") == "two")
        #expect(Model.words(model.inputs[2]) == ["first", "one", "elsewhere", "from the other", "second"])
    }

    @Test func `a compaction that cannot be stored changes nothing`() async throws {
        let model = Model(.text("one"), .compaction, .text("two"))
        let faulty = FaultyStore(failingAt: .compacted)
        let client = model.client()
        let runtime = client.runtime(store: faulty)
        try await runtime.send("first")
        await #expect(throws: full) { try await runtime.compact() }
        #expect(try await runtime.send("second") == "two")
        #expect(Model.words(model.inputs[2]) == ["first", "one", "second"])
    }

    // MARK: The end of a program

    @Test func settlingWaitsUntilACancelledTurnIsKept() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "never"))
        let runtime = model.client().runtime(store: store)
        let asking = Task { try await runtime.send("question") }
        await gate.reached()
        runtime.cancel()
        await runtime.settle()
        #expect(try kept().turns.map(\.status) == [.interrupted])
        await #expect(throws: CancellationError.self) { try await asking.value }
        gate.open()
    }

    @Test func aStreamOfEventsEndsWithItsRuntime() async throws {
        let model = Model(.text("one"))
        var runtime: ChappieRuntime? = model.client().runtime(store: store)
        let events = try #require(runtime).events
        try await runtime?.send("first")
        runtime = nil
        var names: [String] = []
        for await event in events {
            switch event.event {
            case .started: names.append("started")
            case .progressed: break
            default: names.append("ended")
            }
        }
        #expect(names.first == "started")
    }

    private static let thought: ChappieJSON = ["type": "reasoning", "id": "rs_1", "encrypted_content": "theirs"]

    /// A colleague in the same workspace, and the same person in another one.
    private static func others() -> [SeededAuth] {
        var (colleague, elsewhere) = (SeededAuth(), SeededAuth())
        colleague.userID = "user-2"
        colleague.email = "colleague@example.com"
        elsewhere.accountID = "account-2"
        return [colleague, elsewhere]
    }

    @Test(arguments: [0, 1]) func `a thread that another account continues says so and loses its reasoning`(
        _ index: Int
    ) async throws {
        let other = Self.others()[index]
        let answer: ChappieJSON = [
            "type": "message", "role": "assistant", "content": [["type": "output_text", "text": "one"]],
        ]
        let model = Model(.items([Self.thought, answer]), .text("two"), .text("three"))
        let first = model.client().runtime(store: store)
        try await first.send("a secret")
        let id = try #require(await first.currentThread?.id)
        let started = try #require(store.records(of: id, from: 0).first)
        #expect(started.body["account"] == "account-1" && started.body["accountUser"] == "user-1")
        #expect(!started.body.serialized().contains("rt_"))
        for expected in [[ChappieNotice.Kind.accountChanged], []] {
            let runtime = model.client(of: other).runtime(store: store)
            try await runtime.openThread(id)
            var notices: [ChappieNotice.Kind] = []
            for try await event in runtime.stream("and?") {
                if case .notice(let notice) = event, notice.kind == .accountChanged { notices.append(notice.kind) }
            }
            #expect(notices == expected)
            let input = try #require(model.inputs.last)
            #expect(!input.contains(Self.thought) && Model.words(input).contains("a secret"))
        }
    }

    @Test func `a turn that another account resumes loses its reasoning`() async throws {
        let call: ChappieJSON = [
            "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}",
        ]
        let tool = ChappieHostTool(name: "look", policy: .ask) { _ in "seen" }
        let model = Model(.items([Self.thought, call]), .text("done"))
        let first = model.client(tools: [tool], approving: { _ in .deferred }).runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await first.send("question") }
        let id = try #require(await first.currentThread?.id)
        let second = model.client(tools: [tool], of: Self.others()[0]).runtime(store: store)
        try await second.openThread(id)
        #expect(try await second.resumeTurn(decisions: ["call_1": .approved()]).outputText == "done")
        let input = try #require(model.inputs.last)
        #expect(!input.contains(Self.thought) && input.contains { $0["call_id"] == "call_1" })
        #expect(await second.currentThread?.context.userID == "user-2")
    }

    @Test func `items encrypted for another account or model leave the conversation`() throws {
        var thread = ChappieThread(id: "t", createdAt: Date(timeIntervalSince1970: 0))
        func finish(_ turn: String, account: String, model: String, encrypted: String) -> [ChappieThreadRecord] {
            let items: ChappieJSON = [
                ["type": "reasoning", "encrypted_content": .string(encrypted)],
                ["type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(turn)]]],
            ]
            let bodies: [(ChappieThreadRecord.Kind, ChappieJSON)] = [
                (.turnStarted, ["turn": .string(turn), "model": .string(model)]),
                (
                    .turnFinished,
                    ["turn": .string(turn), "items": items, "account": .string(account), "model": .string(model)]
                ),
            ]
            return bodies.enumerated().map {
                ChappieThreadRecord(
                    position: thread.records.count + $0, kind: $1.0, date: thread.summary.createdAt, body: $1.1)
            }
        }
        func encrypted() -> [String] { thread.context.items.compactMap { $0["encrypted_content"]?.string } }
        func add(_ records: [ChappieThreadRecord]) throws {
            thread = try ChappieThread(id: "t", records: thread.records + records)
        }
        try add(finish("1", account: "a", model: "m", encrypted: "a1"))
        try add(finish("2", account: "a", model: "m", encrypted: "a2"))
        #expect(encrypted() == ["a1", "a2"])
        // Another model of the same account can't read the reasoning of the first.
        try add(finish("3", account: "a", model: "n", encrypted: "a3"))
        #expect(encrypted() == ["a3"])
        try add(finish("4", account: "b", model: "n", encrypted: "b4"))
        #expect(encrypted() == ["b4"] && thread.context.accountID == "b")
        #expect(thread.context.messages.count == 4)
    }
}
