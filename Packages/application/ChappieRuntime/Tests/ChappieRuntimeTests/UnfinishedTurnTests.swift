import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Synchronization
import Testing

/// A turn that ends without a complete answer belongs to the conversation from the next turn on.
@Suite(.timeLimit(.minutes(1))) struct UnfinishedTurnTests {
    private let store = ChappieInMemoryThreadStore()
    private static let tool = ChappieHostTool(name: "pay", description: "Pays.") { _ in "paid 5" }
    private static let refusal: ChappieJSON = [
        "type": "response.failed",
        "response": [
            "id": "resp_f", "status": "failed", "error": ["code": "invalid_prompt", "message": "It is not allowed."],
        ],
    ]

    /// The store's only thread, as another process reads it.
    private func kept(in store: (any ChappieThreadStore)? = nil) async throws -> ChappieThread {
        let store = store ?? self.store
        let id = try #require(try await store.summaries().first?.id)
        let thread = try ChappieThread(id: id, records: try await store.records(of: id, from: 0))
        #expect(try ChappieThread(json: thread.json) == thread)
        return thread
    }

    /// Asks in the thread, as another process does, and returns the notices about the turn before that the user sees.
    private func continued(
        _ question: String, _ model: Model, in store: (any ChappieThreadStore)? = nil
    ) async throws -> [ChappieNotice] {
        let client = model.client(tools: [Self.tool])
        let runtime = client.runtime(store: store ?? self.store)
        try await runtime.openThread(try await kept(in: store).id)
        var notices: [ChappieNotice] = []
        for try await event in runtime.stream(question) {
            if case .notice(let notice) = event, notice.kind == .turnIncluded { notices.append(notice) }
        }
        let thread = try await kept(in: store)
        #expect(await runtime.currentThread == thread)
        #expect(await client.context().items == thread.context.items)
        return notices
    }

    private func cancelled(_ answer: (ScriptedGate) -> Model.Answer, then: Model.Answer...) async throws -> Model {
        let gate = ScriptedGate()
        let model = Model([answer(gate)] + then)
        let runtime = model.client().runtime(store: store)
        let asking = Task { try await runtime.send("one") }
        await gate.reached()
        asking.cancel()
        await #expect(throws: CancellationError.self) { try await asking.value }
        gate.open()
        return model
    }

    @Test func `a cancelled turn is sent along with what was shown`() async throws {
        let model = try await cancelled({ .half("half an ans", $0) }, then: .text("two"), .text("three"))
        let turn = try #require(try await kept().turns.first)
        #expect(turn.status == .interrupted && turn.outputText == "half an ans")
        #expect(turn.events.contains(.progressed(.textDelta("half an ans"))))
        let notices = try await continued("second", model)
        #expect(notices.map(\.kind) == [.turnIncluded])
        #expect(Model.words(model.inputs[1]) == ["one", "half an ans", "second"])
        // It is told once, and the prompt's beginning stays as it was.
        #expect(try await continued("third", model).isEmpty)
        #expect(Model.words(model.inputs[2]) == ["one", "half an ans", "second", "two", "third"])
        #expect(model.inputs[2].starts(with: model.inputs[1]))
        #expect(try await kept().turns.map(\.status) == [.interrupted, .finished, .finished])
    }

    @Test func `the question of a cancelled turn without an answer is sent along`() async throws {
        let model = try await cancelled({ .waiting($0, "never") }, then: .text("two"))
        #expect(try await continued("second", model).map(\.kind) == [.turnIncluded])
        #expect(Model.words(model.inputs[1]) == ["one", "second"])
        #expect(try await kept().resumableTurn == nil)
    }

    @Test func `a turn that failed after text is sent along`() async throws {
        let delta: ChappieJSON = ["type": "response.output_text.delta", "delta": "half an ans"]
        let model = Model(.events([delta, Self.refusal]), .text("two"))
        let runtime = model.client().runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("one") }
        let turn = try #require(try await kept().turns.first)
        #expect(turn.status == .failed)
        #expect(turn.outputText == "half an ans")
        #expect(turn.error != nil)
        // In the same process, too.
        #expect(try await runtime.send("second") == "two")
        #expect(Model.words(model.inputs[1]) == ["one", "half an ans", "second"])
        #expect(try await kept().turns.map(\.status) == [.failed, .finished])
        #expect(try await kept().turns[0].error == turn.error)
    }

    @Test func `a turn that failed after tool calls is sent along, or resumed without its end`() async throws {
        let model = Model(.calls([("pay", "{}")]), .failure(400), .text("two"), .failure(400), .text("three"))
        let runtime = model.client(tools: [Self.tool]).runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("one") }
        #expect(try await runtime.resumeTurn().outputText == "two")
        let resumed = ["one", "call pay", "output paid 5"]
        #expect(Model.words(model.inputs[2]) == resumed)
        #expect(try await kept().context.items.count == 4)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("left out") }
        #expect(try await continued("second", model).isEmpty)
        #expect(Model.words(model.inputs[4]) == resumed + ["two", "second"])
    }

    @Test(arguments: [
        (ChappieThreadRecord.Kind.toolsCalled, []),
        (.toolsStarted, ["call pay", "output The turn was interrupted before the tool ran."]),
        (
            .toolFinished,
            [
                "call pay",
                "output The tool was interrupted while it ran. It may have done its work, or a part of it. "
                    + "It was not run again.",
            ]
        ), (.turnFinished, ["call pay", "output paid 5"]),
    ])
    func `a turn whose program was killed is sent along with its calls`(
        crash: ChappieThreadRecord.Kind, calls: [String]
    ) async throws {
        let model = Model(.calls([("pay", "{}")]), .text("lost"), .text("two"))
        let faulty = FaultyStore(failingAt: crash)
        let runtime = model.client(tools: [Self.tool]).runtime(store: faulty)
        await #expect(throws: ChappieThreadStoreError.self) { try await runtime.send("one") }
        #expect(try await kept(in: faulty.store).turns.map(\.status) == [.running])
        let notices = try await continued("second", model, in: faulty.store)
        #expect(notices.map(\.kind) == [.turnIncluded])
        #expect(notices[0].message.contains("pay") == (crash == .toolFinished))
        #expect(Model.words(try #require(model.inputs.last)) == ["one"] + calls + ["second"])
    }

    @Test func `a turn that waits for an approval is sent along as not run`() async throws {
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in "paid 5" }
        let model = Model(.calls([("pay", "{}")]), .text("two"))
        let runtime = model.client(tools: [tool], approving: { _ in .deferred }).runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("one") }
        #expect(try await runtime.send("second") == "two")
        #expect(
            Model.words(model.inputs[1]) == [
                "one", "call pay", "output The turn was interrupted before the tool ran.", "second",
            ])
    }

    @Test func `a turn that is sent along takes no approval away`() async throws {
        let questions = Mutex(0)
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in "paid 5" }
        let pay = Model.Answer.calls([("pay", "{}")])
        let model = Model(pay, .failure(400), pay, .text("two"))
        let client = model.client(
            tools: [tool],
            approving: { _ in
                questions.withLock { $0 += 1 }
                return .approved(scope: .session)
            })
        let runtime = client.runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("one") }
        #expect(try await runtime.send("second") == "two")
        #expect(questions.withLock(\.self) == 1)
    }

    @Test func `a fork keeps a turn that was sent along`() async throws {
        let model = try await cancelled({ .half("half", $0) }, then: .text("two"), .text("three"))
        _ = try await continued("second", model)
        let runtime = model.client().runtime(store: store)
        try await runtime.forkThread(try await kept().id)
        try await runtime.send("third")
        #expect(Model.words(model.inputs[2]) == ["one", "half", "second", "two", "third"])
    }
}
