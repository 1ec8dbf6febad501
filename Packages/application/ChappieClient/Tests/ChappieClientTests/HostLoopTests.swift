import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieTesting
import HTTPTypes
import Synchronization
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// Exchanges of a host that runs tools and keeps the conversation itself.
@Suite(.timeLimit(.minutes(2))) struct HostLoopTests {
    private static let weather = ChappieHarnessTool(
        name: "weather", inputSchema: ["type": "object", "properties": ["town": ["type": "string"]]])
    private static let reasoning: ChappieJSON = [
        "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque",
    ]

    private static func message(_ text: String) -> ChappieJSON { ChappieInputMessage.user(text).inputItem }

    private func exchange(
        _ text: String = "Hi", tools: [ChappieHarnessTool] = [], change: (inout ChappieExchange) -> Void = { _ in }
    ) -> ChappieExchange {
        var exchange = ChappieExchange(instructions: "Be short.", input: [], tools: tools)
        exchange.append(.user(text))
        change(&exchange)
        return exchange
    }

    private func seen(_ harness: ClientHarness, _ exchange: ChappieExchange) async -> Seen {
        await Seen(harness.client.stream(exchange))
    }

    // MARK: The loop

    @Test(arguments: Wire.allCases)
    func `a host runs the calls, and only new items are sent over a WebSocket`(wire: Wire) async throws {
        let runs = Mutex(0)
        let own = ChappieHostTool(name: "weather", policy: .automatic) { _ in
            runs.withLock { $0 += 1 }
            return "rain"
        }
        let calls = items([Self.reasoning, call("weather", #"{"town":"Oslo"}"#)])
        let harness = ClientHarness(
            wire,
            [Reply(steps: [.events(calls)]), .answer("Rain.", id: "resp_2"), .answer("Sun.", id: "resp_3")],
            tools: [own])
        var exchange = exchange("Oslo?", tools: [Self.weather])

        let first = await seen(harness, exchange)
        #expect(first.executed == [#"{"town":"Oslo"}"#] && first.failure == nil, "\(first)")
        let response = try #require(first.response)
        #expect(response.usage?.totalTokens == 15)
        exchange.append(response)
        let made = response.toolCalls
        #expect(made.map(\.name) == ["weather"])
        for call in made { exchange.append("It rains.", of: call) }

        let second = try #require(await seen(harness, exchange).response)
        #expect(second.outputText == "Rain.")
        exchange.append(second)
        exchange.append(.user("Rome?"))
        #expect(await seen(harness, exchange).text == "Sun.")
        #expect(runs.withLock(\.self) == 0, "a tool of the client was run")

        let requests = try harness.requests
        let chained = requests.map { $0["previous_response_id"]?.string }
        let types = requests.map { ($0["input"]?.array ?? []).map { $0["type"]?.string ?? "" } }
        let conversation = [
            "message", "message", "reasoning", "function_call", "function_call_output", "message", "message",
        ]
        if wire == .webSocket {
            #expect(chained == [nil, "resp_1", "resp_2"])
            #expect(types == [["message", "message"], ["function_call_output"], ["message"]])
        } else {
            #expect(chained == [nil, nil, nil])
            #expect(types == [2, 5, 7].map { Array(conversation.prefix($0)) })
        }
        #expect(requests.allSatisfy { $0["tools"]?[0]?["name"] == "weather" && $0["tools"]?.array?.count == 1 })
        #expect(requests[0]["input"]?[0]?["content"]?[0]?["text"] == "Be short.")
    }

    @Test func `an input that was cut is sent in full`() async throws {
        let harness = ClientHarness(
            .webSocket, [.answer("one"), .answer("two", id: "resp_2"), .answer("three", id: "resp_3")])
        var exchange = exchange("a")
        exchange.append(try #require(await seen(harness, exchange).response))
        exchange.append(.user("b"))
        exchange.append(try #require(await seen(harness, exchange).response))
        exchange.input.removeFirst(2)
        exchange.append(.user("c"))
        #expect(await seen(harness, exchange).text == "three")
        let frames = try harness.frames(0)
        #expect(frames.map { $0["previous_response_id"]?.string } == [nil, "resp_1", nil])
        // The instructions are before the input.
        #expect(frames.map { $0["input"]?.array?.count } == [2, 1, 4])
    }

    @Test(arguments: Wire.allCases)
    func `an exchange names its model, options, schema and instructions, or none`(wire: Wire) async throws {
        let harness = ClientHarness(wire, [.answer(#"{"a":1}"#)])
        let schema = ChappieJSONSchema(["type": "object", "properties": ["a": ["type": "integer"]]])
        let exchange = exchange {
            $0.instructions = nil
            $0.model = "other"
            $0.options = ChappieMessageOptions(reasoningEffort: .low, verbosity: .low)
            $0.outputSchema = schema
            $0.serviceTools = [.webSearch()]
            $0.toolChoice = .required
        }
        let seen = await seen(harness, exchange)
        guard case .unsupportedInput? = seen.error else {
            Issue.record("\(seen)")
            return
        }
        #expect(try harness.requests.isEmpty)
        var offered = exchange
        offered.model = "flat"
        #expect(await self.seen(harness, offered).text == #"{"a":1}"#)
        let body = try #require(try harness.requests.first)
        #expect(body["model"] == "flat" && body["tool_choice"] == "required" && body["input"]?.array?.count == 1)
        #expect(body["reasoning"]?["effort"] == "low" && body["text"]?["verbosity"] == "low")
        #expect(body["text"]?["format"]?["schema"]?["required"] == ["a"])
        #expect(body["tools"]?[0]?["type"] == "web_search")
    }

    @Test(arguments: Wire.allCases)
    func `an answer that wants to continue is asked for again, and comes as one`(wire: Wire) async throws {
        let end = #"{"type":"response.completed","response":{"id":"r","status":"completed","end_turn":false}}"#
        let first = Array(answering("Let me see. ", id: "resp_1").dropLast()) + [end]
        let harness = ClientHarness(wire, [Reply(steps: [.events(first)]), .answer("Done.", id: "resp_2")])
        let seen = await seen(harness, exchange())
        #expect(seen.text == "Let me see. Done." && seen.response?.outputText == seen.text, "\(seen)")
        #expect(seen.response?.items.map(\.id) == ["msg_resp_1", "msg_resp_2"])
        #expect(try harness.requests.count == 2)
    }

    @Test func `an exchange with the outputs of calls continues their turn`() async throws {
        func answer(_ events: [String], _ state: String) -> Reply {
            var answer = Reply(steps: [.events(events)]).httpAnswer
            answer.headerFields[.turnState] = state
            return Reply(steps: [.raw(answer)])
        }
        let harness = ClientHarness(
            .serverSentEvents,
            [
                answer(items([call("weather")]), "state-1"), answer(answering("Rain."), "state-2"),
                answer(answering("Sun."), "state-3"),
            ])
        var exchange = exchange("Oslo?", tools: [Self.weather])
        for _ in 0..<2 {
            let response = try #require(await seen(harness, exchange).response)
            exchange.append(response)
            for call in response.toolCalls { exchange.append("It rains.", of: call) }
        }
        exchange.append(.user("Rome?"))
        #expect(await seen(harness, exchange).text == "Sun.")
        let states = harness.http.receivedRequests.map { $0.headerFields[.turnState] }
        #expect(states == [nil, "state-1", nil])
    }

    @Test(arguments: Wire.allCases)
    func `calls of an answer that ended early are not run, and the next exchange goes on without them`(
        wire: Wire
    ) async throws {
        let end = #"{"type":"response.incomplete","response":{"id":"r","status":"incomplete"}}"#
        let harness = ClientHarness(
            wire,
            [
                Reply(steps: [.events(items([Self.reasoning, call("weather")], isWhole: false) + [end])]),
                .answer("Rain.", id: "resp_2"),
            ])
        var exchange = exchange("Oslo?", tools: [Self.weather])
        let response = try #require(await seen(harness, exchange).response)
        #expect(response.toolCalls.isEmpty && response.items.count == 2)
        exchange.append(response)
        exchange.append(.user("Go on."))
        #expect(await seen(harness, exchange).text == "Rain.")
        #expect(try harness.requests[1]["input"]?.array?.count == 3)
    }

    // MARK: Faults

    @Test(arguments: Wire.allCases)
    func `a break in the middle of an answer is repaired, and nothing comes twice`(wire: Wire) async throws {
        let calls = items([call("weather")], isWhole: false)
        let harness = ClientHarness(
            wire,
            [
                .half("Hello, ", then: .cut), .answer("Hello, world", id: "resp_2"),
                Reply(steps: [.events(calls), .cut]), Reply(steps: [.events(items([call("weather")]))]),
            ])
        let text = await seen(harness, exchange())
        #expect(text.text == "Hello, world" && text.response?.items.count == 1, "\(text)")
        let call = await seen(harness, exchange(tools: [Self.weather]))
        #expect(call.executed == ["{}"] && call.response?.items.count == 1, "\(call)")
    }

    @Test(arguments: Wire.allCases)
    func `a break that lasts is an error, whatever was shown`(wire: Wire) async {
        let harness = ClientHarness(wire, Array(repeating: .half("Hello", then: .cut), count: 20))
        let seen = await seen(harness, exchange())
        guard case .transportFailed? = seen.error else {
            Issue.record("\(seen)")
            return
        }
        #expect(seen.text == "Hello" && seen.response == nil)
    }

    @Test(arguments: Wire.allCases)
    func `errors are those of a turn`(wire: Wire) async throws {
        let limit = #"{"error":{"type":"usage_limit_reached","resets_in_seconds":9000}}"#
        let tooLong = #"{"code":"context_length_exceeded","message":"too long"}"#
        let harness = ClientHarness(wire, [.refused(429, limit), .failed(tooLong)])
        guard case .usageLimitReached(let reached)? = await seen(harness, exchange()).error else {
            Issue.record("no limit")
            return
        }
        #expect(reached.resetsAt != nil)
        #expect(await seen(harness, exchange()).error == .contextWindowExceeded)
        #expect(await ClientHarness(signedIn: false).client.stream(exchange()).failure == .missingCredential)
    }

    @Test(arguments: Wire.allCases)
    func `another model answers if the service refuses the best one, without its reasoning`(wire: Wire) async throws {
        let refusal = #"{"detail":"The 'flat' model is not supported when using Codex with a ChatGPT account."}"#
        let harness = ClientHarness(wire, [.refused(400, refusal), .answer("Hello")])
        let seen = await seen(harness, exchange { $0.input.append(Self.reasoning) })
        #expect(seen.text == "Hello" && seen.notices.map(\.kind) == [.modelReplaced], "\(seen)")
        let requests = try harness.requests
        #expect(requests.map { $0["model"] } == ["flat", "other"])
        #expect(requests.map { $0["input"]?.array?.contains { $0["type"] == "reasoning" } } == [true, false])

        let named = ClientHarness(wire, [.refused(400, refusal)])
        guard case .modelUnavailable? = await self.seen(named, exchange { $0.model = "flat" }).error else {
            Issue.record("no refusal")
            return
        }
    }

    @Test(arguments: Wire.allCases)
    func `reasoning that can't be read is left out, but not a compaction`(wire: Wire) async throws {
        let refusal = Reply.refused(400, #"{"error":{"code":"invalid_encrypted_content","message":"no"}}"#)
        let harness = ClientHarness(wire, [refusal, .answer("Hello"), refusal])
        #expect(await seen(harness, exchange { $0.input.append(Self.reasoning) }).text == "Hello")
        let requests = try harness.requests
        #expect(requests.map { $0["input"]?.array?.count } == [3, 2])
        let compaction: ChappieJSON = ["type": "compaction", "encrypted_content": "short"]
        guard case .httpError(400, _)? = await seen(harness, exchange { $0.input.append(compaction) }).error else {
            Issue.record("the compaction was left out")
            return
        }
    }

    @Test(arguments: Wire.allCases) func `a time limit ends an exchange`(wire: Wire) async {
        let clock = ManualClock()
        let gate = ScriptedGate()
        let harness = ClientHarness(wire, [.half("Hello", then: .wait(gate))], clock: clock)
        let reading = Task { await seen(harness, exchange { $0.timeLimit = .seconds(30) }) }
        await gate.reached()
        await clock.waitForSleepers(count: 1)
        clock.advance(by: .seconds(30))
        #expect(await reading.value.error == .timeLimitExceeded(.seconds(30)))
    }

    @Test func `a WebSocket that fails is replaced by server-sent events`() async {
        let harness = ClientHarness(
            .webSocket, [.answer("Hello")], openings: [.refused(.response(status: .upgradeRequired))])
        let seen = await seen(harness, exchange())
        #expect(seen.text == "Hello" && seen.events.last == .connected(.serverSentEvents), "\(seen)")
    }

    // MARK: Beside turns and other exchanges

    @Test(arguments: Wire.allCases)
    func `turns and exchanges wait for each other, and don't mix`(wire: Wire) async throws {
        let gates = [ScriptedGate(), ScriptedGate()]
        let held = zip(gates, ["one", "two"]).map { gate, text in
            Reply(steps: [.wait(gate), .events(answering(text, id: "resp_\(text)"))])
        }
        let harness = ClientHarness(
            wire, held + [.answer("three", id: "resp_3"), .answer("four", id: "resp_4")])
        let streams = ["a", "b"].map { harness.client.stream(exchange($0)) }
        let first = Task { await Seen(streams[0]) }
        await gates[0].reached()
        #expect(try harness.requests.count == 1)
        #expect(await harness.client.steer(.user("no")) == false)
        gates[0].open()
        #expect(await first.value.text == "one")
        await gates[1].reached()
        gates[1].open()
        let second = try #require(await Seen(streams[1]).response)
        #expect(second.outputText == "two")

        #expect(try await harness.client.send("question") == "three")
        var next = exchange("b")
        next.append(second)
        next.append(.user("c"))
        #expect(await seen(harness, next).text == "four")
        let texts = await harness.client.context().items.map { $0["content"]?[0]?["text"]?.string }
        #expect(texts == ["question", "three"])
        guard wire == .webSocket else { return }
        // The turn's connection does not end that of the exchanges.
        #expect(harness.webSocket.peers.count == 2)
        let frames = try harness.frames(0) + harness.frames(1)
        #expect(frames.map { $0["previous_response_id"]?.string } == [nil, nil, "resp_two", nil])
    }

    @Test(arguments: Wire.allCases)
    func `cancelling the reader ends an exchange and closes its connection`(wire: Wire) async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(wire, [.half("half", then: .wait(gate)), .answer("next")])
        let reading = Task { for try await _ in harness.client.stream(exchange()) {} }
        await gate.reached()
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        #expect(await seen(harness, exchange()).text == "next")
        if wire == .webSocket { #expect(harness.webSocket.peers[0].isDropped) }
    }

    @Test func `an exchange continues its prewarm`() async throws {
        let warm = Reply.events(#"{"type":"response.completed","response":{"id":"warm","status":"completed"}}"#)
        let harness = ClientHarness(.webSocket, [warm, .answer("one")])
        var exchange = ChappieExchange(instructions: "Be short.", input: [], tools: [Self.weather])
        await harness.client.prewarm(exchange)
        exchange.append(.user("a"))
        #expect(await seen(harness, exchange).text == "one")
        let frames = try harness.frames(0)
        #expect(frames.map { $0["generate"]?.bool } == [false, nil])
        #expect(frames.map { $0["input"]?.array?.count } == [1, 1])
        #expect(frames[1]["previous_response_id"] == "warm")
    }

    @Test(arguments: Wire.allCases)
    func `exchanges of another account have another id and connection`(wire: Wire) async throws {
        let harness = ClientHarness(
            wire, [.answer("one"), .answer("two", id: "resp_2")],
            others: [.response(body: SeededModelCache.list.serialized())])
        _ = await seen(harness, exchange("a"))
        var other = harness.seed
        other.serial = 2
        other.accountID = "account-2"
        _ = try await harness.credentials.importCredential(other.credential)
        let seen = await seen(harness, exchange("b"))
        #expect(seen.text == "two" && seen.notices.isEmpty, "\(seen)")
        if wire == .webSocket { #expect(harness.webSocket.peers.count == 2) }
    }

    @Test func `an exchange is reported like a turn`() async {
        let observer = RecordingObserver()
        let harness = ClientHarness(.serverSentEvents, [.answer("Hello"), .refused(400)], observer: observer)
        _ = await seen(harness, exchange())
        _ = await seen(harness, exchange())
        _ = await seen(harness, ChappieExchange(input: []))
        let turns = observer.operations.count { if case .turn = $0 { true } else { false } }
        let requests = observer.operations.count { if case .request = $0 { true } else { false } }
        #expect(turns == 3 && requests == 2 && observer.endedCount == observer.operations.count)
        #expect(observer.facts.contains(.turnsWaiting(change: 1)))
    }

    // MARK: Mistakes

    private static let output: ChappieJSON = [
        "type": "function_call_output", "call_id": "call_1", "output": "rain",
    ]

    static let mistakes: [(String, @Sendable (inout ChappieExchange) -> Void)] = [
        ("no input", { $0.input = [] }),
        ("element 1 ", { $0.input.append("text") }),
        ("element 1 ", { $0.input.append(["content": "text"]) }),
        ("output of the call \"call_1\"", { $0.input.append(output) }),
        ("output of the call \"call_1\"", { $0.input += [output, call("weather")] }),
        ("call \"call_1\" without its output", { $0.input.append(call("weather")) }),
        ("\"two words\"", { $0.tools = [ChappieHarnessTool(name: "two words")] }),
        ("another tool has the same name", { $0.tools += [weather, weather] }),
        ("must be of type object", { $0.tools = [ChappieHarnessTool(name: "a", inputSchema: ["type": "string"])] }),
        ("tool choice names \"other\"", { $0.toolChoice = .function("other") }),
        (
            "tool choice names \"weather\"",
            {
                $0.tools = [weather]
                $0.toolChoice = .custom("weather")
            }
        ),
        ("can't make pictures", { $0.serviceTools = [.imageGeneration()] }),
        ("schema", { $0.outputSchema = ChappieJSONSchema(["type": "object", "patternProperties": ["a": [:]]]) }),
    ]

    @Test(arguments: mistakes.indices)
    func `a mistake in an exchange is named before anything is sent`(index: Int) async throws {
        let (words, change) = Self.mistakes[index]
        let harness = ClientHarness(.serverSentEvents, [.answer("Hello")])
        let error = await seen(harness, exchange(change: change)).error
        switch error {
        case .unsupportedInput?, .invalidTool?: break
        default: Issue.record("\(error.map { "\($0)" } ?? "no error")")
        }
        #expect(error?.errorDescription?.contains(words) == true, "\(error?.errorDescription ?? "")")
        #expect(harness.http.receivedRequests.isEmpty)
    }

    @Test func `a prewarm with a mistake sends nothing`() async {
        let harness = ClientHarness(.webSocket, [.answer("Hello")])
        await harness.client.prewarm(exchange { $0.input.append(Self.output) })
        #expect(harness.webSocket.receivedOpenings.isEmpty)
    }
}

extension AsyncThrowingStream<ChappieStreamEvent, any Error> {
    /// The error with which the stream ends.
    fileprivate var failure: ChappieClientError? {
        get async { await Seen(self).error }
    }
}
