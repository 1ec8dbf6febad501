@_spi(ChappieInternals) import ChappieCore

/// The plan route, which offers the public API's models and responses, paid by the user's plan.
extension Backend {
    /// Returns the answer to any request below `/v1`.
    mutating func plan(_ request: BackendRequest, now: Int, effect: ScenarioEffect) -> BackendResponse {
        let response: BackendResponse
        do throws(BackendResponse) {
            response = try planAnswer(request, now: now, effect: effect)
        } catch {
            response = error
        }
        return numbered(response, for: request)
    }

    /// Returns the response with the request id that every answer of the plan route has.
    mutating func numbered(_ response: BackendResponse, for request: BackendRequest) -> BackendResponse {
        var response = response
        let hasNumber = response.headers.contains { $0.0.lowercased() == "x-request-id" }
        if request.isOnPlanRoute, !hasNumber { response.setHeader("x-request-id", identifier("req_")) }
        return response
    }

    private mutating func planAnswer(
        _ request: BackendRequest, now: Int, effect: ScenarioEffect
    ) throws(BackendResponse) -> BackendResponse {
        let authorization = request.header("authorization")
        if let failure = tokens.check(authorization: authorization, for: .plan, now: now) {
            guard failure != .missing else { throw .detail(401, "Missing bearer authentication in header.") }
            let words = "The access token is not valid or no longer valid."
            throw .json(["detail": ["error_code": "invalid_token", "message": .string(words)]], status: 401)
        }
        guard let route = request.route, route.methods.contains(request.method) else {
            throw .planError(403, "subscription_sharing_route_not_supported", "This route is not supported.")
        }
        if let header = Self.foreignHeaders.first(where: { request.header($0) != nil }) {
            throw .detail(400, "Unsupported header: \(header)")
        }
        guard let (clientID, grant) = tokens.planGrant(of: authorization),
            grant.scopes.contains(PlanGrant.planScope)
        else {
            throw .planError(403, "chatpass_v2_scope_not_authorized", "The grant does not cover the use of a plan.")
        }
        let account = owner(of: request) ?? configuration.account
        if route == .planModels { return planModels(for: account) }
        guard ["plus", "pro"].contains(account.plan) else {
            throw .planError(
                403, "subscription_sharing_user_not_eligible", "This plan can't be used by other apps.")
        }
        if request.method == "GET" { return try planHandshake(request) }
        guard (request.header("content-encoding") ?? "identity").trimmed.lowercased() == "identity" else {
            throw .detail(415, "Unsupported content encoding")
        }
        guard let body = try? ChappieJSON(parsing: request.received.body), body.object != nil else {
            throw .detail(400, "The body is not a JSON object.")
        }
        try checkPlanForm(of: body, known: nil)
        try countPlanTurn(of: clientID)
        let prompt = Prompt(body)
        let written = write(EchoModel.reply(to: prompt, effect: effect), to: prompt, now: now)
        let headers = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]
        return BackendResponse(status: 200, headers: headers, body: .events(written.events))
    }

    /// The fields of other routes, and the fields that a client library may take from its environment.
    private static let foreignHeaders = [
        "chatgpt-account-id", "x-openai-fedramp", "originator", "openai-organization", "openai-project",
    ]

    /// Returns the list of the plan route. It has no `data`, and only those members of each model that are needed to
    /// choose one.
    private func planModels(for account: SimulatorAccount) -> BackendResponse {
        let shown: Set = ["slug", "display_name", "visibility", "supported_reasoning_levels", "input_modalities"]
        let models = catalogue.models(for: account, client: nil).map { model in
            let members = model.json.object?.members.filter { shown.contains($0.name) } ?? []
            return ChappieJSON.object(ChappieJSONObject(members.map { ($0.name, $0.value) }))
        }
        return .json(["models": .array(models)])
    }

    private mutating func countPlanTurn(of clientID: String) throws(BackendResponse) {
        let count = planTurns[clientID, default: 0]
        if let limit = configuration.planTurnLimit, count >= limit {
            throw .planError(429, "subscription_sharing_usage_limit_exceeded", "The usage limit has been reached.")
        }
        planTurns[clientID] = count + 1
    }

    /// Checks the form of a request and its model.
    ///
    /// - Parameter known: the items that `previous_response_id` stands for, which exists only over WebSocket.
    private func checkPlanForm(of body: ChappieJSON, known: [ChappieJSON]?) throws(BackendResponse) {
        try PlanForm(body: body, tools: configuration.planTools, chains: known != nil).check()
        let slug = body["model"]?.string ?? ""
        guard configuration.modelRefusals[slug] == nil, let model = catalogue[slug] else {
            throw .planError(404, "model_not_found", "The model does not exist: choose a listed one.", at: "model")
        }
        if let effort = body["reasoning"]?["effort"]?.string, let problem = model.problem(withEffort: effort) {
            throw problem
        }
        try check((known ?? []) + (body["input"]?.array ?? []), hash: model.compactionHash)
    }

    // MARK: WebSocket

    private func planHandshake(_ request: BackendRequest) throws(BackendResponse) -> BackendResponse {
        guard request.header("upgrade")?.lowercased() == "websocket" else {
            throw .planError(403, "subscription_sharing_route_not_supported", "This route is not supported.")
        }
        guard configuration.webSocket else {
            return .json(
                ["detail": "WebSocket is not offered; use POST and server-sent events."], status: 426,
                headers: [("upgrade", "websocket")])
        }
        guard request.header("sec-websocket-key") != nil, request.header("sec-websocket-version") == "13" else {
            throw .detail(400, "This is no handshake of version 13.")
        }
        return BackendResponse(status: 101, headers: [("upgrade", "websocket"), ("connection", "Upgrade")])
    }

    /// Returns the answer to a message that requests a turn on the plan route. No header fields are sent as events, and
    /// a chain belongs to only this connection.
    mutating func planResponseCreate(
        _ body: ChappieJSON, app clientID: String, now: Int, connection: inout WebSocketConnectionState,
        effect: ScenarioEffect
    ) throws(BackendResponse) -> BackendResponse {
        guard var whole = body.object else { throw .detail(400, "The message is not a JSON object.") }
        guard body["type"] == "response.create" else { throw .detail(400, "Only response.create is understood.") }
        if connection.isOverLimit { throw Self.connectionLimitReached }
        let previous = body["previous_response_id"]?.string
        if body["previous_response_id"]?.isNull == false, previous == nil || previous != connection.last?.responseID {
            throw Self.previousResponseNotFound(previous ?? "")
        }
        let known = previous == nil ? [] : connection.last?.items ?? []
        try checkPlanForm(of: body, known: known)
        let isPrewarm = body["generate"] == false
        if !isPrewarm { try countPlanTurn(of: clientID) }
        let input = known + (body["input"]?.array ?? [])
        whole["input"] = .array(input)
        let prompt = Prompt(.object(whole))
        let written = write(isPrewarm ? [] : EchoModel.reply(to: prompt, effect: effect), to: prompt, now: now)
        let edits = effect.events ?? EventEdits()
        if [.completed, .incomplete, nil].contains(edits.ending) {
            connection.last = (written.responseID, input + written.items)
        }
        guard isPrewarm else {
            connection.turnCount += 1
            return BackendResponse(status: 200, body: .events(edits.applied(to: written.events)))
        }
        return BackendResponse(
            status: 200, body: .events(written.events.filter { $0.name != "response.in_progress" }))
    }
}

