@_spi(ChappieInternals) package import ChappieCore

/// The Responses endpoint: turns over server-sent events, handshakes, and turns over WebSocket.
extension Backend {
    /// The members that the backend does not use and refuses by name.
    private static let forbiddenMembers = [
        "max_output_tokens", "max_completion_tokens", "max_tokens", "temperature", "top_p", "truncation", "metadata",
        "user", "previous_response_id", "conversation", "background", "messages",
    ]

    /// Returns the answer to one turn, as server-sent events.
    mutating func responses(
        _ request: BackendRequest, for account: SimulatorAccount, now: Int, effect: ScenarioEffect
    ) -> BackendResponse {
        let bytes: [UInt8]
        do throws(BackendResponse) {
            bytes = try request.received.decoded()
        } catch {
            return error
        }
        guard let body = try? ChappieJSON(parsing: bytes), body.object != nil else { return Self.notAnObject }
        if let problem = Self.problem(with: body) { return problem }
        let prompt = Prompt(body)
        if let refusal = refusal(ofHeadersOf: request, model: prompt.model)
            ?? refusal(of: prompt.model, for: account, client: request.clientVersion)
            ?? problem(withFormOf: body, isMarked: request.isMarkedAsLite, known: nil)
        {
            return refusal
        }
        let written = write(EchoModel.reply(to: prompt, effect: effect), to: prompt, now: now)
        // Another model than the requested one would mean that the turn was rerouted.
        let headers =
            [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]
            + [("openai-model", prompt.model)] + turnHeaders(request, for: account, now: now)
        return BackendResponse(status: 200, headers: headers, body: .events(written.events))
    }

    private mutating func turnHeaders(
        _ request: BackendRequest, for account: SimulatorAccount, now: Int
    ) -> [(String, String)] {
        [
            ("x-request-id", identifier("req_")),
            ("x-codex-turn-state", request.header("x-codex-turn-state") ?? identifier("ts_")),
            ("x-models-etag", entityTag(for: account, client: request.clientVersion)),
        ] + usageHeaders(of: account, now: now)
    }

    /// Returns the tag of the model list for this account.
    private func entityTag(for account: SimulatorAccount, client: ClientVersion?) -> String {
        ModelCatalogue.entityTag(of: catalogue.models(for: account, client: client))
    }

    mutating func write(_ reply: [ReplyOutput], to prompt: Prompt, now: Int) -> ReplyWriter.Written {
        let isOlder = configuration.sendsOlderEvents
        let written = ReplyWriter.write(reply, to: prompt, isOlder: isOlder, now: now) { identifier($0) }
        rememberCalls(written.items)
        return written
    }

    // MARK: WebSocket

    /// Returns the answer to a handshake, which is 101 or the error of the handshake.
    mutating func webSocket(_ request: BackendRequest, for account: SimulatorAccount, now: Int) -> BackendResponse {
        guard request.header("upgrade")?.lowercased() == "websocket" else {
            return .json(["detail": "Method Not Allowed"], status: 405, headers: [("allow", "POST")])
        }
        guard configuration.webSocket else {
            return .json(
                ["detail": "WebSocket is not offered; use POST and server-sent events."], status: 426,
                headers: [("upgrade", "websocket")])
        }
        guard request.header("sec-websocket-key") != nil, request.header("sec-websocket-version") == "13" else {
            let version = ("sec-websocket-version", "13")
            return .json(["detail": "This is no handshake of version 13."], status: 400, headers: [version])
        }
        if let refusal = refusal(ofHeadersOf: request, model: nil) { return refusal }
        let own = [("upgrade", "websocket"), ("connection", "Upgrade")]
        return BackendResponse(status: 101, headers: own + turnHeaders(request, for: account, now: now))
    }

