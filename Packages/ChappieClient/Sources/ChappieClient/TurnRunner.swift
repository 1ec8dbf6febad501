@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// Runs one turn: attempts over WebSocket or HTTP, as ``TurnPlan`` decides, until the response is whole.
struct TurnRunner: Sendable {
    /// Without authorization, like ``webSocket``.
    let http: any HTTPTransport
    /// `nil` where there is none.
    let webSocket: (any WebSocketTransport)?
    let authorization: Authorization
    let connection: ConversationConnection
    let builder: ResponsesRequestBuilder
    let errors: BackendErrors
    let clock: any ChappieClock
    let entropy: any Entropy
    let backoff: ChappieRateLimitBackoffPolicy
    let policy: ChappieStreamingTransportPolicy
    let deadlines: ChappieDeadlines

    /// - Throws: ``ChappieClientError``, what the transport throws, `CancellationError`.
    func run(
        _ body: ChappieJSONObject, emit: @escaping (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        var turn = TurnAccumulator(emit: emit)
        var plan = TurnPlan(kind: firstKind, policy: policy, backoff: backoff)
        var serialized: [UInt8]?
        var isCoded = true
        while true {
            let kind = plan.kind
            do {
                if kind == .webSocket, let attempt = webSocketTurn(deadlines) {
                    return try await attempt.run(body, &turn)
                }
                let bytes = serialized ?? ChappieJSON.object(body).serializedBytes()
                serialized = bytes
                return try await overHTTP(bytes, isCoded: &isCoded, &turn)
            } catch {
                guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
                let step = plan.next(
                    after: AttemptFailure(error, over: kind), hasDelivered: turn.hasDelivered, jitter: try jitter())
                if kind == .webSocket, plan.hasGivenUpWebSocket { connection.gaveUp(at: clock.elapsed) }
                switch step {
                case .fail(let error): throw error
                case .again(let delay, let event):
                    if let event { turn.tell(.transport(event)) }
                    if delay > .zero { try await clock.sleep(for: delay) }
                }
            }
        }
    }

    /// Opens the connection and sends what every request of the conversation begins with, so that the first turn is
    /// quick. It gives up soon, and a failure does not matter.
    func prewarm(_ body: ChappieJSONObject) async {
        var deadlines = deadlines
        deadlines.firstByte = min(deadlines.firstByte, Self.prewarmPatience)
        deadlines.idle = min(deadlines.idle, Self.prewarmPatience)
        guard firstKind == .webSocket, let attempt = webSocketTurn(deadlines) else { return }
        var body = body
        body["generate"] = false
        var turn = TurnAccumulator(emit: { _ in })
        do {
            _ = try await attempt.run(body, &turn)
        } catch {
            if !Task.isCancelled, AttemptFailure(error, over: .webSocket).kind == .upgradeFailed {
                connection.gaveUp(at: clock.elapsed)
            }
        }
    }

    private static let prewarmPatience = Duration.seconds(5)

    private var firstKind: ChappieTransportEvent.Kind {
        guard policy.prefersWebSocket, webSocket != nil, builder.profile.webSocket != nil,
            connection.mayTry(at: clock.elapsed) || !policy.fallsBackToHTTPSSE
        else { return .serverSentEvents }
        return .webSocket
    }

    private func webSocketTurn(_ deadlines: ChappieDeadlines) -> WebSocketTurn? {
        guard let webSocket, let profile = builder.profile.webSocket else { return nil }
        return WebSocketTurn(
            transport: webSocket, kept: connection, authorization: authorization, errors: errors, clock: clock,
            deadlines: deadlines, messageLimit: profile.messageLimit, opening: builder.opening())
    }

    private func overHTTP(
        _ body: [UInt8], isCoded: inout Bool, _ turn: inout TurnAccumulator
    ) async throws -> ChappieResponse {
        let attempt = HTTPTurn(
            transport: MiddlewareTransport(http, middleware: [authorization]), errors: errors, clock: clock,
            deadlines: deadlines)
        let request = builder.request(body: body, turnState: turn.turnState, isCoded: isCoded)
        do {
            return try await attempt.run(request, &turn)
        } catch let failure as AttemptFailure {
            guard case ChappieClientError.httpError(415, _) = failure.error, request.body?.coding != .identity else {
                throw failure
            }
        }
        // RFC 9110, 15.5.16 with 12.5.3: the server does not know the content coding; send the body plain.
        isCoded = false
        return try await attempt.run(
            builder.request(body: body, turnState: turn.turnState, isCoded: false), &turn)
    }

    /// 0.9 to 1.1: clients that broke off together come back one by one.
    private func jitter() throws -> Double { 0.9 + Double(try entropy.bytes(1).first ?? 128) / 255 * 0.2 }
}
