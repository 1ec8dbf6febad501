@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes

extension ChappieClient {
    /// Runs a turn, and records every step before the next one begins. An error of the recorder ends the turn.
    ///
    /// - Parameters:
    ///   - account: the value of ``turnAccount()`` before the turn, if the caller has it.
    ///   - control: interrupts the turn, and gives it messages while it runs.
    ///   - isKept: whether a store keeps the turn.
    @_spi(ChappieInternals) public nonisolated func runTurn(
        _ work: ChappieTurnWork, in account: ChappieAccountInfo? = nil, control: TurnControl,
        isKept: Bool = false, recorder: @escaping TurnRecorder = { _ in },
        emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        let divergence = configuration.replayDivergence
        let restarts = divergence == .restart || divergence != .fail && (isKept || work.isUnseen)
        let observation: (any ChappieObservation)? =
            if case .clearing = work { nil } else { observer?.began(.turn, in: nil) }
        let answer = { @Sendable () async throws -> ChappieResponse in
            await self.endPrewarm()
            if case .clearing = work {
                await self.clearContext()
                return ChappieResponse()
            }
            let account = if let account { account } else { try await self.turnAccount() }
            return try await self.runAndKeep(
                work,
                TurnContext(
                    account: account, control: control, record: recorder, emit: emit, observation: observation,
                    restarts: restarts))
        }
        let limit: Duration? = if case .new(let request) = work { request.timeLimit } else { nil }
        return try await run(within: limit, observation, answer)
    }

