@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieSimulator

/// Models and responses of the plan route, and its scenarios, without sockets.
struct PlanResponsesTests {

    private static let function: ChappieJSON = [
        "type": "function", "name": "look_up", "parameters": ["type": "object", "properties": [:]],
    ]

    private static func namespace(_ tools: [ChappieJSON]) -> ChappieJSON {
        ["type": "namespace", "name": "my_app", "description": "Tools of my app", "tools": .array(tools)]
    }

    private static func message(_ role: String, _ part: ChappieJSON? = nil) -> ChappieJSON {
        let part = part ?? ["type": "input_text", "text": "reply: Hello."]
        return ["type": "message", "role": .string(role), "content": [part]]
    }

    private static let additional: ChappieJSON = [
        "type": "additional_tools", "role": "developer", "tools": [namespace([function]), function],
    ]

    private static let good: [(String, ChappieJSON?)] = [
        ("instructions", "Be brief."), ("input", [message("developer"), message("user")]),
        ("tools", [namespace([function]), ["type": "web_search"]]), ("tools", [function]), ("tools", []),
        ("input", [additional, message("user")]), ("prompt_cache_key", "thread-1"),
        ("reasoning", ["effort": "high", "summary": "auto"]), ("include", ["reasoning.encrypted_content"]),
        ("text", ["verbosity": "low"]), ("tool_choice", "auto"), ("parallel_tool_calls", true),
        (
            "input",
            [
                message("user", ["type": "input_image", "image_url": "data:image/png;base64,AA=="]),
                message("user", ["type": "input_file", "filename": "a.pdf", "file_data": "data:a/b;base64,AA=="]),
                ["type": "function_call_output", "call_id": "c", "output": "x"], ["role": "user", "content": "hi"],
            ]
        ),
    ]

    @Test(arguments: good) func everythingThatIsAllowedIsAnswered(name: String, value: ChappieJSON?) throws {
        let flow = try PlanFlow()
        let answer = flow.ask(PlanFlow.turn("hi", [(name, value)]), flow.signIn().accessToken)
        #expect(answer.status == 200, "\(answer.body)")
    }

    @Test func `a call is returned in its namespace, which must be kept`() throws {
        let flow = try PlanFlow()
        let token = flow.signIn().accessToken
        let tools: ChappieJSON = [Self.namespace([Self.function])]
        let first = flow.ask(PlanFlow.turn("call look_up {}", [("tools", tools)]), token)
        let call = first.events.first { $0["item"]?["type"] == "function_call" && $0["item"]?["arguments"] != "" }
        var item = try #require(call?["item"]?.object)
        #expect(item["namespace"] == "my_app")
        func replay() -> PlanAnswer {
            let output: ChappieJSON = ["type": "function_call_output", "call_id": item["call_id"] ?? "", "output": "7"]
            let input: ChappieJSON = [Self.message("user"), .object(item), output]
            return flow.ask(PlanFlow.turn("", [("input", input), ("tools", tools)]), token)
        }
        #expect(replay().status == 200)
        item["namespace"] = nil
        #expect(replay().status == 400)
    }

    // MARK: Refusals

    @Test(arguments: [
        "background", "conversation", "max_output_tokens", "max_tool_calls", "metadata", "moderation", "multi_agent",
        "prompt", "prompt_cache_retention", "safety_identifier", "temperature", "top_logprobs", "top_p", "truncation",
        "user", "previous_response_id", "prompt_cache_options", "prompt_cache_breakpoint",
    ])
    func aForbiddenMemberIsRefusedInWordsAndEvenIfItIsNull(name: String) throws {
        let flow = try PlanFlow()
        let token = flow.signIn().accessToken
        for value: ChappieJSON in ["x", .null] {
            let answer = flow.ask(PlanFlow.turn("hi", [(name, value)]), token)
            #expect(answer.status == 400)
            #expect(answer.json["detail"]?.string?.contains(name) == true)
            #expect(answer.json["error"] == nil)
        }
    }

