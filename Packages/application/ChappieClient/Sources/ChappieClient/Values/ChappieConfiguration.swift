public import ChappieAuth
public import ChappieCore

/// The configuration of a session and a client. Pass the same value to both, so that they share a credential.
public struct ChappieConfiguration: Sendable, Hashable, Codable {
    /// The namespace of all stored items. Default `com.chappie.sdk`.
    public var keychainService: String
    /// The host app's user. Each user has a separate credential. Default `default`.
    public var keychainAccount: String
    /// The access group of the programs that share the credential. Linux stores it as an attribute and does not enforce
    /// it. Default `nil`.
    ///
    /// On Apple's platforms the lock that lets only one program at a time renew the tokens, the notes about changes and
    /// the registrations of the plan route are items of the same group. The programs need nothing else in common.
    public var keychainAccessGroup: String?
    /// An app group of the programs that share the credential, on Apple's platforms. The notes about changes are then
    /// files in its folder, so that no request has to ask the keychain for them. All programs must name the same group.
    /// If a program can't use the folder, the credential is not read or written
    /// (`CredentialStoreError.noSharedFolder`). Default `nil`: the notes are in the keychain.
    public var appGroup: String?
    /// The state of the device in which the stored credential can be read. Default: only while this device is unlocked.
    public var keychainAccessibility: ChappieKeychainAccessibility
    /// The model's slug. A model that is not in the account's list is requested anyway. Default `nil`: the best model
    /// that the account lists.
    public var model: String?
    /// The assistant's role. Default ``ChappieHarness/default``.
    public var harness: ChappieHarness
    /// The behaviour after a 429. Default: two retries.
    public var rateLimitBackoff: ChappieRateLimitBackoffPolicy
    /// The transport of answers. Default: WebSocket first, then server-sent events.
    public var streamingTransportPolicy: ChappieStreamingTransportPolicy
    /// The maximum number of rounds of tool calls in one turn. Default 16. Values below 0 become 0.
    public var toolLoopLimit: Int
    /// The maximum number of calls of one answer that run in parallel. An answer may have hundreds. Default 8. Values
    /// below 1 become 1.
    public var maximumParallelCalls: Int {
        didSet { maximumParallelCalls = max(maximumParallelCalls, 1) }
    }
    /// The effect on a turn of a denied or failed tool call. Default ``ChappieToolFailureBehavior/automatic``.
    public var toolFailureBehavior: ChappieToolFailureBehavior
    /// The behaviour if an answer whose connection broke begins differently when it is repeated. Default
    /// ``ChappieReplayDivergence/automatic``.
    public var replayDivergence: ChappieReplayDivergence
    /// The share of the model's context window, above 0 and at most 1, from which on a conversation is compacted before
    /// the next turn, or in the middle of a turn with tools. A model's own limit in the list counts if it is smaller. A
    /// compaction also follows when a request is refused for its length. Default `nil`: no automatic compaction.
    public var automaticCompaction: Double?
    /// The issuer, the backend, and the form of their requests. Default `ChappieEndpoints.chatGPT`.
    public var endpoints: ChappieEndpoints
    /// Proxy, trust and deadlines of every connection. Default `ChappieNetworkPolicy.default`.
    public var network: ChappieNetworkPolicy

    /// Creates a configuration. Every parameter has the default of its property.
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

/// The transport of answers, and the behaviour when a connection breaks.
///
/// A connection that breaks during an answer is opened again after 0.2 s, doubling, with some jitter. The request is
/// sent again in full. Text is not shown twice: the part of the new answer that repeats the shown text is held back. A
/// model rarely writes the same text again. ``ChappieConfiguration/replayDivergence`` decides what happens then.
///
/// A host that can't be reached is an error at once, unless the turn had reached it before. The turn stops using
/// WebSocket at once if a reachable host does not open one, if it closes it because of the message, or if no byte comes
/// back within 5 s. Later turns try again after half a minute, doubling up to a quarter of an hour. A network on which
/// no byte comes back is remembered for six hours, and a conversation whose messages are too large for a WebSocket
/// continues to use server-sent events.
public struct ChappieStreamingTransportPolicy: Sendable, Hashable, Codable {
    /// Whether a turn first tries WebSocket: one connection for the entire conversation, on which each turn sends only
    /// the new items. Default `true`.
    public var prefersWebSocket: Bool
    /// The maximum number of times that one turn opens a WebSocket again after a break. Default 5. Negative values
    /// become 0.
    public var maxWebSocketReconnectionAttempts: Int
    /// Whether a turn that has no more WebSocket attempts, or whose message is too large for one, continues over
    /// server-sent events. Default `true`.
    public var fallsBackToHTTPSSE: Bool
    /// The maximum number of times that one turn repeats a request over server-sent events after a break or a 5xx.
    /// Default 2. Negative values become 0.
    public var maxHTTPSSEReconnectionAttempts: Int

    /// Creates a policy. Negative values become 0.
    public init(
        prefersWebSocket: Bool = true, maxWebSocketReconnectionAttempts: Int = 5, fallsBackToHTTPSSE: Bool = true,
        maxHTTPSSEReconnectionAttempts: Int = 2
    ) {
        self.prefersWebSocket = prefersWebSocket
        self.maxWebSocketReconnectionAttempts = max(maxWebSocketReconnectionAttempts, 0)
        self.fallsBackToHTTPSSE = fallsBackToHTTPSSE
        self.maxHTTPSSEReconnectionAttempts = max(maxHTTPSSEReconnectionAttempts, 0)
    }

    /// First WebSocket, then server-sent events.
    public static let `default` = ChappieStreamingTransportPolicy()
    /// Only server-sent events.
    public static let httpSSEOnly = ChappieStreamingTransportPolicy(
        prefersWebSocket: false, maxWebSocketReconnectionAttempts: 0)
}

/// The effect on a turn of a denied or failed tool call. Unknown values count as ``automatic``.
public struct ChappieToolFailureBehavior: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The call of a tool whose policy is `.deny`, or that the program does not have, ends the turn. The model is
    /// informed of every other failure.
    public static let automatic = ChappieToolFailureBehavior(rawValue: "automatic")
    /// The model is informed of the failure, and the turn continues.
    public static let tellModel = ChappieToolFailureBehavior(rawValue: "tell_model")
    /// The turn ends with `toolApprovalDenied`, `toolExecutionFailed` or `missingToolHandler`.
    public static let throwError = ChappieToolFailureBehavior(rawValue: "throw_error")
}

/// The behaviour if a connection broke in the middle of an answer, and the repeated answer does not begin with the text
/// that was shown, or does not make the same tool calls. Unknown values count as ``automatic``.
public struct ChappieReplayDivergence: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A stream of a ``ChappieClient`` fails. A conversation in a store restarts the answer, and so does a method that
    /// returns the answer only when it is complete, such as `send(_:)`.
    public static let automatic = ChappieReplayDivergence(rawValue: "automatic")
    /// The turn ends with ``ChappieClientError/streamingTransportReplayDiverged(_:)``. The conversation keeps the
    /// question and the text that was shown.
    public static let fail = ChappieReplayDivergence(rawValue: "fail")
    /// The event `restarted` is sent, and the complete new answer follows.
    public static let restart = ChappieReplayDivergence(rawValue: "restart")
}
