import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Testing

/// A thread keeps the messages that the user gave its running turns, and where they came in.
@Suite(.timeLimit(.minutes(1))) struct SteeringTests {
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
        return kept
    }

    @Test func `a message after an answer is kept where it came in`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "first"), .text("second"), .text("next"))
        let runtime = model.client().runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await gate.reached()
        #expect(try await runtime.steer("two"))
        gate.open()
        #expect(try await handle.response().outputText == "second")
        #expect(try await !runtime.steer("late"))
        let kept = try await read(runtime)
        let turn = try #require(kept.turns.first)
        #expect(kept.turns.count == 1 && turn.outputText == "second")
        #expect(turn.steeringMessages.map(\.text) == ["two"])
        #expect(words(turn.items) == ["one", "first", "two", "second"])
        #expect(
            turn.exchanges.map { "\($0.messages.map(\.text)) \($0.answer)" } == [#"["one"] first"#, #"["two"] second"#])
        #expect(
            kept.records.map(\.kind) == [.turnStarted, .turnSteered, .toolsCalled, .turnFinished])
        let other = model.client().runtime(store: store)
        try await other.openThread(kept.id)
        #expect(try await other.send("three") == "next")
        #expect(words(try #require(model.inputs.last)).suffix(5) == ["one", "first", "two", "second", "three"])
        let found = kept.records.compactMap(\.searchableText).filter { $0.contains("two") }
        #expect(found.count == 1)
    }

    /// The process ends at each record after the message was accepted.
    @Test func `a turn that a crash ended is resumed with the message`() async throws {
        let gate = ScriptedGate()
        let tool = ChappieHostTool(name: "look") { _ in
            try await gate.pass()
            return "seen"
        }
        let model = Model(.calls([("look", "{}")]), .text("done"))
        let runtime = model.client(tools: [tool]).runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await gate.reached()
        #expect(try await runtime.steer("hurry"))
        gate.open()
        _ = try await handle.response()
        let records = try await read(runtime).records
        let steered = try #require(records.firstIndex { $0.kind == .turnSteered })
        for count in (steered + 1)..<records.count {
            let cut = try ChappieThread(id: "cut\(count)", records: Array(records.prefix(count)))
            let other = ChappieInMemoryThreadStore()
            try other.append(cut.records, to: cut.summary, at: 0)
            let later = Model(.text("again"), .text("next"))
            let continued = later.client(tools: [tool]).runtime(store: other)
            try await continued.openThread(cut.id)
            #expect(try await continued.resumeTurn().outputText == "again")
            let sent = words(try #require(later.inputs.last))
            #expect(sent.last == "hurry" && sent.filter { $0 == "hurry" }.count == 1)
            let turn = try #require(await continued.currentThread?.turns.first)
            #expect(turn.steeringMessages.map(\.text) == ["hurry"])
            #expect(turn.exchanges.map { "\($0.messages.map(\.text)) \($0.answer)" } == [#"["one", "hurry"] again"#])
        }
    }

    @Test func `an interrupted turn without an answer is resumed with its message`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "never"), .text("answer"))
        let runtime = model.client().runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await gate.reached()
        #expect(try await runtime.steer("two"))
        handle.interrupt()
        await #expect(throws: CancellationError.self) { try await handle.response() }
        await runtime.settle()
        #expect(try await read(runtime).turns.map(\.status) == [.interrupted])
        #expect(try await runtime.resumeTurn().outputText == "answer")
        #expect(words(try #require(model.inputs.last)).suffix(2) == ["one", "two"])
        gate.open()
    }

    @Test func `the next turn includes a message that was never sent`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "never"), .text("answer"))
        let runtime = model.client().runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await gate.reached()
        #expect(try await runtime.steer("two"))
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.response() }
        #expect(try await runtime.send("three") == "answer")
        let sent = words(try #require(model.inputs.last))
        #expect(sent.suffix(4).prefix(2) == ["one", "two"] && sent.last == "three")
        gate.open()
    }

    @Test func `taking a turn back takes its messages back`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "first"), .text("second"), .text("next"))
        let runtime = model.client().runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await gate.reached()
        #expect(try await runtime.steer("two"))
        gate.open()
        _ = try await handle.response()
        #expect(try await runtime.takeBackLastTurn()?.steeringMessages.map(\.text) == ["two"])
        #expect(try await runtime.send("three") == "next")
        #expect(words(try #require(model.inputs.last)).suffix(2) != ["two", "three"])
        #expect(try #require(model.inputs.last).allSatisfy { $0["content"]?[0]?["text"]?.string != "two" })
        let kept = try await read(runtime)
        #expect(kept.positionsTakenBack.count == kept.records.prefix { $0.kind != .turnTakenBack }.count)
    }
}
