import ChappieClient
import ChappieCore
import ChappieJSONSchema
import Logging
import Synchronization

#if canImport(FoundationModels, _version: 2)
    public import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    public import FoundationModelsStandIn
#endif

#if canImport(FoundationModels, _version: 2) || canImport(FoundationModelsStandIn)

    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    extension ChatGPTLanguageModel {
        /// The part of the model that answers the requests of sessions. Sessions create it themselves.
        public struct Executor: LanguageModelExecutor {
            let lanes: Lanes
            private let log: SessionLog

            /// Creates an executor for a user.
            public init(configuration: Configuration) {
                lanes = Lanes(makeClient: configuration.makeClient)
                log = SessionLog(logger: configuration.logger)
            }

            /// Answers one round of a session.
            ///
            /// - Throws: `LanguageModelError`, `ChappieClientError`, or `CancellationError`.
            public nonisolated(nonsending) func respond(
                to request: LanguageModelExecutorGenerationRequest, model: ChatGPTLanguageModel,
                streamingInto channel: LanguageModelExecutorGenerationChannel
            ) async throws {
                let exchange = try exchange(for: request, of: model)
                var output = EventOutput(
                    strict: try exchange.outputSchema.map(ChappieStrictSchema.init),
                    ignored: log.ignored(in: request.generationOptions))
                let entries = request.transcript.map(\.id)
                let lane = lanes.take(for: entries)
                do {
                    for try await event in lane.client.stream(exchange) {
                        if case .notice(let notice) = event { log.add(notice) }
                        for event in try output.events(for: event) { await channel.send(event) }
                    }
                    try Task.checkCancellation()
                    lanes.release(lane, after: entries, output.round)
                } catch {
                    lanes.release(lane)
                    throw await LanguageModelError.replacing(error, of: exchange, lane.client, request.schema)
                }
            }

            /// Opens a connection and sends the beginning of the session's next request.
            public func prewarm(model: ChatGPTLanguageModel, transcript: Transcript) {
                let definitions = transcript.flatMap { entry -> [Transcript.ToolDefinition] in
                    if case .instructions(let instructions) = entry { instructions.toolDefinitions } else { [] }
                }
                guard let exchange = try? exchange(for: transcript, definitions, of: model) else { return }
                let entries = transcript.map(\.id)
                let lane = lanes.take(for: entries)
                lanes.release(lane, after: entries)
                Task { await lane.client.prewarm(exchange) }
            }

            private func exchange(
                for request: LanguageModelExecutorGenerationRequest, of model: ChatGPTLanguageModel
            ) throws -> ChappieExchange {
                func text(_ name: String) -> String? { request.metadata[name].flatMap { try? $0.value(String.self) } }
                var exchange = try exchange(
                    for: request.transcript, request.enabledToolDefinitions, of: model, slug: text("chappie.model"))
                if let effort = request.contextOptions.effort, model.effort == nil {
                    exchange.options.reasoningEffort = effort
                }
                exchange.options.verbosity = text("chappie.verbosity").map(ChappieVerbosity.init(rawValue:))
                exchange.serviceTier = text("chappie.serviceTier")
                if (try? request.metadata["chappie.webSearch"]?.value(Bool.self)) == true {
                    exchange.serviceTools = [.webSearch()]
                }
                switch (request.generationOptions.toolCallingMode?.kind, request.transcript.last) {
                case (.disallowed, _): exchange.toolChoice = .none
                // After the results of a round, the model decides. Otherwise it would call tools without end.
                case (.required, .toolOutput): break
                case (.required, _): exchange.toolChoice = .required
                default: break
                }
                if let schema = request.schema { exchange.outputSchema = try SchemaJSON.outputSchema(schema) }
                return exchange
            }

            private func exchange(
                for transcript: Transcript, _ tools: [Transcript.ToolDefinition], of model: ChatGPTLanguageModel,
                slug: String? = nil
            ) throws -> ChappieExchange {
                let slug = slug ?? model.model
                let input = try TranscriptInput(Array(transcript), model: slug) { lanes.round(of: $0) }
                var exchange = ChappieExchange(instructions: input.instructions, input: input.items)
                exchange.tools = tools.map { definition in
                    ChappieHarnessTool(
                        name: definition.name, description: definition.description,
                        inputSchema: SchemaJSON.of(definition.parameters))
                }
                exchange.model = slug
                if let effort = model.effort { exchange.options.reasoningEffort = effort }
                return exchange
            }
        }
    }

    /// The messages about requests that differ from what a session has asked for.
    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    private final class SessionLog: Sendable {
        private let logger: Logger?
        private let named = Mutex<Set<String>>([])

        init(logger: Logger?) { self.logger = logger }

        func add(_ notice: ChappieNotice) {
            logger?.notice(
                "The answer differs from the request",
                metadata: ["kind": "\(notice.kind.rawValue)", "notice": "\(notice.message)"])
        }

        /// Returns the names of the options that are not sent. The first use of each is logged.
        func ignored(in options: GenerationOptions) -> [String] {
            var names: [String] = []
            if options.temperature != nil { names.append("temperature") }
            if options.samplingMode != nil { names.append("samplingMode") }
            if options.maximumResponseTokens != nil { names.append("maximumResponseTokens") }
            for name in names where named.withLock({ $0.insert(name).inserted }) {
                logger?.warning("The service takes no such option, so it is not sent", metadata: ["option": "\(name)"])
            }
            return names
        }
    }

    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    extension ContextOptions {
        /// The amount of reasoning in the service's terms, or `nil` for the model's own.
        fileprivate var effort: ChappieReasoningEffort? {
            switch reasoningLevel {
            case .light: .low
            case .moderate: .medium
            case .deep: .high
            case .custom(let name): ChappieReasoningEffort(rawValue: name)
            default: nil
            }
        }
    }
#endif
