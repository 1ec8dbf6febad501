@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import HTTPTypes
import Synchronization
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// Keeps documents in memory, beginning with a list of models.
private final class MemoryModelCache: ChappieModelCache {
    private let seed: SeededModelCache
    private let documents = Mutex<[String: [UInt8]]>([:])

    init(_ list: ChappieJSON = SeededModelCache.list, listedAt: Date = .scriptedStart) {
        seed = SeededModelCache(list: list, listedAt: listedAt)
    }

    func load(_ name: String) -> [UInt8]? { documents.withLock { $0[name] } ?? seed.load(name) }
    func save(_ document: [UInt8], _ name: String) { documents.withLock { $0[name] = document } }
}

/// The form of a request where the service does not take the one that the list of models names.
@Suite struct RequestFormTests {
    private static let tool = ChappieHostTool(name: "weather") { _ in "sun" }

    private func harness(
        _ wire: Wire, _ model: String?, _ replies: [Reply], cache: (any ChappieModelCache)? = nil,
        tools: [ChappieHostTool] = [], clock: (any ChappieClock)? = nil
    ) -> ClientHarness {
        ClientHarness(
            wire, replies, clock: clock, modelCache: cache, tools: tools, configure: { $0.model = model })
    }

    private static func error(_ code: String?, _ message: String, _ parameter: String? = nil) -> Reply {
        let json: ChappieJSON = [
            "error": [
                "code": code.map { .string($0) } ?? .null, "message": .string(message),
                "param": parameter.map { .string($0) } ?? .null,
            ]
        ]
        return .refused(400, json.serialized())
    }

    private func isLite(_ body: ChappieJSON) -> Bool {
        body["tools"] == nil && body["reasoning"]?["context"] == "all_turns"
    }

    // MARK: The lite form

    private static let refusals = [
        error("unsupported_value", "This model is not supported when using X-OpenAI-Internal-Codex-Responses-Lite."),
        error(
            "unsupported_value",
            "The model only supports function tools, custom tools, and client-executed tool search.", "tools"),
        error(nil, "Unknown tool type: namespace", "input[0].tools[0].type"),
    ]

    @Test(arguments: Wire.allCases, refusals.indices)
    func `a model that refuses the lite form gets the full form`(wire: Wire, index: Int) async throws {
        let answers: [Reply] = [.answer("one"), .answer("two", id: "resp_2")]
        for tools in [[], [Self.tool]] {
            // A model that the list does not know, too.
            for model in ["lite", "unlisted"] {
                let harness = harness(wire, model, [Self.refusals[index]] + answers, tools: tools)
                #expect(await harness.ask("a").text == "one")
                #expect(await harness.ask("b").text == "two")
                let requests = try harness.requests
                #expect(requests.map(isLite) == [true, false, false])
                #expect(requests[1]["tools"]?.array?.count == tools.count)
                #expect(requests[1]["tools"]?[0]?["type"]?.string == (tools.isEmpty ? nil : "function"))
            }
        }
    }

    @Test func `the refusal is remembered for a day or until the list changes`() async throws {
        let cache = MemoryModelCache()
        let first = harness(.serverSentEvents, "lite", [Self.refusals[0], .answer("one")], cache: cache)
        #expect(await first.ask().text == "one")
        func form(_ cache: MemoryModelCache, after seconds: TimeInterval) async throws -> Bool {
            let clock = ManualClock()
            clock.advance(by: .seconds(seconds))
            let next = harness(.serverSentEvents, "lite", [.answer("two")], cache: cache, clock: clock)
            #expect(await next.ask().text == "two")
            return isLite(try #require(try next.requests.last))
        }
        #expect(try await !form(cache, after: 0))
        #expect(try await !form(cache, after: 23 * 3600))
        #expect(try await form(cache, after: 25 * 3600))
        let list: ChappieJSON = ["models": [["slug": "lite", "use_responses_lite": true, "context_window": 1000]]]
        let changed = MemoryModelCache(list)
        let again = harness(.serverSentEvents, "lite", [Self.refusals[0], .answer("one")], cache: changed)
        #expect(await again.ask().text == "one")
        #expect(try await !form(changed, after: 0))
    }

    // MARK: Tools of the backend

    @Test(arguments: Wire.allCases) func aTurnWithAServiceToolHasTheFullForm(wire: Wire) async throws {
        let search: ChappieJSON = ["type": "web_search_call", "id": "ws_1", "status": "completed"]
        let searched = Reply(steps: [.events(items([search], isWhole: false) + answering("new"))])
        let harness = harness(wire, "lite", [searched, .answer("old", id: "resp_2"), .answer("c", id: "resp_3")])
        let lookup = ChappieServiceTool(declaration: ["type": "lookup"])
        let request = ChappieResponseRequest(
            messages: [.user("What is new?")], serviceTools: [.webSearch(), lookup])
        let seen = await Seen(harness.client.streamResponse(request))
        #expect(
            seen.text == "new" && seen.notices.map(\.message) == ["The answer was written without the tool lookup."])
        // The answer comes from the model's memory.
        let silent = await Seen(harness.client.streamResponse(request))
        #expect(silent.text == "old" && silent.notices.map(\.kind) == [.toolNotUsed, .toolNotUsed])
        #expect(await harness.ask("And?").notices.isEmpty)
        let requests = try harness.requests
        #expect(requests.map(isLite) == [false, false, true])
        #expect(requests[0]["tools"]?.array?.map { $0["type"] } == ["web_search", "lookup"])
        #expect(requests[0]["client_metadata"]?["ws_request_header_x_openai_internal_codex_responses_lite"] == nil)
        #expect(harness.http.receivedRequests.first?.headerFields[.responsesLite] == nil)
    }

