@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials

/// The Responses endpoint: turns over server-sent events, handshakes, and turns over WebSocket.
extension Backend {
    /// Members the backend has no use for and refuses by name.
    private static let forbiddenMembers = [
        "max_output_tokens", "max_completion_tokens", "max_tokens", "temperature", "top_p", "truncation", "metadata",
        "user", "previous_response_id", "conversation", "background", "messages",
    ]

    /// One turn, answered as server-sent events.
    mutating func responses(
        _ request: BackendRequest, for account: SimulatorAccount, now: Int, divergesAfter: Int?
    ) -> BackendResponse {
        let bytes: [UInt8]
        do throws(BackendRequest.BodyFailure) {
            bytes = try request.decodedBody()
        } catch {
            return refusal(of: error)
        }
        guard let body = try? ChappieJSON(parsing: bytes), body.object != nil else { return Self.notAnObject }
        if let problem = Self.problem(with: body) { return problem }
        let prompt = Prompt(body)
        let reply = EchoModel.reply(to: prompt, divergesAfter: divergesAfter)
        let written = ReplyWriter.write(reply, body: body, prompt: prompt, now: now, identifiers: &identifiers)
        // Another model than the one asked for would mean that the turn was rerouted.
        let headers =
            [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]
            + turnHeaders(request, for: account, now: now, model: prompt.model)
        return BackendResponse(status: 200, headers: headers, body: .events(written.events))
    }

    private mutating func turnHeaders(
        _ request: BackendRequest, for account: SimulatorAccount, now: Int, model: String
    ) -> [(String, String)] {
        let turnState = request.header("x-codex-turn-state") ?? identifiers.counted("ts_")
        let headers =
            [
                ("x-request-id", identifiers.counted("req_")), ("x-codex-turn-state", turnState),
                ("x-models-etag", catalogue(for: account).entityTag),
            ] + usageHeaders(of: account, now: now)
        let isSafe = (1...200).contains(model.utf8.count) && model.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        return headers + (isSafe ? [("openai-model", model)] : [])
    }

    // MARK: WebSocket

    /// The answer to a handshake: 101, or what is wrong with it.
    mutating func webSocket(_ request: BackendRequest, for account: SimulatorAccount, now: Int) -> BackendResponse {
        guard request.header("upgrade")?.lowercased() == "websocket" else {
            return .json(["detail": "Method Not Allowed"], status: 405, headers: [("allow", "POST")])
        }
        guard configuration.webSocket else {
            return .json(
                ["detail": "WebSocket is not offered; use POST and server-sent events."], status: 426,
                headers: [("upgrade", "websocket")])
        }
        let options = (request.header("connection") ?? "").lowercased().split(separator: ",").map(\.trimmed)
        guard options.contains("upgrade") else {
            return .json(["detail": "Connection must say upgrade."], status: 400)
        }
        guard request.header("sec-websocket-version")?.trimmed == "13" else {
            return .json(
                ["detail": "Only version 13 is spoken."], status: 426,
                headers: [("upgrade", "websocket"), ("sec-websocket-version", "13")])
        }
        guard let key = request.header("sec-websocket-key")?.trimmed, Data(base64Encoded: key)?.count == 16 else {
            return .json(["detail": "Sec-WebSocket-Key must be 16 bytes in base64."], status: 400)
        }
        // The model it will be about: `x-codex-routing-hint: model=NAME;tier=…`.
        let hints = (request.header("x-codex-routing-hint") ?? "").split(separator: ";").map(\.trimmed)
        let model = hints.first { $0.hasPrefix("model=") }.map { String($0.dropFirst("model=".count)) }
        let headers =
            [
                ("upgrade", "websocket"), ("connection", "Upgrade"),
                ("sec-websocket-accept", ScriptedAnswer.webSocketAccept(key: key)),
            ] + turnHeaders(request, for: account, now: now, model: model ?? "")
        return BackendResponse(status: 101, headers: headers, body: .bytes([]))
    }

    /// One turn by message, or the warming up for one (`generate: false`): events, or an error as HTTP would answer it.
    ///
    /// - Parameters:
    ///   - account: whose connection it is; `nil` for the settings' own.
    ///   - byteCount: how long the message was.
    ///   - conversation: what the connection remembers; the answer is added to it.
    mutating func responseCreate(
        _ body: ChappieJSON, for account: SimulatorAccount? = nil, byteCount: Int, now: Int,
        conversation: inout WebSocketConversation, effect: ScenarioEffect = ScenarioEffect()
    ) -> BackendResponse {
        guard var whole = body.object else { return Self.notAnObject }
        guard body["type"] == "response.create" else {
            return Self.invalid("Only response.create is understood.", parameter: "type")
        }
        if conversation.isOverLimit { return Self.connectionLimitReached }
        if let problem = Self.problem(with: body, chains: true) { return problem }
        let previous = body["previous_response_id"]?.string
        if body["previous_response_id"]?.isNull == false, previous == nil || previous != conversation.lastResponseID {
            return Self.previousResponseNotFound(previous ?? "")
        }
        let input = (previous == nil ? [] : conversation.items) + (body["input"]?.array ?? [])
        whole["input"] = .array(input)
        let isPrewarm = body["generate"] == false
        let prompt = Prompt(.object(whole))
        let reply = isPrewarm ? Reply(outputs: []) : EchoModel.reply(to: prompt, divergesAfter: effect.divergesAfter)
        let written = ReplyWriter.write(
            reply, body: .object(whole), prompt: prompt, now: now, identifiers: &identifiers)
        let edits = effect.events ?? EventEdits()
        if [.completed, .incomplete, nil].contains(edits.ending) {
            conversation.remember(
                response: written.responseID, input: input, output: written.items, byteCount: byteCount,
                continues: previous != nil)
        }
        var events = written.events
        if isPrewarm {
            events.removeAll { $0.name == "response.in_progress" }
        } else {
            conversation.countTurn()
            let state = body["client_metadata"]?["x-codex-turn-state"]?.string ?? conversation.turnState
            conversation.turnState = nil
            // Over HTTP these are header fields: usage, model and turn state.
            let headers: ChappieJSON = [
                "openai-model": .string(prompt.model),
                "x-codex-turn-state": .string(state ?? identifiers.counted("ts_")),
            ]
            events.insert(
                contentsOf: [
                    StreamedEvent("codex.rate_limits", usageEvent(of: account ?? configuration.account, now: now)),
                    StreamedEvent("response.metadata", ["type": "response.metadata", "headers": headers]),
                ], at: min(2, events.count))
            events = edits.applied(to: events)
        }
        return BackendResponse(status: 200, headers: [], body: .events(events))
    }

