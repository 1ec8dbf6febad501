@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// One attempt at a turn over WebSocket: connection (kept or new), request, events up to the terminal one.
struct WebSocketTurn: Sendable {
    let transport: any WebSocketTransport
    let kept: ConversationConnection
    let authorization: Authorization
    let errors: BackendErrors
    let clock: any ChappieClock
    let deadlines: ChappieDeadlines
    /// In bytes.
    let messageLimit: Int
    /// The handshake's address and header fields, without authorization.
    let opening: HTTPExchangeRequest

    /// Sends `body` whole, or what is new in it on a kept connection. A 401, in the handshake or in a frame, is tried again
    /// with renewed tokens.
    ///
    /// - Throws: ``AttemptFailure``; `AuthorizationError`; what the transport throws; ``ReplayDivergence``;
    ///   `CancellationError`.
    func run(_ body: ChappieJSONObject, _ turn: inout TurnAccumulator) async throws -> ChappieResponse {
        guard let origin = Origin(opening.url), origin == authorization.backendOrigin else {
            throw AuthorizationError.foreignOrigin(opening.url.host() ?? "")
        }
        let retirements = kept.retirements
        return try await authorization.authorized { fields in
            var request = opening
            for field in fields { request.headerFields[field.name] = field.value }
            return try await attempt(request, body, &turn, retirements: retirements)
        }
    }

    private func attempt(
        _ request: HTTPExchangeRequest, _ body: ChappieJSONObject, _ turn: inout TurnAccumulator, retirements: Int
    ) async throws -> AuthorizedAttempt<ChappieResponse> {
        // A try after a renewal is a new attempt: it says again whatever an earlier one said.
        turn.attemptBegan()
        let reused = await takeKept(for: request.headerFields)
        let text = message(reused?.chain.request(body) ?? body, turnState: turn.turnState)
        guard text.utf8.count <= messageLimit else {
            if let reused { kept.putBack(reused) }
            throw AttemptFailure(.messageTooLarge, .messageTooLarge(bytes: text.utf8.count, limit: messageLimit))
        }
        var open: OpenConnection
        if let reused {
            open = reused
        } else {
            switch try await transport.open(request.url, headerFields: request.headerFields) {
            case .refused(let response): return try await refused(response)
            case .opened(let connection, let fields):
                open = kept.opened(
                    connection, with: request.headerFields, at: clock.elapsed, retirements: retirements)
                turn.received(turnState: fields[.turnState])
                if let limits = ChappieUsageLimitSnapshot(headerFields: fields) { turn.tell(.usageLimits(limits)) }
            }
        }
        do {
            try await open.connection.send(.text(text))
            let event = try await read(open.connection, &turn)
            if case .rejected(let event) = event, event.status == 401 {
                open.connection.cancel()
                return .unauthorized(headerFields: [:], body: event.raw.serializedBytes())
            }
            let response = try event.response(errors, now: clock.now)
            // Without its items a response can't be told from the transcript that is to continue it.
            if response.status == .completed, !turn.rawItems.isEmpty || body["generate"] == false {
                open.chain.completed(body, id: response.id, items: turn.rawItems)
            } else {
                open.chain.broke()
            }
            kept.worked()
            kept.putBack(open)
            return .value(response)
        } catch {
            open.connection.cancel()
            guard let error = error as? ChappieTransportError, reused != nil, !turn.hasBegun,
                error.code != .timedOut || error.stage == .liveness
            else { throw error }
            throw AttemptFailure(.stale, .transportFailed(error))
        }
    }

    /// The kept connection, with nothing left in it of what came before.
    private func takeKept(for fields: HTTPFields) async -> OpenConnection? {
        guard let open = kept.take(for: fields, at: clock.elapsed) else { return nil }
        do {
            var reads = 0
            while reads < Self.leftoverReads, case .messages = try await open.connection.receive(within: .zero) {
                reads += 1
            }
        } catch let error as ChappieTransportError where error.code == .timedOut && error.stage == .message {
            return open
        } catch {}
        open.connection.cancel()
        return nil
    }

    /// A server that talks on and on between two turns is not listened to forever.
    private static let leftoverReads = 100

    private func message(_ body: ChappieJSONObject, turnState: String?) -> String {
        var message = body
        if let turnState {
            var metadata = message["client_metadata"]?.object ?? ChappieJSONObject()
            metadata["x-codex-turn-state"] = .string(turnState)
            message["client_metadata"] = .object(metadata)
        }
        let members = [.init(name: "type", value: "response.create")] + message.members
        return ChappieJSON.object(ChappieJSONObject(members: members)).serialized()
    }

    private func read(
        _ connection: any WebSocketConnection, _ turn: inout TurnAccumulator
    ) async throws -> TurnAccumulator.Outcome {
        var bounds = AnswerBounds(
            host: errors.host, stage: .message, firstEvent: deadlines.firstByte, nextEvent: deadlines.idle,
            now: clock.elapsed)
        while true {
            switch try await connection.receive(within: try bounds.timeLeft(at: clock.elapsed)) {
            case .closed(let reason):
                throw ChappieTransportError(
                    .connectionLost, stage: .message, host: errors.host,
                    reason: "the server closed the connection before the answer was complete"
                        + (reason.code.map { " (code \($0))" } ?? ""))
            case .messages(let messages):
                try bounds.received(bytes: messages.reduce(0) { $0 + $1.byteCount })
                let events = try events(in: messages)
                guard !events.isEmpty else { continue }
                if !turn.hasBegun { turn.tell(.transport(.connected(.webSocket))) }
                bounds.receivedEvent(at: clock.elapsed)
                if let outcome = try turn.received(events) { return outcome }
            }
        }
    }

    /// The events up to the terminal one. A message that is no event is passed over; a binary one breaks the protocol.
    private func events(in messages: [WebSocketMessage]) throws -> [ResponsesEvent] {
        var events: [ResponsesEvent] = []
        events.reserveCapacity(messages.count)
        for message in messages {
            guard case .text(let text) = message else {
                throw ChappieTransportError(
                    .protocolViolation, stage: .message, host: errors.host, reason: "it sent a binary message")
            }
            guard let event = try? ResponsesEvent.parse(text) else { continue }
            events.append(event)
            if event.isTerminal { break }
        }
        return events
    }

    /// The handshake was answered with another status than 101.
    private func refused(_ response: HTTPExchangeResponse) async throws -> AuthorizedAttempt<ChappieResponse> {
        let body = try await response.errorBody()
        guard response.status.code != 401 else {
            return .unauthorized(headerFields: response.headerFields, body: body)
        }
        var failure = errors.failure(
            status: response.status.code, headerFields: response.headerFields, body: body, now: clock.now)
        if failure.kind == .final || failure.kind == .serverError, case ChappieClientError.httpError = failure.error {
            failure.kind = .upgradeFailed
        }
        throw failure
    }
}
