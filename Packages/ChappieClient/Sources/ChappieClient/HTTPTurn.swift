@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// One attempt at a turn over HTTP: request, server-sent events up to the terminal one.
struct HTTPTurn: Sendable {
    /// With authorization.
    let transport: any HTTPTransport
    let errors: BackendErrors
    let clock: any ChappieClock
    let deadlines: ChappieDeadlines

    /// - Throws: ``AttemptFailure``; what the transport throws; ``ReplayDivergence``; `CancellationError`.
    func run(_ request: HTTPExchangeRequest, _ turn: inout TurnAccumulator) async throws -> ChappieResponse {
        turn.attemptBegan()
        let response = try await transport.send(request)
        turn.received(turnState: response.headerFields[.turnState])
        guard response.status.kind == .successful else {
            throw errors.failure(
                status: response.status.code, headerFields: response.headerFields,
                body: try await response.errorBody(), now: clock.now)
        }
        // A page for people: a portal, a proxy's error, the wrong address.
        guard response.mediaType != "text/html" else { throw AttemptFailure(.final, .invalidResponse) }
        turn.tell(.transport(.connected(.serverSentEvents)))
        if let limits = ChappieUsageLimitSnapshot(headerFields: response.headerFields) {
            turn.tell(.usageLimits(limits))
        }
        var decoder = ResponsesEventDecoder()
        do {
            return try await read(response.body, &decoder, &turn).response(errors, now: clock.now)
        } catch let error as ResponsesStreamError {
            let isEventStream = decoder.skippedPayloads == 0 && response.mediaType != "application/json"
            throw errors.failure(error, isEventStream: isEventStream)
        }
    }

    /// Reads the body up to the terminal event and not a byte further.
    private func read(
        _ body: HTTPBody, _ decoder: inout ResponsesEventDecoder, _ turn: inout TurnAccumulator
    ) async throws -> TurnAccumulator.Outcome {
        defer { body.cancel() }
        var bounds = AnswerBounds(
            host: errors.host, stage: .responseBody, firstEvent: max(deadlines.firstByte, deadlines.idle),
            nextEvent: deadlines.idle, now: clock.elapsed)
        while let chunk = try await body.next() {
            try bounds.received(bytes: chunk.count)
            let events = try decoder.receivedBytes(chunk)
            if let outcome = try turn.received(events) { return outcome }
            if events.isEmpty {
                _ = try bounds.timeLeft(at: clock.elapsed)
            } else {
                bounds.receivedEvent(at: clock.elapsed)
            }
        }
        if let outcome = try turn.received(try decoder.connectionClosed()) { return outcome }
        // Unreachable: closing the decoder without a terminal event throws.
        throw ResponsesStreamError.endedEarly(eventsReceived: 0)
    }
}

extension HTTPExchangeResponse {
    fileprivate var mediaType: String {
        (headerFields[.contentType] ?? "").prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
}

extension TurnAccumulator.Outcome {
    /// - Throws: ``AttemptFailure`` for a response that failed and a request that was refused.
    func response(_ errors: BackendErrors, now: Date) throws(AttemptFailure) -> ChappieResponse {
        switch self {
        case .completed(let response): return response
        case .failed(let response): throw errors.failure(response, now: now)
        case .rejected(let event): throw errors.failure(event, now: now)
        }
    }
}
