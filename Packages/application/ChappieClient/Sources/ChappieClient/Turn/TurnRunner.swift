@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// Values of the backend for a turn, beside its answers.
struct TurnRouting: Sendable {
    /// The backend wants this value in every further request of the turn.
    var turnState: String?
    /// The notices that the user has got about the turn's answers.
    var told: Set<ChappieNotice> = []
    /// The tag of the account's list of models as it is now.
    var modelsETag: String?
    /// The last answer as far as it was shown, if its turn was cancelled before it was whole.
    var interrupted: ChappieResponse?
}

/// Runs one turn: attempts over WebSocket or HTTP, as ``TurnPlan`` decides, until the response is whole.
///
/// Both ways share everything but the framing: authorization, bounds, events, errors.
struct TurnRunner: Sendable {
    var configuration: ChappieConfiguration
    /// Without authorization, like ``webSocket``.
    let http: any HTTPTransport
    /// The host's; it sees requests without authorization.
    let middleware: [any HTTPMiddleware]
    /// `nil` if the program has none.
    let webSocket: (any WebSocketTransport)?
    /// For the conversation's account alone.
    let authorization: Authorization
    var conversation: Conversation
    let connection: ConversationConnection
    let clock: any ChappieClock
    let entropy: any Entropy
    let log: TurnLog
    /// The request's own header fields, beside the client's.
    var headerFields: HTTPFields = [:]

    /// Bounds the answer, and the events that wait for a reader that has stopped: many times the longest answer of any
    /// model.
    private static let answerLimit = 256 << 20
    private static let prewarmPatience = Duration.seconds(5)

    private var deadlines: ChappieDeadlines { configuration.network.deadlines }
    private var errors: BackendErrors {
        BackendErrors(configuration.endpoints.profile) { [authorization] in authorization.isRenewalRefused }
    }

