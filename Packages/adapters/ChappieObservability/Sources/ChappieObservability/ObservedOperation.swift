#if Observability
    import ChappieAuth
    import ChappieClient
    import ChappieCore
    import Synchronization
    import Tracing

    /// An operation in progress, with its span.
    final class ObservedOperation: ChappieObservation {
        enum Kind { case turn, request, tool, renewal, threadAppend }

        private struct State {
            var isFirstChunkKnown = false
            var answer: ChappieObservedAnswer?
        }

        let span: (any Span)?
        private let kind: Kind
        private let dimensions: Dimensions
        private let observer: ChappieObservability
        private let start = ContinuousClock.now
        private let state = Mutex(State())

        init(_ kind: Kind, _ dimensions: Dimensions, _ observer: ChappieObservability, _ span: (any Span)?) {
            self.kind = kind
            self.dimensions = dimensions
            self.observer = observer
            self.span = span
        }

        private var elapsed: Duration { start.duration(to: .now) }
        private var instruments: Instruments { observer.instruments }

        func learned(_ detail: ChappieOperationDetail) {
            switch detail {
            case .attemptBegan(let transport, let reason):
                instruments.count(
                    Name.attempts, [("transport", transport.rawValue), ("reason", reason.rawValue)])
                switch reason {
                case .reconnect: span?.addEvent(SpanEvent(name: "reconnecting"))
                case .fallback: span?.addEvent(SpanEvent(name: "fell_back"))
                case .first, .rateLimit, .renewedToken, .uncompressed: break
                }
            case .firstChunk:
                let isFirst = state.withLock { state in
                    defer { state.isFirstChunkKnown = true }
                    return !state.isFirstChunkKnown
                }
                guard isFirst else { return }
                let duration = elapsed
                instruments.record(duration, Name.timeToFirstChunk, dimensions)
                span?.attributes["gen_ai.response.time_to_first_chunk"] = duration / .seconds(1)
            case .answered(let answer):
                state.withLock { $0.answer = answer }
                describe(answer)
            case .replayed(let outcome):
                instruments.count(Name.replays, [("outcome", outcome.rawValue)])
                if outcome == .matched { span?.addEvent(SpanEvent(name: "replay_held_back")) }
            case .compacted: span?.addEvent(SpanEvent(name: "compacted"))
            }
        }

        func within<Value: Sendable>(_ body: () async throws -> Value) async rethrows -> Value {
            guard let span else { return try await body() }
            return try await ServiceContext.$current.withValue(span.context) { try await body() }
        }

        func ended(_ error: (any Error)?) {
            let type = error.map(errorType)
            if let type {
                span?.attributes[Name.errorType] = type
                span?.setStatus(SpanStatus(code: .error))
            }
            switch kind {
            case .turn:
                instruments.change(by: -1, Name.turnsActive)
                record(Name.agentDuration, dimensions, type)
            case .request:
                let answered = state.withLock(\.answer).map { [(Name.responseModel, observer.models.name($0.model))] }
                record(Name.operationDuration, dimensions + (answered ?? []), type)
            case .tool: record(Name.toolDuration, dimensions, type)
            case .threadAppend:
                instruments.record(
                    elapsed, Name.appendDuration, dimensions + [("outcome", error == nil ? "succeeded" : "failed")])
            case .renewal: instruments.count(Name.renewals, dimensions + [("outcome", outcome(of: error))])
            }
            span?.end()
        }

        private func record(_ label: String, _ dimensions: Dimensions, _ errorType: String?) {
            instruments.record(elapsed, label, dimensions + (errorType.map { [(Name.errorType, $0)] } ?? []))
        }

        private func describe(_ answer: ChappieObservedAnswer) {
            let model = observer.models.name(answer.model)
            span?.attributes[Name.responseModel] = model
            if let id = answer.id { span?.attributes["gen_ai.response.id"] = id }
            if let reason = answer.finishReason {
                span?.attributes["gen_ai.response.finish_reasons"] = [reason.rawValue]
            }
            if let tier = answer.serviceTier { span?.attributes["openai.response.service_tier"] = tier.rawValue }
            guard let usage = answer.usage else { return }
            let both = dimensions + [(Name.responseModel, model)]
            instruments.record(Double(usage.inputTokens), Name.tokenUsage, both + [(Name.tokenType, "input")])
            instruments.record(Double(usage.outputTokens), Name.tokenUsage, both + [(Name.tokenType, "output")])
            span?.attributes["gen_ai.usage.input_tokens"] = usage.inputTokens
            span?.attributes["gen_ai.usage.output_tokens"] = usage.outputTokens
            span?.attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cachedInputTokens
            span?.attributes["gen_ai.usage.reasoning.output_tokens"] = usage.reasoningTokens
        }

        private func errorType(of error: any Error) -> String {
            let type = ErrorType.name(of: error)
            // A tool's handler throws errors of the program.
            return kind == .tool && type == ErrorType.other ? "tool_failed" : type
        }

        private func outcome(of error: (any Error)?) -> String {
            guard let error else { return "renewed" }
            return (error as? ChappieAuthError)?.requiresReauthentication == true ? "refused" : "failed"
        }
    }
#endif
