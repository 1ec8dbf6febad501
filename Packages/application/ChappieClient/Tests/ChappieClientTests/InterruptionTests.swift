import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import Synchronization
import Testing

@_spi(ChappieInternals) @testable import ChappieClient

/// An interrupted turn keeps what was said, and the next message goes on from there.
@Suite(.timeLimit(.minutes(2))) struct InterruptionTests {
    private static let reasoning: ChappieJSON = [
        "id": "rs_1", "type": "reasoning", "encrypted_content": "opaque", "summary": [],
    ]
    private static let commentary: ChappieJSON = [
        "id": "msg_0", "type": "message", "role": "assistant", "phase": "commentary", "status": "completed",
        "content": [["type": "output_text", "text": "I look."]],
    ]

    private static func done(_ item: ChappieJSON) -> String {
        (["type": "response.output_item.done", "item": item] as ChappieJSON).serialized()
    }

    private static func delta(_ text: String) -> String {
        (["type": "response.output_text.delta", "delta": .string(text)] as ChappieJSON).serialized()
    }

    /// What the model gets with the next message, without the harness: the type of each item, and its text or output.
    private func remembered(_ harness: ClientHarness) throws -> [String] {
        let input = try #require(try harness.requests.last?["input"]?.array)
        return input.dropFirst().map { item in
            let text =
                item["output"]?.string ?? (item["content"]?.array ?? []).compactMap { $0["text"]?.string }.joined()
            return "\(item["role"]?.string ?? item["type"]?.string ?? "?"): \(text)"
        }
    }

    private static let note = "developer: The user interrupted you here. The user has seen the text above."

    /// The events before the interruption, the text that was shown, and what stays beside question, note and next question.
    static let answers: [(events: [String], text: String, stays: [String])] = [
        ([delta("Hel"), delta("lo")], "Hello", ["assistant: Hello"]),
        // The message that the reasoning led to is not whole.
        ([done(reasoning), delta("Hello")], "Hello", ["assistant: Hello"]),
        ([done(commentary), delta("Hello")], "Hello", ["assistant: I look.", "assistant: Hello"]),
        ([done(commentary), done(reasoning)], "", ["assistant: I look."]),
        (
            Array(answering("Hello")[1...2]) + [delta(" again")], "Hello again",
            ["assistant: Hello", "assistant:  again"]
        ),
        (
            [done(reasoning), done(call("weather"))], "",
            [
                "reasoning: ", "function_call: ",
                "function_call_output: The turn was interrupted before the tool ran.",
            ]
        ),
        // A call without an id, and one whose id is another's: no output could name them.
        (
            [
                done(["type": "function_call", "name": "weather", "arguments": "{}"]), done(call("weather")),
                done(call("other")), delta("Hello"),
            ], "Hello",
            [
                "function_call: ", "assistant: Hello",
                "function_call_output: The turn was interrupted before the tool ran.",
            ]
        ),
    ]

    @Test(arguments: Wire.allCases, answers.indices)
    func whatWasSaidStaysAndTheNextMessageGoesOn(wire: Wire, index: Int) async throws {
        let (events, text, stays) = Self.answers[index]
        let gate = ScriptedGate()
        let harness = ClientHarness(
            wire, [Reply(steps: [.events(events), .wait(gate)]), .answer("next", id: "resp_2"), .answer("third")])
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        await harness.client.interrupt()
        let seen = await asking.value
        #expect(seen.text == text && seen.failure == nil)
        let response = try #require(seen.response)
        #expect(response.isInterrupted)
        #expect(response.outputText == text)
        #expect(response.incompleteReason == "interrupted")
        if wire == .webSocket { #expect(harness.webSocket.peers[0].isDropped) }
        #expect(try await harness.client.send("two") == "next")
        #expect(try remembered(harness) == ["user: one"] + stays + [Self.note, "user: two"])
        // The prompt's beginning stays as it was, for the cache.
        let before = try #require(try harness.requests.last?["input"]?.array)
        #expect(await harness.client.context().items.starts(with: before.dropFirst()))
    }

    @Test(arguments: Wire.allCases) func aTurnInWhichNothingWasSaidLeavesNothing(wire: Wire) async throws {
        for events in [[answering("x")[0]], [Self.done(Self.reasoning)]] {
            let gate = ScriptedGate()
            let harness = ClientHarness(wire, [Reply(steps: [.events(events), .wait(gate)]), .answer("next")])
            let asking = Task { await harness.ask("one") }
            await gate.reached()
            await harness.client.interrupt()
            #expect(await asking.value.failure is CancellationError)
            #expect(try await harness.client.send("two") == "next")
            #expect(try remembered(harness) == ["user: two"])
        }
    }

    @Test(arguments: Wire.allCases) func `an answer that comes again after a break is kept as it was shown`(wire: Wire)
        async throws
    {
        let gate = ScriptedGate()
        let first = Reply(steps: [.events([Self.done(Self.reasoning), Self.delta("Hello, you")]), .cut])
        let again = Reply(steps: [.events([Self.done(Self.reasoning), Self.delta("Hello")]), .wait(gate)])
        let harness = ClientHarness(wire, [first, again, .answer("next")])
        let asking = Task { await harness.ask("one") }
        await gate.reached()
        await harness.client.interrupt()
        #expect(await asking.value.response?.outputText == "Hello, you")
        #expect(try await harness.client.send("two") == "next")
        // The reasoning belongs to a response that broke off.
        #expect(try remembered(harness) == ["user: one", "assistant: Hello, you", Self.note, "user: two"])
    }

    @Test(arguments: Wire.allCases) func `each call that has not ended gets an output that reports this`(wire: Wire)
        async throws
    {
        let isRunning = ScriptedGate()
        let tools = [
            ChappieHostTool(name: "quick") { _ in "done" },
            ChappieHostTool(name: "slow", runsAlone: true) { _ in
                try await isRunning.pass()
                return "never"
            }, ChappieHostTool(name: "later", runsAlone: true) { _ in "never" },
        ]
        let calls = ["quick", "slow", "later"].map { call($0, id: "call_\($0)") }
        let harness = ClientHarness(
            wire, [Reply(steps: [.events(items([Self.reasoning] + calls))]), .answer("next", id: "r2")], tools: tools)
        let results = Mutex<[ChappieToolExecutionResult]>([])
        let stream = harness.client.stream("one")
        let reading = Task {
            for try await event in stream {
                if case .toolCallCompleted(let result) = event { results.withLock { $0.append(result) } }
                if case .completed(let response) = event { return response }
            }
            return ChappieResponse()
        }
        await isRunning.reached()
        await harness.client.interrupt()
        #expect(try await reading.value.isInterrupted)
        #expect(results.withLock { $0.map(\.outcome) } == [.succeeded, .interrupted, .interrupted])
        #expect(try await harness.client.send("two") == "next")
        let context = await harness.client.context().items
        #expect(context.map { $0["type"]?.string }.filter { $0 == "function_call" }.count == 3)
        #expect(
            context.compactMap { $0["output"]?.string } == [
                "done",
                "The tool was interrupted while it ran. It may have done its work, or a part of it. It was not run again.",
                "The turn was interrupted before the tool ran.",
            ])
    }

    /// The recorder holds the turn up, as a store does.
    @Test func `calls that were not recorded yet have their outputs`() async throws {
        let isRecording = ScriptedGate()
        let tool = ChappieHostTool(name: "quick") { _ in
            Issue.record("It ran.")
            return "done"
        }
        let harness = ClientHarness(
            .serverSentEvents, [Reply(steps: [.events(items([call("quick")]))]), .answer("next")], tools: [tool])
        let client = harness.client
        let handle = client.queue.begin(endsWithItsStream: false) { emit, control in
            let work = ChappieTurnWork.new(ChappieResponseRequest(messages: [.user("one")]))
            return try await client.runTurn(
                work, control: control,
                recorder: { step in if case .called = step { try await isRecording.pass() } }, emit: emit)
        }
        await isRecording.reached()
        handle.interrupt()
        #expect(try await handle.response().isInterrupted)
        #expect(try await client.send("two") == "next")
        let items = try #require(try harness.requests.last?["input"]?.array)
        #expect(items.compactMap { $0["output"]?.string } == ["The turn was interrupted before the tool ran."])
    }

    @Test func aQuestionToTheUserIsInterrupted() async throws {
        let isAsked = ScriptedGate()
        let tool = ChappieHostTool(name: "rm", policy: .ask) { _ in
            Issue.record("It ran.")
            return "gone"
        }
        let harness = ClientHarness(
            .serverSentEvents, [Reply(steps: [.events(items([call("rm")]))]), .answer("next", id: "r2")], tools: [tool],
            approval: { _ in
                try? await isAsked.pass()
                return .approved()
            })
        let asking = Task { await harness.ask("one") }
        await isAsked.reached()
        await harness.client.interrupt()
        #expect(await asking.value.response?.isInterrupted == true)
        #expect(try await harness.client.send("two") == "next")
    }

    @Test func `a turn that waits is ended, and the one before continues`() async throws {
        let gate = ScriptedGate()
        let held = Reply(steps: [
            .events(Array(answering("Hello").prefix(2))), .wait(gate), .events(Array(answering("Hello").suffix(2))),
        ])
        let harness = ClientHarness(.webSocket, [held])
        let first = harness.client.startStream(.user("one"))
        await gate.reached()
        let second = harness.client.startStream(.user("two"))
        second.interrupt()
        await #expect(throws: CancellationError.self) { try await second.response() }
        gate.open()
        #expect(try await first.response().outputText == "Hello")
        first.interrupt()
        #expect(try await first.response().status == .completed)
    }

    @Test func sendSaysThatTheAnswerIsNotWhole() async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(.serverSentEvents, [.half("half", then: .wait(gate))])
        let asking = Task { try await harness.client.send("one") }
        await gate.reached()
        await (harness.client as any ChappieConversation).interrupt()
        await #expect {
            try await asking.value
        } throws: { error in
            guard case ChappieClientError.responseFailed(let response) = error else { return false }
            return response.outputText == "half" && response.isInterrupted
        }
    }
}
