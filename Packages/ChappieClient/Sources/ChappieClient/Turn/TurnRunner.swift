import ChappieAuth
import ChappieCore
import FoundationEssentials
import HTTPTypes

/// Runs one turn: attempts, by way of WebSocket or HTTP as ``TurnPlan`` decides, until the response is whole.
struct TurnRunner: Sendable {
    /// With authorization.
    let http: any HTTPTransport
    /// Without; `nil` where there is none.
    let webSocket: (any WebSocketTransport)?
    let authorization: any HTTPMiddleware
    let socket: ConversationSocket
    let builder: ResponsesRequestBuilder
    let mapping: ErrorMapping
    let clock: any ChappieClock
    let entropy: any Entropy
    let backoff: ChappieRateLimitBackoffPolicy
    let policy: ChappieStreamingTransportPolicy
    let deadlines: ChappieDeadlines

    /// - Throws: ``ChappieClientError``, what the transport throws, `CancellationError`.
    func run(
        _ body: ChappieJSONObject, emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        let progress = TurnProgress(emit: emit)
        var plan = TurnPlan(kind: firstKind, policy: policy, backoff: backoff)
        var serialized: [UInt8]?
        var isCoded = true
        while true {
            progress.attemptBegan()
            let outcome: AttemptOutcome
            if plan.kind == .webSocket, let attempt = webSocketAttempt(body, progress) {
                outcome = try await attempt.run(builder.opening(), authorization: authorization)
            } else {
                let bytes = serialized ?? ChappieJSON.object(body).serializedBytes()
                serialized = bytes
                outcome = try await httpAttempt(bytes, progress, isCoded: &isCoded)
            }
            switch outcome {
            case .completed(let response): return response
            case .failed(let failure):
                let hadGivenUp = plan.hasGivenUpWebSocket
                let step = plan.next(
                    after: failure, hasDelivered: progress.hasDelivered, jitter: try jitter(), now: clock.now)
                if plan.hasGivenUpWebSocket, !hadGivenUp { socket.gaveUp(at: clock.elapsed) }
                switch step {
                case .fail(let error): throw error
                case .again(let delay, let event):
                    if let event { progress.tell(.transport(event)) }
                    if delay > .zero { try await clock.sleep(for: delay) }
                }
            }
        }
    }

    /// Opens the connection and sends what every request of the conversation begins with, so that the first turn is
    /// quick. Nothing that goes wrong matters.
    func prewarm(_ body: ChappieJSONObject) async throws {
        guard firstKind == .webSocket else { return }
        var body = body
        body["generate"] = false
        let progress = TurnProgress(emit: { _ in })
        guard var attempt = webSocketAttempt(body, progress) else { return }
        attempt.deadlines.firstByte = min(deadlines.firstByte, Self.prewarmPatience)
        attempt.deadlines.idle = min(deadlines.idle, Self.prewarmPatience)
        if case .failed(let failure) = try await attempt.run(builder.opening(), authorization: authorization) {
            socket.drop()
            if case .upgradeFailed = failure { socket.gaveUp(at: clock.elapsed) }
        }
    }

    /// A turn that is asked for in the meantime waits for the prewarm; this is the longest that it may.
    private static let prewarmPatience = Duration.seconds(5)

    private var firstKind: ChappieTransportEvent.Kind {
        guard policy.prefersWebSocket, webSocket != nil, builder.profile.webSocket != nil,
            socket.mayTry(at: clock.elapsed) || !policy.fallsBackToHTTPSSE
        else { return .serverSentEvents }
        return .webSocket
    }

    private func webSocketAttempt(_ body: ChappieJSONObject, _ progress: TurnProgress) -> WebSocketAttempt? {
        guard let webSocket, let profile = builder.profile.webSocket else { return nil }
        return WebSocketAttempt(
            transport: webSocket, socket: socket, body: body, progress: progress, mapping: mapping, clock: clock,
            deadlines: deadlines, messageLimit: profile.messageLimit)
    }

    private func httpAttempt(
        _ bytes: [UInt8], _ progress: TurnProgress, isCoded: inout Bool
    ) async throws -> AttemptOutcome {
        let attempt = HTTPAttempt(
            transport: http, progress: progress, mapping: mapping, clock: clock, deadlines: deadlines)
        let request = builder.request(body: bytes, turnState: progress.turnState, isCoded: isCoded)
        let outcome = try await attempt.run(request)
        guard case .failed(.final(ChappieClientError.httpError(415, _))) = outcome, request.body?.coding != .identity
        else { return outcome }
        // RFC 9110, 15.5.16 with 12.5.3: the server does not know the content coding; send it plainly.
        isCoded = false
        return try await attempt.run(builder.request(body: bytes, turnState: progress.turnState, isCoded: false))
    }

    /// 0.9 to 1.1: clients that broke off together come back one by one.
    private func jitter() throws -> Double { 0.9 + Double(try entropy.bytes(1).first ?? 128) / 255 * 0.2 }
}
