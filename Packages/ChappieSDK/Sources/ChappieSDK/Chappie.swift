public import ChappieAuth
public import ChappieClient
public import ChappieCore
public import Logging

/// The front door: sessions and clients over the platform's own adapters.
///
/// On Linux these are libcurl for the network, the Secret Service for credentials, and the desktop's notifications.
/// Use the initialisers of `ChappieAuthSession` and `ChappieClient` to bring other adapters.
///
/// Everything that is given the same configuration and `store:` shares one credential manager, so that a token is
/// refreshed once and not once per object. Two stores are the same when they name the same place, when they are one
/// object, or when they are `Hashable` and equal.
///
/// `logger:` is told at level `debug` why tokens are renewed, and why a turn waited, was sent again or changed to
/// server-sent events; never a token, and never what was said. Nothing is logged without one. The renewals of a shared
/// credential are told to the logger that was given last.
public enum Chappie {
    /// A session that is already signed in when the user has signed in before.
    ///
    /// ```swift
    /// let session = Chappie.authSession()
    /// let code = try await session.startDeviceCodeSignIn()
    /// print("Enter \(code.userCode) at \(code.verificationURL)")
    /// ```
    ///
    /// It blocks the main thread while the store is read, as `ChappieAuthSession` says;
    /// `loadedAuthSession` does not.
    ///
    /// - Parameters:
    ///   - configuration: the same as the client's.
    ///   - store: `.keyring`, `.encryptedFile(passphrase:)`, `.memory` or any `CredentialStore`.
    ///   - logger: see ``Chappie``. Default none.
    @MainActor
    public static func authSession(
        configuration: ChappieConfiguration = ChappieConfiguration(),
        store: ChappieCredentialStorage = .keyring, logger: Logger? = nil
    ) -> ChappieAuthSession {
        ChappieAuthSession(
            credentials: PlatformComposition.shared.credentials(for: configuration, in: store, logger: logger),
            notifier: PlatformComposition.shared.notifier)
    }

    /// The same without blocking anything: it returns when the store has been read, which may ask the user.
    ///
    /// A store that can't be read is no error here: the session's state and its `lastStoreError` say why. Where the task is
    /// cancelled it returns at once, and the store's answer comes through `stateUpdates`.
    @MainActor
    public static func loadedAuthSession(
        configuration: ChappieConfiguration = ChappieConfiguration(),
        store: ChappieCredentialStorage = .keyring, logger: Logger? = nil
    ) async -> ChappieAuthSession {
        let composition = PlatformComposition.shared
        let credentials = composition.credentials(for: configuration, in: store, logger: logger)
        do {
            return try await ChappieAuthSession(loading: credentials, notifier: composition.notifier)
        } catch {
            return ChappieAuthSession(credentials: credentials, notifier: composition.notifier, loadDeadline: .zero)
        }
    }

    /// A client for one conversation. A parameter given beside `configuration` wins over the configuration's value.
    ///
    /// ```swift
    /// let answer = try await Chappie.client().send("Hello")
    /// ```
    /// - Parameters:
    ///   - configuration: the model, the harness, the endpoints and the rest.
    ///   - tools: the model may call them.
    ///   - toolProviders: tools that come and go, such as those of a Model Context Protocol server.
    ///   - store: the one that the session has: `.keyring`, `.encryptedFile(passphrase:)`, `.memory` or any
    ///     `CredentialStore`.
    ///   - logger: see ``Chappie``. Default none.
    ///   - middleware: sees the HTTP exchanges with the backend, before the sign-in's header fields are added. Not the
    ///     messages of a WebSocket.
    ///   - rateLimitBackoff: what happens after a 429.
    ///   - streamingTransportPolicy: WebSocket or server-sent events.
    ///   - toolApprovalHandler: asks the user where a tool's policy is `.ask`. Without it such calls are denied.
    public static func client(
        configuration: ChappieConfiguration = ChappieConfiguration(),
        tools: [ChappieHostTool] = [], toolProviders: [any ChappieToolProvider] = [],
        store: ChappieCredentialStorage = .keyring, logger: Logger? = nil,
        middleware: [any HTTPMiddleware] = [], rateLimitBackoff: ChappieRateLimitBackoffPolicy? = nil,
        streamingTransportPolicy: ChappieStreamingTransportPolicy? = nil,
        toolApprovalHandler: ChappieToolApprovalHandler? = nil
    ) -> ChappieClient {
        var configuration = configuration
        if let rateLimitBackoff { configuration.rateLimitBackoff = rateLimitBackoff }
        if let streamingTransportPolicy { configuration.streamingTransportPolicy = streamingTransportPolicy }
        let transports = PlatformComposition.shared.transports(for: configuration.network)
        return ChappieClient(
            configuration: configuration, transport: transports.http, webSocket: transports.webSocket,
            credentials: PlatformComposition.shared.credentials(for: configuration, in: store, logger: logger),
            tools: tools, toolProviders: toolProviders, toolApprovalHandler: toolApprovalHandler,
            modelCache: PlatformComposition.shared.modelCache, middleware: middleware, logger: logger)
    }

