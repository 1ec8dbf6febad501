@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The values that the backend sends for a turn in addition to its answers.
struct TurnRouting: Sendable {
    /// The value that the backend requires in every further request of the turn.
    var turnState: String?
    /// The notices about the turn's answers that the user has seen.
    var told: Set<ChappieNotice> = []
    /// The tag of the account's current list of models.
    var modelsETag: String?
}

/// The part of an answer that was shown before the answer broke off.
struct UnfinishedAnswer: Sendable {
    let response: ChappieResponse
    /// Whether the connection broke permanently, so that this part is the answer.
    var isFinal = false
}

/// A runner for one turn. It makes attempts over WebSocket or HTTP, as ``TurnPlan`` decides, until the response is
/// complete.
///
/// Both transports share everything except the framing: authorization, bounds, events, errors.
struct TurnRunner: Sendable {
    var configuration: ChappieConfiguration
    /// The HTTP transport without authorization, like ``webSocket``.
    let http: any HTTPTransport
    /// The host's middleware, which sees requests without authorization.
    let middleware: [any HTTPMiddleware]
    /// The WebSocket transport, or `nil` if the program has none.
    let webSocket: (any WebSocketTransport)?
    /// The authorization, which is only for the conversation's account.
    let authorization: Authorization
    var transcript: Transcript
    let connection: ConversationConnection
    let clock: any ChappieClock
    let entropy: any Entropy
    let log: TurnLog
    /// The notes about blocked WebSockets, or `nil` if the program keeps none.
    let webSocketNotes: (any ChappieWebSocketNotes)?
    /// The request's own header fields, in addition to the client's.
    var headerFields: HTTPFields = [:]
    /// The longest time between two events, even if the connection is alive.
    var longestSilence = Duration.seconds(3600)
    /// Whether a repeated answer that differs starts again. Otherwise it is an error.
    var restarts = false
    /// The account's models, and the turn, for the observer.
    let list: ModelList?
    let observedTurn: (any ChappieObservation)?

    /// The maximum size of the answer, and of the events that wait for a reader that has stopped reading. It is many
    /// times the longest answer of any model.
    private static let answerLimit = 256 << 20
    private static let prewarmPatience = Duration.seconds(5)
    /// The silence in which the service may review an answer before it shows anything.
    private static let reviewPatience = Duration.seconds(30 * 60)
    /// The time for which a network is considered to block WebSockets.
    private static let blockageLifetime: TimeInterval = 6 * 3600

    var deadlines: ChappieDeadlines { configuration.network.deadlines }
    var errors: BackendErrors { BackendErrors(configuration.endpoints) }
    var refusals: PlanRefusals {
        PlanRefusals(errors: errors, clock: clock) { [authorization] in authorization.isRenewalRefused }
    }

