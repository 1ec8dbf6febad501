@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The reports of a request to the observer.
extension TurnRunner {
    /// Sends the request until its response is complete, and reports it to the observer. See
    /// ``makeAttempts(_:_:_:_:emit:)``.
    func runAttempts(
        _ body: ChappieJSONObject, _ routing: inout TurnRouting, _ unfinished: inout UnfinishedAnswer?,
        emit: @escaping (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        guard let observer = log.observer else {
            return try await makeAttempts(body, &routing, &unfinished, nil, emit: emit)
        }
        let observation = observer.began(.request(observed(body)), in: observedTurn)
        do {
            let response = try await makeAttempts(
                body, &routing, &unfinished, observation.map { RequestObservation($0) }, emit: emit)
            observation?.learned(.answered(observed(response)))
            observation?.ended(nil)
            return response
        } catch {
            let failure = ChappieClientError.wrapping(error)
            if case ChappieClientError.usageLimitReached = failure { observer.happened(.planLimitReached) }
            if case ChappieClientError.streamingTransportReplayDiverged = failure {
                observation?.learned(.replayed(.diverged))
            }
            observation?.ended(failure)
            throw error
        }
    }

    /// Creates the report of a connection over `kind`, or `nil` without an observer.
    func presence(of kind: ChappieTransportEvent.Kind) -> ConnectionPresence? {
        log.observer.map { ConnectionPresence(of: kind, $0) }
    }

    private func observed(_ body: ChappieJSONObject) -> ChappieObservedRequest {
        let origin = Origin(configuration.endpoints.backend)
        return ChappieObservedRequest(
            model: listed(body["model"]?.string), host: origin?.host ?? "", port: origin?.port ?? 0,
            isStructured: body["text"]?["format"]?["type"]?.string == "json_schema",
            serviceTier: body["service_tier"]?.string.flatMap(ChappieObservedTier.init))
    }

    private func observed(_ response: ChappieResponse) -> ChappieObservedAnswer {
        ChappieObservedAnswer(
            model: listed(response.model), id: UntrustedText.token(response.id, limit: 64),
            finishReason: ChappieFinishReason(response), usage: response.usage,
            serviceTier: response.raw["service_tier"]?.string.flatMap(ChappieObservedTier.init))
    }

    /// Returns the model if the account's list has it. Any other name may be a text of the user or of a server.
    private func listed(_ slug: String?) -> String? { slug.flatMap { list?[$0]?.slug } }
}

/// A request as its observer follows it, with the reason for the next attempt.
struct RequestObservation {
    let observation: any ChappieObservation
    var reason = ChappieAttemptReason.first
    /// Whether the present attempt repeats an answer of which a part was shown.
    private var isReplay = false

    init(_ observation: any ChappieObservation) { self.observation = observation }

    mutating func attemptBegan(over kind: ChappieTransportEvent.Kind) {
        observation.learned(.attemptBegan(kind, reason))
        // Every other further attempt follows a failure, which sets its own reason.
        reason = .renewedToken
    }

    /// Takes the reason for the attempt that follows a failure.
    mutating func asksAgain(_ event: ChappieTransportEvent?, hasDelivered: Bool) {
        isReplay = hasDelivered
        reason =
            switch event {
            case .waiting: .rateLimit
            case .fellBack: .fallback
            case .reconnecting, .connected, nil: .reconnect
            }
    }

    /// Reports that a repeated answer differs from the part that was shown.
    mutating func diverged() {
        isReplay = false
        observation.learned(.replayed(.diverged))
    }

    /// Reports that a repeated answer was the same, if it was one.
    func completed() {
        if isReplay { observation.learned(.replayed(.matched)) }
    }
}

/// The report of an open connection, which ends with this object.
final class ConnectionPresence: Sendable {
    private let kind: ChappieTransportEvent.Kind
    private let observer: any ChappieObserver

    init(of kind: ChappieTransportEvent.Kind, _ observer: any ChappieObserver) {
        self.kind = kind
        self.observer = observer
        observer.happened(.connectionsOpen(kind, change: 1))
    }

    deinit { observer.happened(.connectionsOpen(kind, change: -1)) }
}

extension ChappieObserver {
    /// Reports the windows of the plan.
    func reports(_ limits: ChappieUsageLimitSnapshot) {
        let windows = [(ChappieObservedWindow.primary, limits.primary), (.secondary, limits.secondary)]
        for (name, window) in windows {
            guard let window else { continue }
            happened(.planUsed(name, fraction: min(max(window.usedPercent / 100, 0), 1)))
        }
    }
}

extension ChappieFinishReason {
    /// Creates the reason for the end of a response, or returns `nil` for another one.
    fileprivate init?(_ response: ChappieResponse) {
        switch (response.status, response.incompleteReason) {
        case (.completed, _): self = response.items.contains(where: \.isToolCall) ? .toolCalls : .stop
        case (_, "max_output_tokens"): self = .length
        case (_, "content_filter"): self = .contentFilter
        default: return nil
        }
    }
}

extension ChappieObservedTool {
    init(_ call: ChappieToolCall, of tool: ChappieHostTool) {
        self.init(
            name: tool.name, isFromProvider: tool.isDeferrable, callID: UntrustedText.token(call.callID, limit: 64))
    }
}

extension ChappieObservedDecision {
    init(_ decision: ChappieApprovalDecision) {
        self =
            switch decision {
            case .approved(nil, _): .allowed
            case .approved: .edited
            case .denied: .denied
            case .answered: .answered
            case .deferred: .deferred
            }
    }
}
