public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// Everything that a session and a client are made of. Give the same value to both: that is how they share a
/// credential.
public struct ChappieConfiguration: Sendable, Hashable, Codable {
    /// The namespace of all stored items. Default `com.chappie.sdk`.
    public var keychainService: String
    /// The host app's user: each gets a separate credential. Default `default`.
    public var keychainAccount: String
    /// Shares the credential between programs. Linux stores it as an attribute and does not enforce it. Default `nil`.
    ///
    /// On Apple's platforms these programs also need a folder in common, for the lock that lets a single program at a
    /// time renew the tokens: see ``appGroup``.
    public var keychainAccessGroup: String?
    /// The app group of the programs that share the credential, on Apple's platforms. Its folder holds their lock.
    /// Default `nil`: the access group, if its name begins with `group.`. Any other access group needs an app group:
    /// without one the credential is not touched (`CredentialStoreError.noSharedFolder`).
    public var appGroup: String?
    /// When the stored credential can be read. Default: only while this device is unlocked.
    public var keychainAccessibility: ChappieKeychainAccessibility
    /// The model's slug; a model that the account's list lacks is requested anyway. Default `nil`: the best model
    /// that the account lists.
    public var model: String?
    /// The assistant's role. Default ``ChappieHarness/default``.
    public var harness: ChappieHarness
    /// The behaviour after a 429. Default: two retries.
    public var rateLimitBackoff: ChappieRateLimitBackoffPolicy
    /// How answers travel. Default: WebSocket first, then server-sent events.
    public var streamingTransportPolicy: ChappieStreamingTransportPolicy
    /// How many rounds of tool calls one turn may take. Default 16; values below 0 become 0.
    public var toolLoopLimit: Int
    /// How many calls of one answer run side by side; an answer may have hundreds. Default 8; values below 1 become 1.
    public var maximumParallelCalls: Int {
        didSet { maximumParallelCalls = max(maximumParallelCalls, 1) }
    }
    /// The effect on a turn of a denied or failed tool call. Default ``ChappieToolFailureBehavior/automatic``.
    public var toolFailureBehavior: ChappieToolFailureBehavior
    /// What happens if an answer that broke in its middle begins differently when it is repeated. Default
    /// ``ChappieReplayDivergence/automatic``.
    public var replayDivergence: ChappieReplayDivergence
    /// The share of the model's context window, above 0 and at most 1, from which on a conversation is compacted before
    /// the next turn, or in the middle of a turn with tools. A model's own limit in the list counts if it is smaller. A
    /// refusal for length is answered by a compaction, too. Default `nil`: no automatic compaction.
    public var automaticCompaction: Double?
    /// The issuer, the backend, and what they look like on the wire. Default `ChappieEndpoints.chatGPT`.
    public var endpoints: ChappieEndpoints
    /// Proxy, trust and deadlines of every connection. Default `ChappieNetworkPolicy.default`.
    public var network: ChappieNetworkPolicy

    /// Every parameter has the default of its property.
    public init(
        keychainService: String = "com.chappie.sdk", keychainAccount: String = "default",
        keychainAccessGroup: String? = nil, appGroup: String? = nil,
        keychainAccessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
        model: String? = nil, harness: ChappieHarness = .default,
        rateLimitBackoff: ChappieRateLimitBackoffPolicy = .default,
        streamingTransportPolicy: ChappieStreamingTransportPolicy = .default, toolLoopLimit: Int = 16,
        maximumParallelCalls: Int = 8, toolFailureBehavior: ChappieToolFailureBehavior = .automatic,
        replayDivergence: ChappieReplayDivergence = .automatic, automaticCompaction: Double? = nil,
        endpoints: ChappieEndpoints = .chatGPT, network: ChappieNetworkPolicy = .default
    ) {
        self.keychainService = keychainService
        self.keychainAccount = keychainAccount
        self.keychainAccessGroup = keychainAccessGroup
        self.appGroup = appGroup
        self.keychainAccessibility = keychainAccessibility
        self.model = model
        self.harness = harness
        self.rateLimitBackoff = rateLimitBackoff
        self.streamingTransportPolicy = streamingTransportPolicy
        self.toolLoopLimit = max(toolLoopLimit, 0)
        self.maximumParallelCalls = max(maximumParallelCalls, 1)
        self.toolFailureBehavior = toolFailureBehavior
        self.replayDivergence = replayDivergence
        self.automaticCompaction = automaticCompaction
        self.endpoints = endpoints
        self.network = network
    }

