@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

#if canImport(FoundationModels, _version: 2) || canImport(FoundationModelsStandIn)

    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    extension LanguageModelError {
        /// Returns the framework's error for an error of the client. Errors that the framework has no case for stay.
        static func replacing(
            _ error: any Error, of exchange: ChappieExchange, _ client: ChappieClient, _ schema: GenerationSchema?
        ) async -> any Error {
            guard let failure = error as? ChappieClientError else { return error }
            let sentence = failure.explanation
            switch failure {
            case .usageLimitReached(let limit):
                return rateLimited(
                    .init(resetDate: limit.resetsAt, debugDescription: sentence, metadata: ["chappie.limit": limit]))
            case .httpError(429, _): return rateLimited(.init(resetDate: nil, debugDescription: sentence))
            case .inputTooLarge(let size):
                return contextSizeExceeded(
                    .init(
                        contextSize: size.contextWindow ?? 0, tokenCount: size.estimatedTokens ?? size.byteCount / 4,
                        debugDescription: sentence))
            case .contextWindowExceeded, .messageTooLarge:
                let window = await client.knownWindow(of: exchange.model, readsStore: false).contextWindow
                let byteCount = exchange.input.reduce(0) { $0 + $1.serializedBytes().count }
                return contextSizeExceeded(
                    .init(contextSize: window ?? 0, tokenCount: byteCount / 4, debugDescription: sentence))
            case .transportFailed(let reason) where reason.code == .timedOut:
                return timeout(.init(debugDescription: sentence))
            case .timeLimitExceeded: return timeout(.init(debugDescription: sentence))
            case .httpError(400, let body):
                let parameter = (try? ChappieJSON(parsing: body)).flatMap { ChappieResponseError(body: $0).parameter }
                guard let schema, parameter?.hasPrefix("text.format") == true else { return failure }
                return unsupportedGenerationGuide(.init(schemaName: schema.name, debugDescription: sentence))
            default: return failure
            }
        }
    }
#endif
