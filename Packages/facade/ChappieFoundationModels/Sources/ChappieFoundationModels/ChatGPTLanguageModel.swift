public import ChappieAuth
public import ChappieClient
public import ChappieCore
@_spi(ChappieInternals) public import ChappieSDK
public import Logging

#if canImport(FoundationModels, _version: 2)
    public import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    public import FoundationModelsStandIn
#endif

#if canImport(FoundationModels, _version: 2) || canImport(FoundationModelsStandIn)

    /// A language model for Apple's Foundation Models sessions that answers on the user's own ChatGPT plan.
    ///
    /// ```swift
    /// let model = ChatGPTLanguageModel()
    /// try await model.authenticateIfNeeded { code in print(code.instructions) }
    /// let session = LanguageModelSession(model: model)
    /// print(try await session.respond(to: "What is a walrus?").content)
    /// ```
    ///
    /// Sessions throw `LanguageModelError` for a used-up plan, a transcript that is too long, a refusal, a time-out, and
    /// content or a schema that can't be sent. All other errors are `ChappieClientError`, such as `missingCredential`.
    ///
    /// The service decides about temperature, sampling and the length of an answer. A session's options for them are not
    /// sent, and each is named once in the log. A session that requires tool calls ends with
    /// `ChappieClientError.unsupportedInput` if the model decides itself which tools it calls.
    ///
    /// The metadata of a request may have `chappie.model`, `chappie.verbosity` and `chappie.serviceTier`, which are text,
    /// and `chappie.webSearch`, a Boolean.
    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    public struct ChatGPTLanguageModel: LanguageModel {
        /// The sign-in and the connections that sessions of equal models share.
        public let executorConfiguration: Executor.Configuration
        /// The model's slug, or `nil` for the configuration's.
        let model: String?
        let effort: ChappieReasoningEffort?

        /// Creates a model. Nothing is read or sent before a session asks.
        ///
        /// - Parameters:
        ///   - model: The slug of the model. Default `nil`: the configuration's model, or else the best that the account
        ///     lists.
        ///   - configuration: The configuration, with the user, the endpoints and the network. Its harness is not sent.
        ///   - store: The place of the credential. Default `.keyring`.
        ///   - effort: The amount of reasoning, which overrides a session's reasoning level. Default `nil`: the session's
        ///     level, or else the model's own.
        ///   - logger: The logger. See `Chappie`. Default none. Models that differ only in it share the first one.
        public init(
            model: String? = nil, configuration: ChappieConfiguration = ChappieConfiguration(),
            store: ChappieCredentialStorage = .keyring, effort: ChappieReasoningEffort? = nil, logger: Logger? = nil
        ) {
            // Text that a session has shown can't be taken back.
            var configuration = configuration
            configuration.replayDivergence = .fail
            self.init(
                model: model, effort: effort,
                executorConfiguration: Executor.Configuration(
                    configuration: configuration, store: store, logger: logger,
                    makeClient: { [configuration] in
                        Chappie.client(configuration: configuration, store: store, logger: logger)
                    },
                    makeSession: { [configuration] in
                        await Chappie.loadedAuthSession(configuration: configuration, store: store, logger: logger)
                    }))
        }

        init(model: String?, effort: ChappieReasoningEffort?, executorConfiguration: Executor.Configuration) {
            self.model = model
            self.effort = effort
            self.executorConfiguration = executorConfiguration
        }

        /// The abilities of the model: images, tools, reasoning and guided generation.
        public var capabilities: LanguageModelCapabilities {
            LanguageModelCapabilities([.vision, .toolCalling, .reasoning, .guidedGeneration])
        }

        /// The account that is signed in, or `nil`.
        public var account: ChappieAccountInfo? {
            get async { await executorConfiguration.makeSession().accountInfo }
        }

        /// Signs in, unless the user is signed in already. A call during a sign-in waits for that sign-in. A session never
        /// signs in by itself.
        ///
        /// - Parameter show: Shows the code or the page to the user. In the meantime, the sign-in waits until the user has
        ///   approved.
        /// - Throws: `ChappieAuthError`, and the errors of `show`. Cancelling the task that began the sign-in cancels it.
        @MainActor
        public func authenticateIfNeeded(
            _ show: @escaping @MainActor (ChappieDeviceCode) async throws -> Void
        ) async throws {
            let key = executorConfiguration
            if let running = SignIns.running[key] { return try await running.value }
            let signIn = Task { @MainActor in
                defer { SignIns.running[key] = nil }
                let session = await key.makeSession()
                if !session.state.isSignedIn { try await session.signIn(show) }
            }
            SignIns.running[key] = signIn
            try await withTaskCancellationHandler {
                try await signIn.value
            } onCancel: {
                signIn.cancel()
            }
        }
    }

    /// The sign-ins that run in this process.
    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    @MainActor
    private enum SignIns {
        static var running: [ChatGPTLanguageModel.Executor.Configuration: Task<Void, any Error>] = [:]
    }

    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    extension ChatGPTLanguageModel.Executor {
        /// The user and the place of the credential. Models with equal values share their connections.
        public struct Configuration: Hashable, Sendable {
            let configuration: ChappieConfiguration
            let store: ChappieCredentialStorage
            let logger: Logger?
            let makeClient: @Sendable () -> ChappieClient
            let makeSession: @MainActor @Sendable () async -> ChappieAuthSession

            public static func == (one: Self, other: Self) -> Bool {
                one.configuration == other.configuration && one.store.isSamePlace(as: other.store)
            }

            public func hash(into hasher: inout Hasher) { hasher.combine(configuration) }
        }
    }
#endif