    /// Sends the request until its response is complete.
    ///
    /// - Parameters:
    ///   - routing: the backend's values for the turn in addition to its answers.
    ///   - unfinished: receives the part of the answer that was shown if the answer does not end.
    /// - Throws: ``ChappieClientError``, the transport's errors, `CancellationError`; an ``AttemptFailure`` for
    ///   encrypted items that can't be read.
    func makeAttempts(
        _ body: ChappieJSONObject, _ routing: inout TurnRouting, _ unfinished: inout UnfinishedAnswer?,
        _ observed: RequestObservation?, emit: @escaping (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        var turn = TurnAccumulator(asking: body, restarts: restarts) { [clock] event in
            guard case .usageLimits(let limits) = event else { return emit(event) }
            emit(.usageLimits(limits.dated(at: clock.now)))
        }
        turn.observer = log.observer
        turn.observed = observed
        unfinished = nil
        turn.received(turnState: routing.turnState)
        turn.told = routing.told
        defer {
            routing = TurnRouting(
                turnState: turn.turnState, told: turn.told, modelsETag: turn.modelsETag ?? routing.modelsETag)
        }
        var plan = TurnPlan(
            kind: await firstKind, policy: configuration.streamingTransportPolicy,
            backoff: configuration.rateLimitBackoff)
        var request: HTTPExchangeRequest?
        // Whether the body is sent without compression after a refusal.
        var isPlain = false
        while true {
            let kind = plan.kind
            do {
                guard kind == .serverSentEvents else { return try await attemptOverWebSocket(body, &turn) }
                var whole = request ?? transcript.request(body).adding(headerFields)
                whole.deadlines = deadlines.patient(with: body["reasoning"]?["effort"]?.string)
                if connection.sendsPlain { whole.body?.coding = .identity }
                request = whole
                let response = try await attemptOverHTTP(whole, body, &turn)
                if isPlain { connection.sendsPlain = true }
                return response
            } catch {
                unfinished = turn.interrupted.map { UnfinishedAnswer(response: $0) }
                guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
                if error is ChappieTransportError, let answer = turn.endedEarly(offersTools: Self.offersTools(body)) {
                    log.lacksEnd()
                    return answer
                }
                let failure = AttemptFailure(error, over: kind)
                if case let error as ChappieClientError = failure.error, case .transportFailed = error,
                    let id = turn.requestID
                {
                    error.note(requestID: id)
                }
                if failure.mayBeAboutCompression, request?.body?.coding == .zstd {
                    isPlain = true
                    request?.body?.coding = .identity
                    log.sentPlain()
                    turn.observed?.reason = .uncompressed
                    continue
                }
                // The turn handles this failure, because it knows which of its items can't be read.
                guard failure.kind != .unreadableReasoning else { throw failure }
                let hasDelivered = turn.hasDelivered
                let step = plan.next(after: failure, hasDelivered: hasDelivered, jitter: try jitter())
                if kind == .webSocket, plan.hasGivenUpWebSocket { connection.gaveUp(at: clock.elapsed) }
                if failure.kind == .messageTooLarge { connection.becameTooLarge(window) }
                if failure.kind == .blocked {
                    await noteBlockage()
                    if plan.kind == .serverSentEvents { turn.tell(.notice(.webSocketBlocked)) }
                }
                switch step {
                case .fail(let error):
                    unfinished?.isFinal = failure.leavesAnswer
                    throw error
                case .again(let delay, let event):
                    log.asksAgain(event, after: failure, over: kind, hasDelivered: hasDelivered)
                    turn.observed?.asksAgain(event, hasDelivered: hasDelivered)
                    if let event { turn.tell(.transport(event)) }
                    if delay > .zero { try await clock.sleep(for: delay) }
                }
            }
        }
    }

    /// Opens the connection and sends the input with which every request of the conversation begins, so that the first
    /// turn starts quickly. It gives up soon, and a failure has no effect.
    func prewarm(_ body: ChappieJSONObject) async {
        guard await firstKind == .webSocket else { return }
        var runner = self
        runner.longestSilence = min(deadlines.firstByte, Self.prewarmPatience)
        var body = body
        body["generate"] = false
        var turn = TurnAccumulator(emit: { _ in })
        do {
            _ = try await runner.attemptOverWebSocket(body, &turn)
        } catch {
            guard !Task.isCancelled else { return }
            let kind = AttemptFailure(error, over: .webSocket).kind
            if kind == .upgradeFailed || kind == .blocked { connection.gaveUp(at: clock.elapsed) }
            if kind == .blocked { await noteBlockage() }
        }
    }

    /// Returns whether the model may call tools.
    private static func offersTools(_ body: ChappieJSONObject) -> Bool {
        [body["tools"], body["input"]?[0]?["tools"]].contains { $0?.array?.isEmpty == false }
    }

    private var firstKind: ChappieTransportEvent.Kind {
        get async {
            let policy = configuration.streamingTransportPolicy
            guard policy.prefersWebSocket, webSocket != nil, configuration.endpoints.usesWebSocket else {
                return .serverSentEvents
            }
            guard policy.fallsBackToHTTPSSE else { return .webSocket }
            guard connection.mayTry(at: clock.elapsed), !connection.isTooLarge(window), await !isBlocked else {
                return .serverSentEvents
            }
            return .webSocket
        }
    }

    /// The name of the conversation since its last compaction.
    private var window: String { "\(transcript.id):\(transcript.window)" }

    /// Whether this network is remembered as one that blocks WebSockets.
    private var isBlocked: Bool {
        get async {
            guard !connection.isKept, let notes = webSocketNotes,
                let time = await notes.blockage(of: configuration.endpoints.backend)
            else { return false }
            return (0..<Self.blockageLifetime).contains(clock.now.timeIntervalSince(time))
        }
    }

    private func noteBlockage() async {
        await webSocketNotes?.noteBlockage(of: configuration.endpoints.backend, at: clock.now)
    }

    /// Returns a factor from 0.9 to 1.1, so that clients that were disconnected together do not all return at once.
    private func jitter() throws -> Double { 0.9 + Double(try entropy.bytes(1).first ?? 128) / 255 * 0.2 }

    // MARK: One attempt

    /// Makes `attempt` with the signature of its request. After a 401, a new attempt is made with renewed tokens. It
    /// repeats the text of an earlier one.
    func authorized(
        over kind: ChappieTransportEvent.Kind, _ turn: inout TurnAccumulator,
        _ attempt: (Signature, inout TurnAccumulator) async throws -> AuthorizedAttempt<ChappieResponse>
    ) async throws -> ChappieResponse {
        try await authorization.authorized { fields in
            turn.attemptBegan()
            turn.observed?.attemptBegan(over: kind)
            return try await attempt(Signature(fields: fields, authorization: authorization), &turn)
        }
    }

    /// A middleware that adds the header fields of the sign-in. It is the last one, so that no other middleware sees
    /// them.
    struct Signature: HTTPMiddleware {
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
        ) async throws -> HTTPExchangeResponse {
            var request = try signed(request)
            authorization.addCookies(to: &request)
            let response = try await next(request)
            authorization.keepCookies(of: response.headerFields, from: request.url)
            return response
        }
    }