    private static let inWords: [(String, ChappieJSON?)] = [
        ("store", nil), ("store", true), ("stream", nil), ("stream", false), ("model", nil), ("model", ""),
        ("input", "hi"), ("input", nil), ("input", []), ("input", ["hi"]), ("input", [message("system")]),
        ("input", [["role": "system", "content": "Be brief."]]), ("input", [["type": "item_reference", "id": "x"]]),
        ("tools", "all"),
    ]

    @Test(arguments: inWords) func aWrongFormIsRefusedInWords(name: String, value: ChappieJSON?) throws {
        let flow = try PlanFlow()
        let answer = flow.ask(PlanFlow.turn("hi", [(name, value)]), flow.signIn().accessToken)
        #expect(answer.status == 400)
        #expect(answer.json["detail"]?.string?.isEmpty == false)
    }

    private static let unsupported: [(String, ChappieJSON, String)] = [
        ("service_tier", "priority", "service_tier"),
        ("tools", [["type": "image_generation"]], "tools[0].type"),
        ("tools", [["type": "file_search"]], "tools[0].type"),
        ("tools", [["type": "code_interpreter"]], "tools[0].type"), ("tools", [["type": "mcp"]], "tools[0].type"),
        ("tools", [["type": "computer_use_preview"]], "tools[0].type"),
        ("tools", [["type": "tool_search"]], "tools[0].type"),
        ("tools", [["type": "programmatic_tool_calling"]], "tools[0].type"),
        ("tools", [function, namespace([["type": "web_search"]])], "tools[1].tools[0].type"),
        ("tools", [namespace([namespace([function])])], "tools[0].tools[0].type"),
        (
            "input", [["type": "additional_tools", "role": "developer", "tools": [["type": "mcp"]]]],
            "input[0].tools[0].type"
        ),
        ("input", [["type": "image_generation_call"]], "input[0].type"),
        ("input", [["type": "compaction_trigger"]], "input[0].type"),
        ("input", [message("user", ["type": "input_audio", "data": ""])], "input[0].content[0].type"),
        ("input", [message("user", ["type": "input_video", "data": ""])], "input[0].content[0].type"),
        ("input", [message("user", ["type": "input_image", "file_id": "f"])], "input[0].content[0].file_id"),
        ("input", [message("user", ["type": "input_file", "file_id": "f"])], "input[0].content[0].file_id"),
    ]

    @Test(arguments: unsupported)
    func whatIsNotSupportedIsNamedByItsPlace(name: String, value: ChappieJSON, place: String) throws {
        let flow = try PlanFlow()
        let answer = flow.ask(PlanFlow.turn("hi", [(name, value)]), flow.signIn().accessToken)
        #expect(answer.status == 400)
        #expect(answer.code == "subscription_sharing_unsupported_capability")
        #expect(answer.json["error"]?["param"]?.string == place)
    }

    private static let wrongItems: [(ChappieJSON, String)] = [
        (["type": "additional_tools", "role": "user", "tools": []], "input[0].role"),
        (["type": "additional_tools", "role": "developer"], "input[0].tools"),
        (["type": "message", "role": "tool", "content": "x"], "input[0].role"),
        (
            [
                "type": "additional_tools", "role": "developer",
                "tools": [["type": "namespace", "description": "", "tools": []]],
            ], "input[0].tools[0]"
        ),
        (
            ["type": "additional_tools", "role": "developer", "tools": [["type": "function", "name": "a b"]]],
            "input[0].tools[0].name"
        ),
    ]

    @Test(arguments: wrongItems)
    func aWrongItemIsNamedByItsPlace(item: ChappieJSON, place: String) throws {
        let flow = try PlanFlow()
        let input: ChappieJSON = [item, Self.message("user")]
        let answer = flow.ask(PlanFlow.turn("hi", [("input", input)]), flow.signIn().accessToken)
        #expect(answer.status == 400)
        #expect(answer.json["error"]?["param"]?.string == place)
    }