    /// Returns the answer to a message that requests a turn, or only prepares one (`generate: false`). The answer
    /// consists of events, or is an error as HTTP would return it.
    ///
    /// - Parameters:
    ///   - account: the account of the connection, or `nil` for the account of the configuration.
    ///   - connection: the state of the connection, to which the answer is added.
    mutating func responseCreate(
        _ body: ChappieJSON, for account: SimulatorAccount?, now: Int, connection: inout WebSocketConnectionState,
        effect: ScenarioEffect
    ) -> BackendResponse {
        if let app = connection.planApp {
            do throws(BackendResponse) {
                return try planResponseCreate(body, app: app, now: now, connection: &connection, effect: effect)
            } catch {
                return error
            }
        }
        guard var whole = body.object else { return Self.notAnObject }
        guard body["type"] == "response.create" else {
            return .invalid("Only response.create is understood.", parameter: "type")
        }
        if connection.isOverLimit { return Self.connectionLimitReached }
        if let problem = Self.problem(with: body, chains: true) { return problem }
        let previous = body["previous_response_id"]?.string
        if body["previous_response_id"]?.isNull == false, previous == nil || previous != connection.last?.responseID {
            return Self.previousResponseNotFound(previous ?? "")
        }
        let account = account ?? configuration.account
        let isChained = previous != nil
        let marker = body["client_metadata"]?["ws_request_header_x_openai_internal_codex_responses_lite"]
        if let refusal = refusal(
            of: body["model"]?.string ?? "", for: account, client: connection.clientVersion)
            ?? problem(
                withFormOf: body, isMarked: marker == "true", known: isChained ? connection.last?.items : nil)
        {
            return refusal
        }
        let input = (previous == nil ? [] : connection.last?.items ?? []) + (body["input"]?.array ?? [])
        whole["input"] = .array(input)
        let isPrewarm = body["generate"] == false
        let prompt = Prompt(.object(whole))
        let written = write(isPrewarm ? [] : EchoModel.reply(to: prompt, effect: effect), to: prompt, now: now)
        let edits = effect.events ?? EventEdits()
        if [.completed, .incomplete, nil].contains(edits.ending) {
            connection.last = (written.responseID, input + written.items)
        }
        var events = written.events
        if isPrewarm {
            events.removeAll { $0.name == "response.in_progress" }
        } else {
            connection.turnCount += 1
            let state = body["client_metadata"]?["x-codex-turn-state"]?.string ?? connection.turnState
            connection.turnState = nil
            // Over HTTP, usage, model and turn state are header fields.
            var headers: ChappieJSONObject = [
                "openai-model": .string(prompt.model),
                "x-codex-turn-state": .string(state ?? identifier("ts_")),
            ]
            let isOlder = configuration.sendsOlderEvents
            if !isOlder {
                headers["x-models-etag"] = .string(entityTag(for: account, client: connection.clientVersion))
            }
            let name = isOlder ? "response.metadata" : "codex.response.metadata"
            events.insert(
                contentsOf: [
                    StreamedEvent("codex.rate_limits", usageEvent(of: account, now: now)),
                    StreamedEvent(name, ["type": .string(name), "headers": .object(headers)]),
                ], at: min(2, events.count))
            events = edits.applied(to: events)
        }
        return BackendResponse(status: 200, headers: [], body: .events(events))
    }

    // MARK: Refusals

    /// Returns the refusal for the first fault that the backend finds, or `nil` if the request can be answered.
    ///
    /// - Parameter chains: whether it may start from the previous response, as messages of one connection may.
    private static func problem(with body: ChappieJSON, chains: Bool = false) -> BackendResponse? {
        guard let model = body["model"]?.string, !model.isEmpty else {
            return .invalid("Missing required parameter: model", parameter: "model")
        }
        guard body["store"] == false else { return .invalid("Store must be set to false", parameter: "store") }
        guard body["stream"] == true else { return .invalid("Stream must be set to true", parameter: "stream") }
        guard let input = body["input"]?.array else { return .invalid("Input must be a list", parameter: "input") }
        guard !input.isEmpty else { return .invalid("Input must not be empty", parameter: "input") }
        guard input.allSatisfy({ $0.object != nil }) else {
            return .invalid("Input must be a list of objects", parameter: "input")
        }
        let name = forbiddenMembers.first { body[$0]?.isNull == false && !(chains && $0 == "previous_response_id") }
        return name.map {
            .invalid("Unsupported parameter: \($0)", code: "unsupported_parameter", parameter: $0)
        }
    }

    static let notAnObject = BackendResponse.invalid("The body is not a JSON object.")

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

/// The state that one connection keeps from message to message.
struct WebSocketConnectionState: Sendable {
    /// The turn state of the handshake, until the first turn has used it.
    var turnState: String?
    /// The version of the wire format that the handshake named.
    let clientVersion: ClientVersion?
    /// The number of turns until the connection reaches its limit, or `nil` for no limit.
    let requestLimit: UInt32?
    /// The issued client id of a connection of the plan route, or `nil` for a connection of ChatGPT's backend.
    let planApp: String?
    var turnCount = 0
    /// The response from which the next input may start: its id, and its input and output.
    var last: (responseID: String, items: [ChappieJSON])?

