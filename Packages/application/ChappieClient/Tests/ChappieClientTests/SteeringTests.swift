import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieTesting
import Synchronization
import Testing

@_spi(ChappieInternals) @testable import ChappieClient

/// A message that the user gives a running turn becomes a part of it.
@Suite(.timeLimit(.minutes(2))) struct SteeringTests {
    /// The conversation after its harness: the role or type of each item, and its text or output.
    private func conversation(_ harness: ClientHarness) async -> [String] {
        await harness.client.context().items.map { item in
            let text =
                item["output"]?.string ?? (item["content"]?.array ?? []).compactMap { $0["text"]?.string }.joined()
            return "\(item["role"]?.string ?? item["type"]?.string ?? "?"): \(text)"
        }
    }

    /// The places of an answer at which a message still continues the turn.
    enum Place: CaseIterable {
        case beforeTheFirstEvent, inTheText, beforeTheLastEvent

        fileprivate func reply(_ gate: ScriptedGate) -> Reply {
            let all = answering("first")
            let count =
                switch self {
                case .beforeTheFirstEvent: 0
                case .inTheText: 2
                case .beforeTheLastEvent: 3
                }
            let head = Array(all.prefix(count))
            return Reply(steps: [.events(head), .wait(gate), .events(Array(all.dropFirst(count)))])
        }
    }

    @Test(arguments: Wire.allCases, Place.allCases)
    func `a message during an answer continues the turn with one more request`(wire: Wire, place: Place) async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(wire, [place.reply(gate), .answer("second", id: "resp_2")])
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        #expect(await harness.client.steer(.user("and two")))
        #expect(await harness.client.steer(.user("and three")))
        gate.open()
        let seen = await asking.value
        #expect(seen.failure == nil && seen.text == "firstsecond")
        let response = try #require(seen.response)
        #expect(response.outputText == "second" && response.status == .completed)
        #expect(try harness.requests.count == 2)
        #expect(
            await conversation(harness) == [
                "user: one", "assistant: first", "user: and two", "user: and three", "assistant: second",
            ])
        #expect(await !harness.client.steer(.user("late")))
    }

    @Test(arguments: Wire.allCases) func `a message during a tool follows its result`(wire: Wire) async throws {
        let gate = ScriptedGate()
        let tool = ChappieHostTool(name: "look") { _ in
            try await gate.pass()
            return "seen"
        }
        let harness = ClientHarness(
            wire, [Reply(steps: [.events(items([call("look")]))]), .answer("done", id: "resp_2")], tools: [tool])
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        #expect(await harness.client.steer(.user("hurry")))
        gate.open()
        #expect(await asking.value.response?.outputText == "done")
        #expect(try harness.requests.count == 2)
        #expect(
            await conversation(harness) == [
                "user: one", "function_call: ", "function_call_output: seen", "user: hurry", "assistant: done",
            ])
    }

    @Test func `no message is taken before a turn, after its last event, and by a compaction`() async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(.serverSentEvents, [.answer("first"), Reply(steps: [.wait(gate)])])
        #expect(await !harness.client.steer(.user("early")))
        for try await event in harness.client.stream("one") {
            guard case .completed = event else { continue }
            #expect(await !harness.client.steer(.user("late")))
        }
        let compaction = harness.client.begin(.compaction, endsWithItsStream: false)
        await gate.reached()
        #expect(await !harness.client.steer(.user("never")))
        compaction.cancel()
        gate.open()
        #expect(await conversation(harness) == ["user: one", "assistant: first"])
    }

    @Test func `the stream reports a message, and then the answer that heeds it`() async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(
            .serverSentEvents, [Place.inTheText.reply(gate), .answer("second", id: "resp_2")])
        var order: [String] = []
        for try await event in harness.client.stream("one") {
            switch event {
            case .textDelta(let text):
                order.append(text)
                guard text == "first" else { continue }
                #expect(await harness.client.steer(.user("two")))
                gate.open()
            case .steered(let message): order.append("> " + message.text)
            case .created(let id): order.append(id)
            default: continue
            }
        }
        #expect(order == ["resp_1", "first", "> two", "resp_2", "second"])
    }

    @Test func `a message continues a turn whose rounds of tools are used up`() async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(
            .serverSentEvents, [Place.inTheText.reply(gate), .answer("second", id: "resp_2")],
            configure: { $0.toolLoopLimit = 0 })
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        #expect(await harness.client.steer(.user("two")))
        gate.open()
        #expect(await asking.value.response?.outputText == "second")
    }

    @Test func `an answer in a schema is checked after the last message`() async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(
            .serverSentEvents, [Place.inTheText.reply(gate), .answer(#"{"n":2}"#, id: "resp_2")])
        struct Count: Decodable { var n: Int }
        let schema = ChappieJSONSchema([
            "type": "object", "properties": ["n": ["type": "integer"]], "required": ["n"],
            "additionalProperties": false,
        ])
        let asking = Task { try await harness.client.send("How many?", as: Count.self, schema: schema) }
        await gate.reached()
        #expect(await harness.client.steer(.user("two")))
        gate.open()
        #expect(try await asking.value.n == 2)
    }

    @Test func `an answer that ended early is continued as well`() async throws {
        let gate = ScriptedGate()
        let cut = Reply(steps: [
            .wait(gate),
            .events([
                #"{"type":"response.output_text.delta","delta":"fir"}"#,
                #"{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#,
            ]),
        ])
        let harness = ClientHarness(.serverSentEvents, [cut, .answer("second", id: "resp_2")])
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        #expect(await harness.client.steer(.user("shorter")))
        gate.open()
        #expect(await asking.value.response?.outputText == "second")
        #expect(
            await conversation(harness) == ["user: one", "assistant: fir", "user: shorter", "assistant: second"])
    }

    @Test func `an interrupted turn keeps a message that it did not send`() async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(.serverSentEvents, [Place.inTheText.reply(gate)])
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        #expect(await harness.client.steer(.user("two")))
        await harness.client.interrupt()
        #expect(await !harness.client.steer(.user("late")))
        #expect(await asking.value.response?.isInterrupted == true)
        #expect(await conversation(harness).prefix(3) == ["user: one", "assistant: first", "user: two"])
    }

    /// A turn in which only the user wrote has nothing to keep.
    @Test func `a message alone makes no answer of an interrupted turn`() async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(
            .serverSentEvents, [Place.beforeTheFirstEvent.reply(gate), .answer("next")])
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        #expect(await harness.client.steer(.user("two")))
        await harness.client.interrupt()
        #expect(await asking.value.failure is CancellationError)
        #expect(try await harness.client.send("three") == "next")
        #expect(await conversation(harness) == ["user: three", "assistant: next"])
    }

    @Test func `a turn that waits for an approval sends the message after the result`() async throws {
        let gate = ScriptedGate()
        let slow = ChappieHostTool(name: "slow") { _ in
            try await gate.pass()
            return "slept"
        }
        let delete = ChappieHostTool(name: "delete", policy: .ask) { _ in "gone" }
        let harness = ClientHarness(
            .serverSentEvents,
            [
                Reply(steps: [.events(items([call("slow"), call("delete", id: "call_2")]))]),
                .answer("done", id: "resp_2"),
            ], tools: [slow, delete], approval: { _ in .deferred })
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        #expect(await harness.client.steer(.user("careful")))
        gate.open()
        guard case .approvalPending(let pending)? = await asking.value.failure as? ChappieClientError else {
            Issue.record("No approval is pending.")
            return
        }
        let kept = try JSONDecoder().decode(ChappiePendingTurn.self, from: JSONEncoder().encode(pending))
        let response = try await harness.client.resume(kept, decisions: ["call_2": .approved()])
        #expect(response.outputText == "done")
        #expect(
            await conversation(harness) == [
                "user: one", "function_call: ", "function_call: ", "function_call_output: slept",
                "function_call_output: gone", "user: careful", "assistant: done",
            ])
    }
}