    @Test func `a missing model and an effort that a model lacks are refused`() throws {
        let flow = try PlanFlow()
        let token = flow.signIn().accessToken
        for slug in ["gpt-0", "gpt-5.5"] {
            let answer = flow.ask(PlanFlow.turn("hi", [("model", .string(slug))]), token)
            #expect(answer.status == 404)
            #expect(answer.code == "model_not_found")
        }
        // The list is for display alone.
        #expect(flow.ask(PlanFlow.turn("hi", [("model", "codex-auto-review")]), token).status == 200)
        #expect(flow.ask(PlanFlow.turn("hi", [("reasoning", ["effort": "ultra"])]), token).status == 400)
    }

    @Test(arguments: [
        "chatgpt-account-id", "X-OpenAI-Fedramp", "originator", "OpenAI-Organization", "OpenAI-Project",
    ])
    func fieldsOfOtherRoutesAreRefused(name: String) throws {
        let flow = try PlanFlow()
        let token = flow.signIn().accessToken
        #expect(flow.ask(PlanFlow.turn(), token, headers: [(name, "x")]).status == 400)
        #expect(flow.get("/v1/models", token, headers: [(name, "x")]).status == 400)
    }

    @Test func aBodyThatIsCompressedOrNoObjectIsRefused() throws {
        let flow = try PlanFlow()
        let token = flow.signIn().accessToken
        #expect(flow.ask(PlanFlow.turn(), token, headers: [("content-encoding", "zstd")]).status == 415)
        #expect(flow.ask([1, 2], token).status == 400)
    }

    @Test(arguments: [
        ("GET", "/v1/responses"), ("POST", "/v1/models"), ("POST", "/v1/responses/compact"),
        ("POST", "/v1/responses/input_tokens"), ("POST", "/v1/chat/completions"), ("GET", "/v1/files"),
        ("POST", "/v1/codex/responses"),
    ])
    func anotherRouteIsNotSupported(method: String, path: String) throws {
        let flow = try PlanFlow()
        let bearer: PlanFlow.Fields = [("authorization", "Bearer " + flow.signIn().accessToken)]
        let answer = flow.send(method, path, headers: bearer)
        #expect(answer.status == 403)
        #expect(answer.code == "subscription_sharing_route_not_supported")
        #expect(flow.send(method, path).status == 401)
    }

    @Test func `a token that is unknown or expired is reported by its error code`() throws {
        let flow = try PlanFlow()
        let token = flow.signIn().accessToken
        #expect(flow.ask(PlanFlow.turn(), "nonsense").json["detail"]?["error_code"] == "invalid_token")
        #expect(flow.ask(PlanFlow.turn(), Self.ownersToken).status == 401)
        flow.clock.advance(seconds: 3600)
        let answer = flow.ask(PlanFlow.turn(), token)
        #expect(answer.status == 401)
        #expect(answer.json["detail"]?["error_code"] == "invalid_token")
    }

    // MARK: Who may use the plan

