import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Testing

/// A turn that its user interrupts stays in the thread with what was said, and the conversation goes on from there.
@Suite(.timeLimit(.minutes(1))) struct InterruptionTests {
    private let store = ChappieInMemoryThreadStore()

    private func words(_ input: [ChappieJSON]) -> [String] {
        input.compactMap { item in
            item["output"]?.string ?? item["content"]?[0]?["text"]?.string.map { String($0.prefix(30)) }
        }
    }

    /// The thread, read again as another process does it.
    private func read(_ runtime: ChappieRuntime) async throws -> ChappieThread {
        let current = try #require(await runtime.currentThread)
        let kept = try ChappieThread(id: current.id, records: store.records(of: current.id, from: 0))
        #expect(kept == current)
        #expect(try ChappieThread(json: kept.json) == kept)
        return kept
    }

    @Test func `an interrupted answer is kept, and another process continues from it`() async throws {
        let gate = ScriptedGate()
        let model = Model(.half("half an ans", gate), .text("next"))
        let runtime = model.client().runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await gate.reached()
        await runtime.interrupt()
        #expect(try await handle.response().isInterrupted)
        let kept = try await read(runtime)
        let turn = try #require(kept.turns.first)
        #expect(turn.status == .finished)
        #expect(turn.outputText == "half an ans")
        #expect(turn.incompleteReason == "interrupted")
        #expect(turn.response.isInterrupted && kept.resumableTurn == nil)
        let later = model.client()
        let other = later.runtime(store: store)
        try await other.openThread(kept.id)
        #expect(try await other.send("two") == "next")
        let input = try #require(model.inputs.last)
        #expect(words(input).suffix(4) == ["one", "half an ans", "The user interrupted you here.", "two"])
        let whole = try await read(other)
        #expect(await later.context().items == whole.context.items)
        gate.open()
    }

    @Test func `an answer that breaks in its middle starts again, and the thread has the new one`() async throws {
        let gate = ScriptedGate()
        gate.open()
        let model = Model(.half("The sea", gate), .text("The sky"))
        let runtime = model.client().runtime(store: store)
        var (discarded, text) = ([String](), "")
        for try await event in runtime.stream("one") {
            if case .restarted(let old) = event { discarded.append(old) }
            if case .textDelta(let delta) = event { text += delta }
        }
        #expect(discarded == ["The sea"] && text == "The seaThe sky")
        #expect(try await read(runtime).turns.map(\.outputText) == ["The sky"])
    }

    @Test func `a turn that breaks for good is kept with the text that was shown`() async throws {
        let gate = ScriptedGate()
        gate.open()
        let model = Model(
            .half("The sea", gate), .half("The sea is", gate), .half("The", gate), .text("next"))
        let runtime = model.client().runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("one") }
        let kept = try await read(runtime)
        let turn = try #require(kept.turns.first)
        #expect(turn.status == .finished)
        #expect(turn.outputText == "The sea is")
        #expect(turn.error == nil)
        #expect(turn.incompleteReason == "connection_lost" && turn.response.status == .incomplete)
        #expect(kept.resumableTurn == nil && kept.records.last?.kind == .turnFinished)
        #expect(try await runtime.send("two") == "next")
        let input = try #require(model.inputs.last)
        #expect(words(input).suffix(4) == ["one", "The sea is", "The connection broke here. The", "two"])
    }

    @Test func aTurnInWhichNothingWasSaidCanBeResumed() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "never"), .text("answer"))
        let runtime = model.client().runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await gate.reached()
        handle.interrupt()
        await #expect(throws: CancellationError.self) { try await handle.response() }
        await runtime.settle()
        #expect(try await read(runtime).turns.map(\.status) == [.interrupted])
        #expect(try await runtime.resumeTurn().outputText == "answer")
        gate.open()
    }

    @Test func callsThatWereNotOverAreKeptAsInterrupted() async throws {
        let isRunning = ScriptedGate()
        let tools = [
            ChappieHostTool(name: "quick") { _ in "done" },
            ChappieHostTool(name: "slow", runsAlone: true) { _ in
                try await isRunning.pass()
                return "never"
            },
        ]
        let model = Model(.calls([("quick", "{}"), ("slow", "{}")]), .text("next"))
        let runtime = model.client(tools: tools).runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await isRunning.reached()
        await runtime.interrupt()
        #expect(try await handle.response().isInterrupted)
        let turn = try #require(try await read(runtime).turns.first)
        #expect(turn.toolCalls.map { $0.result?.outcome } == [.succeeded, .interrupted])
        #expect(turn.status == .finished)
        #expect(try await runtime.send("two") == "next")
        let outputs = try #require(model.inputs.last).compactMap { $0["output"]?.string }
        #expect(outputs.count == 2 && outputs[0] == "done" && outputs[1].hasPrefix("The tool was interrupted"))
    }
}