    /// Runs `turn`, which ends after `limit` if there is one, and reports its end to the observer.
    ///
    /// - Throws: ``ChappieClientError``, `CancellationError`.
    nonisolated func run(
        within limit: Duration?, _ observation: (any ChappieObservation)?,
        _ turn: @escaping @Sendable () async throws -> ChappieResponse
    ) async throws -> ChappieResponse {
        do {
            let response = if let limit { try await within(limit, turn) } else { try await turn() }
            observation?.ended(nil)
            return response
        } catch {
            let error = ChappieClientError.wrapping(error)
            observation?.ended(error)
            throw error
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
    struct Beginning {
        let items: [ChappieJSON]
        let frame: RequestFrame
        let wish: ModelWish
        var round = 0
        /// The calls that wait, and the user's answers.
        var resuming: (ChappiePendingTurn, [String: ChappieApprovalDecision])?
        /// Whether the model is only for this turn.
        var isForOneTurn = false
    }

    /// Prepares the state with which the work begins.
    ///
    /// - Returns: `nil` for work that is already done and has no answer.
    private func beginning(of work: ChappieTurnWork, _ context: TurnContext) async throws -> Beginning? {
        switch work {
        case .new(let request):
            try await compactIfDue(for: request, context)
            return Beginning(
                items: request.messages.map(\.inputItem), frame: try RequestFrame(of: request),
                wish: wish(request.model), isForOneTurn: request.model != nil)
        case .resumption(let waiting, let decisions):
            resumeConversation(of: waiting)
            let progress = waiting.progress
            // The reasoning of another account's turn can't be read in this account.
            let isOwn = waiting.context.belongs(to: context.account)
            let items = isOwn ? progress.items : progress.items.filter { !ChappieClientContext.isEncrypted($0) }
            return Beginning(
                items: items, frame: progress.frame,
                wish: ModelWish(conversation: progress.frame.model), round: progress.round,
                resuming: (waiting, decisions))
        case .compaction, .clearing:
            try await compact(for: wish(), context)
            return nil
        }
    }

    /// Runs the work and adds its turn to the conversation. It runs outside this actor, so that the actor is free for
    /// other calls while the answer arrives.
    @concurrent
    private nonisolated func runAndKeep(
        _ work: ChappieTurnWork, _ context: TurnContext
    ) async throws -> ChappieResponse {
        let answered = try await context.control.run { () async throws -> Answered? in
            guard let start = try await self.beginning(of: work, context) else { return nil }
            context.control.acceptMessages { context.emit?($0) }
            return try await self.runUntilAnswered(start, context)
        }
        guard let (start, turn, response) = answered.map({ ($0.start, $0.turn, $0.response) }) else {
            return ChappieResponse()
        }
        if start.resuming != nil { toolLedger.forgetResults() }
        try Task.checkCancellation()
        var finished = turn.finished(with: response)
        finished.isModelGuessed = await modelList?.models.isEmpty != false
        try await context.record(.finished(finished))
        await keep(turn, isForOneTurn: start.isForOneTurn)
        for notice in turn.unusedTools {
            log.notes(notice)
            context.emit?(.notice(notice))
        }
        await note(turn.routing.modelsETag)
        if let failure = turn.failure { throw failure }
        context.emit?(.completed(response))
        return response
    }

    /// A turn that has ended, with its response.
    struct Answered {
        let start: Beginning
        let turn: Turn
        let response: ChappieResponse
    }

    /// Runs the turn until it has an answer. If the model, the window or a limit of the plan prevents one, the turn
    /// continues with another model, a shorter conversation or a renewed sign-in.
    nonisolated func runUntilAnswered(_ start: Beginning, _ context: TurnContext) async throws -> Answered {
        let account = context.account
        var (frame, wish, resuming) = (start.frame, start.wish, start.resuming)
        var turn = try await prepare(start.items, frame, wish, round: start.round, context)
        var room = RoomMade()
        var planChange: PlanChange?
        while true {
            do {
                let response = try await turn.run(
                    after: start.resuming == nil ? start.items.count : 0, resuming: resuming)
                return Answered(start: start, turn: turn, response: response)
            } catch let error where error is TurnIsFull || Compaction.isTooLong(error) {
                turn = try await shortened(turn, after: error, &room, wish, context)
            } catch is UnreadableCompaction where context.exchange == nil && !room.hasLostCompaction {
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
            var next = try await prepare(turn.items, frame, wish, round: turn.round, context)
            next.continues(turn)
            turn = next
        }
    }

    /// The maximum number of models that a turn tries if the request names none.
    static let modelsTried = 3

    /// Adds a turn to its conversation, unless another conversation has begun since. The model is for one turn only if
    /// the request names it, or if it was guessed because the list was missing or empty.
    private func keep(_ turn: Turn, isForOneTurn: Bool) {
        guard transcript?.id == turn.transcript.id else { return }
        // A compaction that the host made during the turn is kept.
        let isCompacted = transcript?.window != turn.transcript.window
        // The turn's conversation lacks the items that its model could not read.
        if !isCompacted { transcript = turn.transcript }
        if turn.transcript.hasFlatTools, configuration.endpoints.usesPlan {
            hasFlatTools = true
            transcript?.hasFlatTools = true
        }
        transcript?.append(
            turn.items, model: turn.frame.model, isForOneTurn: isForOneTurn || modelList?.models.isEmpty != false,
            measuredTokens: isCompacted ? nil : turn.measuredTokens, now: clock.now)
    }

    /// Continues the conversation of a turn that waits for the user's answers.
    private func resumeConversation(of pending: ChappiePendingTurn) {
        guard transcript?.id != pending.context.sessionID else { return }
        transcript = nil
        resumed = pending.context
        toolLedger.resetApprovals()
    }

    /// Prepares a turn with its request, and with a runner that sends it only in the conversation's account.
    func prepare(
        _ items: [ChappieJSON], _ frame: RequestFrame, _ wish: ModelWish, round: Int = 0, _ context: TurnContext
    ) async throws -> Turn {
        let exchange = context.exchange
        let available = exchange == nil ? try await availableTools(tellingFailures: context) : []
        var transcript =
            exchange.map { self.transcript(of: $0, readBy: frame.model, context.account) }
            ?? currentTranscript(of: context.account)
        if exchange == nil, let accountNotice, let emit = context.emit {
            self.accountNotice = nil
            log.notes(accountNotice)
            emit(.notice(accountNotice))
        }
        let list = try await listForTurn(of: transcript.account)
        guard let choice = wish.choice(from: list, of: context.account.plan, at: clock.now) else {
            throw wish.refusals.last.map(ChappieClientError.modelUnavailable) ?? .invalidResponse
        }
        if let notice = choice.notice(after: wish.refusals, list) { tell(notice, context) }
        let listed = list?[choice.slug]
        if let notice = listed?.retirementNotice(at: clock.now) { tell(notice, context) }
        // Every model that the service still has takes the lite form, so a model that is missing in the list also gets
        // it.
        var model =
            listed ?? ChappieModel(slug: choice.slug, supportsParallelToolCalls: false, usesResponsesLite: true)
        let onPlan = configuration.endpoints.usesPlan
        if onPlan {
            model.usesResponsesLite = false
            model.serviceTiers = []
        }
        var (frame, items) = (frame, items)
        if !frame.model.isEmpty, frame.model != model.slug { items.removeAll(where: ChappieClientContext.isEncrypted) }
        let refused = await refusedParts(of: model.slug, listed, in: context.account)
        let wanted = frame.serviceTools ?? []
        // The client runs no tool in an exchange, so the backend has to, which it does only in the full form.
        let takesLite =
            model.usesResponsesLite && !refused.liteForm && exchange == nil && !wanted.contains(where: \.isAlwaysHosted)
        let ways = try wanted.map { tool in
            let way = try ServiceToolWay(of: tool, onPlan: onPlan, takesLite: takesLite, searchIsGone: searchIsGone)
            return (tool: tool, way: way)
        }
        frame.hostedTools = ways.filter { $0.way == .hosted }.map(\.tool)
        frame.adapt(to: model, refused: refused)
        let functions = serviceFunctions(of: transcript, model: model.slug, context)
        let services = ways.filter { $0.way == .function }.map { functions.function(for: $0.tool) }
        var toolSet = try ToolSet(
            harness: exchange?.harness ?? configuration.harness, tools: available + services, checked: checkedTools)
        if exchange == nil { checkedTools = toolSet.declarations }
        limit(&toolSet, &frame, items, &transcript, context)
        let asked = exchange?.input ?? items
        try RequestCheck(frame: frame, items: asked, model: model, list: list?.models ?? [])
            .check(transcript.items, refusedRoles: configuration.endpoints.refusedRoles, listsTools: !onPlan)
        frame.options.reasoningEffort = effort(frame.options.reasoningEffort, of: model, context)
        for notice in frame.leftOutNotices(in: transcript.items) { tell(notice, context) }
        frame.declare(toolSet.declared(onPlan: onPlan, inNamespace: transcript.takesNamespaces(frame)))
        // The lite form has no tool choice, so tools that must not be called are not declared.
        if frame.isLite, frame.toolChoice == .none { frame.tools = [] }
        try RequestSize(asked, frame).check(window: model.contextWindow, items: asked)
        // Only the turn's copy changes: a turn that fails leaves the conversation unchanged.
        let isUnreadable = transcript.isUnreadable
        var all: [ChappieJSON]?
        if transcript.drop(unreadableBy: frame.model, in: list?.models.isEmpty == true ? nil : list) {
            all = await lostHistory(context)
        }
        if let all { transcript.rebuild(from: all) }
        var turn = Turn(
            context: context, runner: runner(transcript, frame.headerFields, list, context),
            frame: frame,
            compactionHash: model.compactionHash,
            tools: ToolRound(
                toolSet: toolSet, approvalHandler: approvalHandler,
                failureBehavior: configuration.toolFailureBehavior,
                maximumParallelCalls: configuration.maximumParallelCalls, ledger: toolLedger,
                conversation: toolLedger.conversation, clock: clock, observer: observer,
                observation: context.observation,
                emit: context.emit ?? { _ in }, record: context.record),
            toolLoopLimit: configuration.toolLoopLimit, items: items, round: round
        ) { [weak self] slug, parts in await self?.learn(parts, of: slug, listed, in: context.account) }
        turn.room = exchange == nil ? compactionLimit(of: model) : nil
        turn.routing.turnState = exchange.flatMap(turnState)
        turn.hasRebuilt = all != nil
        turn.hasDroppedReasoning = isUnreadable
        return turn
    }

    /// Returns the items that replace an unreadable compaction. If there are none, the user gets a notice.
    private func lostHistory(_ context: TurnContext) async -> [ChappieJSON]? {
        if context.exchange == nil, let all = await history?() { return all }
        tell(.compactionLost, context)
        return nil
    }

    /// Returns the effort that the request names. If it differs from the effort that the user asked for, a notice
    /// reports that.
    private func effort(
        _ wanted: ChappieReasoningEffort, of model: ChappieModel, _ context: TurnContext
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
                context)
        }
        return effort
    }

    /// Sends a notice to the user and to the log, only once. A prewarm has no reader, so the notice is left to the
    /// turn.
    func tell(_ notice: ChappieNotice, _ context: TurnContext) {
        guard let emit = context.emit, told.insert(notice).inserted else { return }
        log.notes(notice)
        emit(.notice(notice))
    }

    private func runner(
        _ transcript: Transcript, _ fields: HTTPFields, _ list: ModelList?, _ context: TurnContext
    ) -> TurnRunner {
        TurnRunner(
            configuration: configuration, http: transport, middleware: middleware, webSocket: webSocket,
            authorization: authorization(onlyFor: transcript.account), transcript: transcript,
            connection: context.exchange == nil ? connection : exchangeConnection, clock: clock, entropy: entropy,
            log: log, webSocketNotes: webSocketNotes,
            headerFields: fields, restarts: context.restarts, list: list,
            observedTurn: context.observation)
    }

    /// Returns the account in which a turn is sent.
    ///
    /// - Throws: ``ChappieClientError`` if no account is signed in; `CancellationError`.
    @_spi(ChappieInternals) public func turnAccount() async throws -> ChappieAccountInfo {
        do {
            return try await accountInfo()
        } catch {
            // No account is left to which the connections could belong.
            connection.retire()?.cancel()
            exchangeConnection.retire()?.cancel()
            throw error
        }
    }

    /// Returns the transcript to continue. It is a new one in the first turn, and when another account has signed in.
    func currentTranscript(of account: ChappieAccountInfo) -> Transcript {
        if let transcript {
            guard !transcript.account.isSameAccount(as: account) else { return transcript }
            if !transcript.items.isEmpty { accountNotice = .newConversation(of: account) }
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
                Transcript($0, account: account, newID: id, now: now, configuration: configuration)
            } ?? Transcript(account: account, id: id, now: now, configuration: configuration)
        new.hasFlatTools = hasFlatTools
        transcript = new
        resumed = nil
        return new
    }
}
