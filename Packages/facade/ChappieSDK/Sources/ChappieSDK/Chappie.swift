public import ChappieAuth
public import ChappieClient
public import ChappieCore
public import Logging

/// The entry point, which creates sessions and clients over the platform's own adapters.
///
/// On Linux these are libcurl for the network, the Secret Service for credentials, and the desktop's notifications. On
/// macOS, iOS and visionOS they are URLSession, Network.framework and the keychain, and the sign-in button has its own
/// notifications. No Mac has built or run this yet. Use the initialisers of `ChappieAuthSession` and `ChappieClient` to bring other adapters.
///
/// Sessions and clients with the same `store:` and the same slot (service, account, access group, issuer, backend and
/// OAuth client) share one credential manager, so that a token is refreshed only once and not once per object, and a
/// sign-out reaches all of them. The first of them determines the network for renewals of tokens, and when the keyring
/// can be read. Two stores are the same if they name the same place, if they are one object, or if they are `Hashable`
/// and equal. See ``ChappieCredentialStorage/custom(_:)`` for others.
///
/// A `logger:` gets messages at level `debug`. They report why tokens are renewed, and why a turn waited, was sent
/// again or changed to server-sent events. No message contains a token or a part of the conversation. Without a logger
/// nothing is logged. The latest logger gets the renewals of a shared credential.
public enum Chappie {
    /// Lets an observer follow all sessions and clients that this process creates from now on, for metrics and traces.
    /// Call it before you create the first one.
    ///
    /// ```swift
    /// Chappie.observe(with: TurnCounter())
    /// ```
    /// - Parameter observer: The observer, such as the one of the product ChappieObservability, or `nil` for none.
    public static func observe(with observer: (any ChappieObserver)?) {
        PlatformComposition.shared.observer = observer
    }

    /// Creates a session, which is already signed in if the user has signed in before.
    ///
    /// ```swift
    /// let session = Chappie.authSession()
    /// let code = try await session.startDeviceCodeSignIn()
    /// print(code.instructions)
    /// ```
    ///
    /// It blocks the main thread while it reads the store, as described in `ChappieAuthSession`. `loadedAuthSession`
    /// does not.
    ///
    /// - Parameters:
    ///   - configuration: The same configuration as the client's.
    ///   - store: The store of the credential: `.keyring`, `.encryptedFile(passphrase:)`, `.memory` or `.custom(_:)`.
    ///   - logger: The logger. See ``Chappie``. Default none.
    @MainActor
    public static func authSession(
        configuration: ChappieConfiguration = ChappieConfiguration(),
        store: ChappieCredentialStorage = .keyring, logger: Logger? = nil
    ) -> ChappieAuthSession {
        ChappieAuthSession(
            credentials: PlatformComposition.shared.credentials(for: configuration, in: store, logger: logger),
            notifier: PlatformComposition.shared.notifier)
    }

    /// Creates the same session without blocking a thread. Returns after the store was read, which may ask the user.
    ///
    /// The function does not throw if the store can't be read. The session's state and its `lastStoreError` report the
    /// reason. If the task is cancelled, the function returns at once, and the store's answer arrives through
    /// `stateUpdates`.
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

    /// Creates a client for one conversation. The other parameters take precedence over the values of `configuration`.
    ///
    /// ```swift
    /// let answer = try await Chappie.client().send("Hello")
    /// ```
    /// - Parameters:
    ///   - configuration: The configuration, with the model, the harness, the endpoints and the rest.
    ///   - tools: The tools that the model may call.
    ///   - toolProviders: The providers of tools that may change between turns, such as the tools of a Model Context
    ///     Protocol server.
    ///   - store: The session's store: `.keyring`, `.encryptedFile(passphrase:)`, `.memory` or `.custom(_:)`.
    ///   - logger: The logger. See ``Chappie``. Default none.
    ///   - middleware: The middleware that sees the HTTP exchanges with the backend, before the sign-in's header fields
    ///     are added. It does not see the messages of a WebSocket.
    ///   - rateLimitBackoff: The way in which the client waits after a 429.
    ///   - streamingTransportPolicy: The choice of WebSocket or server-sent events.
    ///   - toolApprovalHandler: The handler that asks the user before a call of a tool whose policy is `.ask`. Without
    ///     a handler, such calls are denied.
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
            modelCache: PlatformComposition.shared.modelCache,
            webSocketNotes: PlatformComposition.webSocketNotes(under: configuration.network), middleware: middleware,
            logger: logger, observer: PlatformComposition.shared.observer)
    }

    /// Creates a client for one conversation with this harness instead of the configuration's.
    ///
    /// This is a separate function, so that `.none` is `ChappieHarness.none` and not a missing harness.
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