    /// Whether the connection has answered as many turns as it may.
    var isOverLimit: Bool { turnCount >= requestLimit.map(Int.init) ?? .max }
}

/// The answer to a message, before it is rendered for a transport.
package struct MessageAnswer: Sendable {
    private let events: [StreamedEvent]
    private let renderer: AnswerRenderer
    private let closing: ScenarioClose?

    init(_ response: BackendResponse, _ renderer: AnswerRenderer) {
        let effect = renderer.effect
        self.renderer = renderer
        switch response.body {
        case .events(let list):
            // This event only ends a stream of server-sent events.
            events = list.filter { $0.name != "done" }
            closing = effect.frames?.close
        case .bytes(let bytes) where response.status < 300:
            // This is not a stream of events. It is sent unchanged and followed by the end, as in an HTTP answer.
            events = [StreamedEvent(name: "", data: bytes)]
            closing = effect.frames?.close ?? ScenarioClose(code: 1000)
        case .bytes:
            events = [StreamedEvent("error", response.message(statusMember: effect.frames?.statusMember ?? .status))]
            closing = effect.frames?.close
        }
    }

    /// Whether no part of it is sent.
    var isSilent: Bool { renderer.effect.isSilent || closing?.afterEvents == 0 }

    /// The faults in the frames of its messages.
    package var frames: FrameFaults? { renderer.effect.frames }
    /// The messages that follow when the client may already send its next request.
    package var after: [[UInt8]] { frames?.after?.map { $0.serializedBytes() } ?? [] }
    /// The close frame after these messages.
    package var close: WebSocketCloseReason? { closing?.reasonToClose }

    /// Returns its events, message by message. Control frames may be sent between two of them.
    ///
    /// - Parameter frames: returns the frames of a message.
    package func render(frames: ([UInt8]) -> [UInt8]) -> [ScriptedAnswer] {
        let extra = self.frames?.bytes?.bytes ?? []
        return renderer.render(sentEvents) { event, index in (index == 2 ? extra : []) + frames(event.data) }
    }

    /// The messages without frames.
    var inMemory: [ScriptedWebSocketStep] { renderer.inMemory(sentEvents) + (close.map { [.close($0)] } ?? []) }

    private var sentEvents: [StreamedEvent] { Array(events.prefix(closing?.afterEvents.map(Int.init) ?? .max)) }

    /// Returns a message that refuses another one before it reaches the backend.
    package static func refusal(code: String, message: String) -> [UInt8] {
        BackendResponse.error(400, code: code, message: message).message().serializedBytes()
    }
}

/// The agreed terms and the behaviour of a connection that became a WebSocket.
package struct WebSocketTerms: Sendable {
    /// The terms of compression, or `nil` if messages are not compressed.
    package let deflate: DeflateTerms?
    /// The time between the server's own pings, or `nil` for none.
    package let pingInterval: Duration?
    let handshake: HandshakeFaults
    var connection: WebSocketConnectionState
    let reply: @Sendable (ReceivedMessage, inout WebSocketConnectionState) -> MessageAnswer

    /// Whether pings are answered.
    package var answersPings: Bool { handshake.pongs != false }
    /// A close that is independent of messages. Its delay is counted from the handshake.
    package var close: (reason: WebSocketCloseReason, delay: Duration)? {
        handshake.close.map { ($0.reasonToClose, ($0.after ?? 0).seconds) }
    }

    /// Returns the answer to a message of this connection.
    package mutating func answer(_ message: ReceivedMessage) -> MessageAnswer { reply(message, &connection) }
}

extension BackendResponse {
    /// Returns an error as a message, since WebSocket has no status line. Its members are the status, the error, and
    /// the header fields that carry meaning.
    func message(statusMember: FrameFaults.StatusMember = .status) -> ChappieJSON {
        var message: ChappieJSONObject = ["type": "error"]
        if statusMember != .none { message[statusMember.rawValue] = .integer(status) }
        message["error"] = errorMember
        let headers = headers.filter { !["content-type", "allow", "connection"].contains($0.0.lowercased()) }
        if !headers.isEmpty {
            message["headers"] = .object(ChappieJSONObject(headers.map { ($0.0.lowercased(), .string($0.1)) }))
        }
        return .object(message)
    }

    private var errorMember: ChappieJSON {
        guard case .bytes(let bytes) = body else { return nil }
        let value = try? ChappieJSON(parsing: bytes)
        if let error = value?["error"] { return error }
        let text =
            value?["detail"]?.string ?? (bytes.isEmpty ? "Status \(status)." : String(decoding: bytes, as: UTF8.self))
        let type: ChappieJSON = status < 500 ? "invalid_request_error" : "server_error"
        return ["type": type, "code": nil, "message": .string(text), "param": nil]
    }
}