    /// A client for one conversation with this harness instead of the configuration's.
    ///
    /// A function of its own, so that `.none` is `ChappieHarness.none` and not a missing harness.
    public static func client(
        configuration: ChappieConfiguration = ChappieConfiguration(), harness: ChappieHarness,
        tools: [ChappieHostTool] = [], toolProviders: [any ChappieToolProvider] = [],
        store: ChappieCredentialStorage = .keyring, logger: Logger? = nil,
        middleware: [any HTTPMiddleware] = [], rateLimitBackoff: ChappieRateLimitBackoffPolicy? = nil,
        streamingTransportPolicy: ChappieStreamingTransportPolicy? = nil,
        toolApprovalHandler: ChappieToolApprovalHandler? = nil
    ) -> ChappieClient {
        var configuration = configuration
        configuration.harness = harness
        return client(
            configuration: configuration, tools: tools, toolProviders: toolProviders, store: store, logger: logger,
            middleware: middleware, rateLimitBackoff: rateLimitBackoff,
            streamingTransportPolicy: streamingTransportPolicy, toolApprovalHandler: toolApprovalHandler)
    }
}

// MARK: A store of the program's own

extension Chappie {
    /// A session over a store of the program's own.
    @MainActor
    public static func authSession(
        configuration: ChappieConfiguration = ChappieConfiguration(), store: any CredentialStore, logger: Logger? = nil
    ) -> ChappieAuthSession { authSession(configuration: configuration, store: .custom(store), logger: logger) }

    /// A session over a store of the program's own; nothing is blocked.
    @MainActor
    public static func loadedAuthSession(
        configuration: ChappieConfiguration = ChappieConfiguration(), store: any CredentialStore, logger: Logger? = nil
    ) async -> ChappieAuthSession {
        await loadedAuthSession(configuration: configuration, store: .custom(store), logger: logger)
    }

    /// A client over a store of the program's own.
    public static func client(
        configuration: ChappieConfiguration = ChappieConfiguration(), tools: [ChappieHostTool] = [],
        toolProviders: [any ChappieToolProvider] = [], store: any CredentialStore, logger: Logger? = nil,
        middleware: [any HTTPMiddleware] = [], rateLimitBackoff: ChappieRateLimitBackoffPolicy? = nil,
        streamingTransportPolicy: ChappieStreamingTransportPolicy? = nil,
        toolApprovalHandler: ChappieToolApprovalHandler? = nil
    ) -> ChappieClient {
        client(
            configuration: configuration, tools: tools, toolProviders: toolProviders, store: .custom(store),
            logger: logger, middleware: middleware, rateLimitBackoff: rateLimitBackoff,
            streamingTransportPolicy: streamingTransportPolicy, toolApprovalHandler: toolApprovalHandler)
    }

    /// A client over a store of the program's own, with this harness instead of the configuration's.
    public static func client(
        configuration: ChappieConfiguration = ChappieConfiguration(), harness: ChappieHarness,
        tools: [ChappieHostTool] = [], toolProviders: [any ChappieToolProvider] = [], store: any CredentialStore,
        logger: Logger? = nil, middleware: [any HTTPMiddleware] = [],
        rateLimitBackoff: ChappieRateLimitBackoffPolicy? = nil,
        streamingTransportPolicy: ChappieStreamingTransportPolicy? = nil,
        toolApprovalHandler: ChappieToolApprovalHandler? = nil
    ) -> ChappieClient {
        client(
            configuration: configuration, harness: harness, tools: tools, toolProviders: toolProviders,
            store: .custom(store), logger: logger, middleware: middleware, rateLimitBackoff: rateLimitBackoff,
            streamingTransportPolicy: streamingTransportPolicy, toolApprovalHandler: toolApprovalHandler)
    }
}