extension BackendRequest {
    var isOnPlanRoute: Bool { path.hasPrefix("/v1/") }
}

extension BackendResponse {
    /// Returns an error in the form that the plan route uses for most errors before a stream, with a text and no code.
    static func detail(_ status: Int, _ text: String) -> BackendResponse {
        .json(["detail": .string(text)], status: status)
    }

    /// Returns an error of the plan route that has a code.
    static func planError(
        _ status: Int, _ code: String, _ message: String, at parameter: String? = nil
    ) -> BackendResponse {
        .json(["error": errorObject(code: code, message: message, parameter: parameter)], status: status)
    }
}

/// The forms of tools that the plan route accepts.
enum PlanTools: String, Codable, Sendable, Hashable {
    case any
    /// Functions and custom tools at the top level are refused.
    case namespaces
    /// Namespaces and `additional_tools` are refused.
    case flat
}

/// The form of a request of the plan route.
struct PlanForm {
    let body: ChappieJSON
    let tools: PlanTools
    /// Whether `previous_response_id` is allowed, which it is only over WebSocket.
    let chains: Bool

    /// The members that must be omitted. Even `null` is refused.
    static let forbiddenMembers = [
        "background", "conversation", "max_output_tokens", "max_tool_calls", "metadata", "moderation", "multi_agent",
        "prompt", "prompt_cache_retention", "safety_identifier", "temperature", "top_logprobs", "top_p", "truncation",
        "user", "previous_response_id", "prompt_cache_options", "prompt_cache_breakpoint", "max_tokens",
        "max_completion_tokens", "messages",
    ]

    private static let itemTypes: Set = [
        "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning",
        "additional_tools", "compaction", "web_search_call",
    ]

    private static let partTypes: Set = [
        "input_text", "output_text", "refusal", "summary_text", "reasoning_text", "input_image", "input_file",
    ]