    /// Reads the answer's events up to the terminal one, and no byte after it.
    ///
    /// A model may think for many minutes. As long as the connection is alive, which the transport decides by the bytes
    /// that arrive, silence is not a failure before ``longestSilence``.
    ///
    /// - Parameter review: Called when the service announces that it reviews the answer before it shows anything.
    func readAnswer(
        over kind: ChappieTransportEvent.Kind, to body: ChappieJSONObject, _ turn: inout TurnAccumulator,
        review: () -> Void = {},
        next: (_ timeLeft: Duration) async throws -> (byteCount: Int, events: [ResponsesEvent])
    ) async throws -> AuthorizedAttempt<ChappieResponse> {
        let model = body["model"]?.string
        var (lastEvent, byteCount) = (clock.elapsed, 0)
        while true {
            let left = longestSilence - (clock.elapsed - lastEvent)
            guard left > .zero else {
                throw broken(
                    .timedOut, kind == .webSocket ? .message : .responseBody,
                    "no event within \(longestSilence.words), though the connection is alive")
            }
            let (count, events) = try await next(left)
            byteCount += count
            guard byteCount <= Self.answerLimit else {
                throw broken(.bodyTooLarge, .responseBody, "the answer is over \(Self.answerLimit) bytes")
            }
            guard !events.isEmpty else { continue }
            if !turn.hasBegun {
                turn.observed?.observation.learned(.firstChunk)
                turn.tell(.transport(.connected(kind)))
            }
            lastEvent = clock.elapsed
            if let notice = events.lazy.compactMap({ ChappieNotice(reviewIn: $0, of: model) }).first {
                turn.noteReview(notice)
                review()
            }
            switch try turn.received(events) {
            case .completed(let response):
                turn.observed?.completed()
                return .value(response)
            case .failed(let response): throw errors.failure(response, now: clock.now)
            case .error(let event) where event.status == 401:
                if let refusal = refusals.refusal(event, requestID: turn.requestID) { throw refusal }
                let body = HTTPBody(bytes: event.raw.serializedBytes())
                return .unauthorized(HTTPExchangeResponse(status: .unauthorized, body: body))
            case .error(let event): throw errors.failure(event, requestID: turn.requestID, now: clock.now)
            default: continue
            }
        }
    }

