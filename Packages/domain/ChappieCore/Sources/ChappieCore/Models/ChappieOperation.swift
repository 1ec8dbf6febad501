/// An operation that a ``ChappieObserver`` follows. New cases may be added, so switch with a `default`.
public enum ChappieOperation: Sendable, Hashable {
    /// A turn with its requests and rounds of tools, from the end of its wait in the queue. A compaction that the
    /// program asked for also is a turn.
    case turn
    /// A request to the model with all of its attempts.
    case request(ChappieObservedRequest)
    /// A call of a tool, without the wait for an approval.
    case tool(ChappieObservedTool)
    /// A renewal of tokens at the issuer.
    case renewal(ChappieRenewalReason)
    /// An addition of records to a thread.
    case threadAppend(ChappieThreadStoreKind, byteCount: Int)
}

/// A request to the model, without its content.
public struct ChappieObservedRequest: Sendable, Hashable {
    /// The requested model, or `nil` if the account's list does not have it.
    public var model: String?
    /// The host of the configured backend.
    public var host: String
    /// The port of the configured backend.
    public var port: Int
    /// Whether the answer is JSON of a schema.
    public var isStructured: Bool
    /// The requested tier of service, if it is one of ``ChappieObservedTier``.
    public var serviceTier: ChappieObservedTier?

    /// Creates a request with the given properties.
    public init(
        model: String?, host: String, port: Int, isStructured: Bool = false, serviceTier: ChappieObservedTier? = nil
    ) {
        self.model = model
        self.host = host
        self.port = port
        self.isStructured = isStructured
        self.serviceTier = serviceTier
    }
}

/// The tiers of service that the service documents.
public enum ChappieObservedTier: String, Sendable, Hashable {
    /// The service chooses.
    case automatic = "auto"
    /// The usual tier.
    case standard = "default"
    /// A tier that is slower.
    case flex
    /// A tier with reserved capacity.
    case scale
    /// A tier that is faster.
    case priority
}

/// A call of a tool, without its arguments.
public struct ChappieObservedTool: Sendable, Hashable {
    /// The name of the tool. A server has chosen it if ``isFromProvider``, and otherwise the program.
    public var name: String
    /// Whether the tool is one of a provider, such as a Model Context Protocol server. A server may invent names, so an
    /// observer must not report them unless the program lists them.
    public var isFromProvider: Bool
    /// The random id of the call, which the service has made. It has no spaces and at most 64 characters.
    public var callID: String?

    /// Creates a call with the given properties.
    public init(name: String, isFromProvider: Bool, callID: String? = nil) {
        self.name = name
        self.isFromProvider = isFromProvider
        self.callID = callID
    }
}

/// A detail of an operation that an observer follows. New cases may be added, so switch with a `default`.
public enum ChappieOperationDetail: Sendable, Hashable {
    /// An attempt of a request has begun.
    case attemptBegan(ChappieTransportEvent.Kind, ChappieAttemptReason)
    /// The first events of an attempt's answer have arrived.
    case firstChunk
    /// The answer of a request is complete.
    case answered(ChappieObservedAnswer)
    /// A repeated answer was compared with the part that was shown.
    case replayed(ChappieReplayOutcome)
    /// The conversation of a turn was compacted.
    case compacted
}

/// The reason for an attempt of a request.
public enum ChappieAttemptReason: String, Sendable, Hashable, CaseIterable {
    /// It is the first attempt.
    case first
    /// The connection of the earlier attempt broke, or could not be opened.
    case reconnect
    /// The service had asked to wait.
    case rateLimit = "rate_limit"
    /// The tokens were renewed, because the backend had refused them.
    case renewedToken = "renewed_token"
    /// The transport was changed.
    case fallback
    /// The request is sent without compression.
    case uncompressed
}

/// The result of comparing a repeated answer with the part that was shown.
public enum ChappieReplayOutcome: String, Sendable, Hashable, CaseIterable {
    /// The answer is the same, and the part that was shown was held back.
    case matched
    /// The answer differs.
    case diverged
}

/// An answer of the model, without its text.
public struct ChappieObservedAnswer: Sendable, Hashable {
    /// The model that answered, or `nil` if the account's list does not have it.
    public var model: String?
    /// The random id of the response. It has no spaces and at most 64 characters.
    public var id: String?
    /// The reason for the end of the answer, if it is one of ``ChappieFinishReason``.
    public var finishReason: ChappieFinishReason?
    /// The tokens, if the service reports them.
    public var usage: ChappieTokenUsage?
    /// The tier of service, if it is one of ``ChappieObservedTier``.
    public var serviceTier: ChappieObservedTier?

    /// Creates an answer with the given properties.
    public init(
        model: String? = nil, id: String? = nil, finishReason: ChappieFinishReason? = nil,
        usage: ChappieTokenUsage? = nil, serviceTier: ChappieObservedTier? = nil
    ) {
        self.model = model
        self.id = id
        self.finishReason = finishReason
        self.usage = usage
        self.serviceTier = serviceTier
    }
}

/// The reason for the end of an answer.
public enum ChappieFinishReason: String, Sendable, Hashable, CaseIterable {
    /// The answer is complete.
    case stop
    /// The answer has reached a limit of tokens.
    case length
    /// The model calls tools.
    case toolCalls = "tool_calls"
    /// The service has ended the answer because of its content.
    case contentFilter = "content_filter"
}