    /// Checks the form of the request.
    ///
    /// - Throws: 400, with the text of the service.
    func check() throws(BackendResponse) {
        guard body["model"]?.string?.isEmpty == false else { throw .detail(400, "Missing required parameter: model") }
        guard body["store"] == false else { throw .detail(400, "Store must be set to false") }
        guard body["stream"] == true else { throw .detail(400, "Stream must be set to true") }
        let forbidden = Self.forbiddenMembers.first { body[$0] != nil && !(chains && $0 == "previous_response_id") }
        if let forbidden { throw .detail(400, "Unsupported parameter: \(forbidden)") }
        if body["service_tier"] != nil { throw unsupported("service_tier", "A service tier can't be chosen") }
        guard let input = body["input"]?.array else { throw .detail(400, "Input must be a list") }
        guard !input.isEmpty else { throw .detail(400, "Input must not be empty") }
        for (index, item) in input.enumerated() { try check(item, at: "input[\(index)]") }
        if let list = body["tools"], !list.isNull {
            guard let list = list.array else { throw .detail(400, "Tools must be a list") }
            try check(list, at: "tools", areTopLevel: true)
        }
    }

    private func check(_ item: ChappieJSON, at place: String) throws(BackendResponse) {
        guard item.object != nil else { throw .detail(400, "Input must be a list of objects") }
        let type = item["type"]?.string ?? "message"
        guard type != "item_reference" else { throw .detail(400, "Items are not stored: \(place) refers to one") }
        guard Self.itemTypes.contains(type) else {
            throw unsupported(place + ".type", "Items of the type '\(type.prefix(60))' are not supported")
        }
        if type == "message" {
            guard item["role"] != "system" else { throw .detail(400, "System messages are not allowed") }
            guard ["user", "assistant", "developer"].contains(item["role"]?.string) else {
                throw .planError(400, "invalid_value", "The role is not known.", at: place + ".role")
            }
        }
        if type == "additional_tools" {
            guard item["role"] == "developer" else {
                throw .planError(400, "invalid_value", "The role must be developer.", at: place + ".role")
            }
            guard tools != .flat else { throw unsupported(place, "additional_tools is not supported") }
            guard let list = item["tools"]?.array else {
                throw .planError(400, "missing_required_parameter", "tools is missing.", at: place + ".tools")
            }
            try check(list, at: place + ".tools", areTopLevel: false)
        }
        for name in ["content", "output"] {
            for (index, part) in (item[name]?.array ?? []).enumerated() {
                try check(part: part, at: "\(place).\(name)[\(index)]")
            }
        }
    }

    private func check(part: ChappieJSON, at place: String) throws(BackendResponse) {
        let type = part["type"]?.string ?? ""
        guard Self.partTypes.contains(type) else {
            throw unsupported(place + ".type", "Input of the type '\(type.prefix(60))' is not supported")
        }
        guard part["file_id"] == nil else {
            throw unsupported(place + ".file_id", "Files can't be uploaded: send their contents")
        }
    }

    private func check(
        _ list: [ChappieJSON], at place: String, areTopLevel: Bool, isInside: Bool = false
    ) throws(BackendResponse) {
        for (index, tool) in list.enumerated() {
            let place = "\(place)[\(index)]"
            switch tool["type"]?.string ?? "" {
            case "function", "custom":
                if areTopLevel, tools == .namespaces {
                    throw unsupported(place, "Functions must be grouped in a namespace, or given as additional_tools")
                }
                guard let name = tool["name"]?.string, (1...64).contains(name.utf8.count),
                    name.utf8.allSatisfy(\.isBase64URL)
                else {
                    throw .planError(400, "invalid_value", "The name of the tool is not valid.", at: place + ".name")
                }
            case "namespace" where !isInside:
                guard tools != .flat else { throw unsupported(place, "The tool type namespace is not supported") }
                guard tool["name"]?.string?.isEmpty == false, tool["description"]?.string != nil,
                    let inner = tool["tools"]?.array
                else {
                    throw .planError(
                        400, "missing_required_parameter", "A namespace needs name, description and tools.", at: place)
                }
                try check(inner, at: place + ".tools", areTopLevel: false, isInside: true)
            case "web_search" where !isInside, "web_search_preview" where !isInside: break
            case let type:
                throw unsupported(place + ".type", "Tools of the type '\(type.prefix(60))' are not supported here")
            }
        }
    }

    private func unsupported(_ parameter: String, _ message: String) -> BackendResponse {
        .planError(400, "subscription_sharing_unsupported_capability", message + ".", at: parameter)
    }
}
