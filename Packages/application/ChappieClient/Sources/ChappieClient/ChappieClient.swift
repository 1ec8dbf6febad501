@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes
public import Logging

/// A client that talks to the model in one conversation, one turn at a time.
///
/// ```swift
/// let client = Chappie.client()
/// for try await event in client.stream("Hello") {
///     if case .textDelta(let text) = event { print(text, terminator: "") }
/// }
/// ```
///
/// A call that is made while a turn runs waits for it. Waiting calls are served in their order. A turn that fails or is
/// cancelled leaves the conversation unchanged. A turn that is interrupted (``interrupt()``), or whose connection
/// breaks in the middle of the answer, keeps the partial answer. The conversation belongs to the account that began it.
/// When another account signs in to the slot, the next turn begins a new conversation, with its own ids and a separate
/// connection. A running turn is not continued in the new account's name.
public actor ChappieClient: ChappieConversation {
    /// The configuration that was passed in. The runtime derives the location of its store from it.
    @_spi(ChappieInternals) public nonisolated let configuration: ChappieConfiguration
    /// The transport without authorization, like ``webSocket``.
    let transport: any HTTPTransport
    let webSocket: (any WebSocketTransport)?
    let connection: ConversationConnection
    /// The connection of the exchanges, so that they leave the conversation's to its turns.
    let exchangeConnection: ConversationConnection
    let entropy: any Entropy
    let credentials: CredentialManager
    let modelCache: (any ChappieModelCache)?
    let webSocketNotes: (any ChappieWebSocketNotes)?
    let clock: any ChappieClock
    let middleware: [any HTTPMiddleware]
    let log: TurnLog
    let tools: [ChappieHostTool]
    let toolProviders: [any ChappieToolProvider]
    let approvalHandler: ChappieToolApprovalHandler?
    let toolLedger = ToolLedger()
    /// The tools that the last turn declared.
    var checkedTools: [ToolSet.Key: ChappieHarnessTool] = [:]
    /// The search for the deferred tools of the last turn.
    var toolSearch: ToolSearch?

    /// The queue of the turns. The turns of a runtime also wait in it.
    @_spi(ChappieInternals) public nonisolated let queue: TurnQueue
    var prewarming: Task<Void, Never>?
    /// The identity of the exchanges, or `nil` before the first one.
    var exchangeIdentity: ExchangeIdentity?
    /// The task that retires connections whose sign-in was removed.
    let signOutWatcher: Task<Void, Never>

    /// The model that the program has named. `nil` means the conversation's model, or the account's best.
    var named: String?
    /// The transcript of the conversation, or `nil` before the first turn.
    var transcript: Transcript?
    /// The conversation that the next turn continues, if it is not ``transcript``.
    var resumed: ChappieClientContext?
    /// Returns all items of that conversation, if a store has them.
    var history: TurnHistory?
    /// Whether the backend has refused tools in namespaces, although its documentation names them.
    var hasFlatTools = false
    /// Whether the search's endpoint was missing or blocked. Later turns use the search that the backend runs.
    var searchIsGone = false
    /// The most recently loaded list of models.
    var modelList: ModelList?
    /// The parts of requests that the service refuses, for the account of the last turn.
    var refusedParts: RefusedPartsRecord?
    /// The task that loads the list while a turn runs.
    var listing: Task<Void, Never>?
    /// The time of the last failure to load the list.
    var listFailed: Duration?
    /// The time of the last request for the account's plan after a limit.
    var planAsked: Duration?
    /// The notice that the conversation belongs to another account, until a turn has sent it to the user.
    var accountNotice: ChappieNotice?
    /// The notices that the user has seen. Each is sent only once.
    var told: Set<ChappieNotice> = []

    /// Creates a client from its parts. `Chappie.client()` does this with the parts of the platform.
    ///
    /// The client adds the authorization.
    ///
    /// - Parameters:
    ///   - configuration: the model, the harness, the endpoints and other settings. Default: the service's.
    ///   - transport: carries everything except WebSockets.
    ///   - webSocket: opens WebSockets. Default none, so that answers come as server-sent events.
    ///   - credentials: the manager of the configuration's credential slot, shared with its session.
    ///   - tools: the tools that the model may call. Default none.
    ///   - toolProviders: the sources of more tools, which are asked at the beginning of every turn. Default none.
    ///   - toolApprovalHandler: asks the user if a tool's policy is `.ask`. Without it such calls are denied.
    ///   - clock: for pauses and dates.
    ///   - entropy: for ids.
    ///   - modelCache: keeps model lists between runs. Default none.
    ///   - webSocketNotes: remembers between runs which networks block WebSockets. Default none.
    ///   - middleware: sees every HTTP exchange with the backend, the first one outermost: turns over server-sent
    ///     events, models, usage. It does not see the messages of a WebSocket. It handles requests before the sign-in's
    ///     header fields are added, so that it never sees a token. A request that it sends to another host is refused.
    ///     Default none.
    ///   - logger: gets a message at level `debug` when a turn waits, is sent again or changes to server-sent events.
    ///     It never gets text of the conversation. Default none.
    ///   - observer: follows turns, requests and tools, for metrics and traces. Default none.
    public init(
        configuration: ChappieConfiguration = ChappieConfiguration(), transport: any HTTPTransport,
        webSocket: (any WebSocketTransport)? = nil, credentials: CredentialManager,
        tools: [ChappieHostTool] = [], toolProviders: [any ChappieToolProvider] = [],
        toolApprovalHandler: ChappieToolApprovalHandler? = nil, clock: any ChappieClock = SystemClock(),
        entropy: any Entropy = SystemEntropy(), modelCache: (any ChappieModelCache)? = nil,
        webSocketNotes: (any ChappieWebSocketNotes)? = nil,
        middleware: [any HTTPMiddleware] = [], logger: Logger? = nil,
        observer: (any ChappieObserver)? = nil
    ) {
        self.configuration = configuration
        self.modelCache = modelCache
        self.webSocketNotes = webSocketNotes
        self.middleware = middleware
        log = TurnLog(logger: logger, observer: observer)
        self.credentials = credentials
        queue = TurnQueue(backgroundTime: credentials.backgroundTime, observer: observer)
        self.clock = clock
        self.transport = transport
        self.webSocket = webSocket
        self.entropy = entropy
        self.tools = tools
        self.toolProviders = toolProviders
        approvalHandler = toolApprovalHandler
        named = configuration.model
        let connection = ConversationConnection()
        self.connection = connection
        let exchangeConnection = ConversationConnection()
        self.exchangeConnection = exchangeConnection
        signOutWatcher = Task { [weak connection, weak exchangeConnection, signOuts = credentials.signOuts] in
            for await _ in signOuts {
                let retired = [connection, exchangeConnection].compactMap { $0?.retire() }
                for socket in retired { await socket.close(.normal) }
            }
        }
    }

    deinit {
        signOutWatcher.cancel()
        listing?.cancel()
    }

    /// The observer, which the client's runtime also reports to.
    @_spi(ChappieInternals) public nonisolated var observer: (any ChappieObserver)? { log.observer }

    // MARK: Turns

    /// Starts a turn. See ``ChappieConversation/begin(_:endsWithItsStream:)``.
    public nonisolated func begin(_ work: ChappieTurnWork, endsWithItsStream: Bool) -> ChappieStreamHandle {
        queue.begin(endsWithItsStream: endsWithItsStream) { [self] emit, control in
            try await runTurn(work, control: control, emit: emit)
        }
    }

    /// Ends the newest turn, whether it runs or waits. Earlier turns continue. Another call ends the newest of them.
    public func cancel() { queue.cancelNewest() }

    /// Ends the newest turn, and keeps the partial answer. See ``ChappieConversation/interrupt()``. The answer's
    /// connection is closed.
    public nonisolated func interrupt() async { queue.interruptNewest() }

    /// Gives the running turn a message. See ``ChappieConversation/steer(_:)-(ChappieInputMessage)``.
    public nonisolated func steer(_ message: ChappieInputMessage) async -> Bool { queue.steer(message) }

    /// Uses another model from the next turn on. The slug is not checked against the list. If the service refuses the
    /// model, the turn throws ``ChappieClientError/modelUnavailable(_:)``.
    ///
    /// Reasoning is encrypted for the model that wrote it, so another model does not get it.
    @discardableResult
    public func selectModel(_ slug: String) -> ChappieClientContext {
        named = slug
        return context()
    }

    /// The model of the next turn, and the reason for it. The client loads the list of models if it has none.
    ///
    /// - Throws: ``ChappieClientError`` if no account is known; `CancellationError`. A list that can't be loaded is not
    ///   an error.
    public var model: ChappieModelChoice {
        get async throws {
            let account = try await accountInfo()
            let list = try await listForTurn(of: account)
            guard let choice = wish().choice(from: list, of: account.plan, at: clock.now) else {
                throw ChappieClientError.invalidResponse
            }
            return choice
        }
    }

    /// Returns the tools that the client can run in the next turn: the host's own, then the current tools of the
    /// providers.
    ///
    /// - Throws: the error of a provider.
    public func availableTools() async throws -> [ChappieHostTool] {
        var all = tools
        for provider in toolProviders { all += try await provider.tools().map(\.fromProvider) }
        return all
    }

    /// Returns the tools of the next turn. If a provider fails, the user gets one notice and the turn runs without its
    /// tools.
    func availableTools(tellingFailures context: TurnContext) async throws -> [ChappieHostTool] {
        // A provider may be slow, so all of them are asked in parallel.
        let listings = toolProviders.map { provider in Task { try await provider.tools() } }
        return try await withTaskCancellationHandler {
            var all = tools
            for listing in listings {
                do {
                    all += try await listing.value.map(\.fromProvider)
                } catch {
                    try Task.checkCancellation()
                    let reason = (error as? any LocalizedError)?.errorDescription ?? "A provider of tools has failed."
                    tell(ChappieNotice(.toolsUnavailable, "\(reason) Its tools are left out."), context)
                }
            }
            return all
        } onCancel: {
            for listing in listings { listing.cancel() }
        }
    }

    /// The model of the next turn, if it is known without a request.
    @_spi(ChappieInternals) public var knownModel: String? {
        let wish = wish()
        return wish.named ?? wish.conversation ?? modelList?.best(at: clock.now)?.slug
    }

    func wish(_ own: String? = nil) -> ModelWish {
        ModelWish(
            named: own ?? named,
            conversation: resumed.map(\.model).flatMap { $0.isEmpty ? nil : $0 } ?? transcript?.model)
    }

    // MARK: The context

    /// Returns the current conversation as a value that can be stored.
    public func context() -> ChappieClientContext {
        if var resumed {
            resumed.model = named ?? resumed.model
            return resumed
        }
        if let transcript { return transcript.context(model: named) }
        // The first turn takes the id that is created here.
        let now = clock.now
        let new = ChappieClientContext(
            sessionID: UUIDv7.make(now: now, entropy: entropy), model: named ?? "", createdAt: now)
        resumed = new
        return new
    }

    /// Returns the size of the conversation in relation to a window of `contextWindow` tokens.
    public func contextSize(contextWindow: Int) -> ChappieContextSize {
        ChappieContextSize(estimatedTokens: context().estimatedTokens, contextWindow: contextWindow)
    }

    /// Begins a new conversation, with its own ids. A running turn ends normally, but is not added to it.
    @discardableResult
    public func clearContext() -> ChappieClientContext {
        transcript = nil
        resumed = nil
        history = nil
        named = named ?? configuration.model
        toolLedger.reset()
        return context()
    }

    /// Continues a kept conversation from the next turn on, with its model. If the account no longer lists that model,
    /// another model is used, and one notice reports that.
    public func resumeContext(_ context: ChappieClientContext) { resumeContext(context, history: nil) }

    /// Continues a kept conversation.
    ///
    /// - Parameter history: replaces a compaction that can no longer be read.
    @_spi(ChappieInternals) public func resumeContext(_ context: ChappieClientContext, history: TurnHistory?) {
        transcript = nil
        resumed = context
        self.history = history
        if !context.model.isEmpty { named = nil }
        toolLedger.reset()
    }

    /// Reads the same conversation again from the store, where other processes may have added items. Its model and the
    /// user's approvals are kept.
    @_spi(ChappieInternals) public func reloadContext(_ context: ChappieClientContext) {
        var context = context
        context.model = resumed?.model ?? transcript?.model ?? context.model
        context.window = context.window ?? resumed?.window ?? transcript?.window
        transcript = nil
        resumed = context
    }

    /// Replaces the conversation so far with a summary.
    @discardableResult
    public func compactContext(summary: String) -> ChappieClientContext {
        let item = ChappieInputMessage.user(Compaction.introduction + summary).inputItem
        if transcript == nil {
            var new = context()
            new = ChappieClientContext(
                sessionID: new.sessionID, model: new.model, items: [item], compactedSummary: summary,
                createdAt: new.createdAt, updatedAt: clock.now)
            resumed = new
        } else {
            transcript?.compact(into: [item], summary: summary, model: nil, now: clock.now)
        }
        return context()
    }

    /// Asks the model to compact the conversation, in a separate turn. If the backend has no compaction, or it fails,
    /// the model writes a summary instead. About 64,000 tokens of the user's own messages are kept, without their
    /// pictures.
    ///
    /// The model is the next turn's, unless the conversation does not fit into its window and another model of the list
    /// can take it.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`. The conversation is unchanged then.
    @discardableResult
    public func compactContext() async throws -> ChappieClientContext {
        try await compact()
        return context()
    }

    // MARK: The connection

    /// Opens the conversation's WebSocket and sends the input with which every turn begins, so that the next turn
    /// starts quickly. Call it when the user begins to type.
    ///
    /// Does nothing while a turn runs or waits, if the connection of the last turn also serves the next one, and if the
    /// policy or the backend requires server-sent events. A failed prewarm is not an error. The next turn then opens
    /// its own connection. A turn that begins during the prewarm ends it.
    public func prewarm() async { await prewarm(RequestFrame(), for: nil) }

    /// Opens the connection of the conversation or of the exchanges, and sends the beginning of its next request.
    func prewarm(_ frame: RequestFrame, for exchange: ChappieExchange?) async {
        guard prewarming == nil, queue.isEmpty else { return }
        let task = Task { @concurrent in
            // Without a sign-in, no connection can be opened.
            guard let account = try? await turnAccount() else { return }
            let context = TurnContext(account: account, exchange: exchange)
            let wish = if let exchange { await wish(of: exchange) } else { await wish() }
            guard let turn = try? await prepare([], frame, wish, context) else { return }
            await turn.prewarm()
        }
        prewarming = task
        await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        prewarming = nil
    }

    /// Returns the opening handshake of the conversation's WebSocket, without authorization.
    ///
    /// - Throws: ``ChappieClientError`` if no account is known; `CancellationError`.
    @_spi(ChappieInternals) public func webSocketOpening() async throws -> HTTPExchangeRequest {
        let transcript = currentTranscript(of: try await turnAccount())
        return transcript.opening(for: ["model": .string(try await model.slug)])
    }

    /// Closes the WebSockets of the conversation and of the exchanges, with a handshake that takes some seconds at most
    /// for each. The next turn opens another. The connection of a running turn is closed when the turn has ended. Without
    /// this call, the connections are dropped when the client is released.
    public func disconnect() async {
        let retired = [connection, exchangeConnection].compactMap { $0.retire() }
        for socket in retired { await socket.close(.normal) }
    }

    /// Waits until the credential's work has ended. See `CredentialManager.settle(within:)`.
    @_spi(ChappieInternals) public func settleCredentials() async { await credentials.settle() }

    /// Ends an unfinished prewarm, because a turn can't overtake a request in flight on the same connection.
    func endPrewarm() async {
        prewarming?.cancel()
        await prewarming?.value
    }
}
