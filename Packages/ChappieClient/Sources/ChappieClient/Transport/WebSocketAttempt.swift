import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Synchronization

/// One attempt at a turn over WebSocket: connection (kept or new), request, events up to the terminal one.
///
/// It stands where a transport stands below ``Authorization``: a 401, in the handshake or in a frame, comes out
/// as a response, and is renewed and tried again there.
struct WebSocketAttempt: Sendable {
    let transport: any WebSocketTransport
    let socket: ConversationSocket
    let body: ChappieJSONObject
    let progress: TurnProgress
    let mapping: ErrorMapping
    let clock: any ChappieClock
    var deadlines: ChappieDeadlines
    let messageLimit: Int

    private final class Result: Sendable {
        let outcome = Mutex<AttemptOutcome?>(nil)
        func settle(_ outcome: AttemptOutcome) { self.outcome.withLock { $0 = outcome } }
    }

    /// - Parameter opening: the handshake's address and header fields, without authorization.
    /// - Throws: `CancellationError`. Everything else is an outcome.
    func run(_ opening: HTTPExchangeRequest, authorization: any HTTPMiddleware) async throws -> AttemptOutcome {
        let result = Result()
        let response: HTTPExchangeResponse
        do {
            response = try await authorization.intercept(opening) { try await exchange($0, result) }
        } catch {
            socket.drop()
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            return .failed(AttemptFailure(error, over: .webSocket))
        }
        if let outcome = result.outcome.withLock({ $0 }) { return outcome }
        return try await refusal(response)
    }

    // MARK: The exchange

    /// - Returns: a refusal, or 101 once the attempt has its result.
    private func exchange(_ opening: HTTPExchangeRequest, _ result: Result) async throws -> HTTPExchangeResponse {
        let kept = await keptConnection(opening)
        // A try after a renewal is a new attempt: whatever an earlier one said is said again.
        progress.attemptBegan()
        let text = ChappieJSON.object(message(isOnKeptConnection: kept != nil)).serialized()
        guard text.utf8.count <= messageLimit else {
            result.settle(.failed(.messageTooLarge(bytes: text.utf8.count, limit: messageLimit)))
            return HTTPExchangeResponse(status: .switchingProtocols)
        }
        let connection: any WebSocketConnection
        if let kept {
            connection = kept
        } else {
            switch try await transport.open(opening.url, headerFields: opening.headerFields) {
            case .refused(let response): return response
            case .opened(let opened, let fields):
                progress.received(turnState: fields[.turnState])
                socket.keep(opened, openedWith: opening.headerFields, at: clock.elapsed)
                if let limits = ChappieUsageLimitSnapshot(headerFields: fields) { progress.tell(.usageLimits(limits)) }
                connection = opened
            }
        }
        do {
            try await connection.send(.text(text))
            return try await read(connection, isKept: kept != nil, result)
        } catch {
            socket.drop()
            guard let transport = error as? ChappieTransportError, kept != nil, !progress.hasBegunAttempt,
                transport.code != .timedOut || transport.stage == .liveness
            else { throw error }
            result.settle(.failed(.stale(.transportFailed(transport))))
            return HTTPExchangeResponse(status: .switchingProtocols)
        }
    }

    /// The kept connection, with nothing left in it of what came before.
    private func keptConnection(_ opening: HTTPExchangeRequest) async -> (any WebSocketConnection)? {
        guard let kept = socket.connection(for: opening.headerFields, at: clock.elapsed) else { return nil }
        do {
            var reads = 0
            while reads < Self.leftoverReads, case .messages = try await kept.receive(within: .zero) { reads += 1 }
        } catch let error as ChappieTransportError where error.code == .timedOut && error.stage == .message {
            return kept
        } catch {}
        socket.drop()
        return nil
    }

    /// A server that talks on and on between two turns is not listened to for ever.
    private static let leftoverReads = 100

    private func message(isOnKeptConnection: Bool) -> ChappieJSONObject {
        var message = isOnKeptConnection ? socket.request(body) : body
        if let turnState = progress.turnState {
            var metadata = message["client_metadata"]?.object ?? ChappieJSONObject()
            metadata["x-codex-turn-state"] = .string(turnState)
            message["client_metadata"] = .object(metadata)
        }
        return ChappieJSONObject(members: [.init(name: "type", value: "response.create")] + message.members)
    }

