import ChappieCore

extension Backend {
    /// What every key is joined with before it is digested (RFC 6455, 1.3).
    private static let acceptSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

    /// The answer to a handshake: 101, or what is wrong with it.
    mutating func webSocket(
        _ request: BackendRequest, for account: SimulatorAccount, now: Int
    ) -> BackendResponse {
        guard request.asksForWebSocket else {
            return .json(["detail": "Method Not Allowed"], status: 405, headers: [("allow", "POST")])
        }
        guard settings.offersWebSocket else {
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
        guard let key = request.header("sec-websocket-key")?.trimmed, Base64.byteCount(of: key) == 16 else {
            return .json(["detail": "Sec-WebSocket-Key must be 16 bytes in base64."], status: 400)
        }
        let turnState = request.header("x-codex-turn-state") ?? identifiers.counted("ts_")
        var headers =
            [
                ("upgrade", "websocket"), ("connection", "Upgrade"),
                ("sec-websocket-accept", Base64.encode(SHA1.digest(Array((key + Self.acceptSuffix).utf8)))),
                ("x-request-id", identifiers.counted("req_")), ("x-codex-turn-state", turnState),
                ("x-models-etag", catalogue(for: account).entityTag),
            ] + usageHeaders(of: account, now: now)
        if let model = Backend.hintedModel(request) { headers.append(("openai-model", model)) }
        return BackendResponse(status: 101, headers: headers, body: .bytes([]))
    }

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

    /// The model a handshake will be about, from `x-codex-routing-hint: model=NAME;tier=…`.
    private static func hintedModel(_ request: BackendRequest) -> String? {
        let hints = (request.header("x-codex-routing-hint") ?? "").split(separator: ";").map(\.trimmed)
        return hints.first { $0.hasPrefix("model=") }.flatMap { headerSafe(String($0.dropFirst("model=".count))) }
    }
}
