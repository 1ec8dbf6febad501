public import ChappieAuth
public import ChappieClient

/// The front door: sessions and clients over the platform's own adapters.
///
/// On Linux these are libcurl for the network, the Secret Service for credentials, and the desktop's notifications.
/// Everything that is given the same credential slot and endpoints shares one credential manager, so that a token is
/// refreshed once and not once per object. Use the initialisers of ``ChappieAuthSession`` and ``ChappieClient`` to bring
/// other adapters.
public enum Chappie {
    /// A session that is already signed in when the user has signed in before.
    ///
    /// ```swift
    /// let session = Chappie.authSession()
    /// let code = try await session.startDeviceCodeSignIn()
    /// print("Enter \(code.userCode) at \(code.verificationURL)")
    /// ```
    @MainActor
    public static func authSession(
        configuration: ChappieConfiguration = ChappieConfiguration()
    ) -> ChappieAuthSession {
        ChappieAuthSession(
            credentials: PlatformComposition.shared.credentials(for: configuration),
            notifier: PlatformComposition.shared.notifier)
    }

    /// A client for one conversation. A parameter given beside `configuration` wins over the configuration's value.
    ///
    /// ```swift
    /// let answer = try await Chappie.client().send("Hello")
    /// ```
    public static func client(
        configuration: ChappieConfiguration = ChappieConfiguration(),
        rateLimitBackoff: ChappieRateLimitBackoffPolicy? = nil,
        streamingTransportPolicy: ChappieStreamingTransportPolicy? = nil
    ) -> ChappieClient {
        var configuration = configuration
        if let rateLimitBackoff { configuration.rateLimitBackoff = rateLimitBackoff }
        if let streamingTransportPolicy { configuration.streamingTransportPolicy = streamingTransportPolicy }
        let transports = PlatformComposition.shared.transports(for: configuration.network)
        return ChappieClient(
            configuration: configuration, transport: transports.http, webSocket: transports.webSocket,
            credentials: PlatformComposition.shared.credentials(for: configuration),
            modelCache: PlatformComposition.shared.modelCache)
    }

    /// A client for one conversation with this harness instead of the configuration's.
    ///
    /// A function of its own, so that `.none` is ``ChappieHarness/none`` and not a missing harness.
    public static func client(
        configuration: ChappieConfiguration = ChappieConfiguration(), harness: ChappieHarness,
        rateLimitBackoff: ChappieRateLimitBackoffPolicy? = nil,
        streamingTransportPolicy: ChappieStreamingTransportPolicy? = nil
    ) -> ChappieClient {
        var configuration = configuration
        configuration.harness = harness
        return client(
            configuration: configuration, rateLimitBackoff: rateLimitBackoff,
            streamingTransportPolicy: streamingTransportPolicy)
    }
}

/// Keeps credentials in this process's memory; they are gone with it.
///
/// For throw-away sign-ins, and for machines where the user wants nothing stored. It is never a fallback: a program
/// chooses it.
public actor ChappieEphemeralCredentialStore: CredentialStore {
    private var secrets: [CredentialSlot: Secret] = [:]

    /// An empty store.
    public init() {}

    /// The secret saved last.
    public func load(_ slot: CredentialSlot) -> Secret? { secrets[slot] }
    /// Keeps the secret.
    public func save(_ secret: Secret, in slot: CredentialSlot) { secrets[slot] = secret }
    /// Drops the secret.
    public func delete(_ slot: CredentialSlot) { secrets[slot] = nil }
}
