@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
public import Logging

/// Talks to the model: one conversation, one turn at a time.
///
/// ```swift
/// let client = Chappie.client()
/// for try await event in client.stream("Hello") {
///     if case .textDelta(let text) = event { print(text, terminator: "") }
/// }
/// ```
///
/// A second call while a turn runs waits for it, in the order of the calls. A turn that fails or is cancelled leaves the
/// conversation as it was before. The conversation belongs to the account that began it: when another one signs in to the
/// slot, the next turn begins a new conversation, with ids and a connection of its own. A turn that was running is not
/// continued in the new account's name.
public actor ChappieClient {
    /// The model used when the configuration names none.
    public static let defaultModel = "gpt-5.5"

    let configuration: ChappieConfiguration
    /// Without authorization, like ``webSocket``.
    let transport: any HTTPTransport
    private let webSocket: (any WebSocketTransport)?
    private let connection: ConversationConnection
    private let entropy: any Entropy
    let credentials: CredentialManager
    let modelCache: (any ChappieModelCache)?
    let clock: any ChappieClock
    let middleware: [any HTTPMiddleware]
    let log: TurnLog
    private let tools: [ChappieHostTool]
    private let toolProviders: [any ChappieToolProvider]
    private let approvalHandler: ChappieToolApprovalHandler?
    private let toolLedger = ToolLedger()
    /// The tools as the last turn declared them.
    private var checkedTools: [Toolbox.Key: ChappieHarnessTool] = [:]

    private let queue = TurnQueue()
    private var prewarming: Task<Void, Never>?
    /// Retires connections that were authorized by a sign-in that is gone.
    private let signOutWatcher: Task<Void, Never>

    private var model: String
    /// `nil` before the first turn.
    private var conversation: Conversation?
    /// The conversation that the next turn goes on with, where it is not ``conversation``.
    private var resumed: ChappieClientContext?
    /// The models as they were listed last, and the tag they came with.
    var modelList: (account: ChappieAccountInfo, tag: String, models: [ChappieModel])?

    /// Composes a client of its parts; `Chappie.client()` does it with the platform's own.
    ///
    /// Authorization is added here.
    ///
    /// - Parameters:
    ///   - configuration: the model, the harness, the endpoints and the rest. Default: that of the service.
    ///   - transport: carries everything but WebSockets.
    ///   - webSocket: opens WebSockets. Default none: answers come as server-sent events.
    ///   - credentials: the manager of the configuration's credential slot, shared with its session.
    ///   - tools: the model may call them. Default none.
    ///   - toolProviders: asked for more tools at the beginning of every turn. Default none.
    ///   - toolApprovalHandler: asks the user where a tool's policy is `.ask`. Without it such calls are denied.
    ///   - clock: for pauses and dates.
    ///   - entropy: for ids.
    ///   - modelCache: keeps model lists between runs. Default none.
    ///   - middleware: sees every HTTP exchange with the backend, the first one outermost: turns over server-sent events,
    ///     models, usage. Not the messages of a WebSocket. It works on requests before the sign-in's header fields are
    ///     added, so that it never sees a token; a request that it sends to another host is refused. Default none.
    ///   - logger: told at level `debug` why a turn waited, was sent again or changed to server-sent events; never what was
    ///     said. Default none.
    public init(
        configuration: ChappieConfiguration = ChappieConfiguration(), transport: any HTTPTransport,
        webSocket: (any WebSocketTransport)? = nil, credentials: CredentialManager,
        tools: [ChappieHostTool] = [], toolProviders: [any ChappieToolProvider] = [],
        toolApprovalHandler: ChappieToolApprovalHandler? = nil, clock: any ChappieClock = SystemClock(),
        entropy: any Entropy = SystemEntropy(), modelCache: (any ChappieModelCache)? = nil,
        middleware: [any HTTPMiddleware] = [], logger: Logger? = nil
    ) {
        self.configuration = configuration
        self.modelCache = modelCache
        self.middleware = middleware
        log = TurnLog(logger: logger)
        self.credentials = credentials
        self.clock = clock
        self.transport = transport
        self.webSocket = webSocket
        self.entropy = entropy
        self.tools = tools
        self.toolProviders = toolProviders
        approvalHandler = toolApprovalHandler
        model = configuration.model
        let connection = ConversationConnection(
            lifetime: configuration.endpoints.profile.webSocket?.lifetime ?? .zero)
        self.connection = connection
        signOutWatcher = Task { [weak connection, signOuts = credentials.signOuts] in
            for await _ in signOuts { await connection?.retire()?.close(.normal) }
        }
    }

    deinit { signOutWatcher.cancel() }

    // MARK: Asking

    /// Asks and gives the answer's text.
    ///
    /// - Throws: ``ChappieClientError``, ``ChappieClientError/responseFailed(_:)`` for an answer that ended early among
    ///   them: the text so far is in its response, and in the conversation; `CancellationError`.
    public func send(_ text: String) async throws -> String { try await send(.user(text)) }

    /// Asks and gives the answer's text. See ``send(_:)-(String)``.
    public func send(_ message: ChappieInputMessage) async throws -> String {
        let response = try await response(ChappieResponseRequest(messages: [message]))
        guard response.status != .incomplete else { throw ChappieClientError.responseFailed(response) }
        return response.outputText
    }

    /// Asks and gives the whole response. One that ended early (`status` is `.incomplete`, with an `incompleteReason`) is
    /// not an error: its text is there.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func response(_ request: ChappieResponseRequest) async throws -> ChappieResponse {
        try await queue.response(of: work(.new(request)))
    }

    /// Asks and streams the answer. The turn starts now; letting go of the stream ends it.
    ///
    /// The stream throws ``ChappieClientError``, or `CancellationError` when the reading task is cancelled, within 100 ms.
    public nonisolated func stream(_ text: String) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        stream(.user(text))
    }

    /// Asks and streams the answer. See ``stream(_:)-(String)``.
    public nonisolated func stream(
        _ message: ChappieInputMessage
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        streamResponse(ChappieResponseRequest(messages: [message]))
    }

    /// Asks and streams the answer. See ``stream(_:)-(String)``.
    public nonisolated func streamResponse(
        _ request: ChappieResponseRequest
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        queue.begin(work(.new(request)), endsWithItsStream: true).events
    }

    /// Asks and gives a handle on the running turn, which goes on when its events are not read.
    public nonisolated func startStream(_ message: ChappieInputMessage) -> ChappieStreamHandle {
        startStream(.new(ChappieResponseRequest(messages: [message]))) { _ in }
    }

    /// Asks, or goes on with a turn, and has every step recorded before the next one begins. An error of the recorder ends
    /// the turn.
    @_spi(ChappieInternals) public nonisolated func startStream(
        _ job: TurnJob, recorder: @escaping TurnRecorder
    ) -> ChappieStreamHandle {
        let (events, task) = queue.begin(work(job, recorder), endsWithItsStream: false)
        return ChappieStreamHandle(events: events, task: task)
    }

    /// Goes on with a turn that waited for approval, in this process or in another.
    ///
    /// - Parameters:
    ///   - pending: what `approvalPending` brought.
    ///   - decisions: the user's answers by call id. A question without one is asked of the approval handler.
    /// - Throws: as ``response(_:)``; `approvalPending` again where an answer is deferred once more. A turn that fails may be
    ///   resumed again by this client: calls that ran are not repeated.
    public func resume(
        _ pending: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision] = [:]
    ) async throws -> ChappieResponse { try await queue.response(of: work(.resumed(pending, decisions))) }

    /// The same as a stream.
    public nonisolated func streamResuming(
        _ pending: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision] = [:]
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        queue.begin(work(.resumed(pending, decisions)), endsWithItsStream: true).events
    }

    /// Ends the newest turn, whether it runs, waits, or was asked for a moment ago. Those before it go on; a further call
    /// ends the newest of them.
    public func cancel() { queue.cancelNewest() }

    /// Uses another model from the next turn on. The slug is not checked against the list.
    ///
    /// Reasoning is encrypted for the model that wrote it, so another model does without it.
    @discardableResult
    public func selectModel(_ slug: String) -> ChappieClientContext {
        model = slug
        return context()
    }

    /// The tools that the client can carry out in the next turn: the host's own, then the providers' as they are now.
    ///
    /// - Throws: what a provider throws.
    public func availableTools() async throws -> [ChappieHostTool] {
        var all = tools
        for provider in toolProviders { all += try await provider.tools().map(\.fromProvider) }
        return all
    }

    /// The model of the next turn.
    @_spi(ChappieInternals) public var currentModel: String { model }

    // MARK: The context

    /// The conversation as it is now, as a value to keep.
    public func context() -> ChappieClientContext {
        if var resumed {
            resumed.model = model
            return resumed
        }
        if let conversation { return conversation.context(model: model) }
        // The first turn takes the id that is named here.
        let now = clock.now
        let new = ChappieClientContext(
            sessionID: UUIDv7.make(now: now, entropy: entropy), model: model, createdAt: now)
        resumed = new
        return new
    }

    /// How much of a window of `contextWindow` tokens the conversation takes.
    public func contextSize(contextWindow: Int) -> ChappieContextSize {
        ChappieContextSize(estimatedTokens: context().estimatedTokens, contextWindow: contextWindow)
    }

    /// Begins a new conversation, with ids of its own. A turn that is running ends as it would, and is not kept.
    @discardableResult
    public func clearContext() -> ChappieClientContext {
        (conversation, resumed) = (nil, nil)
        toolLedger.reset()
        return context()
    }

    /// Goes on with a conversation that was kept, from the next turn on, with its model.
    public func resumeContext(_ context: ChappieClientContext) {
        (conversation, resumed) = (nil, context)
        model = context.model
        toolLedger.reset()
    }

    /// Puts a summary in the place of everything said so far.
    @discardableResult
    public func compactContext(summary: String) -> ChappieClientContext {
        let item = ChappieInputMessage.developer(Compaction.introduction + summary).inputItem
        if conversation == nil {
            var new = context()
            new = ChappieClientContext(
                sessionID: new.sessionID, model: model, items: [item], compactedSummary: summary,
                createdAt: new.createdAt, updatedAt: clock.now)
            resumed = new
        } else {
            conversation?.compact(into: [item], summary: summary, model: model, now: clock.now)
        }
        return context()
    }

    /// Has the model compact the conversation, in a turn of its own; where the backend has no compaction, or it fails, the
    /// model is asked for a summary in words. The user's own messages of some 64,000 tokens stay as they are.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`. The conversation is then as it was.
    @discardableResult
    public func compactContext() async throws -> ChappieClientContext {
        _ = try await queue.response(of: work(.compaction))
        return context()
    }

    // MARK: The connection

    /// Opens the conversation's WebSocket and sends what every turn begins with, so that the next turn is quick. For the
    /// moment in which the user begins to type.
    ///
    /// Does nothing while a turn runs or waits, where the connection of the last turn serves the next one too, and where the policy or
    /// the backend is for server-sent events. A prewarm that fails is no error: the next turn does without it. A turn that
    /// is asked for meanwhile ends it.
    public func prewarm() async {
        guard prewarming == nil, queue.isEmpty else { return }
        let task = Task { @concurrent in
            // Without a sign-in there is nothing to warm.
            guard let turn = try? await prepare([], RequestFrame(model: model), emit: { _ in }) else { return }
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

    /// Closes the conversation's WebSocket with a handshake, some seconds at most; the next turn opens another. The
    /// connection of a turn that runs is closed when the turn is over. Without this, letting go of the client drops the
    /// connection.
    public func disconnect() async { await connection.retire()?.close(.normal) }

    /// A request in flight can't be overtaken on the same connection, so a turn does without an unfinished prewarm.
    private func endPrewarm() async {
        prewarming?.cancel()
        await prewarming?.value
    }

    // MARK: A turn

    private nonisolated func work(
        _ job: TurnJob, _ recorder: @escaping TurnRecorder = { _ in }
    ) -> TurnQueue.Work {
        { [self] emit in
            do { return try await run(job, recorder, emit: emit) } catch { throw ChappieClientError.wrapping(error) }
        }
    }

    /// Not on this actor: it stays free for others while the answer comes in.
    @concurrent
    private nonisolated func run(
        _ job: TurnJob, _ recorder: @escaping TurnRecorder, emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        await endPrewarm()
        var turn: Turn
        let response: ChappieResponse
        switch job {
        case .new(let request):
            try await compactIfDue(recorder)
            turn = try await prepare(request.messages.map(\.inputItem), frame(of: request), recorder, emit: emit)
            do { response = try await turn.run() } catch ChappieClientError.contextWindowExceeded
                where configuration.automaticCompaction != nil
            {
                try await compact(recorder)
                turn = try await prepare(request.messages.map(\.inputItem), frame(of: request), recorder, emit: emit)
                response = try await turn.run()
            }
        case .resumed(let waiting, let decisions):
            await goOn(with: waiting)
            turn = try await prepare(
                waiting.progress.items, waiting.progress.frame, round: waiting.progress.round, recorder, emit: emit)
            response = try await turn.run(resuming: (waiting, decisions))
            toolLedger.forgetResults()
        case .compaction:
            try await compact(recorder)
            response = ChappieResponse()
            emit(.completed(response))
            return response
        }
        try Task.checkCancellation()
        try await recorder(.finished(turn.finished(with: response)))
        await keep(turn)
        emit(.completed(response))
        return response
    }

    private func frame(of request: ChappieResponseRequest) -> RequestFrame {
        var frame = RequestFrame(model: request.model ?? model, options: request.turnOptions)
        frame.outputSchema = request.outputSchema
        return frame
    }

    /// Adds a turn to the conversation that it was asked in; another one may have begun since.
    private func keep(_ turn: Turn) {
        guard conversation?.id == turn.conversationID else { return }
        if turn.hasDroppedReasoning { conversation?.dropReasoning() }
        conversation?.append(
            turn.items, model: turn.frame.model, measuredTokens: turn.measuredTokens, now: clock.now)
    }

    private func goOn(with pending: ChappiePendingTurn) {
        guard conversation?.id != pending.context.sessionID else { return }
        (conversation, resumed) = (nil, pending.context)
    }

    /// The parts of a turn: its request, and a runner that sends it in the conversation's account alone.
    private func prepare(
        _ items: [ChappieJSON], _ frame: RequestFrame, round: Int = 0, _ recorder: @escaping TurnRecorder = { _ in },
        emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> Turn {
        let available = try await availableTools()
        let toolbox = try Toolbox(harness: configuration.harness, tools: available, checked: checkedTools)
        checkedTools = toolbox.declarations
        var frame = frame
        frame.tools = toolbox.declared(as: configuration.endpoints.profile.toolEnvelope)
        if !frame.tools.isEmpty { frame.wantsToolsInInput = await wantsToolsInInput(frame.model) }
        _ = try await currentConversation()
        conversation?.dropReasoning(unreadableBy: frame.model)
        let runner = try await runner()
        return Turn(
            runner: runner, frame: frame,
            tools: ToolRound(
                toolbox: toolbox, approvalHandler: approvalHandler,
                failureBehavior: configuration.toolFailureBehavior, ledger: toolLedger, clock: clock, emit: emit,
                record: recorder),
            toolLoopLimit: configuration.toolLoopLimit, items: items, round: round)
    }

    private func runner() async throws -> TurnRunner {
        let conversation = try await currentConversation()
        return TurnRunner(
            configuration: configuration, http: transport, middleware: middleware, webSocket: webSocket,
            authorization: credentials.authorization(onlyFor: conversation.account), conversation: conversation,
            connection: connection, clock: clock, entropy: entropy, log: log)
    }

    /// The conversation to go on with: a new one at first, and when another account has signed in.
    private func currentConversation() async throws -> Conversation {
        let account: ChappieAccountInfo
        do { account = try await accountInfo() } catch {
            // No account is left that the connection could belong to.
            connection.retire()?.cancel()
            throw error
        }
        if let conversation {
            guard !conversation.account.isSameAccount(as: account) else { return conversation }
            // Whichever transport the new one takes, the earlier account's connection is of no more use.
            if let retired = connection.retire() { Task { await retired.close(.normal) } }
            toolLedger.reset()
        }
        let now = clock.now
        let id = UUIDv7.make(now: now, entropy: entropy)
        let new =
            resumed.map {
                Conversation($0, account: account, newID: id, now: now, configuration: configuration)
            } ?? Conversation(account: account, id: id, now: now, configuration: configuration)
        (conversation, resumed) = (new, nil)
        return new
    }

    // MARK: Compaction

    private func compactIfDue(_ recorder: TurnRecorder) async throws {
        guard let share = configuration.automaticCompaction, let conversation, !conversation.items.isEmpty else {
            return
        }
        let window = modelList?.models.first { $0.slug == model }?.contextWindow ?? Compaction.usualWindow
        guard Double(conversation.context(model: model).estimatedTokens) >= share * Double(window) else { return }
        // A conversation that can't be compacted just now may still be answered.
        do { try await compact(recorder) } catch is CancellationError { throw CancellationError() } catch {}
    }

    private func compact(_ recorder: TurnRecorder) async throws {
        let turn = try await prepare([], RequestFrame(model: model), emit: { _ in })
        guard let before = conversation, !before.items.isEmpty else { return }
        let (items, summary) = try await Compaction(turn: turn, conversation: before).run()
        try Task.checkCancellation()
        guard conversation?.id == before.id else { return }
        var after = before
        after.compact(into: items, summary: summary, model: model, now: clock.now)
        try await recorder(.compacted(after.context(model: model)))
        guard conversation?.id == before.id else { return }
        conversation = after
    }
}

/// A turn in progress: read it, wait for it, or end it.
///
/// ```swift
/// let handle = client.startStream(.user("Hello"))
/// for try await event in handle.events { … }
/// let response = try await handle.response()
/// ```
public struct ChappieStreamHandle: Sendable {
    /// The turn's events, for one reader. Not reading them does not hold the turn up; cancelling the task that reads them
    /// ends it, like ``cancel()``.
    public let events: AsyncThrowingStream<ChappieStreamEvent, any Error>
    fileprivate let task: Task<ChappieResponse, any Error>

    /// Ends the turn: ``events`` and ``response()`` throw `CancellationError`, and the transcript stays without it.
    public func cancel() { task.cancel() }

    /// The whole response, once the turn is over.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`. Cancelling the waiting task does not end the turn.
    public func response() async throws -> ChappieResponse { try await task.value }
}
