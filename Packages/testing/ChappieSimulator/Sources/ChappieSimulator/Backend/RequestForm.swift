@_spi(ChappieInternals) import ChappieCore

/// The models that answer, and the form that requests to them must have.
extension Backend {
    /// Returns the refusal of a request whose header fields do not name the version of the wire format or the model. A
    /// client without these header fields gets the answer that the model doesn't exist.
    ///
    /// - Parameter model: the model that the request asks for, or `nil` for a request without a body.
    func refusal(ofHeadersOf request: BackendRequest, model: String?) -> BackendResponse? {
        guard configuration.isStrict else { return nil }
        let notFound = ModelRefusal.notFound.response(to: model ?? "")
        guard request.clientVersion != nil else { return notFound }
        guard request.route == .responses else { return nil }
        guard let hint = request.list("x-codex-routing-hint", separator: ";").first, hint.hasPrefix("model=") else {
            return notFound
        }
        guard let model, hint != "model=\(model)" else { return nil }
        return .invalid(
            "The routing hint \"\(hint.prefix(100))\" names another model than the request.",
            parameter: "x-codex-routing-hint")
    }

    /// Returns the refusal of a model, or `nil` if it answers.
    func refusal(of slug: String, for account: SimulatorAccount, client: ClientVersion?) -> BackendResponse? {
        // In September, unknown models are accepted.
        guard configuration.asOf != .september2026 else { return nil }
        return refusalKind(of: slug, for: account, client: client)?.response(to: slug)
    }

    private func refusalKind(
        of slug: String, for account: SimulatorAccount, client: ClientVersion?
    ) -> ModelRefusal? {
        if let chosen = configuration.modelRefusals[slug] { return chosen }
        guard !catalogue.retired.contains(slug) else { return .unsupported }
        guard let model = catalogue[slug] else { return .notFound }
        guard account.models?.contains(slug) ?? model.isOffered(to: account.plan) else { return .unsupported }
        return model.isOffered(to: client) ? nil : .newerVersion
    }

    /// Returns the refusal of a request that does not have the form that its model requires, or `nil` if it has.
    ///
    /// - Parameters:
    ///   - isMarked: whether the request is marked as lite, in addition to the form of its body.
    ///   - known: the items that `previous_response_id` stands for, or `nil` for a request without it.
    func problem(withFormOf body: ChappieJSON, isMarked: Bool, known: [ChappieJSON]?) -> BackendResponse? {
        guard configuration.isStrict, let model = body["model"]?.string.flatMap({ catalogue[$0] }) else { return nil }
        if let effort = body["reasoning"]?["effort"]?.string, let problem = model.problem(withEffort: effort) {
            return problem
        }
        do throws(BackendResponse) {
            guard model.isLite, !FullForm.isFull(body, isMarked: isMarked) else {
                try FullForm(body: body).check()
                return nil
            }
            try LiteForm(body: body, isMarked: isMarked, known: known).check()
            try check(body["input"]?.array ?? [], hash: model.compactionHash)
            return nil
        } catch {
            return error
        }
    }

    /// Checks that items of earlier answers come back unchanged. A call must keep its namespace, and encrypted content
    /// must go to a model that can read it.
    func check(_ items: [ChappieJSON], hash: String) throws(BackendResponse) {
        for (index, item) in items.enumerated() {
            let isCall = item["type"]?.string?.hasSuffix("_call") == true
            if isCall, let namespace = item["call_id"]?.string.flatMap({ callNamespaces[$0] }),
                item["namespace"]?.string != namespace
            {
                throw .invalid(
                    "The call came with the namespace \"\(namespace)\", which must be kept.",
                    parameter: "input[\(index)].namespace")
            }
            guard let sealed = item["encrypted_content"]?.string, let other = SealedContent.hash(of: sealed),
                other != hash
            else { continue }
            throw .invalid(
                "The encrypted content of the item could not be verified: it belongs to a model of another kind.",
                code: "invalid_encrypted_content", parameter: "input[\(index)].encrypted_content")
        }
    }
}

extension BackendRequest {
    /// The version of the wire format that the client speaks.
    var clientVersion: ClientVersion? { ClientVersion(header("version")) }
    /// Whether a header field marks the request as lite.
    var isMarkedAsLite: Bool { header("x-openai-internal-codex-responses-lite") == "true" }
}

/// Content that is only for the model. It is text with the class of models that wrote it, and is not really encrypted.
enum SealedContent {
    static func seal(_ text: String, for model: String) -> String {
        Base64URL.encode("simulated:\(ModelCatalogue.compactionHash(of: model)):\(text)".utf8)
    }

    /// Returns the class of models that wrote it, or `nil` for the content of another server.
    static func hash(of sealed: String) -> String? {
        let parts = Base64URL.decode(sealed).map { String(decoding: $0, as: UTF8.self) }?.split(separator: ":")
        guard let parts, parts.count > 2, parts[0] == "simulated" else { return nil }
        return String(parts[1])
    }
}

/// The usual form of requests, which every model accepts. Its tools are at the top level.
struct FullForm {
    let body: ChappieJSON

    /// Returns whether a request to a model with `use_responses_lite` has this form.
    static func isFull(_ body: ChappieJSON, isMarked: Bool) -> Bool {
        let items = body["input"]?.array ?? []
        return !isMarked && body["tools"]?.array != nil && !items.contains { $0["type"] == "additional_tools" }
    }