    /// The place of the credential in its store.
    public var credentialSlot: CredentialSlot {
        CredentialSlot(
            service: keychainService, account: keychainAccount, accessGroup: keychainAccessGroup,
            issuer: endpoints.credentialIssuer)
    }
}

/// How answers travel, and what happens when a connection breaks.
///
/// A connection that breaks during an answer is opened again after 0.2 s, doubling, with some jitter; the request is
/// sent again in full. Text is not shown twice: the part of the new answer that repeats what was shown is held back. A
/// model rarely writes the same text again. ``ChappieConfiguration/replayDivergence`` decides what happens then.
///
/// A host that can't be reached is an error at once, unless the turn had reached it before. The turn stops using
/// WebSocket at once if a reachable host does not open one, if it closes it because of the message, or if no byte comes
/// back within 5 s. Later turns try again after half a minute, doubling up to a quarter of an hour. A network on which
/// no byte comes back is remembered for six hours, and a conversation whose messages are too large for a WebSocket
/// stays with server-sent events.
public struct ChappieStreamingTransportPolicy: Sendable, Hashable, Codable {
    /// Whether a turn tries WebSocket first: one connection for the whole conversation, on which each turn sends only
    /// what is new. Default `true`.
    public var prefersWebSocket: Bool
    /// How often one turn opens a WebSocket again after a break. Default 5; negative values become 0.
    public var maxWebSocketReconnectionAttempts: Int
    /// Whether a turn that has no more WebSocket attempts, or whose message is too large for one, continues over
    /// server-sent events. Default `true`.
    public var fallsBackToHTTPSSE: Bool
    /// How often one turn asks again over server-sent events after a break or a 5xx. Default 2; negative values become
    /// 0.
    public var maxHTTPSSEReconnectionAttempts: Int

    /// Negative values become 0.
    public init(
        prefersWebSocket: Bool = true, maxWebSocketReconnectionAttempts: Int = 5, fallsBackToHTTPSSE: Bool = true,
        maxHTTPSSEReconnectionAttempts: Int = 2
    ) {
        self.prefersWebSocket = prefersWebSocket
        self.maxWebSocketReconnectionAttempts = max(maxWebSocketReconnectionAttempts, 0)
        self.fallsBackToHTTPSSE = fallsBackToHTTPSSE
        self.maxHTTPSSEReconnectionAttempts = max(maxHTTPSSEReconnectionAttempts, 0)
    }

    /// WebSocket, and server-sent events after it.
    public static let `default` = ChappieStreamingTransportPolicy()
    /// Server-sent events, never WebSocket.
    public static let httpSSEOnly = ChappieStreamingTransportPolicy(
        prefersWebSocket: false, maxWebSocketReconnectionAttempts: 0)
}

/// The effect on a turn of a denied or failed tool call; unknown values count as ``automatic``.
public struct ChappieToolFailureBehavior: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The call of a tool whose policy is `.deny`, or that the program does not have, ends the turn; the model learns
    /// of every other failure.
    public static let automatic = ChappieToolFailureBehavior(rawValue: "automatic")
    /// The model learns of the failure, and the turn continues.
    public static let tellModel = ChappieToolFailureBehavior(rawValue: "tell_model")
    /// The turn ends with `toolApprovalDenied`, `toolExecutionFailed` or `missingToolHandler`.
    public static let throwError = ChappieToolFailureBehavior(rawValue: "throw_error")
}

/// What happens if a connection broke in the middle of an answer, and the repeated answer does not begin with the text
/// that was shown, or does not make the same tool calls; unknown values count as ``automatic``.
public struct ChappieReplayDivergence: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A stream of a ``ChappieClient`` fails. A conversation in a store restarts the answer, and so does a call that
    /// gives the answer only when it is complete, such as `send(_:)`.
    public static let automatic = ChappieReplayDivergence(rawValue: "automatic")
    /// The turn ends with ``ChappieClientError/streamingTransportReplayDiverged(_:)``. The conversation keeps the
    /// question and the text that was shown.
    public static let fail = ChappieReplayDivergence(rawValue: "fail")
    /// The event `restarted` is sent, and the complete new answer follows.
    public static let restart = ChappieReplayDivergence(rawValue: "restart")
}
