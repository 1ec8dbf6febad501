@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema

/// One turn: requests and rounds of tool calls, until the model calls no more tools and its answer is complete.
struct Turn: Sendable {
    private let context: TurnContext
    var runner: TurnRunner
    var frame: RequestFrame
    /// The family of models that can read a compaction of this model.
    let compactionHash: String?
    var tools: ToolRound
    /// Keeps the parts of the model's requests that the service refuses.
    let learn: @Sendable (_ model: String, RefusedParts) async -> Void
    /// The maximum number of further requests, after tool calls or because the model wants to continue.
    let toolLoopLimit: Int
    /// The items that the turn adds to the conversation: its messages, then the items of every round.
    var items: [ChappieJSON]
    /// The number of further requests so far.
    private(set) var round: Int
    /// The beginning of the answer, from responses after which the model wanted to continue.
    private var answer = ""
    /// The backend's values for the turn.
    var routing = TurnRouting()
    /// The part of the last answer that was shown, if the answer did not end.
    var unfinished: UnfinishedAnswer?
    /// Whether the backend could not read the conversation's encrypted items, so that they were left out.
    var hasDroppedReasoning = false
    /// Whether the conversation contains the turns that an unreadable compaction had replaced.
    var hasRebuilt = false
    /// The size in tokens from which on the turn ends with ``TurnIsFull`` instead of another request. `nil` means no
    /// limit.
    var room: Int?
    private var usage: ChappieTokenUsage?
    /// The types of the items that a compaction in this turn has replaced.
    private var typesBefore: Set<String> = []
    /// The last answer, if its tools are running or another answer is awaited.
    private var lastAnswer: ChappieResponse?
    /// The number of the user's messages that joined the turn while it ran.
    private var messageCount = 0
    /// The calls that are running.
    private var openRound: OpenRound?
    /// The error of a turn that ended with the shown text because its connection broke permanently.
    private(set) var failure: (any Error)?

    init(
        context: TurnContext, runner: TurnRunner, frame: RequestFrame, compactionHash: String?, tools: ToolRound,
        toolLoopLimit: Int, items: [ChappieJSON], round: Int,
        learn: @escaping @Sendable (_ model: String, RefusedParts) async -> Void
    ) {
        self.context = context
        self.runner = runner
        self.frame = frame
        self.compactionHash = compactionHash
        self.tools = tools
        self.toolLoopLimit = toolLoopLimit
        self.items = items
        self.round = round
        self.learn = learn
    }

