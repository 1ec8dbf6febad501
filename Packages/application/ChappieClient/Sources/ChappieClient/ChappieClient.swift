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
    private let webSocket: (any WebSocketTransport)?
    private let connection: ConversationConnection
    private let entropy: any Entropy
    let credentials: CredentialManager
    let modelCache: (any ChappieModelCache)?
    private let webSocketNotes: (any ChappieWebSocketNotes)?
    let clock: any ChappieClock
    let middleware: [any HTTPMiddleware]
    let log: TurnLog
    private let tools: [ChappieHostTool]
    private let toolProviders: [any ChappieToolProvider]
    private let approvalHandler: ChappieToolApprovalHandler?
    private let toolLedger = ToolLedger()
    /// The tools that the last turn declared.
    private var checkedTools: [ToolSet.Key: ChappieHarnessTool] = [:]

    /// The queue of the turns. The turns of a runtime also wait in it.
    @_spi(ChappieInternals) public nonisolated let queue = TurnQueue()
    private var prewarming: Task<Void, Never>?
    /// The task that retires connections whose sign-in was removed.
    private let signOutWatcher: Task<Void, Never>

    /// The model that the program has named. `nil` means the conversation's model, or the account's best.
    private var named: String?
    /// The conversation, or `nil` before the first turn.
    private var conversation: Conversation?
    /// The conversation that the next turn continues, if it is not ``conversation``.
    private var resumed: ChappieClientContext?
    /// Returns all items of that conversation, if a store has them.
    private var history: TurnHistory?
    /// Whether the backend has refused tools in namespaces, although its profile has them.
    private var hasFlatTools = false
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
    private var accountNotice: ChappieNotice?
    /// The notices that the user has seen. Each is sent only once.
    private var told: Set<ChappieNotice> = []

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
    public init(
        configuration: ChappieConfiguration = ChappieConfiguration(), transport: any HTTPTransport,
        webSocket: (any WebSocketTransport)? = nil, credentials: CredentialManager,
        tools: [ChappieHostTool] = [], toolProviders: [any ChappieToolProvider] = [],
        toolApprovalHandler: ChappieToolApprovalHandler? = nil, clock: any ChappieClock = SystemClock(),
        entropy: any Entropy = SystemEntropy(), modelCache: (any ChappieModelCache)? = nil,
        webSocketNotes: (any ChappieWebSocketNotes)? = nil,
        middleware: [any HTTPMiddleware] = [], logger: Logger? = nil
    ) {
        self.configuration = configuration
        self.modelCache = modelCache
        self.webSocketNotes = webSocketNotes
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
        named = configuration.model
        let connection = ConversationConnection(
            lifetime: configuration.endpoints.profile.webSocket?.lifetime ?? .zero)
        self.connection = connection
        signOutWatcher = Task { [weak connection, signOuts = credentials.signOuts] in
            for await _ in signOuts { await connection?.retire()?.close(.normal) }
        }
    }

    deinit {
        signOutWatcher.cancel()
        listing?.cancel()
    }

    // MARK: Turns

    /// Starts a turn. See ``ChappieConversation/begin(_:endsWithItsStream:)``.
    public nonisolated func begin(_ work: ChappieTurnWork, endsWithItsStream: Bool) -> ChappieStreamHandle {
        queue.begin(endsWithItsStream: endsWithItsStream) { [self] emit, interruption in
            try await carryOut(work, until: interruption, emit: emit)
        }
    }

    /// Ends the newest turn, whether it runs or waits. Earlier turns continue. Another call ends the newest of them.
    public func cancel() { queue.cancelNewest() }

    /// Ends the newest turn, and keeps the partial answer. See ``ChappieConversation/interrupt()``. The answer's
    /// connection is closed.
    public nonisolated func interrupt() async { queue.interruptNewest() }

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
    private func toolsOfTurn(_ emit: (@Sendable (ChappieStreamEvent) -> Void)?) async throws -> [ChappieHostTool] {
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
                    tell(ChappieNotice(.toolsUnavailable, "\(reason) Its tools are left out."), emit)
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

    private func wish(_ own: String? = nil) -> ModelWish {
        ModelWish(
            named: own ?? named,
            conversation: resumed.map(\.model).flatMap { $0.isEmpty ? nil : $0 } ?? conversation?.model)
    }

    // MARK: The context

    /// Returns the current conversation as a value that can be stored.
    public func context() -> ChappieClientContext {
        if var resumed {
            resumed.model = named ?? resumed.model
            return resumed
        }
        if let conversation { return conversation.context(model: named) }
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
        conversation = nil
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
        conversation = nil
        resumed = context
        self.history = history
        if !context.model.isEmpty { named = nil }
        toolLedger.reset()
    }

    /// Reads the same conversation again from the store, where other processes may have added items. Its model and the
    /// user's approvals are kept.
    @_spi(ChappieInternals) public func reloadContext(_ context: ChappieClientContext) {
        var context = context
        context.model = resumed?.model ?? conversation?.model ?? context.model
        context.window = context.window ?? resumed?.window ?? conversation?.window
        conversation = nil
        resumed = context
    }

    /// Replaces the conversation so far with a summary.
    @discardableResult
    public func compactContext(summary: String) -> ChappieClientContext {
        let item = ChappieInputMessage.user(Compaction.introduction + summary).inputItem
        if conversation == nil {
            var new = context()
            new = ChappieClientContext(
                sessionID: new.sessionID, model: new.model, items: [item], compactedSummary: summary,
                createdAt: new.createdAt, updatedAt: clock.now)
            resumed = new
        } else {
            conversation?.compact(into: [item], summary: summary, model: nil, now: clock.now)
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
    public func prewarm() async {
        guard prewarming == nil, queue.isEmpty else { return }
        let task = Task { @concurrent in
            // Without a sign-in, no connection can be opened.
            guard let account = try? await turnAccount(),
                let turn = try? await prepare([], RequestFrame(), wish(), in: account)
            else { return }
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
        let conversation = currentConversation(of: try await turnAccount())
        return conversation.opening(for: ["model": .string(try await model.slug)])
    }

    /// Closes the conversation's WebSocket with a handshake that takes some seconds at most. The next turn opens
    /// another. The connection of a running turn is closed when the turn has ended. Without this call, the connection
    /// is dropped when the client is released.
    public func disconnect() async { await connection.retire()?.close(.normal) }

    /// Ends an unfinished prewarm, because a turn can't overtake a request in flight on the same connection.
    private func endPrewarm() async {
        prewarming?.cancel()
        await prewarming?.value
    }

    // MARK: A turn

    /// Runs a turn, and records every step before the next one begins. An error of the recorder ends the turn.
    ///
    /// - Parameters:
    ///   - account: the value of ``turnAccount()`` before the turn, if the caller has it.
    ///   - interruption: may end the turn.
    ///   - isKept: whether a store keeps the turn.
    @_spi(ChappieInternals) public nonisolated func carryOut(
        _ work: ChappieTurnWork, in account: ChappieAccountInfo? = nil, until interruption: TurnInterruption,
        isKept: Bool = false, recorder: @escaping TurnRecorder = { _ in },
        emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        let divergence = configuration.replayDivergence
        let restarts = divergence == .restart || divergence != .fail && (isKept || work.isUnseen)
        do {
            guard case .new(let request) = work, let limit = request.timeLimit else {
                return try await run(work, in: account, until: interruption, restarts, recorder, emit: emit)
            }
            return try await within(limit) {
                try await self.run(work, in: account, until: interruption, restarts, recorder, emit: emit)
            }
        } catch {
            throw ChappieClientError.wrapping(error)
        }
    }

    /// Ends `turn` after `limit`. If the turn completes at that moment, its response is returned.
    private nonisolated func within(
        _ limit: Duration, _ turn: @escaping @Sendable () async throws -> ChappieResponse
    ) async throws -> ChappieResponse {
        try await withThrowingTaskGroup(of: ChappieResponse?.self) { [clock] group in
            group.addTask { try await turn() }
            group.addTask {
                try await clock.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            if let first = try await group.next(), let response = first { return response }
            group.cancelAll()
            do {
                if let last = try await group.next(), let response = last { return response }
            } catch is CancellationError {
                try Task.checkCancellation()
            }
            throw ChappieClientError.timeLimitExceeded(limit)
        }
    }

    /// The state with which a turn begins.
    private struct Beginning {
        let account: ChappieAccountInfo
        let items: [ChappieJSON]
        let frame: RequestFrame
        let wish: ModelWish
        var round = 0
        /// The calls that wait, and the user's answers.
        var resuming: (ChappiePendingTurn, [String: ChappieApprovalDecision])?
        /// Whether the model is only for this turn.
        var isForOneTurn = false
        /// Whether a repeated answer that differs starts again.
        var restarts = false
    }

    /// Prepares the state with which the work begins.
    ///
    /// - Returns: `nil` for work that is already done and has no answer.
    private func beginning(
        of work: ChappieTurnWork, in known: ChappieAccountInfo?, _ recorder: TurnRecorder,
        emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> Beginning? {
        await endPrewarm()
        if case .clearing = work {
            clearContext()
            return nil
        }
        let account = if let known { known } else { try await turnAccount() }
        switch work {
        case .new(let request):
            try await compactIfDue(for: request, in: account, recorder, emit)
            return Beginning(
                account: account, items: request.messages.map(\.inputItem), frame: try RequestFrame(of: request),
                wish: wish(request.model), isForOneTurn: request.model != nil)
        case .resumption(let waiting, let decisions):
            goOn(with: waiting)
            let progress = waiting.progress
            // The reasoning of another account's turn can't be read in this account.
            let isOwn = waiting.context.belongs(to: account)
            let items = isOwn ? progress.items : progress.items.filter { !ChappieClientContext.isEncrypted($0) }
            return Beginning(
                account: account, items: items, frame: progress.frame,
                wish: ModelWish(conversation: progress.frame.model), round: progress.round,
                resuming: (waiting, decisions))
        case .compaction, .clearing:
            try await compact(for: wish(), in: account, recorder, emit)
            return nil
        }
    }

    /// Runs the work outside this actor, so that the actor is free for other calls while the answer arrives.
    @concurrent
    private nonisolated func run(
        _ work: ChappieTurnWork, in known: ChappieAccountInfo?, until interruption: TurnInterruption,
        _ restarts: Bool, _ recorder: @escaping TurnRecorder, emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        let answered = try await interruption.run { () async throws -> Answered? in
            guard var start = try await self.beginning(of: work, in: known, recorder, emit: emit) else { return nil }
            start.restarts = restarts
            return try await self.answer(start, until: interruption, recorder, emit: emit)
        }
        guard let (start, turn, response) = answered.map({ ($0.start, $0.turn, $0.response) }) else {
            return ChappieResponse()
        }
        if start.resuming != nil { toolLedger.forgetResults() }
        try Task.checkCancellation()
        var finished = turn.finished(with: response)
        finished.isModelGuessed = await modelList?.models.isEmpty != false
        try await recorder(.finished(finished))
        await keep(turn, isForOneTurn: start.isForOneTurn)
        for notice in turn.unusedTools {
            log.notes(notice)
            emit(.notice(notice))
        }
        await note(turn.routing.modelsETag)
        if let failure = turn.failure { throw failure }
        emit(.completed(response))
        return response
    }

    /// A turn that has ended, with its response.
    private struct Answered {
        let start: Beginning
        let turn: Turn
        let response: ChappieResponse
    }

    /// Sends requests until the turn has an answer.
    private nonisolated func answer(
        _ start: Beginning, until interruption: TurnInterruption, _ recorder: @escaping TurnRecorder,
        emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> Answered {
        let account = start.account
        var (frame, wish, resuming) = (start.frame, start.wish, start.resuming)
        var turn = try await prepare(
            start.items, frame, wish, round: start.round, in: account, recorder, emit: emit)
        turn.restarts = start.restarts
        var room = RoomMade()
        var planChange: PlanChange?
        while true {
            do {
                let response = try await turn.run(
                    until: interruption, after: start.resuming == nil ? start.items.count : 0, resuming: resuming)
                return Answered(start: start, turn: turn, response: response)
            } catch let error where error is TurnIsFull || Compaction.isTooLong(error) {
                turn = try await withRoom(turn, after: error, &room, wish, in: account, recorder, emit)
            } catch is UnreadableCompaction where !room.hasLostCompaction {
                room.hasLostCompaction = true
                await loseCompaction()
            } catch ChappieClientError.approvalPending(let pending) {
                // The pending turn holds the results so far. Another call with the same id is a different call.
                toolLedger.forgetResults()
                throw ChappieClientError.approvalPending(pending)
            } catch ChappieClientError.usageLimitReached(let limit) {
                let hasRenewed = planChange != nil
                if !hasRenewed { planChange = await self.planChange(after: limit, of: account) }
                guard planChange != nil, !hasRenewed, try await credentials.renewAfterPlanChange() else {
                    throw ChappieClientError.usageLimitReached(await explain(limit, planChange))
                }
            } catch ChappieClientError.modelUnavailable(var refusal) where refusal.reason == .atCapacity {
                refusal.suggestion = await modelList?.best(without: [refusal.slug], at: clock.now)?.slug
                throw ChappieClientError.modelUnavailable(refusal)
            } catch ChappieClientError.modelUnavailable(let refusal) {
                let explained = await explain(refusal, after: wish.refusals, of: account)
                wish.refusals.append(explained)
                guard wish.refusals.count < Self.modelsTried else {
                    throw ChappieClientError.modelUnavailable(explained)
                }
            }
            // The turn continues from its own items, so tools that have run are not run again.
            resuming = nil
            frame.model = turn.frame.model
            frame.toolChoice = turn.frame.toolChoice
            var next = try await prepare(
                turn.items, frame, wish, round: turn.round, in: account, recorder, emit: emit)
            next.goOn(from: turn)
            turn = next
        }
    }

    /// The maximum number of models that a turn tries if the request names none.
    private static let modelsTried = 3

    /// Adds a turn to its conversation, unless another conversation has begun since. The model is for one turn only if
    /// the request names it, or if it was guessed because the list was missing or empty.
    private func keep(_ turn: Turn, isForOneTurn: Bool) {
        guard conversation?.id == turn.conversationID else { return }
        // A compaction that the host made during the turn is kept.
        let isCompacted = conversation?.window != turn.conversation.window
        // The turn's conversation lacks the items that its model could not read.
        if !isCompacted { conversation = turn.conversation }
        if turn.conversation.hasFlatTools, configuration.endpoints.profile.toolEnvelope == .namespaces {
            hasFlatTools = true
            conversation?.hasFlatTools = true
        }
        conversation?.append(
            turn.items, model: turn.frame.model, isForOneTurn: isForOneTurn || modelList?.models.isEmpty != false,
            measuredTokens: isCompacted ? nil : turn.measuredTokens, now: clock.now)
    }

    private func goOn(with pending: ChappiePendingTurn) {
        guard conversation?.id != pending.context.sessionID else { return }
        conversation = nil
        resumed = pending.context
        toolLedger.resetApprovals()
    }

    /// Prepares a turn with its request, and with a runner that sends it only in the conversation's account.
    private func prepare(
        _ items: [ChappieJSON], _ frame: RequestFrame, _ wish: ModelWish, round: Int = 0,
        in account: ChappieAccountInfo, _ recorder: @escaping TurnRecorder = { _ in },
        emit: (@Sendable (ChappieStreamEvent) -> Void)? = nil
    ) async throws -> Turn {
        let available = try await toolsOfTurn(emit)
        let toolSet = try ToolSet(harness: configuration.harness, tools: available, checked: checkedTools)
        checkedTools = toolSet.declarations
        var conversation = currentConversation(of: account)
        if let accountNotice, let emit {
            self.accountNotice = nil
            log.notes(accountNotice)
            emit(.notice(accountNotice))
        }
        let list = try await listForTurn(of: conversation.account)
        guard let choice = wish.choice(from: list, of: account.plan, at: clock.now) else {
            throw wish.refusals.last.map(ChappieClientError.modelUnavailable) ?? .invalidResponse
        }
        if let notice = choice.notice(after: wish.refusals, list) { tell(notice, emit) }
        let listed = list?[choice.slug]
        if let notice = listed?.retirementNotice(at: clock.now) { tell(notice, emit) }
        // Every model that the service still has takes the lite form, so a model that is missing in the list also gets
        // it.
        var model =
            listed ?? ChappieModel(slug: choice.slug, supportsParallelToolCalls: false, usesResponsesLite: true)
        let profile = configuration.endpoints.profile
        if !profile.takesResponsesLite { model.usesResponsesLite = false }
        if let role = (items + conversation.items).lazy.compactMap({ $0["role"]?.string })
            .first(where: profile.refusedRoles.contains)
        {
            throw ChappieClientError.unsupportedInput(
                "The service takes no message of the role \"\(role)\".",
                "Give the text as the harness's instructions, or as a message of the role \"developer\".")
        }
        if !model.inputModalities.contains("image"), items.contains(where: ChappieInputMessage.hasImage) {
            let others = (list?.models ?? []).filter { $0.isListed && $0.inputModalities.contains("image") }
            let names = others.prefix(5).map { UntrustedText.forTerminal($0.slug) }.joined(separator: ", ")
            throw ChappieClientError.unsupportedInput(
                "The model \(UntrustedText.forTerminal(model.slug)) takes text only.",
                names.isEmpty
                    ? "Ask without pictures." : "Ask without pictures, or name a model that takes them: \(names).")
        }
        var (frame, items) = (frame, items)
        if !frame.model.isEmpty, frame.model != model.slug { items.removeAll(where: ChappieClientContext.isEncrypted) }
        frame.model = model.slug
        frame.refused = await refusedParts(of: model.slug, listed, in: account)
        // The lite form runs no tool of the backend (can1357/oh-my-pi#6988).
        frame.isLite = model.usesResponsesLite && !frame.refused.liteForm && (frame.hostedTools ?? []).isEmpty
        frame.allowsParallelCalls = model.supportsParallelToolCalls
        frame.takesPictures = model.inputModalities.contains("image")
        frame.unlisted = model.membersNotTaken
        frame.options.reasoningEffort = effort(frame.options.reasoningEffort, of: model, emit)
        if frame.options.verbosity != nil, frame.leftOut.contains("text.verbosity") {
            tell(.verbosityLeftOut(by: model.slug), emit)
        }
        if !frame.takesPictures, conversation.items.contains(where: RequestInput.hasImage) {
            tell(.picturesLeftOut(by: model.slug), emit)
        }
        if frame.isLite {
            guard !items.contains(where: RequestInput.hasImageByAddress) else {
                throw ChappieClientError.unsupportedInput(
                    "The model \(UntrustedText.forTerminal(model.slug)) takes no image by its address.",
                    "Fetch the image, and give its file or its bytes.")
            }
            if conversation.items.contains(where: RequestInput.hasImageByAddress) {
                tell(.imageByAddress, emit)
            }
        }
        for tool in frame.hostedTools ?? [] where !tool.isOffered(by: model, listsTools: profile.sendsCodexFields) {
            throw ChappieClientError.unsupportedInput(
                "The model \(UntrustedText.forTerminal(model.slug)) does not offer \(tool.name).",
                "Ask without it, or name another model.")
        }
        if let tier = frame.serviceTier, !model.serviceTiers.contains(where: { $0.id == tier }) {
            throw ChappieClientError.unsupportedInput(
                "The model \(UntrustedText.forTerminal(model.slug)) is not offered in the tier \(UntrustedText.forTerminal(tier)).",
                "Ask without it, or name another model.")
        }
        switch frame.toolChoice {
        case .required where frame.isLite, .function where frame.isLite, .custom where frame.isLite:
            throw ChappieClientError.unsupportedInput(
                "The model \(UntrustedText.forTerminal(model.slug)) decides itself which tools it calls.",
                "Ask without a choice of tools, or name another model.")
        default: break
        }
        frame.declare(
            toolSet.declared(as: profile.toolEnvelope, inNamespace: conversation.takesNamespaces(frame)))
        // The lite form has no tool choice, so tools that must not be called are not declared.
        if frame.isLite, frame.toolChoice == .none { frame.tools = [] }
        // Only the turn's copy changes: a turn that fails leaves the conversation unchanged.
        let isUnreadable = conversation.isUnreadable
        var all: [ChappieJSON]?
        if conversation.drop(unreadableBy: frame.model, in: list?.models.isEmpty == true ? nil : list) {
            all = await lostHistory(emit)
        }
        if let all { conversation.rebuild(from: all) }
        var turn = Turn(
            runner: runner(conversation, frame.headerFields), frame: frame, compactionHash: model.compactionHash,
            tools: ToolRound(
                toolSet: toolSet, approvalHandler: approvalHandler,
                failureBehavior: configuration.toolFailureBehavior,
                maximumParallelCalls: configuration.maximumParallelCalls, ledger: toolLedger,
                conversation: toolLedger.conversation, clock: clock,
                emit: emit ?? { _ in },
                record: recorder),
            toolLoopLimit: configuration.toolLoopLimit, items: items, round: round
        ) { [weak self] slug, parts in await self?.learn(parts, of: slug, listed, in: account) }
        turn.room = compactionLimit(of: model)
        turn.hasRebuilt = all != nil
        turn.hasDroppedReasoning = isUnreadable
        return turn
    }

    /// Returns the items that replace an unreadable compaction. If there are none, the user gets a notice.
    private func lostHistory(_ emit: ((ChappieStreamEvent) -> Void)?) async -> [ChappieJSON]? {
        if let all = await history?() { return all }
        tell(.compactionLost, emit)
        return nil
    }

    /// Returns the effort that the request names. If it differs from the effort that the user asked for, a notice
    /// reports that.
    private func effort(
        _ wanted: ChappieReasoningEffort, of model: ChappieModel, _ emit: ((ChappieStreamEvent) -> Void)?
    ) -> ChappieReasoningEffort {
        // The lite form always names an effort.
        guard wanted != .automatic || model.usesResponsesLite else { return .automatic }
        var effort = model.effort(for: wanted)
        if effort == .automatic { effort = .medium }
        if wanted != .automatic, effort != wanted {
            let (slug, asked) = (UntrustedText.forTerminal(model.slug), UntrustedText.forTerminal(wanted.rawValue))
            tell(
                ChappieNotice(
                    .effortChanged, "The model \(slug) has no effort \"\(asked)\"; \"\(effort.rawValue)\" is used."),
                emit)
        }
        return effort
    }

    /// Sends a notice to the user and to the log, only once. A prewarm has no reader, so the notice is left to the
    /// turn.
    private func tell(_ notice: ChappieNotice, _ emit: ((ChappieStreamEvent) -> Void)?) {
        guard let emit, told.insert(notice).inserted else { return }
        log.notes(notice)
        emit(.notice(notice))
    }

    private func runner(_ conversation: Conversation, _ fields: HTTPFields) -> TurnRunner {
        TurnRunner(
            configuration: configuration, http: transport, middleware: middleware, webSocket: webSocket,
            authorization: authorization(onlyFor: conversation.account), conversation: conversation,
            connection: connection, clock: clock, entropy: entropy, log: log, webSocketNotes: webSocketNotes,
            headerFields: fields)
    }

    /// Returns the account in which a turn is sent.
    ///
    /// - Throws: ``ChappieClientError`` if no account is signed in; `CancellationError`.
    @_spi(ChappieInternals) public func turnAccount() async throws -> ChappieAccountInfo {
        do {
            return try await accountInfo()
        } catch {
            // No account is left to which the connection could belong.
            connection.retire()?.cancel()
            throw error
        }
    }

    /// Returns the conversation to continue. It is a new one in the first turn, and when another account has signed in.
    private func currentConversation(of account: ChappieAccountInfo) -> Conversation {
        if let conversation {
            guard !conversation.account.isSameAccount(as: account) else { return conversation }
            if !conversation.items.isEmpty { accountNotice = .newConversation(of: account) }
            // The earlier account's connection can no longer be used, whichever transport the new account uses.
            if let retired = connection.retire() { Task { await retired.close(.normal) } }
            toolLedger.reset()
        }
        if let resumed, !resumed.belongs(to: account), !resumed.items.isEmpty {
            accountNotice = .continued(by: account)
        }
        let now = clock.now
        let id = UUIDv7.make(now: now, entropy: entropy)
        var new =
            resumed.map {
                Conversation($0, account: account, newID: id, now: now, configuration: configuration)
            } ?? Conversation(account: account, id: id, now: now, configuration: configuration)
        new.hasFlatTools = hasFlatTools
        conversation = new
        resumed = nil
        return new
    }

    // MARK: Compaction

    /// Compacts the conversation if the question would fill its model's window.
    private func compactIfDue(
        for request: ChappieResponseRequest, in account: ChappieAccountInfo, _ recorder: TurnRecorder,
        _ emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws {
        guard configuration.automaticCompaction != nil else { return }
        let conversation = currentConversation(of: account)
        guard !conversation.items.isEmpty else { return }
        let list = try await listForTurn(of: account)
        let wish = wish(request.model)
        let model = wish.choice(from: list, of: account.plan, at: clock.now).flatMap { list?[$0.slug] }
        let question = ChappieClientContext.estimatedTokens(of: request.messages.map(\.inputItem))
        // A question that is too long by itself gets no room from a compaction.
        guard let limit = compactionLimit(of: model), question < limit,
            conversation.context().estimatedTokens + question >= limit
        else { return }
        // A conversation that can't be compacted at the moment may still be answered.
        do {
            try await compact(for: wish, in: account, isAutomatic: true, recorder, emit)
        } catch is CancellationError {
            throw CancellationError()
        } catch {}
    }

    /// Returns the number of tokens from which on a conversation is compacted, or `nil` if the host has disabled that.
    private func compactionLimit(of model: ChappieModel?) -> Int? {
        configuration.automaticCompaction.map { share in
            let window = Double(model?.contextWindow ?? Compaction.usualWindow)
            // The list may contain any number.
            let own = Int(min(max(share * window, 0), 1e15))
            return model?.autoCompactTokenLimit.map { $0 > 0 ? min(own, $0) : own } ?? own
        }
    }

    /// Replaces the conversation with a compaction, made by a model whose window is large enough and that the service
    /// does not refuse.
    ///
    /// - Parameters:
    ///   - next: the wish for the model that reads the compaction.
    ///   - isAutomatic: whether the compaction was not requested by the user, so that a notice reports it.
    /// - Returns: whether the conversation is shorter now.
    @discardableResult
    private func compact(
        for next: ModelWish, in account: ChappieAccountInfo, isAutomatic: Bool = false, _ recorder: TurnRecorder,
        _ emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> Bool {
        var (wish, hasLostCompaction) = (next, false)
        while true {
            let writer = try await compactor(for: wish, in: account)
            let turn = try await prepare([], RequestFrame(), writer, in: account, emit: emit)
            let before = turn.conversation
            guard conversation?.id == before.id, !before.items.isEmpty else { return false }
            let reader = wish.choice(from: modelList, of: account.plan, at: clock.now)?.slug ?? turn.frame.model
            let compaction = Compaction(
                turn: turn, items: before.items, window: window(of: turn.frame.model),
                mayBeEncrypted: modelList?.canRead(compactionOf: turn.frame.model, with: reader) ?? true)
            do {
                let outcome = try await compaction.run()
                try Task.checkCancellation()
                return try await take(outcome, of: turn, isAutomatic: isAutomatic, recorder, emit)
            } catch is UnreadableCompaction where !hasLostCompaction {
                hasLostCompaction = true
                loseCompaction()
            } catch ChappieClientError.modelUnavailable(let refusal) where refusal.reason == .atCapacity {
                // The model may have capacity again soon, so it is not remembered as refused.
                throw ChappieClientError.modelUnavailable(refusal)
            } catch ChappieClientError.modelUnavailable(var refusal) {
                if refusal.slug.isEmpty { refusal.slug = turn.frame.model }
                let explained = await explain(refusal, after: wish.refusals, of: account)
                wish.refusals.append(explained)
                guard refusal.slug != wish.named, wish.refusals.count < Self.modelsTried else {
                    throw ChappieClientError.modelUnavailable(explained)
                }
            }
        }
    }

    /// Replaces the conversation of `turn` with its compaction, after the recorder has kept that.
    private func take(
        _ outcome: Compaction.Outcome, of turn: Turn, isAutomatic: Bool, _ recorder: TurnRecorder,
        _ emit: (ChappieStreamEvent) -> Void
    ) async throws -> Bool {
        let before = turn.conversation
        guard conversation?.id == before.id else { return false }
        var after = before
        after.compact(
            into: outcome.words + [outcome.made], summary: outcome.summary, model: turn.frame.model,
            compactionHash: turn.compactionHash, now: clock.now)
        try await recorder(.compacted(after.context(model: named)))
        guard conversation?.id == before.id else { return false }
        conversation = after
        say(outcome, isAutomatic: isAutomatic, emit)
        return after.items != before.items
    }

    /// Reports to the user that the conversation was compacted, and what was left out. No notice is sent if the user
    /// asked for the compaction and nothing was left out.
    private func say(
        _ outcome: Compaction.Outcome, isAutomatic: Bool, _ emit: (ChappieStreamEvent) -> Void
    ) {
        let made = isAutomatic ? "The conversation was summed up to make room." : nil
        let sentences = [made, outcome.leftOut].compactMap(\.self)
        guard !sentences.isEmpty else { return }
        let notice = ChappieNotice(.compacted, sentences.joined(separator: " "))
        log.notes(notice)
        emit(.notice(notice))
    }

    /// Returns the wish for the model that makes a compaction. It is the next turn's, unless the conversation does not
    /// fit into that model's window and fits into another one's.
    private func compactor(for wish: ModelWish, in account: ChappieAccountInfo) async throws -> ModelWish {
        let conversation = currentConversation(of: account)
        guard let list = try await listForTurn(of: account) else { return wish }
        let size = conversation.context().estimatedTokens
        guard let choice = wish.choice(from: list, of: account.plan, at: clock.now), window(of: choice.slug) < size
        else { return wish }
        let own = [wish.conversation, conversation.model, conversation.reasoningModel].compactMap(\.self)
        let others = own + list.models.filter(\.isListed).map(\.slug)
        let able = others.first { slug in
            guard let model = list[slug], !model.isRetired(at: clock.now) else { return false }
            return !wish.refusals.contains { $0.slug == slug } && window(of: slug) >= size
        }
        return able.map { ModelWish(conversation: $0, refusals: wish.refusals) } ?? wish
    }

    private func window(of slug: String) -> Int { modelList?[slug]?.contextWindow ?? Compaction.usualWindow }

    /// Marks the conversation's compaction as unreadable for the backend, so that the next request leaves it out.
    private func loseCompaction() { conversation?.isUnreadable = true }

    /// The steps that have made a turn shorter. Each is taken only once, or once in a round of tools.
    private struct RoomMade {
        var isConversationCompacted = false
        /// The last round in which the turn itself was compacted.
        var round = 0
        /// Whether a compaction that can't be read was left out.
        var hasLostCompaction = false
    }

    /// Returns a shorter form of a turn that is too long, or soon will be. First the conversation before it is
    /// compacted, then the items of the turn itself. Tools that have run are not run again.
    ///
    /// - Throws: `error`, with the sizes, if nothing can be made shorter.
    private nonisolated func withRoom(
        _ turn: Turn, after error: any Error, _ room: inout RoomMade, _ wish: ModelWish,
        in account: ChappieAccountInfo, _ recorder: @escaping TurnRecorder,
        _ emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> Turn {
        let window = await window(of: turn.frame.model)
        do {
            guard configuration.automaticCompaction != nil || turn.hasRebuilt else { throw error }
            if !room.isConversationCompacted, ChappieClientContext.estimatedTokens(of: turn.items) < window {
                room.isConversationCompacted = true
                if try await compact(for: wish, in: account, isAutomatic: true, recorder, emit) { return turn }
            }
            let items = turn.conversation.items + turn.items
            // A compaction keeps the user's messages, so it makes no room among them.
            let rest = ChappieClientContext.estimatedTokens(of: items.filter { !Compaction.isWord($0) })
            guard turn.round > room.round, rest * 4 >= ChappieClientContext.estimatedTokens(of: items) else {
                throw error
            }
            room.round = turn.round
            let outcome = try await Compaction(turn: turn, items: items, window: window).run()
            var shorter = turn
            shorter.compact(into: outcome.made)
            await say(outcome, isAutomatic: true, emit)
            return shorter
        } catch let failure {
            // The service has not refused the turn and may still answer it.
            if error is TurnIsFull, !(failure is CancellationError), !Task.isCancelled { return turn }
            throw await described(failure, turn)
        }
    }

    /// Returns the error with the sizes of the input that was too large, if the service has refused the question
    /// itself, or a number of bytes.
    private func described(_ error: any Error, _ turn: Turn) -> any Error {
        let (model, question) = (turn.frame.model, turn.items)
        let tokens = ChappieClientContext.estimatedTokens(of: question)
        func size(of items: [ChappieJSON], isQuestion: Bool) -> ChappieInputSize {
            ChappieInputSize(
                model: model, isQuestion: isQuestion,
                byteCount: items.reduce(0) { $0 + $1.serializedBytes().count },
                pictureCount: items.reduce(0) { $0 + Pictures.count(in: $1) },
                pictureByteCount: items.reduce(0) { $0 + Pictures.byteCount(in: $1) })
        }
        switch error {
        case ChappieClientError.httpError(413, _):
            let all = size(of: turn.conversation.items + question, isQuestion: false)
            let own = size(of: question, isQuestion: true)
            return ChappieClientError.inputTooLarge(own.byteCount * 2 > all.byteCount ? own : all)
        // The estimate may be off by a factor of two.
        case ChappieClientError.contextWindowExceeded where turn.round == 0 && tokens * 2 >= window(of: model):
            var own = size(of: question, isQuestion: true)
            own.estimatedTokens = tokens
            own.contextWindow = modelList?[model]?.contextWindow
            own.suggestion = modelList?.models.first { $0.isListed && $0.contextWindow ?? 0 > tokens }?.slug
            return ChappieClientError.inputTooLarge(own)
        default: return error
        }
    }
}

extension ChappieInputMessage {
    /// Returns whether an input item is a message with a picture.
    fileprivate static func hasImage(_ item: ChappieJSON) -> Bool {
        item["content"]?.array?.contains { $0["type"] == "input_image" } ?? false
    }
}