    @Test func `without the scope, nothing is answered until the user consents`() throws {
        let flow = try PlanFlow(scenario: "plan-use-until-consent")
        let first = flow.signIn()
        #expect(first.tokens["scope"]?.string?.contains("chatgpt.tokens.use.direct") == false)
        let refused = flow.ask(PlanFlow.turn(), first.accessToken)
        #expect(refused.status == 403)
        #expect(refused.code == "chatpass_v2_scope_not_authorized")
        let again = flow.signIn(clientID: first.clientID)
        #expect(flow.ask(PlanFlow.turn(), again.accessToken).status == 403)
        let allowed = flow.signIn(clientID: first.clientID, [("prompt", "consent")])
        #expect(flow.ask(PlanFlow.turn(), allowed.accessToken).status == 200)
        // It stays so.
        #expect(flow.ask(PlanFlow.turn(), flow.signIn(clientID: first.clientID).accessToken).status == 200)
        let never = try PlanFlow(scenario: "plan-use-never")
        let id = never.signIn().clientID
        #expect(
            never.ask(PlanFlow.turn(), never.signIn(clientID: id, [("prompt", "consent")]).accessToken).status == 403)
    }

    // MARK: WebSocket

    /// The events that answer a message.
    private func events(_ body: ChappieJSON, on terms: inout WebSocketTerms) -> [ChappieJSON] {
        var message = body.object ?? [:]
        message["type"] = "response.create"
        let bytes = ChappieJSON.object(message).serializedBytes()
        let received = ReceivedMessage(
            connection: 0, isText: true, body: bytes, isCompressed: false, wireByteCount: bytes.count)
        return terms.answer(received).inMemory.flatMap { step -> [WebSocketMessage] in
            if case .deliver(let messages) = step { messages } else { [] }
        }.compactMap { message in
            if case .text(let text) = message { try? ChappieJSON(parsing: text) } else { nil }
        }
    }

    @Test func `a chain starts from the last response of the same connection`() throws {
        let flow = try PlanFlow(scenario: "plan-app-cap")
        let token = flow.signIn().accessToken
        var terms = try #require(flow.webSocket(token))
        let prewarm = events(PlanFlow.turn("hi", [("generate", false)]), on: &terms)
        #expect(prewarm.types == ["response.created", "response.completed"])
        let first = events(PlanFlow.turn("reply: One."), on: &terms)
        #expect(first.text == "One.")
        #expect(!first.types.contains { $0.hasPrefix("codex.") })
        let id = try #require(first.last?["response"]?["id"])
        var other = try #require(flow.webSocket(token))
        let chained = PlanFlow.turn("reply: Two.", [("previous_response_id", id)])
        #expect(events(chained, on: &other).first?["error"]?["code"] == "previous_response_not_found")
        #expect(events(chained, on: &terms).text == "Two.")
        #expect(events(PlanFlow.turn("hi", [("user", "x")]), on: &terms).first?["status"] == 400)
        // The cap counts what every transport asks.
        #expect(events(PlanFlow.turn(), on: &terms).first?["status"] == 429)
        #expect(flow.ask(PlanFlow.turn(), token).status == 429)
        #expect(flow.webSocket("at-" + SimulatorAccount().id) == nil)
    }

    // MARK: Scenarios

    @Test(arguments: [
        ("plan-401-detail", 401, String?.none), ("plan-invalid-token", 401, nil), ("plan-403-detail", 403, nil),
        ("plan-503-detail", 503, nil), ("plan-400-detail", 400, nil),
        ("plan-not-eligible", 403, "subscription_sharing_user_not_eligible"),
        ("plan-usage-limit", 429, "subscription_sharing_usage_limit_exceeded"),
        ("plan-usage-unavailable", 503, "subscription_sharing_usage_unavailable"),
        ("plan-user-unavailable", 503, "subscription_sharing_user_unavailable"),
        ("plan-unsupported-capability", 400, "subscription_sharing_unsupported_capability"),
        ("plan-route-not-supported", 403, "subscription_sharing_route_not_supported"),
        ("plan-invalid-user", 401, "subscription_sharing_invalid_user"),
        ("plan-scope-not-authorized", 403, "chatpass_v2_scope_not_authorized"),
        ("plan-invalid-context", 403, "chatpass_v2_invalid_authorization_context"),
        ("plan-v2-not-eligible", 403, "subscription_sharing_v2_user_not_eligible"),
        ("plan-v2-usage-limit", 429, "subscription_sharing_v2_usage_limit_exceeded"),
        ("plan-v2-client-not-enabled", 403, "subscription_sharing_v2_client_not_enabled"),
        ("plan-model-not-found", 404, "model_not_found"),
    ])
    func everyRowOfTheErrorsIsAScenario(name: String, status: Int, code: String?) throws {
        let flow = try PlanFlow(scenario: name)
        let answer = flow.ask(PlanFlow.turn(), flow.signIn().accessToken)
        #expect(answer.status == status)
        #expect(answer.code == code)
        #expect(code != nil || answer.json["detail"] != nil)
        #expect(answer.headers["x-request-id"]?.isEmpty == false)
    }

    // MARK: Access tokens of their owners

    private static let ownersToken = "at-" + SimulatorAccount().id
}
