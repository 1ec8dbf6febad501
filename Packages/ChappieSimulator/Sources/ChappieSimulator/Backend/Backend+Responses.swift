import ChappieCore

extension Backend {
    /// Members the backend has no use for and refuses by name.
    static let forbiddenMembers = [
        "max_output_tokens", "max_completion_tokens", "max_tokens", "temperature", "top_p", "truncation", "metadata",
        "user", "previous_response_id", "conversation", "background", "messages",
    ]

    /// One turn, answered as server-sent events.
    mutating func responses(
        _ request: BackendRequest, for account: SimulatorAccount, now: Int, quirks: ModelQuirks
    ) -> BackendResponse {
        let bytes: [UInt8]
        do throws(BackendRequest.BodyFailure) {
            bytes = try request.decodedBody()
        } catch {
            return refusal(of: error)
        }
        guard let body = try? ChappieJSON(parsing: bytes), body.object != nil else {
            return Backend.notAnObject
        }
        if let problem = Backend.problem(with: body) { return problem }
        let prompt = Prompt(body)
        let events = ReplyWriter.events(
            for: EchoModel.reply(to: prompt).changed(by: quirks), body: body, prompt: prompt, now: now,
            identifiers: &identifiers)
        let turnState = request.header("x-codex-turn-state") ?? identifiers.counted("ts_")
        var headers =
            [
                ("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"),
                ("x-request-id", identifiers.counted("req_")), ("x-codex-turn-state", turnState),
                ("x-models-etag", catalogue(for: account).entityTag),
            ] + usageHeaders(of: account, now: now)
        // Another model than the one asked for would mean that the turn was rerouted.
        if let model = Backend.headerSafe(prompt.model) { headers.append(("openai-model", model)) }
        return BackendResponse(status: 200, headers: headers, body: .events(events))
    }

    /// What is wrong with a request, as the backend checks it; `nil` when it can be answered.
    ///
    /// - Parameter chains: whether it may start from the response before, as messages of one connection may.
    static func problem(with body: ChappieJSON, chains: Bool = false) -> BackendResponse? {
        guard let model = body["model"]?.string, !model.isEmpty else {
            return invalid("Missing required parameter: model", parameter: "model")
        }
        guard body["store"] == false else { return invalid("Store must be set to false", parameter: "store") }
        guard body["stream"] == true else { return invalid("Stream must be set to true", parameter: "stream") }
        guard let input = body["input"]?.array else { return invalid("Input must be a list", parameter: "input") }
        guard !input.isEmpty else { return invalid("Input must not be empty", parameter: "input") }
        guard input.allSatisfy({ $0.object != nil }) else {
            return invalid("Input must be a list of objects", parameter: "input")
        }
        let name = forbiddenMembers.first { body[$0]?.isNull == false && !(chains && $0 == "previous_response_id") }
        if let name {
            return invalid("Unsupported parameter: \(name)", code: "unsupported_parameter", parameter: name)
        }
        return nil
    }

    private func refusal(of failure: BackendRequest.BodyFailure) -> BackendResponse {
        switch failure {
        case .malformed: Backend.invalid("The body could not be decompressed.")
        case .tooLarge:
            .error(413, code: "request_too_large", message: "The body is over \(BackendRequest.bodyLimit) bytes.")
        case .unsupportedCoding:
            .error(
                415, code: "unsupported_content_encoding", message: "Only zstd and identity are understood.",
                headers: [("accept-encoding", "zstd, identity")])
        }
    }

    /// 400, with the message in both places where clients look.
    static func invalid(
        _ message: String, code: String = "invalid_request", parameter: String? = nil
    ) -> BackendResponse {
        let error: ChappieJSON = [
            "message": .string(message), "type": "invalid_request_error",
            "param": parameter.map(ChappieJSON.string) ?? .null, "code": .string(code),
        ]
        return .json(["detail": .string(message), "error": error], status: 400)
    }

    /// A model name as a header value; `nil` when it can't be one.
    static func headerSafe(_ value: String) -> String? {
        value.utf8.count <= 200 && value.utf8.allSatisfy { (0x21...0x7E).contains($0) } ? value : nil
    }
}