    /// Checks the namespaces of calls, and that each search for tools has an answer.
    ///
    /// - Throws: 400 for a call with a namespace that the request does not declare. With a search for tools, the
    ///   namespaces of the deferred tools are not known. 400 for a search without an answer.
    func check() throws(BackendResponse) {
        try checkSearches()
        guard body["tools"]?.array?.contains(where: { $0["type"] == "tool_search" }) != true else { return }
        let namespaces = (body["tools"]?.array ?? []).filter { $0["type"] == "namespace" }.map { $0["name"] }
        for (index, item) in (body["input"]?.array ?? []).enumerated() {
            guard let namespace = item["namespace"], !namespaces.contains(namespace) else { continue }
            throw .invalid(
                "Unknown parameter: 'input[\(index)].namespace'.", code: "unknown_parameter",
                parameter: "input[\(index)].namespace")
        }
    }

    private func checkSearches() throws(BackendResponse) {
        let items = body["input"]?.array ?? []
        func ids(_ type: String) -> [ChappieJSON] {
            items.filter { $0["type"]?.string == type }.compactMap { $0["call_id"] }
        }
        let answered = ids("tool_search_output")
        guard let open = ids("tool_search_call").first(where: { !answered.contains($0) }) else { return }
        throw .invalid("No tool output found for tool search call \(open.string ?? "").", parameter: "input")
    }
}

/// The form that only models with `use_responses_lite` accept. Tools and instructions are not at the top level. They
/// are at the beginning of the input instead.
struct LiteForm {
    let body: ChappieJSON
    let isMarked: Bool
    /// The items that `previous_response_id` stands for, or `nil` for a request without it.
    let known: [ChappieJSON]?

    private var input: [ChappieJSON] { body["input"]?.array ?? [] }

    /// Checks that the request has this form.
    ///
    /// - Throws: 400, with the member that is missing or wrong.
    func check() throws(BackendResponse) {
        try demand(
            isMarked, "x-openai-internal-codex-responses-lite",
            "the marker is missing: the header field x-openai-internal-codex-responses-lite: true, over WebSocket the "
                + "member ws_request_header_x_openai_internal_codex_responses_lite of client_metadata")
        guard isAbsent("tools") else {
            throw .invalid(
                "Responses lite: tools stand in the additional_tools item, not at the top level.",
                code: "unsupported_value", parameter: "tools")
        }
        try demand(
            isAbsent("instructions"), "instructions",
            "the instructions are a developer message of the input, not a member of the request")
        try demand(body["parallel_tool_calls"] == false, "parallel_tool_calls", "parallel_tool_calls must be false")
        try demand(body["tool_choice"] == "auto", "tool_choice", "tool_choice must be auto")
        try demand(
            body["reasoning"]?["context"] == "all_turns", "reasoning.context", "reasoning.context must be all_turns")
        try demand(
            body["include"]?.array?.contains("reasoning.encrypted_content") == true, "include",
            "include must have reasoning.encrypted_content")
        if let known { try checkNew(among: known) } else { try checkTools() }
        for (index, item) in input.enumerated() {
            try checkImages(of: item["content"], at: "input[\(index)].content")
            try checkImages(of: item["output"], at: "input[\(index)].output")
        }
    }

    private func isAbsent(_ name: String) -> Bool { body[name]?.isNull ?? true }

    private func demand(
        _ isRight: Bool, _ parameter: String, _ sentence: @autoclosure () -> String
    ) throws(BackendResponse) {
        guard !isRight else { return }
        throw .invalid(
            "Responses lite: \(sentence()).", code: "invalid_responses_lite_request", parameter: parameter)
    }

    private func checkTools() throws(BackendResponse) {
        let first = input.first
        try demand(
            first?["type"] == "additional_tools", "input[0]",
            "the first item of the input must be additional_tools, also if there is no tool")
        try demand(first?["role"] == "developer", "input[0].role", "the role of additional_tools must be developer")
        try demand(first?["tools"]?.array != nil, "input[0].tools", "additional_tools must have a list of tools")
        for (index, tool) in (first?["tools"]?.array ?? []).enumerated() {
            let place = "input[0].tools[\(index)]"
            try demand(
                tool["type"] != "function" && tool["type"] != "custom", place,
                "function and custom tools stand inside a namespace: {\"type\":\"namespace\",\"name\":\"functions\","
                    + "\"description\":\"\",\"tools\":[…]}")
            guard tool["type"] == "namespace" else { continue }
            try demand(tool["name"]?.string?.isEmpty == false, place + ".name", "a namespace must have a name")
            try demand(
                tool["description"]?.string != nil, place + ".description", "a namespace must have a description")
            try demand(tool["tools"]?.array != nil, place + ".tools", "a namespace must have a list of tools")
        }
        let others = input.dropFirst().firstIndex { $0["type"] == "additional_tools" }
        try demand(others == nil, "input[\(others ?? 0)]", "additional_tools comes once, as the first item")
    }

    private func checkNew(among known: [ChappieJSON]) throws(BackendResponse) {
        func marks(_ item: ChappieJSON) -> [String] {
            let type = item["type"]?.string ?? "message"
            return ["id", "call_id"].compactMap { name in item[name]?.string.map { "\(type) \($0)" } }
        }
        let knownMarks = Set(known.flatMap(marks))
        for (index, item) in input.enumerated() {
            let isNew = item["type"] != "additional_tools" && knownMarks.isDisjoint(with: marks(item))
            try demand(isNew, "input[\(index)]", "only new items go with previous_response_id, and this one is known")
        }
    }

    private func checkImages(of content: ChappieJSON?, at place: String) throws(BackendResponse) {
        for (index, part) in (content?.array ?? []).enumerated() where part["type"] == "input_image" {
            let place = "\(place)[\(index)]"
            try demand(part["detail"] == nil, place + ".detail", "an image has no detail")
            try demand(
                part["image_url"]?.string?.hasPrefix("data:") == true, place + ".image_url",
                "an image must be a data: address that holds it")
        }
    }
}
