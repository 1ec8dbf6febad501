public import ChappieAuth
public import ChappieCore

/// Everything that a session and a client are made of. Give the same value to both: that is how they share a credential.
///
/// ```swift
/// let configuration = ChappieConfiguration(keychainAccount: user.id)
/// let session = Chappie.authSession(configuration: configuration)
/// let client = Chappie.client(configuration: configuration)
/// ```
public struct ChappieConfiguration: Sendable {
    /// The namespace of all stored items. Default `com.chappie.sdk`.
    public var keychainService: String
    /// The host app's user: each gets a credential of their own. Default `default`.
    public var keychainAccount: String
    /// Shares the credential between programs. Linux stores it as an attribute and does not enforce it. Default `nil`.
    public var keychainAccessGroup: String?
    /// When the stored credential may be read.
    public var keychainAccessibility: ChappieKeychainAccessibility
    /// The model's slug; unknown ones are sent as they are. Default ``ChappieClient/defaultModel``.
    public var model: String
    /// The instructions that every turn begins with.
    public var harness: ChappieHarness
    /// How a 429 is retried.
    public var rateLimitBackoff: ChappieRateLimitBackoffPolicy
    /// Which transport carries the turns.
    public var streamingTransportPolicy: ChappieStreamingTransportPolicy
    /// The issuer and the backend.
    public var endpoints: ChappieEndpoints
    /// Proxy, trust and deadlines.
    public var network: ChappieNetworkPolicy

    /// The defaults, except what is named.
    public init(
        keychainService: String = "com.chappie.sdk", keychainAccount: String = "default",
        keychainAccessGroup: String? = nil,
        keychainAccessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
        model: String = ChappieClient.defaultModel, harness: ChappieHarness = .default,
        rateLimitBackoff: ChappieRateLimitBackoffPolicy = .default,
        streamingTransportPolicy: ChappieStreamingTransportPolicy = .default,
        endpoints: ChappieEndpoints = .chatGPT, network: ChappieNetworkPolicy = .default
    ) {
        self.keychainService = keychainService
        self.keychainAccount = keychainAccount
        self.keychainAccessGroup = keychainAccessGroup
        self.keychainAccessibility = keychainAccessibility
        self.model = model
        self.harness = harness
        self.rateLimitBackoff = rateLimitBackoff
        self.streamingTransportPolicy = streamingTransportPolicy
        self.endpoints = endpoints
        self.network = network
    }

    /// Where the credential is stored.
    public var credentialSlot: CredentialSlot {
        CredentialSlot(
            service: keychainService, account: keychainAccount, accessGroup: keychainAccessGroup,
            issuer: endpoints.credentialIssuer)
    }
}