    func broken(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage, _ reason: String
    ) -> ChappieTransportError { ChappieTransportError(code, stage: stage, host: errors.host, reason: reason) }

    // MARK: Server-sent events

    private func attemptOverHTTP(
        _ request: HTTPExchangeRequest, _ body: ChappieJSONObject, _ turn: inout TurnAccumulator
    ) async throws -> ChappieResponse {
        let presence = presence(of: .serverSentEvents)
        defer { withExtendedLifetime(presence) {} }
        return try await authorized(over: .serverSentEvents, &turn) { signature, turn in
            var request = request
            request.headerFields[.turnState] = turn.turnState
            let response = try await MiddlewareTransport(http, middleware: middleware + [signature, refusals])
                .send(request)
            turn.received(turnState: response.headerFields[.turnState])
            turn.received(modelsETag: response.headerFields[.modelsETag])
            turn.received(requestID: response.headerFields.requestID)
            guard response.status != .unauthorized else { return .unauthorized(response) }
            guard response.status.kind == .successful else { throw try await errors.failure(response, now: clock.now) }
            // An HTML page is for browsers. It may be a captive portal's or a proxy's error, or come from a wrong
            // address.
            guard response.mediaType != "text/html" else {
                throw errors.failure(
                    ofSuccess: response.status.code, headerFields: response.headerFields, body: [], now: clock.now)
            }
            turn.received(limitsIn: response.headerFields)
            turn.received(model: response.headerFields[.answeringModel])
            defer { response.body.cancel() }
            var (decoder, hasEvents) = (ResponsesEventDecoder(), false)
            // The first bytes of an answer that has brought no event.
            var beginning: [UInt8] = []
            return try await readAnswer(
                over: .serverSentEvents, to: body, &turn, review: { response.body.allow(silence: Self.reviewPatience) }
            ) { _ in
                do {
                    guard let chunk = try await response.body.next() else { return (0, try decoder.connectionClosed()) }
                    let events = try decoder.receivedBytes(chunk)
                    hasEvents = hasEvents || !events.isEmpty
                    if !hasEvents, beginning.count < BackendErrors.bodyLimit { beginning += chunk }
                    return (chunk.count, events)
                } catch let error as ResponsesStreamError {
                    if !hasEvents, let error = ChappieTransportError.compressed(response, host: errors.host) {
                        throw AttemptFailure(.final, .transportFailed(error))
                    }
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
}

extension ChappieNotice {
    static let webSocketBlocked = ChappieNotice(
        .webSocketBlocked,
        "No data comes back over a WebSocket on this network. The answer comes over server-sent events.")

    /// Creates the notice of a review that `event` announces, or returns `nil` for any other event.
    fileprivate init?(reviewIn event: ResponsesEvent, of model: String?) {
        guard case .metadata(_, let metadata) = event, metadata["type"]?.string == "safety_buffering" else {
            return nil
        }
        var words = "The service checks this answer before it shows it; that can take minutes."
        if let faster = UntrustedText.token(metadata["retry_model"]?.string, limit: 100), faster != model {
            words += " The model \(faster) would answer faster."
        }
        self.init(.answerReviewed, words)
    }
}

extension ChappieDeadlines {
    /// Returns the deadlines for an answer at this effort. A proxy may hold the head of the answer back until the
    /// answer is complete, so the head has as much time as the model.
    fileprivate func patient(with effort: String?) -> ChappieDeadlines {
        let factors = ["high": 2, "xhigh": 3, "max": 4, "ultra": 4]
        let silence = max(responseHead, firstByte, idle) * (effort.flatMap { factors[$0] } ?? 1)
        var patient = self
        patient.responseHead = silence
        patient.firstByte = silence
        patient.idle = silence
        return patient
    }
}

extension HTTPExchangeResponse {
    fileprivate var mediaType: String {
        (headerFields[.contentType] ?? "").prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
}