    private func read(
        _ connection: any WebSocketConnection, isKept: Bool, _ result: Result
    ) async throws -> HTTPExchangeResponse {
        var size = AnswerAllowance(host: mapping.host)
        var lastEvent = clock.elapsed
        var isFirst = true
        while true {
            // Messages that are no events keep a connection alive, and nobody's answer.
            let allowance = isFirst ? deadlines.firstByte : deadlines.idle
            let left = allowance - (clock.elapsed - lastEvent)
            guard left > .zero else { throw silence(allowance) }
            switch try await connection.receive(within: left) {
            case .closed(let closure):
                socket.drop()
                let error = ChappieClientError.transportFailed(closed(closure))
                result.settle(.failed(isFirst && isKept ? .stale(error) : .broken(error)))
                return HTTPExchangeResponse(status: .switchingProtocols)
            case .messages(let messages):
                try size.received(messages.reduce(0) { $0 + $1.byteCount })
                let events = try events(in: messages)
                guard !events.isEmpty else { continue }
                if isFirst { progress.tell(.transport(.connected(.webSocket))) }
                isFirst = false
                lastEvent = clock.elapsed
                if case .error(let event)? = events.last, event.status == 401 {
                    socket.drop()
                    return HTTPExchangeResponse(
                        status: .unauthorized, body: HTTPBody(bytes: event.raw.serializedBytes()))
                }
                guard let outcome = try progress.received(events) else { continue }
                result.settle(settled(outcome))
                return HTTPExchangeResponse(status: .switchingProtocols)
            }
        }
    }

    /// The events up to the terminal one. What is no event is passed over; a binary message breaks the protocol.
    private func events(in messages: [WebSocketMessage]) throws -> [ResponsesEvent] {
        var events: [ResponsesEvent] = []
        events.reserveCapacity(messages.count)
        for message in messages {
            guard case .text(let text) = message else {
                throw ChappieTransportError(
                    .protocolViolation, stage: .message, host: mapping.host, reason: "it sent a binary message")
            }
            guard let event = try? ResponsesEvent.parse(text) else { continue }
            events.append(event)
            if event.isTerminal { break }
        }
        return events
    }

    private func settled(_ outcome: TurnAccumulator.Outcome) -> AttemptOutcome {
        switch outcome {
        case .completed(let response):
            socket.worked()
            let items = progress.rawItems
            // Without its items a response can't be told from the transcript that is to continue it.
            if response.status == .completed, !items.isEmpty || body["generate"] == false {
                socket.completed(body, id: response.id, items: items)
            } else {
                socket.chainBroke()
            }
            return .completed(response)
        case .failed(let response):
            socket.drop()
            return .failed(AttemptFailure(mapping.verdict(failed: response), retryAfter: nil))
        case .rejected(let event):
            socket.drop()
            let asked = event.headers["retry-after"]
            return .failed(
                AttemptFailure(
                    mapping.verdict(rejected: event),
                    retryAfter: asked?.string ?? asked?.double.map { String($0) }))
        }
    }

    // MARK: Failures

    private func refusal(_ response: HTTPExchangeResponse) async throws -> AttemptOutcome {
        let verdict = mapping.verdict(
            status: response.status.code, headerFields: response.headerFields,
            body: try await ErrorBody.bytes(of: response.body))
        switch verdict {
        case .final(.httpError(let status, let text)), .troubled(.httpError(let status, let text)):
            return .failed(.upgradeFailed(.httpError(status, text)))
        case .final, .rateLimited, .troubled, .conversationLost:
            return .failed(AttemptFailure(verdict, retryAfter: response.headerFields[.retryAfter]))
        }
    }

    private func silence(_ allowance: Duration) -> ChappieTransportError {
        ChappieTransportError(
            .timedOut, stage: .message, host: mapping.host,
            reason: "no event within \(allowance.components.seconds) s, though the connection is alive")
    }

    private func closed(_ closure: WebSocketCloseReason) -> ChappieTransportError {
        ChappieTransportError(
            .connectionLost, stage: .message, host: mapping.host,
            reason: "the server closed the connection before the answer was complete"
                + (closure.code.map { " (code \($0))" } ?? ""))
    }
}
