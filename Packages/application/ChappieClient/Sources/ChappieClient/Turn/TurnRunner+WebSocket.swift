@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

extension TurnRunner {
    private var pingPatience: Duration { min(Self.pingPatience, deadlines.firstByte) }
    /// The message size above which a WebSocket that breaks before the answer may have broken because of the size.
    /// Common limits of servers and proxies are 1, 4 and 15 MiB, and not all of them send the close code for it.
    private static let suspiciousSize = 512 << 10

    /// The time that a peer may take for the first byte on a WebSocket. A ping is answered without any work.
    private static let pingPatience = Duration.seconds(5)

    /// Sends the complete `body`, or only its new part on a kept connection.
    func attemptOverWebSocket(
        _ body: ChappieJSONObject, _ turn: inout TurnAccumulator
    ) async throws -> ChappieResponse {
        guard let webSocket, configuration.endpoints.usesWebSocket else {
            // Without a WebSocket transport the plan begins with HTTP.
            throw AttemptFailure(.upgradeFailed, .invalidResponse)
        }
        let retirements = connection.retirements
        return try await authorized(over: .webSocket, &turn) { signature, turn in
            let request = try signature.signed(transcript.opening(for: body).adding(headerFields))
            var identifying = request.headerFields
            // A compaction begins another window of the same conversation.
            identifying[.windowID] = nil
            let identity = identifying.hashValue
            if body["generate"] == false, connection.serves(identity, at: clock.elapsed) {
                // The connection is ready. Another request in its conversation would only delay the next turn.
                throw CancellationError()
            }
            let kept = await connection.take(for: identity, at: clock.elapsed, patience: pingPatience)
            let text = transcript.message(kept?.chain?.request(body) ?? body, turnState: turn.turnState)
            let limit = configuration.endpoints.webSocketMessageLimit
            guard text.utf8.count <= limit else {
                if let kept { connection.putBack(kept) }
                throw AttemptFailure(.messageTooLarge, .messageTooLarge(bytes: text.utf8.count, limit: limit))
            }
            var open: OpenConnection
            if let kept {
                open = kept
            } else {
                var opening = request
                authorization.addCookies(to: &opening)
                let answer = try await webSocket.open(opening.url, headerFields: opening.headerFields)
                authorization.keepCookies(of: answer.headerFields, from: opening.url)
                switch answer {
                case .opened(let socket, let fields):
                    open = OpenConnection(
                        socket: socket, identity: identity, openedAt: clock.elapsed, lastUsed: clock.elapsed,
                        presence: presence(of: .webSocket), retirements: retirements, requestID: fields.requestID)
                    turn.received(turnState: fields[.turnState])
                    turn.received(modelsETag: fields[.modelsETag])
                    turn.received(limitsIn: fields)
                    turn.received(model: fields[.answeringModel])
                case .refused(var response) where response.status == .unauthorized:
                    if let refusal = try await refusals.refusal(in: &response) { throw refusal }
                    return .unauthorized(response)
                case .refused(let response): throw try await errors.failure(response, now: clock.now).ofUpgrade
                }
            }
            turn.received(requestID: open.requestID)
            do {
                // The ping is sent before the message, so that a long upload does not delay the answer to it.
                open.socket.ping(within: pingPatience)
                try await open.socket.send(.text(text))
                var hasEvents = false
                let attempt = try await readAnswer(over: .webSocket, to: body, &turn) { left in
                    let (count, events) = try await events(from: open.socket, within: left, isFirst: !hasEvents)
                    hasEvents = hasEvents || !events.isEmpty
                    return (count, events)
                }
                guard case .value(let response) = attempt else {
                    open.socket.cancel()
                    return attempt
                }
                open.chain = ResponseChain(
                    body, response, history: transcript.input(of: body, answeredBy: turn.rawItems))
                open.lastUsed = clock.elapsed
                connection.worked()
                connection.putBack(open)
                return attempt
            } catch {
                open.socket.cancel()
                guard !turn.hasBegun, !(error is CancellationError) else { throw error }
                var failure = AttemptFailure(error, over: .webSocket)
                switch failure.kind {
                case .broken, .blocked, .upgradeFailed:
                    if kept != nil {
                        failure.kind = .stale
                    } else if failure.kind == .broken, text.utf8.count > Self.suspiciousSize,
                        configuration.streamingTransportPolicy.fallsBackToHTTPSSE
                    {
                        failure.kind = .messageTooLarge
                    }
                default: break
                }
                throw failure
            }
        }
    }

    /// Returns the events up to the terminal one. A message without an event is ignored. A binary message violates the
    /// protocol.
    ///
    /// - Parameter isFirst: Whether no event of the answer has arrived. A close then refuses the message.
    private func events(
        from socket: any WebSocketConnection, within deadline: Duration, isFirst: Bool
    ) async throws -> (byteCount: Int, events: [ResponsesEvent]) {
        let messages: [WebSocketMessage]
        switch try await socket.receive(within: deadline) {
        case .messages(let received): messages = received
        case .closed(let reason):
            let code = reason.code.map { " (code \($0))" } ?? ""
            let error = broken(
                .connectionLost, .message, "the server closed the connection before the answer was complete\(code)")
            guard isFirst else { throw error }
            // RFC 6455, 7.4.1.
            switch reason.code {
            case 1009: throw AttemptFailure(.messageTooLarge, .transportFailed(error))
            case 1003, 1007, 1008: throw AttemptFailure(.upgradeFailed, .transportFailed(error))
            default: throw error
            }
        }
        var events: [ResponsesEvent] = []
        events.reserveCapacity(messages.count)
        for message in messages where events.last?.isTerminal != true {
            guard case .text(let text) = message else {
                throw broken(.protocolViolation, .message, "it sent a binary message")
            }
            if let event = try? ResponsesEvent.parse(text) { events.append(event) }
        }
        return (messages.reduce(0) { $0 + $1.byteCount }, events)
    }
}

extension WebSocketOpening {
    fileprivate var headerFields: HTTPFields {
        switch self {
        case .opened(_, let fields): fields
        case .refused(let response): response.headerFields
        }
    }
}