    // MARK: Refusals

    /// The first fault of a request, as the backend checks it; `nil` when it can be answered.
    ///
    /// - Parameter chains: whether it may start from the response before, as messages of one connection may.
    private static func problem(with body: ChappieJSON, chains: Bool = false) -> BackendResponse? {
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
        return name.map {
            invalid("Unsupported parameter: \($0)", code: "unsupported_parameter", parameter: $0)
        }
    }

    private func refusal(of failure: BackendRequest.BodyFailure) -> BackendResponse {
        switch failure {
        case .malformed: Self.invalid("The body could not be decompressed.")
        case .tooLarge:
            .error(413, code: "request_too_large", message: "The body is over \(BackendRequest.bodyLimit) bytes.")
        case .unsupportedCoding:
            .error(
                415, code: "unsupported_content_encoding", message: "Only zstd and identity are understood.",
                headers: [("accept-encoding", "zstd, identity")])
        }
    }

    /// 400, with the message in both places where clients look.
    private static func invalid(
        _ message: String, code: String = "invalid_request", parameter: String? = nil
    ) -> BackendResponse {
        let error: ChappieJSON = [
            "message": .string(message), "type": "invalid_request_error",
            "param": parameter.map(ChappieJSON.string) ?? .null, "code": .string(code),
        ]
        return .json(["detail": .string(message), "error": error], status: 400)
    }

    private static let notAnObject = invalid("The body is not a JSON object.")

    static let connectionLimitReached = BackendResponse.error(
        400, code: "websocket_connection_limit_reached",
        message: "Responses websocket connection limit reached (60 minutes). "
            + "Create a new websocket connection to continue.")

    static func previousResponseNotFound(_ id: String) -> BackendResponse {
        .error(
            400, code: "previous_response_not_found",
            message: "Previous response with id '\(id.prefix(100))' not found.",
            parameter: "previous_response_id")
    }
}

/// The answer to a message, before it becomes frames.
struct MessageAnswer: Sendable {
    let events: [StreamedEvent]
    let effect: ScenarioEffect
    /// The close frame behind them.
    let close: FrameFaults.Close?

    init(_ response: BackendResponse, effect: ScenarioEffect) {
        self.effect = effect
        switch response.body {
        case .events(let list):
            // This event only ends a stream of server-sent events.
            events = list.filter { $0.name != "done" }
            close = effect.frames?.close
        case .bytes(let bytes) where response.status < 300:
            // No stream of events: sent as it is, and then the end, as an HTTP answer would have one.
            events = [StreamedEvent(name: "", data: bytes)]
            close = effect.frames?.close ?? FrameFaults.Close(code: CloseCode(1000))
        case .bytes:
            let member = effect.frames?.statusMember ?? .status
            events = [StreamedEvent(name: "error", data: ErrorMessage.make(response, statusMember: member))]
            close = effect.frames?.close
        }
    }

    /// Whether nothing of it is sent.
    var isSilent: Bool { effect.isSilent || close?.afterEvents == 0 }
}

/// The JSON of the messages that report errors over WebSocket, where there is no status line.
enum ErrorMessage {
    static func make(_ status: Int, code: String, message: String) -> [UInt8] {
        make(BackendResponse.error(status, code: code, message: message))
    }

    /// The answer of HTTP as a message: its status and error as members, and those header fields that carry meaning.
    static func make(
        _ response: BackendResponse, statusMember: FrameFaults.StatusMember = .status
    ) -> [UInt8] {
        var message = ChappieJSONObject([("type", "error")])
        if statusMember != .none { message[statusMember.rawValue] = .integer(response.status) }
        message["error"] = error(in: response)
        let headers = response.headers.filter { !["content-type", "allow", "connection"].contains($0.0.lowercased()) }
        if !headers.isEmpty {
            message["headers"] = .object(ChappieJSONObject(headers.map { ($0.0.lowercased(), .string($0.1)) }))
        }
        return ChappieJSON.object(message).serializedBytes()
    }

    private static func error(in response: BackendResponse) -> ChappieJSON {
        guard case .bytes(let bytes) = response.body, !bytes.isEmpty else { return plain("Status \(response.status).") }
        guard let body = try? ChappieJSON(parsing: bytes) else { return plain(String(decoding: bytes, as: UTF8.self)) }
        return body["error"] ?? plain(body["detail"]?.string ?? body.serialized())
    }

    private static func plain(_ message: String) -> ChappieJSON {
        ["type": "server_error", "code": nil, "message": .string(message), "param": nil]
    }
}