    @Test func `a refused service tool is not remembered as a refused form`() async throws {
        let cache = MemoryModelCache()
        let harness = harness(.serverSentEvents, "lite", [Self.refusals[1], .answer("one")], cache: cache)
        let lookup = ChappieServiceTool(declaration: ["type": "lookup"])
        let request = ChappieResponseRequest(messages: [.user("a")], serviceTools: [lookup])
        #expect(await Seen(harness.client.streamResponse(request)).error != nil)
        #expect(await harness.ask().text == "one")
        #expect(try harness.requests.map(isLite) == [false, true])
    }

    // MARK: Optional members

    @Test(arguments: ["reasoning.summary", "reasoning.effort", "text.verbosity", "parallel_tool_calls"])
    func `an optional member that is refused is left out from then on`(name: String) async throws {
        let refusals = [
            Self.error("unsupported_parameter", "It is not supported with this model.", name),
            .refused(400, #"{"detail":"Unsupported parameter: \#(name)"}"#),
        ]
        for refusal in refusals {
            let harness = harness(.serverSentEvents, "flat", [refusal, .answer("one"), .answer("two", id: "resp_2")])
            let options = ChappieMessageOptions(reasoningEffort: .high, verbosity: .low)
            let request = ChappieResponseRequest(messages: [.user("a")], options: options)
            for text in ["one", "two"] { #expect(await Seen(harness.client.streamResponse(request)).text == text) }
            let has = try harness.requests.map { body in
                name.split(separator: ".").reduce(body as ChappieJSON?) { $0?[String($1)] } != nil
            }
            #expect(has == [true, false, false])
        }
    }

    @Test func `a refused value is left out once, and the user is told`() async throws {
        let refusal = Self.error("unsupported_value", "Unsupported value: 'high'.", "reasoning.effort")
        let harness = harness(.serverSentEvents, "flat", [refusal, .answer("one"), .answer("two", id: "resp_2")])
        let options = ChappieMessageOptions(reasoningEffort: .high)
        let request = ChappieResponseRequest(messages: [.user("a")], options: options)
        let seen = await Seen(harness.client.streamResponse(request))
        #expect(seen.text == "one" && seen.notices.map(\.kind) == [.optionLeftOut])
        #expect(await Seen(harness.client.streamResponse(request)).text == "two")
        #expect(try harness.requests.map { $0["reasoning"]?["effort"]?.string } == ["high", nil, "high"])
    }

    @Test func aMemberThatIsRefusedTwiceEndsTheTurn() async throws {
        let refusal = Self.error("unsupported_parameter", "Not supported.", "reasoning.summary")
        let harness = harness(.serverSentEvents, "flat", [refusal, refusal, .answer("one")])
        #expect(await harness.ask().error != nil)
        #expect(try harness.requests.count == 2)
    }

    @Test(arguments: Wire.allCases) func `instructions move to their own member if the backend requires it`(wire: Wire)
        async throws
    {
        let refusal = Reply.refused(400, #"{"detail":"Instructions are required"}"#)
        let harness = harness(wire, "flat", [refusal, .answer("one"), .answer("two", id: "resp_2")])
        #expect(await harness.ask("a").text == "one")
        #expect(await harness.ask("b").text == "two")
        let requests = try harness.requests
        #expect(requests.map { $0["instructions"]?.string } == [nil, "Be brief.", "Be brief."])
        #expect(requests[0]["input"]?[0]?["role"] == "developer" && requests[1]["input"]?[0]?["role"] == "user")
    }

    @Test func whatTheListDeniesIsNotSent() async throws {
        let list: ChappieJSON = [
            "models": [
                [
                    "slug": "spark", "use_responses_lite": false, "supports_reasoning_summaries": false,
                    "support_verbosity": false, "supports_parallel_tool_calls": false, "input_modalities": ["text"],
                ]
            ]
        ]
        let harness = harness(.serverSentEvents, "spark", [.answer("one")], cache: MemoryModelCache(list))
        let image = ChappieImage(source: .url("data:image/png;base64,AAAA"))
        await harness.client.resumeContext(
            ChappieClientContext(
                sessionID: "s", model: "spark", messages: [.user("b", images: [image])], createdAt: .scriptedStart))
        let options = ChappieMessageOptions(verbosity: .low)
        let seen = await Seen(
            harness.client.streamResponse(ChappieResponseRequest(messages: [.user("a")], options: options)))
        #expect(seen.text == "one" && Set(seen.notices.map(\.kind)) == [.optionLeftOut, .imageLeftOut])
        let body = try harness.requests[0]
        #expect(body["reasoning"]?["summary"] == nil)
        #expect(body["text"] == nil)
        #expect(body["parallel_tool_calls"] == false)
        let parts = (body["input"]?.array ?? []).flatMap { $0["content"]?.array ?? [] }
        #expect(parts.allSatisfy { $0["type"] != "input_image" })
    }

    // MARK: Items that are sent back

    private static let past: [ChappieJSON] = [
        ChappieInputMessage.user("a").inputItem,
        ["type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"],
        [
            "type": "message", "id": "msg_1", "role": "assistant",
            "content": [["type": "output_text", "text": "b"]],
        ],
    ]

    private static let itemRefusals = [
        error("invalid_value", "Invalid 'input[3].id'.", "input[3].id"),
        error(nil, "Duplicate item found with id msg_1. Remove duplicate items from your input and try again."),
        .refused(404, #"{"error":{"message":"Item with id 'rs_1' not found.","type":"invalid_request_error"}}"#),
        error(nil, "The encrypted content for item rs_1 could not be verified."),
        .refused(400, #"{"detail":"The encrypted content could not be verified."}"#),
        error("invalid_encrypted_content", "The encrypted content could not be verified."),
    ]

    private func resumed(_ wire: Wire, _ replies: [Reply]) async -> ClientHarness {
        let harness = harness(wire, "lite", replies)
        await harness.client.resumeContext(
            ChappieClientContext(
                sessionID: "s", model: "lite", items: Self.past, compactedSummary: nil, createdAt: .scriptedStart,
                updatedAt: .scriptedStart))
        return harness
    }

    @Test(arguments: Wire.allCases, itemRefusals.indices)
    func `a refused item is sent once more without IDs and reasoning`(wire: Wire, index: Int) async throws {
        let harness = await resumed(wire, [Self.itemRefusals[index], .answer("one"), .answer("two", id: "resp_2")])
        #expect(await harness.ask("c").text == "one")
        #expect(await harness.ask("d").text == "two")
        let inputs = try harness.requests.map { $0["input"]?.array ?? [] }
        #expect(inputs[0].contains { $0["type"] == "reasoning" } && inputs[0].contains { $0["id"] == "msg_1" })
        #expect(inputs[1].allSatisfy { $0["type"] != "reasoning" && $0["id"] == nil })
        #expect(inputs[2].allSatisfy { $0["type"] != "reasoning" && $0["id"] != "msg_1" })
    }

    @Test(arguments: itemRefusals.indices)
    func `an item that is refused again is an error that suggests a new conversation`(index: Int) async throws {
        let refusal = Self.itemRefusals[index]
        let harness = await resumed(.serverSentEvents, [refusal, refusal, .answer("one")])
        let error = try #require(await harness.ask("c").error)
        #expect(try harness.requests.count == 2)
        #expect(error.recoverySuggestion?.contains("new conversation") == true, "\(error)")
    }

    @Test func itemsStandInTheOrderOfTheOutput() async throws {
        let reasoning: ChappieJSON = [
            "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e",
        ]
        let events: [ChappieJSON] = [
            [
                "type": "response.output_item.done", "output_index": 1,
                "item": [
                    "type": "message", "id": "msg_1", "role": "assistant",
                    "content": [["type": "output_text", "text": "one"]],
                ],
            ], ["type": "response.output_item.done", "output_index": 0, "item": reasoning],
            ["type": "response.completed", "response": ["id": "resp_1", "status": "completed"]],
        ]
        for wire in Wire.allCases {
            let harness = harness(
                wire, "lite", [Reply(steps: [.events(events.map { $0.serialized() })]), .answer("two", id: "resp_2")])
            #expect(await harness.ask("a").text == "one")
            #expect(await harness.ask("b").text == "two")
            let last = try #require(try harness.requests.last)
            if wire == .webSocket { #expect(last["previous_response_id"] == "resp_1") }
            let types = await harness.client.context().items.map { $0["type"]?.string }
            #expect(types.dropFirst().prefix(2) == ["reasoning", "message"])
        }
    }
}
