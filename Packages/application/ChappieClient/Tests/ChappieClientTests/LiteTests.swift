@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieTesting
import HTTPTypes
import Synchronization
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// The form that every model of the service takes: tools and instructions in the input, in every kind of turn.
@Suite struct LiteTests {
    private static let marker = "ws_request_header_x_openai_internal_codex_responses_lite"
    private static let tool = ChappieHostTool(name: "weather") { _ in "sun" }

    private func harness(
        _ wire: Wire, _ replies: [Reply], tools: [ChappieHostTool] = [],
        configure: (inout ChappieConfiguration) -> Void = { _ in }
    ) -> ClientHarness {
        ClientHarness(
            wire, replies, tools: tools,
            configure: {
                $0.model = "lite"
                configure(&$0)
            })
    }

    /// What every request has, first ones and those of a kept chain.
    private func expectLite(_ body: ChappieJSON, over wire: Wire) {
        #expect(body["tools"] == nil && body["instructions"] == nil)
        #expect(body["parallel_tool_calls"] == false)
        #expect(body["tool_choice"] == "auto")
        #expect(body["store"] == false)
        #expect(body["include"] == ["reasoning.encrypted_content"])
        #expect(body["reasoning"]?.object?.names == ["effort", "context"])
        #expect(body["reasoning"]?["context"] == "all_turns")
        if wire == .webSocket { #expect(body["client_metadata"]?[Self.marker] == "true") }
    }

    @Test(arguments: Wire.allCases, [true, false])
    func everyRequestHasTheForm(wire: Wire, hasTool: Bool) async throws {
        var calling = call("weather").object ?? ChappieJSONObject()
        calling["namespace"] = "functions"
        let first = hasTool ? [Reply(steps: [.events(items([.object(calling)]))])] : []
        let harness = harness(
            wire, first + [.answer("one", id: "resp_2"), .answer("two", id: "resp_3")],
            tools: hasTool ? [Self.tool] : [])
        #expect(await harness.ask("a").text == "one")
        #expect(await harness.ask("b").text == "two")
        let requests = try harness.requests
        for body in requests { expectLite(body, over: wire) }
        let input = try #require(requests[0]["input"]?.array)
        #expect(input[0]["type"] == "additional_tools" && input[0]["role"] == "developer")
        #expect(input[1]["role"] == "developer" && input[2]["role"] == "user")
        if hasTool {
            #expect(input[0]["tools"]?.array?.count == 1)
            let namespace = try #require(input[0]["tools"]?[0])
            #expect(
                namespace["type"] == "namespace" && namespace["name"] == "functions" && namespace["description"] == "")
            #expect(namespace["tools"]?[0]?["name"] == "weather")
        } else {
            #expect(input[0]["tools"] == [])
        }
        if wire == .webSocket {
            // The chain brings only what is new.
            #expect(requests.dropFirst().allSatisfy { $0["previous_response_id"] != nil })
            #expect(requests.dropFirst().allSatisfy { $0["input"]?[0]?["type"] != "additional_tools" })
        } else {
            for body in requests.dropFirst() {
                #expect(body["input"]?.array?.starts(with: input) == true)
            }
            let posted = harness.http.receivedRequests
            #expect(posted.allSatisfy { $0.headerFields[.responsesLite] == "true" })
            if hasTool { #expect(requests[1]["input"]?[3]?["namespace"] == "functions") }
        }
    }

    @Test func aPrewarmHasTheFormAndIsContinued() async throws {
        let warm = Reply.events(#"{"type":"response.completed","response":{"id":"warm","status":"completed"}}"#)
        let harness = harness(.webSocket, [warm, .answer("one")])
        await harness.client.prewarm()
        #expect(await harness.ask("a").text == "one")
        let frames = try harness.frames(0)
        for frame in frames { expectLite(frame, over: .webSocket) }
        #expect(frames[0]["generate"] == false && frames[0]["input"]?[0]?["type"] == "additional_tools")
        #expect(frames[1]["previous_response_id"] == "warm" && frames[1]["input"]?.array?.count == 1)
    }

    @Test(arguments: Wire.allCases) func aReplayAfterABreakIsWhole(wire: Wire) async throws {
        let harness = harness(wire, [.answer("one"), .half("two", then: .cut), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        #expect(await harness.ask("b").text == "two")
        let replay = try #require(try harness.requests.last)
        expectLite(replay, over: wire)
        #expect(replay["input"]?[0]?["type"] == "additional_tools" && replay["input"]?.array?.count == 5)
    }

    @Test(arguments: Wire.allCases) func aCompactionAndASummaryInWordsHaveTheForm(wire: Wire) async throws {
        let made = items([["type": "compaction", "encrypted_content": "c"]], id: "resp_2")
        for (replies, count) in [([Reply(steps: [.events(made)])], 2), ([.refused(400), .answer("sum", id: "r3")], 3)] {
            let harness = harness(wire, [.answer("one")] + replies, tools: [Self.tool])
            _ = await harness.ask("a")
            _ = try await harness.client.compactContext()
            let requests = try harness.requests
            #expect(requests.count == count)
            for body in requests { expectLite(body, over: wire) }
            // A summary must be words: there is nothing to call.
            if count == 3 { #expect(requests[2]["input"]?[0]?["tools"] == []) }
        }
    }

    @Test(arguments: Wire.allCases) func structuredOutputHasTheForm(wire: Wire) async throws {
        let harness = harness(wire, [.answer("{}")])
        let request = ChappieResponseRequest(
            messages: [.user("a")], outputSchema: ChappieJSONSchema(["type": "object", "properties": [:]]))
        _ = try await harness.client.response(request)
        let body = try harness.requests[0]
        expectLite(body, over: wire)
        #expect(body["text"]?["format"]?["type"] == "json_schema")
    }

    @Test func `the headers name the format, the model and the conversation`() async throws {
        for wire in Wire.allCases {
            let harness = harness(wire, [.answer("one")])
            _ = await harness.ask()
            let fields =
                wire == .webSocket
                ? try #require(harness.webSocket.receivedOpenings.first?.headerFields)
                : try #require(harness.http.receivedRequests.first?.headerFields)
            let id = await harness.client.context().sessionID
            func field(_ name: String) -> String? { HTTPField.Name(name).flatMap { fields[$0] } }
            #expect(field("version") == WireFormat.version)
            #expect(field("x-codex-routing-hint") == "model=lite")
            #expect(["x-client-request-id", "session-id", "thread-id"].allSatisfy { field($0) == id })
            #expect(field("x-codex-window-id") == "\(id):0")
        }
    }

    // MARK: Images

    @Test func imagesTravelWithoutDetailAndOnlyAsData() async throws {
        let image = ChappieImage(source: .url("data:image/png;base64,AAAA"))
        let harness = harness(.serverSentEvents, [.answer("one")])
        _ = await Seen(harness.client.stream(.user("a", images: [image])))
        let part = try harness.requests[0]["input"]?[2]?["content"]?[0]
        #expect(part?["type"] == "input_image")
        #expect(part?["detail"] == nil)
        #expect(part?["image_url"] != nil)
        let far = ChappieImage(source: .url("https://example.com/a.png"))
        let seen = await Seen(harness.client.stream(.user("b", images: [far])))
        guard case .unsupportedInput? = seen.error else {
            Issue.record("\(seen)")
            return
        }
        #expect(try harness.requests.count == 1)
    }

    @Test func `an image URL in an old conversation is mentioned and not sent as an image`() async throws {
        let harness = harness(.serverSentEvents, [.answer("one")])
        let far = ChappieInputMessage.user("b", images: [ChappieImage(source: .url("https://example.com/a.png"))])
        await harness.client.resumeContext(
            ChappieClientContext(sessionID: "s", model: "lite", messages: [far], createdAt: .scriptedStart))
        let seen = await harness.ask()
        #expect(seen.notices.map(\.kind) == [.imageLeftOut])
        let part = try harness.requests[0]["input"]?[2]?["content"]?[0]
        #expect(part?["type"] == "input_text" && part?["text"]?.string?.contains("https://example.com/a.png") == true)
    }

    @Test func aCallOfTheTimeBeforeNamespacesGetsOne() async throws {
        let harness = harness(.serverSentEvents, [.answer("one")])
        let output: ChappieJSON = ["type": "function_call_output", "call_id": "call_1", "output": "sun"]
        await harness.client.resumeContext(
            ChappieClientContext(
                sessionID: "s", model: "lite", items: [call("weather"), output], compactedSummary: nil,
                createdAt: .scriptedStart, updatedAt: .scriptedStart))
        #expect(await harness.ask().text == "one")
        let input = try harness.requests[0]["input"]
        #expect(input?[2]?["type"] == "function_call" && input?[2]?["namespace"] == "functions")
        #expect(input?[3] == output)
    }

    // MARK: A long conversation

    @Test(arguments: Wire.allCases) func `an overflow after a round of tools runs no tool twice`(wire: Wire)
        async throws
    {
        let overflow = #"{"code":"context_length_exceeded","message":"too long"}"#
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "mail") { _ in
            runs.withLock { $0 += 1 }
            return "sent"
        }
        let made = items([["type": "compaction", "encrypted_content": "c"]], id: "resp_3")
        let harness = harness(
            wire,
            [
                .answer("before"), Reply(steps: [.events(items([call("mail")], id: "resp_2"))]), .failed(overflow),
                Reply(steps: [.events(made)]), .answer("done", id: "resp_4"),
            ], tools: [tool]
        ) { $0.automaticCompaction = 0.9 }
        _ = await harness.ask("a")
        #expect(await harness.ask("mail them").text == "done")
        #expect(runs.withLock(\.self) == 1)
        let last = try #require(try harness.requests.last)
        let types = (last["input"]?.array ?? []).map { $0["type"]?.string }
        #expect(types.contains("compaction") && types.contains("function_call_output"))
    }

    @Test func `an overflow in a turn without anything before it sums the turn up`() async throws {
        let overflow = #"{"code":"context_length_exceeded","message":"too long"}"#
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "mail") { _ in
            runs.withLock { $0 += 1 }
            return "sent"
        }
        let harness = harness(
            .serverSentEvents,
            [
                Reply(steps: [.events(items([call("mail")]))]), .failed(overflow),
                Reply(steps: [.events(items([["type": "compaction", "encrypted_content": "c"]]))]), .answer("done"),
            ], tools: [tool]
        ) { $0.automaticCompaction = 0.9 }
        #expect(await harness.ask("mail them").text == "done")
        #expect(runs.withLock(\.self) == 1)
        let types = (try harness.requests.last?["input"]?.array ?? []).map { $0["type"]?.string }
        #expect(types.suffix(2) == ["message", "compaction"] && !types.contains("function_call_output"))
        // The next refusal in the same round ends the turn.
        let stubborn = self.harness(
            .serverSentEvents,
            [
                Reply(steps: [.events(items([call("mail")]))]), .failed(overflow),
                Reply(steps: [.events(items([["type": "compaction", "encrypted_content": "c"]]))]), .failed(overflow),
            ], tools: [tool]
        ) { $0.automaticCompaction = 0.9 }
        #expect(await stubborn.ask("mail them").error == .contextWindowExceeded)
        #expect(try stubborn.requests.count == 4)
    }
}