    /// - Parameter said: the backend's values for the turn beside its answers.
    /// - Throws: ``ChappieClientError``, the transport's errors, `CancellationError`; an ``AttemptFailure`` for
    ///   encrypted items that can't be read.
    func run(
        _ body: ChappieJSONObject, _ said: inout TurnRouting, emit: @escaping (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        var turn = TurnAccumulator(asking: body) { [clock] event in
            guard case .usageLimits(let limits) = event else { return emit(event) }
            emit(.usageLimits(limits.dated(at: clock.now)))
        }
        turn.received(turnState: said.turnState)
        turn.told = said.told
        defer {
            said = TurnRouting(
                turnState: turn.turnState, told: turn.told, modelsETag: turn.modelsETag ?? said.modelsETag,
                interrupted: Task.isCancelled ? turn.interrupted : nil)
        }
        var plan = TurnPlan(
            kind: firstKind, policy: configuration.streamingTransportPolicy, backoff: configuration.rateLimitBackoff)
        var request: HTTPExchangeRequest?
        while true {
            let kind = plan.kind
            do {
                guard kind == .serverSentEvents else { return try await attemptOverWebSocket(body, &turn) }
                let whole = request ?? conversation.request(body).adding(headerFields)
                request = whole
                return try await attemptOverHTTP(whole, &turn)
            } catch {
                guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
                let failure = AttemptFailure(error, over: kind)
                if case let error as ChappieClientError = failure.error, case .transportFailed = error,
                    let id = turn.requestID
                {
                    error.note(requestID: id)
                }
                if case ChappieClientError.httpError(415, _) = failure.error, request?.body?.coding == .zstd {
                    // RFC 9110, 15.5.16 with 12.5.3: the server does not know the content coding; send the body plain.
                    request?.body?.coding = .identity
                    log.sentPlain()
                    continue
                }
                // The turn repairs it: it knows which of its items can't be read.
                guard failure.kind != .unreadableReasoning else { throw failure }
                let step = plan.next(after: failure, hasDelivered: turn.hasDelivered, jitter: try jitter())
                if kind == .webSocket, plan.hasGivenUpWebSocket { connection.gaveUp(at: clock.elapsed) }
                switch step {
                case .fail(let error): throw error
                case .again(let delay, let event):
                    log.asksAgain(event, after: failure, over: kind, hasDelivered: turn.hasDelivered)
                    if let event { turn.tell(.transport(event)) }
                    if delay > .zero { try await clock.sleep(for: delay) }
                }
            }
        }
    }

    /// Opens the connection and sends what every request of the conversation begins with, so that the first turn is
    /// quick. It gives up soon, and a failure does not matter.
    func prewarm(_ body: ChappieJSONObject) async {
        guard firstKind == .webSocket else { return }
        var runner = self
        runner.configuration.network.deadlines.firstByte = min(deadlines.firstByte, Self.prewarmPatience)
        runner.configuration.network.deadlines.idle = min(deadlines.idle, Self.prewarmPatience)
        var body = body
        body["generate"] = false
        var turn = TurnAccumulator(emit: { _ in })
        do {
            _ = try await runner.attemptOverWebSocket(body, &turn)
        } catch {
            if !Task.isCancelled, AttemptFailure(error, over: .webSocket).kind == .upgradeFailed {
                connection.gaveUp(at: clock.elapsed)
            }
        }
    }

    private var firstKind: ChappieTransportEvent.Kind {
        let policy = configuration.streamingTransportPolicy
        guard policy.prefersWebSocket, webSocket != nil, configuration.endpoints.profile.webSocket != nil,
            connection.mayTry(at: clock.elapsed) || !policy.fallsBackToHTTPSSE
        else { return .serverSentEvents }
        return .webSocket
    }

    /// 0.9 to 1.1: clients that broke off together come back one by one.
    private func jitter() throws -> Double { 0.9 + Double(try entropy.bytes(1).first ?? 128) / 255 * 0.2 }

    // MARK: One attempt

    /// Makes `attempt` with the signature of its request. A 401 is tried again with renewed tokens: that is a new
    /// attempt, which repeats the text of an earlier one.
    private func authorized(
        _ turn: inout TurnAccumulator,
        _ attempt: (Signature, inout TurnAccumulator) async throws -> AuthorizedAttempt<ChappieResponse>
    ) async throws -> ChappieResponse {
        try await authorization.authorized { fields in
            turn.attemptBegan()
            return try await attempt(Signature(fields: fields, authorization: authorization), &turn)
        }
    }

    /// Adds the header fields of the sign-in: the last of all middleware, so that no other sees them.
    private struct Signature: HTTPMiddleware {
        let fields: HTTPFields
        let authorization: Authorization

        func signed(_ request: HTTPExchangeRequest) throws(ChappieTransportError) -> HTTPExchangeRequest {
            try authorization.check(request)
            var request = request
            for field in fields { request.headerFields[field.name] = field.value }
            return request
        }

        func intercept(
            _ request: HTTPExchangeRequest,
            next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
        ) async throws -> HTTPExchangeResponse { try await next(signed(request)) }
    }

    /// Reads the answer's events up to the terminal one, and not a byte further. The first may take `allowance`.
    ///
    /// Comments, pings and messages that are no events keep a connection alive, but bring no answer: silence is counted
    /// from event to event.
    private func answer(
        over kind: ChappieTransportEvent.Kind, within allowance: Duration, _ turn: inout TurnAccumulator,
        next: (_ timeLeft: Duration) async throws -> (byteCount: Int, events: [ResponsesEvent])
    ) async throws -> AuthorizedAttempt<ChappieResponse> {
        var (allowance, lastEvent, byteCount) = (allowance, clock.elapsed, 0)
        while true {
            let left = allowance - (clock.elapsed - lastEvent)
            guard left > .zero else {
                throw broken(
                    .timedOut, kind == .webSocket ? .message : .responseBody,
                    "no event within \(allowance.words), though the connection is alive")
            }
            let (count, events) = try await next(left)
            byteCount += count
            guard byteCount <= Self.answerLimit else {
                throw broken(.bodyTooLarge, .responseBody, "the answer is over \(Self.answerLimit) bytes")
            }
            guard !events.isEmpty else { continue }
            if !turn.hasBegun { turn.tell(.transport(.connected(kind))) }
            allowance = deadlines.idle
            lastEvent = clock.elapsed
            switch try turn.received(events) {
            case .completed(let response): return .value(response)
            case .failed(let response): throw errors.failure(response, now: clock.now)
            case .error(let event) where event.status == 401:
                if let refusal = errors.refusal(event, requestID: turn.requestID, now: clock.now) { throw refusal }
                let body = HTTPBody(bytes: event.raw.serializedBytes())
                return .unauthorized(HTTPExchangeResponse(status: .unauthorized, body: body))
            case .error(let event): throw errors.failure(event, requestID: turn.requestID, now: clock.now)
            default: continue
            }
        }
    }

    private func broken(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage, _ reason: String
    ) -> ChappieTransportError { ChappieTransportError(code, stage: stage, host: errors.host, reason: reason) }

    // MARK: Server-sent events

    private func attemptOverHTTP(
        _ request: HTTPExchangeRequest, _ turn: inout TurnAccumulator
    ) async throws -> ChappieResponse {
        try await authorized(&turn) { signature, turn in
            var request = request
            request.headerFields[.turnState] = turn.turnState
            let refusals = PlanRefusals(errors: errors, clock: clock)
            let response = try await MiddlewareTransport(http, middleware: middleware + [signature, refusals])
                .send(request)
            turn.received(turnState: response.headerFields[.turnState])
            turn.received(modelsETag: response.headerFields[.modelsETag])
            turn.received(requestID: response.headerFields.requestID)
            guard response.status != .unauthorized else { return .unauthorized(response) }
            guard response.status.kind == .successful else { throw try await errors.failure(response, now: clock.now) }
            // A page for browsers: a captive portal, a proxy's error, the wrong address.
            guard response.mediaType != "text/html" else {
                throw errors.failure(
                    ofSuccess: response.status.code, headerFields: response.headerFields, body: [], now: clock.now)
            }
            turn.received(limitsIn: response.headerFields)
            turn.received(model: response.headerFields[.answeringModel])
            defer { response.body.cancel() }
            var decoder = ResponsesEventDecoder()
            // Of an answer that has brought no event.
            var beginning: [UInt8] = []
            return try await answer(
                over: .serverSentEvents, within: max(deadlines.firstByte, deadlines.idle), &turn
            ) { _ in
                do {
                    guard let chunk = try await response.body.next() else { return (0, try decoder.connectionClosed()) }
                    let events = try decoder.receivedBytes(chunk)
                    if events.isEmpty, beginning.count < BackendErrors.bodyLimit { beginning += chunk }
                    return (chunk.count, events)
                } catch let error as ResponsesStreamError {
                    let isEventStream = decoder.skippedPayloads == 0 && response.mediaType != "application/json"
                    guard case .endedEarly(let count) = error, count > 0 || isEventStream else {
                        throw errors.failure(
                            ofSuccess: response.status.code, headerFields: response.headerFields, body: beginning,
                            now: clock.now)
                    }
                    throw broken(.connectionLost, .responseBody, "the stream ended before the answer was complete")
                }
            }
        }
    }

    // MARK: WebSocket

    /// Sends `body` whole, or only its new part on a kept connection.
    private func attemptOverWebSocket(
        _ body: ChappieJSONObject, _ turn: inout TurnAccumulator
    ) async throws -> ChappieResponse {
        guard let webSocket, let limit = configuration.endpoints.profile.webSocket?.messageLimit else {
            // Without a WebSocket transport the plan begins with HTTP.
            throw AttemptFailure(.upgradeFailed, .invalidResponse)
        }
        let retirements = connection.retirements
        return try await authorized(&turn) { signature, turn in
            let request = try signature.signed(conversation.opening(for: body).adding(headerFields))
            var identifying = request.headerFields
            // A compaction begins another window of the same conversation.
            identifying[.windowID] = nil
            let identity = identifying.hashValue
            if body["generate"] == false, connection.serves(identity, at: clock.elapsed) {
                // It is warm. Another request in its conversation would only delay the next turn.
                throw CancellationError()
            }
            let kept = await connection.take(for: identity, at: clock.elapsed)
            let text = conversation.message(kept?.chain?.request(body) ?? body, turnState: turn.turnState)
            guard text.utf8.count <= limit else {
                if let kept { connection.putBack(kept) }
                throw AttemptFailure(.messageTooLarge, .messageTooLarge(bytes: text.utf8.count, limit: limit))
            }
            var open: OpenConnection
            if let kept {
                open = kept
            } else {
                switch try await webSocket.open(request.url, headerFields: request.headerFields) {
                case .opened(let socket, let fields):
                    open = OpenConnection(
                        socket: socket, identity: identity, openedAt: clock.elapsed, retirements: retirements,
                        requestID: fields.requestID)
                    turn.received(turnState: fields[.turnState])
                    turn.received(modelsETag: fields[.modelsETag])
                    turn.received(limitsIn: fields)
                    turn.received(model: fields[.answeringModel])
                case .refused(var response) where response.status == .unauthorized:
                    if let refusal = try await errors.refusal(in: &response, now: clock.now) { throw refusal }
                    return .unauthorized(response)
                case .refused(let response): throw try await errors.failure(response, now: clock.now).ofUpgrade
                }
            }
            turn.received(requestID: open.requestID)
            do {
                try await open.socket.send(.text(text))
                let attempt = try await answer(over: .webSocket, within: deadlines.firstByte, &turn) { left in
                    try await events(from: open.socket, within: left)
                }
                guard case .value(let response) = attempt else {
                    open.socket.cancel()
                    return attempt
                }
                open.chain = ResponseChain(
                    body, response, history: conversation.input(of: body, answeredBy: turn.rawItems))
                connection.worked()
                connection.putBack(open)
                return attempt
            } catch {
                open.socket.cancel()
                guard let error = error as? ChappieTransportError, kept != nil, !turn.hasBegun,
                    error.code != .timedOut || error.stage == .liveness
                else { throw error }
                throw AttemptFailure(.stale, .transportFailed(error))
            }
        }
    }

    /// The events up to the terminal one. A message that holds no event is ignored; a binary message breaks the
    /// protocol.
    private func events(
        from socket: any WebSocketConnection, within deadline: Duration
    ) async throws -> (byteCount: Int, events: [ResponsesEvent]) {
        let messages: [WebSocketMessage]
        switch try await socket.receive(within: deadline) {
        case .messages(let received): messages = received
        case .closed(let reason):
            let code = reason.code.map { " (code \($0))" } ?? ""
            throw broken(
                .connectionLost, .message, "the server closed the connection before the answer was complete\(code)")
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

extension HTTPExchangeRequest {
    fileprivate func adding(_ fields: HTTPFields) -> HTTPExchangeRequest {
        var request = self
        for field in fields where request.headerFields[field.name] == nil { request.headerFields.append(field) }
        return request
    }
}

extension HTTPExchangeResponse {
    fileprivate var mediaType: String {
        (headerFields[.contentType] ?? "").prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
}