    /// Runs the turn until it ends or the user interrupts it. After an interruption, the partial answer is returned, if
    /// the model has written or done anything. If the connection breaks permanently, the shown text is the answer, and
    /// ``failure`` has the error. If the turn ends in another way, the model's output and actions are recorded.
    /// - Parameters:
    ///   - count: the number of the turn's items that are the user's.
    ///   - pending: see ``runRounds(resuming:)``.
    mutating func run(
        after count: Int, resuming pending: (turn: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision])?
    ) async throws -> ChappieResponse {
        // The host of an exchange keeps what it has seen.
        if context.exchange != nil { return try await runWithoutTools() }
        do {
            return try await runRounds(resuming: pending)
        } catch let error where error is CancellationError && context.control.isRequested {
            guard let response = try await interrupted(after: count) else { throw error }
            return response
        } catch {
            if !(error is CancellationError), let unfinished, unfinished.isFinal,
                !unfinished.response.outputText.isEmpty
            {
                failure = error
                return brokenOff(with: unfinished.response)
            }
            let note = Task.isCancelled ? Transcript.interruptionItem : Transcript.failureItem
            if let end = itemsSoFar(after: count, note) {
                try? await tools.record(.stopped(kept(end.items, partialAnswer, measuredTokens: nil)))
            }
            throw error
        }
    }

    /// Ends the turn with the answer that was shown before its connection broke permanently.
    private mutating func brokenOff(with shown: ChappieResponse) -> ChappieResponse {
        var response = shown
        // The calls were announced, but none has run.
        response.items.removeAll(where: \.isToolCall)
        items += Transcript.kept(ofInterrupted: response) + [Transcript.breakItem]
        response.incompleteReason = ChappieResponse.lostConnection
        response.outputText = answer + response.outputText
        return finished(response)
    }

    /// Ends the turn with the steps that it has taken.
    ///
    /// - Parameter count: the number of the items that are the user's.
    /// - Returns: the answer so far, or `nil` if the model has written nothing.
    private mutating func interrupted(after count: Int) async throws -> ChappieResponse? {
        guard let end = itemsSoFar(after: count, Transcript.interruptionItem) else { return nil }
        items = end.items
        let (tools, open) = (tools, openRound)
        // This task is cancelled, but the results must be recorded.
        try await uncancelled {
            for result in end.results where open?.awaits(result.call.callID) == true {
                try await tools.record(.ran(result))
                tools.emit(.toolCallCompleted(result))
            }
        }
        return finished(partialAnswer)
    }

    /// The part of the answer that was shown.
    private var partialAnswer: ChappieResponse {
        var response = unfinished?.response ?? lastAnswer ?? ChappieResponse()
        response.status = .incomplete
        response.incompleteReason = ChappieResponse.interruption
        response.outputText = answer + response.outputText
        return response
    }

    /// Returns the items of the turn if it ends here, and the new results among them. The last item is `note`.
    ///
    /// - Parameter count: the number of the items that are the user's.
    /// - Returns: `nil` if the model has written nothing.
    private func itemsSoFar(
        after count: Int, _ note: ChappieJSON
    ) -> (items: [ChappieJSON], results: [ChappieToolExecutionResult])? {
        var items = items
        if let unfinished { items += Transcript.kept(ofInterrupted: unfinished.response) }
        guard items.count > count + messageCount else { return nil }
        let messages = context.control.waitingMessages.map(\.inputItem)
        let results = ChappieToolExecutionResult.missing(in: items) {
            openRound?.result(of: $0)
        } hasStarted: {
            openRound?.hasStarted($0) == true
        }
        return (items + results.map(\.inputItem) + messages + [note], results)
    }

    /// Returns the response with the usage and the commentary of the entire turn.
    private func finished(_ answer: ChappieResponse) -> ChappieResponse {
        var response = answer
        response.usage = usage
        response.toolOutputs = ServiceOutputs(in: items)
        let commentary = items.map(ChappieOutputItem.init).commentary
        if !commentary.isEmpty { response.commentary = commentary }
        return response
    }

    /// Sends requests and runs the tools that their answers call, until an answer calls none.
    ///
    /// - Parameter pending: the round with which to continue, and the user's decisions about it.
    /// - Returns: the last answer, with the tokens of all of them.
    private mutating func runRounds(
        resuming pending: (turn: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision])?
    ) async throws -> ChappieResponse {
        if let pending {
            for result in pending.turn.completed { tools.ledger.record(result) }
            // The user sent these messages while the calls waited. They follow the results.
            let end = items.lastIndex { !Compaction.isWord($0) } ?? -1
            let messages = items[(end + 1)...]
            items.removeLast(messages.count)
            tools.isResumed = true
            try await runTools(pending.turn.progress.calls, pending.decisions)
            tools.isResumed = false
            items += messages
        }
        while true {
            add(context.control.nextMessages())
            var response = try await receiveAnswer()
            let ownUsage = response.usage
            let calls = response.items.filter(\.isToolCall)
            // Searches are answered before any call runs, so that every record of the turn has the answers.
            let search = tools.toolSet.search ?? ToolSearch([])
            let found = response.status == .completed ? search.outputs(for: response.items) : []
            items += found
            guard response.status == .completed, !calls.isEmpty || !found.isEmpty || response.wantsToGoOn else {
                let messages = context.control.nextMessages(endsOtherwise: true)
                guard !messages.isEmpty else {
                    measuredTokens = ownUsage?.totalTokens
                    response.outputText = answer + response.outputText
                    return finished(response)
                }
                try await answered(response, messages)
                try checkRoom(after: ownUsage, adding: messages.map(\.inputItem))
                continue
            }
            lastAnswer = response
            guard round < toolLoopLimit else { throw ChappieClientError.toolLoopLimitExceeded(toolLoopLimit) }
            round += 1
            if calls.isEmpty {
                // JSON is complete in one response, or not at all.
                if found.isEmpty, frame.outputSchema == nil {
                    answer += response.outputText
                    lastAnswer?.outputText = ""
                }
                if !found.isEmpty { try checkRoom(after: ownUsage, adding: found) }
                continue
            }
            let known = try Self.calls(among: calls)
            try await tools.record(.called(TurnProgress(calls: known, items: items, round: round, frame: frame)))
            let count = items.count
            try await runTools(known)
            frame.toolChoice = .automatic
            try checkRoom(after: ownUsage, adding: found + items[count...])
        }
    }

    /// Sends requests until an answer ends or calls a tool. No tool runs.
    ///
    /// - Returns: the last answer, with the items, the text and the tokens of all of them.
    private mutating func runWithoutTools() async throws -> ChappieResponse {
        while true {
            let earlier = items.map(ChappieOutputItem.init)
            var response = try await receiveAnswer()
            let calls = try Self.calls(among: response.items)
            guard response.wantsToGoOn, calls.isEmpty else {
                response.items = earlier + response.items
                response.outputText = answer + response.outputText
                return finished(response)
            }
            guard round < toolLoopLimit else { throw ChappieClientError.toolLoopLimitExceeded(toolLoopLimit) }
            round += 1
            // JSON is complete in one response, or not at all.
            if frame.outputSchema == nil { answer += response.outputText }
        }
    }

    /// Sends a request, and adds its answer to the turn.
    private mutating func receiveAnswer() async throws -> ChappieResponse {
        let response = try await sendRequest()
        // The response is complete, even if the turn was interrupted.
        unfinished = nil
        usage = usage.map { $0.adding(response.usage) } ?? response.usage
        items += Transcript.kept(of: response)
        return response
    }

    /// Returns the calls among the items of an answer. Approvals, results and records are identified by a call's id.
    ///
    /// - Throws: ``ChappieClientError/invalidResponse`` for calls without an id, or with the same one.
    private static func calls(among items: [ChappieOutputItem]) throws -> [ChappieToolCall] {
        let calls = try items.filter(\.isToolCall).map { item in
            guard let call = ChappieToolCall(item) else { throw ChappieClientError.invalidResponse }
            return call
        }
        guard Set(calls.map(\.callID)).count == calls.count else { throw ChappieClientError.invalidResponse }
        return calls
    }

    /// Keeps an answer after which the user's messages continue the turn.
    private mutating func answered(_ response: ChappieResponse, _ messages: [ChappieInputMessage]) async throws {
        answer = ""
        lastAnswer = response
        add(messages)
        try await tools.record(.called(TurnProgress(calls: [], items: items, round: round, frame: frame)))
    }

    private mutating func add(_ messages: [ChappieInputMessage]) {
        items += messages.map(\.inputItem)
        messageCount += messages.count
    }

    /// Checks that the conversation leaves room for another request.
    ///
    /// - Throws: ``TurnIsFull``.
    private func checkRoom(after usage: ChappieTokenUsage?, adding added: [ChappieJSON]) throws {
        guard let room, let used = usage?.totalTokens else { return }
        if used + ChappieClientContext.estimatedTokens(of: added) >= room { throw TurnIsFull() }
    }

    /// Whether the backend compacts a conversation itself.
    var takesCompaction: Bool { !runner.configuration.endpoints.usesPlan }
    /// The transcript before the turn, without the items that its model can't read.
    var transcript: Transcript { runner.transcript }

    /// Takes over the usage and the state of the turn so far, under another model or before a compaction.
    mutating func continues(_ earlier: Turn) {
        usage = earlier.usage
        answer = earlier.answer
        lastAnswer = earlier.lastAnswer
        typesBefore = earlier.typesBefore
        messageCount = earlier.messageCount
        if earlier.frame.model == frame.model {
            routing = earlier.routing
            unfinished = earlier.unfinished
        }
    }

    /// The notices, one for each of the backend's tools that the request offered and the model did not use.
    var unusedTools: [ChappieNotice] {
        let used = typesBefore.union(itemTypes)
        return (frame.serviceTools ?? []).compactMap { tool in
            // A turn without a picture may be what the user wants.
            guard tool.type != ServiceOutputs.image, !used.contains("\(tool.type)_call") else { return nil }
            return ChappieNotice(
                .toolNotUsed,
                tool.type == ServiceOutputs.search
                    ? "Nothing was searched on the web for this answer."
                    : "The answer was written without \(tool.name).")
        }
    }

    /// Replaces the turn's items so far with a compaction of them.
    mutating func compact(into made: ChappieJSON) {
        typesBefore.formUnion(itemTypes)
        items = items.filter(Compaction.isWord) + [made]
    }

    private var itemTypes: Set<String> {
        Set(
            items.compactMap { item in
                let isSearch = item["type"] == "function_call" && item["name"]?.string == ServiceOutputs.search
                return isSearch ? "\(ServiceOutputs.search)_call" : item["type"]?.string
            })
    }

    /// Returns the turn in the form that joins the conversation.
    func finished(with response: ChappieResponse) -> FinishedTurn {
        kept(items, response, measuredTokens: measuredTokens)
    }

    private func kept(_ items: [ChappieJSON], _ response: ChappieResponse, measuredTokens: Int?) -> FinishedTurn {
        FinishedTurn(
            items: items, response: response, model: frame.model, sessionID: runner.transcript.id,
            accountID: runner.transcript.account.ownerID, userID: runner.transcript.account.userID,
            measuredTokens: measuredTokens, hasDroppedReasoning: hasDroppedReasoning, hasRebuilt: hasRebuilt)
    }

    /// Sends the input with which every turn of the conversation begins, so that the next turn starts quickly.
    func prewarm() async {
        let body = runner.transcript.body(adding: [], frame)
        guard body["input"]?.array?.isEmpty == false else { return }
        await runner.prewarm(body)
    }

    /// The size of the conversation after the turn, as counted by the backend.
    private(set) var measuredTokens: Int?

    /// Runs the calls of a round, and adds their results to the turn.
    ///
    /// - Throws: ``ChappieClientError/approvalPending(_:)`` if the user answers later.
    private mutating func runTools(
        _ calls: [ChappieToolCall], _ decisions: [String: ChappieApprovalDecision] = [:]
    ) async throws {
        let open = OpenRound(
            calls, over: tools.isResumed ? calls.compactMap { tools.ledger.result(of: $0.callID) } : [])
        openRound = open
        var noting = tools
        // Only the service's tools use it.
        if frame.serviceTools?.isEmpty == false { noting.history = runner.transcript.items + items }
        noting.record = { [record = tools.record] step in
            open.begins(step)
            try await record(step)
            open.ended(step)
        }
        let outcome = try await noting.runTools(calls, round: round, decisions: decisions)
        openRound = nil
        guard outcome.open.isEmpty else {
            throw ChappieClientError.approvalPending(
                ChappiePendingTurn(
                    approvals: outcome.open, completed: outcome.results,
                    context: runner.transcript.context(model: frame.model),
                    progress: TurnProgress(
                        calls: calls, items: items + context.control.waitingMessages.map(\.inputItem), round: round,
                        frame: frame)))
        }
        items += outcome.results.map(\.inputItem)
    }
}

/// An error: the conversation and the turn so far leave too little room for another request.
struct TurnIsFull: Error {}

extension ChappieTokenUsage {
    fileprivate func adding(_ other: ChappieTokenUsage?) -> ChappieTokenUsage {
        guard let other else { return self }
        // The counts come from a server and may have any value.
        return ChappieTokenUsage(
            inputTokens: inputTokens &+ other.inputTokens,
            cachedInputTokens: cachedInputTokens &+ other.cachedInputTokens,
            outputTokens: outputTokens &+ other.outputTokens,
            reasoningTokens: reasoningTokens &+ other.reasoningTokens, totalTokens: totalTokens &+ other.totalTokens)
    }
}
