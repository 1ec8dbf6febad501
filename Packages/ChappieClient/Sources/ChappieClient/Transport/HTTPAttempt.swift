@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// One attempt at a turn over HTTP: request, server-sent events up to the terminal one.
struct HTTPAttempt: Sendable {
    let transport: any HTTPTransport
    let progress: TurnProgress
    let mapping: ErrorMapping
    let clock: any ChappieClock
    let deadlines: ChappieDeadlines

    /// - Throws: `CancellationError`. Everything else is an outcome.
    func run(_ request: HTTPExchangeRequest) async throws -> AttemptOutcome {
        do {
            let response = try await transport.send(request)
            progress.received(turnState: response.headerFields[.turnState])
            return try await read(response)
        } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            return .failed(AttemptFailure(error, over: .serverSentEvents))
        }
    }

    private func read(_ response: HTTPExchangeResponse) async throws -> AttemptOutcome {
        let retryAfter = response.headerFields[.retryAfter]
        guard response.status.kind == .successful else {
            let verdict = mapping.verdict(
                status: response.status.code, headerFields: response.headerFields,
                body: try await ErrorBody.bytes(of: response.body))
            return .failed(AttemptFailure(verdict, retryAfter: retryAfter))
        }
        guard !response.isWebPage else { return .failed(.final(ChappieClientError.invalidResponse)) }
        progress.tell(.transport(.connected(.serverSentEvents)))
        if let limits = ChappieUsageLimitSnapshot(headerFields: response.headerFields) {
            progress.tell(.usageLimits(limits))
        }
        var decoder = ResponsesEventDecoder()
        do {
            switch try await outcome(response, &decoder) {
            case .completed(let response): return .completed(response)
            case .failed(let response):
                return .failed(AttemptFailure(mapping.verdict(failed: response), retryAfter: nil))
            case .rejected(let event):
                let asked = event.headers["retry-after"]
                return .failed(
                    AttemptFailure(
                        mapping.verdict(rejected: event),
                        retryAfter: asked?.string ?? asked?.double.map { String($0) }))
            }
        } catch let error as ResponsesStreamError {
            let isEventStream = decoder.skippedPayloads == 0 && !response.isJSON
            let error = ErrorMapping.clientError(error, host: mapping.host, isEventStream: isEventStream)
            guard case .transportFailed = error else { return .failed(.final(error)) }
            return .failed(.broken(error))
        }
    }

    /// Reads the body up to the terminal event and not a byte further.
    private func outcome(
        _ response: HTTPExchangeResponse, _ decoder: inout ResponsesEventDecoder
    ) async throws -> TurnAccumulator.Outcome {
        defer { response.body.cancel() }
        var size = AnswerAllowance(host: mapping.host)
        var lastEvent = clock.elapsed
        var isFirst = true
        while let chunk = try await response.body.next() {
            try size.received(chunk.count)
            let events = try decoder.receivedBytes(chunk)
            if let outcome = try progress.received(events) { return outcome }
            if events.isEmpty {
                // Comments keep a connection alive, and nobody's answer.
                let allowance = isFirst ? max(deadlines.firstByte, deadlines.idle) : deadlines.idle
                guard clock.elapsed - lastEvent < allowance else { throw silence(allowance) }
            } else {
                isFirst = false
                lastEvent = clock.elapsed
            }
        }
        if let outcome = try progress.received(try decoder.connectionClosed()) { return outcome }
        // Unreachable: closing the decoder without a terminal event throws.
        throw ResponsesStreamError.endedEarly(eventsReceived: 0)
    }

    private func silence(_ allowance: Duration) -> ChappieTransportError {
        ChappieTransportError(
            .timedOut, stage: .responseBody, host: mapping.host,
            reason: "no event within \(allowance.components.seconds) s, though the connection is alive")
    }
}

extension HTTPExchangeResponse {
    fileprivate var mediaType: String {
        (headerFields[.contentType] ?? "").prefix { $0 != ";" }.lowercased().trimmingASCIISpace
    }
    /// A page for people: a portal, a proxy's error, the wrong address.
    fileprivate var isWebPage: Bool { mediaType == "text/html" }
    fileprivate var isJSON: Bool { mediaType == "application/json" }
}
