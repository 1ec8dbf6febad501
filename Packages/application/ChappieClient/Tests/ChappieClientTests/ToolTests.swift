import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieTesting
import FoundationEssentials
import Synchronization
import TestFixtures
import Testing

/// Tools: every way that a call can end, over every way that an answer travels.
@Suite struct ToolTests {
    /// How the answer with the calls arrives.
    enum Arrival: String, CaseIterable, Sendable {
        case serverSentEvents, webSocket, webSocketCutAfterTheCalls

        var wire: Wire { self == .serverSentEvents ? .serverSentEvents : .webSocket }

        func replies(_ calls: [ChappieJSON]) -> [Reply] {
            let cut = Reply(steps: [.events(items(calls, isWhole: false)), .cut])
            return (self == .webSocketCutAfterTheCalls ? [cut] : [])
                + [Reply(steps: [.events(items(calls))]), .answer("done", id: "resp_2")]
        }
    }

    /// What happens to a call, and what comes of it.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var policy = ChappieToolPolicy.automatic
        var decision: ChappieApprovalDecision?
        var behavior = ChappieToolFailureBehavior.automatic
        var arguments = #"{"town":"Paris"}"#
        var handler: @Sendable (ChappieToolCall) async throws -> ChappieToolResult = {
            .init(output: "sun in \($0.argumentsJSON?["town"]?.string ?? "?")")
        }
        var timeout = Duration.seconds(300)
        /// How often each call's handler runs.
        var runs = 1
        var outcome: ChappieToolExecutionResult.Outcome? = .succeeded
        /// The beginning of what the model is told.
        var output = "sun in Paris"
        var error: ChappieClientError?
    }

    private struct Broken: LocalizedError { var errorDescription: String? { "The sensor is broken." } }

    static let cases: [Case] = [
        Case(testDescription: "automatic"),
        Case(testDescription: "ask, approved", policy: .ask, decision: .approved()),
        Case(
            testDescription: "ask, edited", policy: .ask, decision: .approved(arguments: ["town": "Rome"]),
            output: "sun in Rome"),
        Case(
            testDescription: "ask, edited so that it does not fit", policy: .ask,
            decision: .approved(arguments: ["town": 1]), runs: 0, outcome: .failed,
            output: "The tool failed: The arguments don't fit: /town"),
        Case(
            testDescription: "ask, answered", policy: .ask, decision: .answered(output: "rain"), runs: 0,
            outcome: .answered, output: "rain"),
        Case(
            testDescription: "ask, denied", policy: .ask, decision: .denied(reason: "not now"), runs: 0,
            outcome: .denied, output: "The call was denied: not now"),
        Case(
            testDescription: "ask, denied, and that is an error", policy: .ask, decision: .denied(reason: "not now"),
            behavior: .throwError, runs: 0, outcome: nil, error: .toolApprovalDenied("weather", "not now")),
        Case(
            testDescription: "ask, without a handler", policy: .ask, runs: 0, outcome: .denied,
            output: "The call was denied: The program can't ask for approval"),
        Case(
            testDescription: "deny", policy: .deny, runs: 0, outcome: nil,
            error: .toolApprovalDenied("weather", "The program does not allow it.")),
        Case(
            testDescription: "deny, and the model is told", policy: .deny, behavior: .tellModel, runs: 0,
            outcome: .denied, output: "The call was denied: The program does not allow it."),
        Case(
            testDescription: "throws", handler: { _ in throw Broken() }, outcome: .failed,
            output: "The tool failed: The sensor is broken."),
        Case(
            testDescription: "throws, and that is an error", behavior: .throwError, handler: { _ in throw Broken() },
            outcome: nil, error: .toolExecutionFailed("weather", "The sensor is broken.")),
        Case(
            testDescription: "says that it failed", handler: { _ in .init(output: "no such town", isError: true) },
            outcome: .failed, output: "no such town"),
        Case(
            testDescription: "times out",
            handler: { _ in
                // Does not listen to its cancellation.
                await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
                return "never"
            }, timeout: .milliseconds(1), outcome: .failed, output: "The tool failed: It took longer than"),
        Case(
            testDescription: "arguments that don't fit", arguments: #"{"town":7}"#, runs: 0, outcome: .failed,
            output: "The tool failed: The arguments don't fit: /town"),
        Case(
            testDescription: "arguments that are no JSON", arguments: #"{"town":"#, runs: 0, outcome: .failed,
            output: "The tool failed: The arguments are not JSON."),
        Case(
            testDescription: "arguments that don't fit, and that is an error", behavior: .throwError,
            arguments: "{}", runs: 0, outcome: nil,
            error: .toolExecutionFailed("weather", "The arguments don't fit")),
    ]

    private static func handler(_ decision: ChappieApprovalDecision?) -> ChappieToolApprovalHandler? {
        guard let decision else { return nil }
        return { _ in decision }
    }

    private static func sentence(_ error: any Error) -> String {
        (error as? any LocalizedError)?.errorDescription ?? String(describing: error)
    }

    static let schema: ChappieJSON = [
        "type": "object", "properties": ["town": ["type": "string"]], "required": ["town"],
        "additionalProperties": false,
    ]

    @Test(arguments: Arrival.allCases, [1, 3]) func `every call runs at most once, and its result is sent back`(
        arrival: Arrival, count: Int
    ) async throws {
        for test in Self.cases {
            let runs = Mutex<[String: Int]>([:])
            let tool = ChappieHostTool(
                name: "weather", description: "The weather.", inputSchema: Self.schema, policy: test.policy,
                timeout: test.timeout
            ) { call in
                runs.withLock { $0[call.callID, default: 0] += 1 }
                return try await test.handler(call)
            }
            let calls = (1...count).map { call("weather", test.arguments, id: "call_\($0)") }
            let harness = ClientHarness(
                arrival.wire, arrival.replies(calls), clock: test.timeout < .seconds(1) ? HastyClock() : nil,
                tools: [tool], approval: Self.handler(test.decision),
                configure: { $0.toolFailureBehavior = test.behavior })
            var (requested, results, answer, thrown) = ([String](), [ChappieToolExecutionResult](), "", "")
            do {
                for try await event in harness.client.stream("Hi") {
                    switch event {
                    case .toolCallRequested(let request): requested.append(request.call.callID)
                    case .toolCallCompleted(let result): results.append(result)
                    case .textDelta(let text): answer += text
                    default: continue
                    }
                }
            } catch { thrown = Self.sentence(error) }
            let note = Comment("\(test.testDescription), \(arrival.rawValue), \(count)")
            let ids = (1...count).map { "call_\($0)" }
            #expect(runs.withLock { $0.values.allSatisfy { $0 == 1 } }, note)
            if let error = test.error {
                #expect(thrown.hasPrefix(Self.sentence(error).prefix(40)), note)
                #expect(runs.withLock(\.count) <= (test.runs == 0 ? 0 : count), note)
                #expect(answer.isEmpty, note)
                continue
            }
            #expect(thrown.isEmpty, note)
            // A call that is out of time at once may begin after its turn has ended.
            #expect(try await eventually { runs.withLock(\.count) == test.runs * count }, note)
            #expect(answer == "done", note)
            #expect(requested == ids, note)
            #expect(Set(results.map(\.call.callID)) == Set(ids) && results.count == count, note)
            #expect(results.allSatisfy { $0.outcome == test.outcome && $0.output.hasPrefix(test.output) }, note)
            // What the model was told, in the order of its calls.
            let sent = try #require(try harness.requests.last)
            let outputs = (sent["input"]?.array ?? [ChappieJSON]()).filter { $0["type"] == "function_call_output" }
            #expect(outputs.compactMap { $0["call_id"]?.string } == ids, note)
            #expect(outputs.allSatisfy { $0["output"]?.string?.hasPrefix(test.output) == true }, note)
        }
    }

    @Test(arguments: Wire.allCases) func `a turn that is cancelled while a tool runs ends at once`(wire: Wire)
        async throws
    {
        let started = ScriptedGate()
        let tool = ChappieHostTool(name: "weather") { _ in
            started.open()
            // Does not listen to its cancellation.
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            return "never"
        }
        let harness = ClientHarness(
            wire, [Reply(steps: [.events(items([call("weather")]))]), .answer("next", id: "r2")],
            tools: [tool])
        let handle = harness.client.startStream(.user("Hi"))
        try await started.pass()
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.response() }
        // The half turn is gone, and the client goes on.
        #expect(await harness.client.context().messageCount == 0)
        #expect(await harness.ask("again").text == "next")
    }

    @Test(arguments: Wire.allCases) func `a turn that is cancelled while the user is asked ends at once`(wire: Wire)
        async throws
    {
        let asked = ScriptedGate()
        let tool = ChappieHostTool(name: "weather", policy: .ask) { _ in "sun" }
        let harness = ClientHarness(
            wire, [Reply(steps: [.events(items([call("weather")]))]), .answer("next", id: "r2")], tools: [tool],
            approval: { _ in
                asked.open()
                // A dialogue that nobody closes.
                await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
                return .approved()
            })
        let handle = harness.client.startStream(.user("Hi"))
        try await asked.pass()
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.response() }
        #expect(await harness.ask("again").text == "next")
    }

    @Test(arguments: Wire.allCases) func roundsFollowUntilTheLimit(wire: Wire) async throws {
        let replies = (1...4).map { Reply(steps: [.events(items([call("count", id: "call_\($0)")], id: "r\($0)"))]) }
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "count") { _ in
            runs.withLock { $0 += 1 }
            return "more"
        }
        let harness = ClientHarness(wire, replies, tools: [tool], configure: { $0.toolLoopLimit = 3 })
        #expect(await harness.ask().error == .toolLoopLimitExceeded(3))
        #expect(runs.withLock { $0 } == 3)
        #expect(try harness.requests.count == 4)
        let enough = ClientHarness(
            wire, Array(replies.prefix(3)) + [.answer("three")], tools: [tool], configure: { $0.toolLoopLimit = 3 })
        let seen = await enough.ask()
        #expect(seen.text == "three")
        // The tokens of all requests; the last answer named none.
        #expect(seen.response?.usage?.totalTokens == 45)
    }

    @Test func `calls of one round run concurrently unless a tool must run by itself`() async throws {
        let running = Mutex(0)
        // The first of the two that run side by side waits for the second.
        let both = ScriptedGate()
        func tool(_ name: String, alone: Bool) -> ChappieHostTool {
            ChappieHostTool(name: name, runsAlone: alone) { _ in
                let count = running.withLock { count in
                    count += 1
                    return count
                }
                if alone { #expect(count == 1) } else if count == 2 { both.open() } else { try await both.pass() }
                running.withLock { $0 -= 1 }
                return "ok"
            }
        }
        let calls = ["side", "side", "alone", "side"].enumerated().map { call($1, id: "call_\($0)") }
        let harness = ClientHarness(
            .serverSentEvents, [Reply(steps: [.events(items(calls))]), .answer("done")],
            tools: [tool("side", alone: false), tool("alone", alone: true)])
        #expect(await harness.ask().text == "done")
    }

    @Test func anApprovalForTheSessionIsAskedForOnce() async throws {
        let asked = Mutex(0)
        let tool = ChappieHostTool(name: "rm", policy: .ask) { _ in "gone" }
        let harness = ClientHarness(
            .serverSentEvents,
            [
                Reply(steps: [.events(items([call("rm", id: "a"), call("rm", id: "b")]))]), .answer("one"),
                Reply(steps: [.events(items([call("rm", id: "c")]))]), .answer("two"),
                Reply(steps: [.events(items([call("rm", id: "d")]))]), .answer("three"),
            ], tools: [tool],
            approval: { _ in
                asked.withLock { $0 += 1 }
                return .approved(scope: .session)
            })
        #expect(await harness.ask().text == "one")
        #expect(await harness.ask().text == "two")
        #expect(asked.withLock { $0 } == 1)
        await harness.client.clearContext()
        #expect(await harness.ask().text == "three")
        #expect(asked.withLock { $0 } == 2)
    }

    @Test(arguments: Wire.allCases) func aDeferredApprovalGoesOnInAnotherProcess(wire: Wire) async throws {
        let runs = Mutex<[String]>([])
        func tool(_ name: String, _ policy: ChappieToolPolicy) -> ChappieHostTool {
            ChappieHostTool(name: name, policy: policy) { call in
                runs.withLock { $0.append("\(name) \(call.callID)") }
                return .init(output: "\(name) done")
            }
        }
        let tools = [tool("rm", .ask), tool("ls", .automatic)]
        let calls = [call("rm", id: "a"), call("ls", id: "b"), call("rm", id: "c")]
        let first = ClientHarness(
            wire, [.answer("Hello."), Reply(steps: [.events(items(calls))])], tools: tools,
            approval: { _ in .deferred })
        #expect(await first.ask("Hi").text == "Hello.")
        guard case .approvalPending(let pending)? = await first.ask("Tidy up").error else {
            Issue.record("the turn did not wait")
            return
        }
        #expect(pending.approvals.map(\.id) == ["a", "c"])
        #expect(pending.completed.map(\.call.callID) == ["b"])
        #expect(runs.withLock { $0 } == ["ls b"])

        // Another process, after a restart: all it has is the value.
        let restored = try JSONDecoder().decode(ChappiePendingTurn.self, from: JSONEncoder().encode(pending))
        #expect(restored.context == pending.context && restored.completed == pending.completed)
        #expect(restored.approvals.map(\.call) == pending.approvals.map(\.call))
        let second = ClientHarness(
            wire, [Reply(steps: [.cut])] + [.answer("Tidy.", id: "resp_9")],
            tools: tools)
        let response = try await second.client.resume(
            restored, decisions: ["a": .approved(), "c": .denied(reason: "keep it")])
        #expect(response.outputText == "Tidy.")
        #expect(runs.withLock { $0 } == ["ls b", "rm a"])
        let input = try #require(try second.requests.last?["input"]?.array)
        let outputs = input.filter { $0["type"] == "function_call_output" }
        #expect(outputs.compactMap { $0["call_id"]?.string } == ["a", "b", "c"])
        #expect(
            outputs.compactMap { $0["output"]?.string } == ["rm done", "ls done", "The call was denied: keep it"])
        // The bytes of the prefix are those of the first process.
        let before = ChappieJSON.array(Array(try #require(first.requests.last?["input"]?.array))).serialized()
        if wire == .serverSentEvents {
            #expect(ChappieJSON.array(input).serialized().hasPrefix(before.dropLast()))
        }
        #expect(await second.client.context().sessionID == pending.context.sessionID)
    }

    @Test func `a resumed turn that fails repeats no call when it is resumed again`() async throws {
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "rm", policy: .ask) { _ in
            runs.withLock { $0 += 1 }
            return "gone"
        }
        let harness = ClientHarness(
            .serverSentEvents,
            [
                Reply(steps: [.events(items([call("rm")]))]), .refused(400, #"{"error":{"message":"no"}}"#),
                .answer("done"),
            ], tools: [tool], approval: { _ in .deferred })
        guard case .approvalPending(let pending)? = await harness.ask().error else {
            Issue.record("the turn did not wait")
            return
        }
        let decisions = ["call_1": ChappieApprovalDecision.approved()]
        await #expect(throws: ChappieClientError.self) {
            try await harness.client.resume(pending, decisions: decisions)
        }
        #expect(try await harness.client.resume(pending, decisions: decisions).outputText == "done")
        #expect(runs.withLock { $0 } == 1)
    }

    @Test func `a call runs even if its ID ran for an earlier pending turn`() async throws {
        let runs = Mutex<[String]>([])
        let tool = ChappieHostTool(name: "rm", policy: .ask) { call in
            runs.withLock { $0.append(call.arguments) }
            return "gone"
        }
        let harness = ClientHarness(
            .serverSentEvents,
            [
                Reply(steps: [.events(items([call("rm", #"{"a":1}"#)]))]),
                Reply(steps: [.events(items([call("rm", #"{"a":2}"#)], id: "resp_2"))]), .answer("done", id: "resp_3"),
            ], tools: [tool], approval: { _ in .deferred })
        var waiting = await harness.ask().error
        for _ in 1...2 {
            guard case .approvalPending(let pending)? = waiting else {
                Issue.record("the turn did not wait: \(String(describing: waiting))")
                return
            }
            do {
                let answer = try await harness.client.resume(pending, decisions: ["call_1": .approved()])
                #expect(answer.outputText == "done")
            } catch {
                waiting = error as? ChappieClientError
            }
        }
        #expect(runs.withLock { $0 } == [#"{"a":1}"#, #"{"a":2}"#])
    }

    @Test(arguments: Wire.allCases, [ChappieToolPolicy.automatic, .ask])
    func freeTextForAFunctionIsRefused(wire: Wire, policy: ChappieToolPolicy) async throws {
        let item: ChappieJSON = [
            "type": "custom_tool_call", "call_id": "call_1", "name": "weather", "input": #"{"town":"Paris"}"#,
        ]
        let tool = ChappieHostTool(name: "weather", inputSchema: Self.schema, policy: policy) { _ in
            Issue.record("It ran.")
            return "sun"
        }
        let harness = ClientHarness(
            wire, [Reply(steps: [.events(items([item]))]), .answer("done", id: "r2")], tools: [tool],
            approval: { _ in
                Issue.record("It was asked for.")
                return .approved()
            })
        #expect(await harness.ask().text == "done")
        let output = try #require(try harness.requests.last?["input"]?.array?.last)
        #expect(output["type"] == "custom_tool_call_output" && output["call_id"] == "call_1")
        #expect(output["output"] == "The tool failed: It takes JSON arguments and no free text.")
    }

    @Test func aProvidersToolsAskUnlessTheySayOtherwise() async throws {
        struct Provider: ChappieToolProvider {
            func tools() -> [ChappieHostTool] {
                [
                    ChappieHostTool(name: "silent") { _ in "ran" },
                    ChappieHostTool(name: "trusted", policy: .automatic) { _ in "ran" },
                ]
            }
        }
        let asked = Mutex<[String]>([])
        let harness = ClientHarness(
            .serverSentEvents,
            [
                Reply(steps: [
                    .events(items(["silent", "trusted", "own"].map { call($0, "{}", id: "call_\($0)") }))
                ]), .answer("done"),
            ], tools: [ChappieHostTool(name: "own") { _ in "ran" }], providers: [Provider()],
            approval: { request in
                asked.withLock { $0.append(request.call.name) }
                return .denied(reason: "no")
            })
        #expect(await harness.ask().text == "done")
        #expect(asked.withLock { $0 } == ["silent"])
        #expect(try await harness.client.availableTools().map(\.policy) == [.automatic, .ask, .automatic])
    }

    @Test func aTypedToolDecodesItsInput() async throws {
        // Not Sendable: it need not be.
        final class Input: Decodable, ChappieJSONSchemaProviding {
            var town: String
            static var jsonSchema: ChappieJSONSchema { ChappieJSONSchema(ToolTests.schema) }
        }
        let tool = ChappieHostTool(name: "weather", input: Input.self) { input in "sun in \(input.town)" }
        let harness = ClientHarness(
            .serverSentEvents,
            [Reply(steps: [.events(items([call("weather", #"{"town":"Oslo"}"#)]))]), .answer("done")], tools: [tool])
        #expect(await harness.ask().text == "done")
        #expect(try harness.requests.last?["input"]?.array?.last?["output"] == "sun in Oslo")
        #expect(try harness.requests.first?["tools"]?[0]?["parameters"] == Self.schema)
    }

    @Test func `declarations list the harness's tools, then the host's, then namespaces`() async throws {
        struct Provider: ChappieToolProvider {
            func tools() -> [ChappieHostTool] {
                [ChappieHostTool(name: "read", policy: .automatic, namespace: "files") { _ in "text" }]
            }
        }
        let shop = ChappieHarness(
            name: "Shop", tools: [.init(name: "stock", description: "Told by the harness.")],
            plugins: [.init(name: "Plug", tools: [.init(name: "plug"), .init(name: "stock")])])
        let tools = ["stock", "plug", "own"].map { name in ChappieHostTool(name: name) { _ in .init(output: name) } }
        let item = call("read")
        guard var object = item.object else { return }
        object["namespace"] = "files"
        let harness = ClientHarness(
            .serverSentEvents, [Reply(steps: [.events(items([.object(object)]))]), .answer("done")], harness: shop,
            tools: tools, providers: [Provider()])
        #expect(await harness.ask().text == "done")
        let declared = try #require(try harness.requests.first?["tools"]?.array)
        #expect(declared.compactMap { $0["name"]?.string } == ["stock", "plug", "own", "files"])
        #expect(declared[0]["description"] == "Told by the harness." && declared[0]["type"] == "function")
        #expect(declared[3]["type"] == "namespace" && declared[3]["tools"]?[0]?["name"] == "read")
        #expect(try harness.requests.last?["input"]?.array?.last?["output"] == "text")
    }

    @Test(arguments: Wire.allCases) func modelsThatWantItGetTheirToolsInTheInput(wire: Wire) async throws {
        let list = ScriptedHTTPAnswer.response(
            body: #"{"models":[{"slug":"lite","use_responses_lite":true},{"slug":"full"}]}"#)
        let tool = ChappieHostTool(name: "weather") { _ in "sun" }
        let harness = ClientHarness(
            wire,
            [
                Reply(steps: [.events(items([call("weather")]))]), .answer("lite", id: "r2"),
                .answer("full", id: "r3"),
            ], others: [list], modelCache: EmptyModelCache(), tools: [tool])
        await harness.client.selectModel("lite")
        #expect(await harness.ask().text == "lite")
        let first = try #require(try harness.requests.first)
        #expect(first["input"]?[0]?["type"] == "additional_tools")
        #expect(first["input"]?[0]?["tools"]?[0]?["name"] == "functions")
        #expect(first["input"]?[0]?["tools"]?[0]?["tools"]?[0]?["name"] == "weather")
        #expect(first["tools"] == nil && first["parallel_tool_calls"] == false)
        #expect(first["reasoning"]?["context"] == "all_turns")
        await harness.client.selectModel("full")
        #expect(await harness.ask().text == "full")
        let last = try #require(try harness.requests.last)
        #expect(last["tools"]?[0]?["name"] == "weather" && last["input"]?[0]?["type"] == "message")
    }

    @Test func `a tool's schema is declared in a form that the service accepts`() async throws {
        let tool = ChappieHostTool(
            name: "t",
            inputSchema: [
                "type": "object",
                "oneOf": [
                    ["properties": ["a": ["type": "array"]], "required": ["a"]],
                    ["properties": ["b": ["type": "string", "pattern": "(?<!x)y"]], "required": ["b"]],
                ],
            ]
        ) { _ in "x" }
        let harness = ClientHarness(.serverSentEvents, [.answer("Hi")], tools: [tool])
        #expect(await harness.ask().text == "Hi")
        let body = try #require(try harness.requests.first)
        let tools = body["input"]?[0]?["tools"]?[0]?["tools"] ?? body["tools"]
        let declared = try #require(tools?[0])
        #expect(declared["strict"] == false)
        #expect(
            declared["parameters"] == [
                "properties": ["a": ["type": "array", "items": [:]], "b": ["type": "string"]], "type": "object",
            ])
    }

    @Test func `a tool that cannot be declared is refused before anything is sent`() async throws {
        for (name, schema) in [
            ("two words", ["type": "object"]), ("", ["type": "object"]), ("list", ["type": "array"] as ChappieJSON),
            ("future", ["type": "object", "minProperties": -1]),
        ] {
            let tool = ChappieHostTool(name: name, inputSchema: schema) { _ in "x" }
            let harness = ClientHarness(.serverSentEvents, tools: [tool])
            guard case .invalidTool(name, _)? = await harness.ask().error else {
                Issue.record("\(name) was taken")
                continue
            }
            #expect(try harness.requests.isEmpty)
        }
    }
}
