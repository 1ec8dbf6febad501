@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema

/// One turn: requests and rounds of tool calls, until the model has nothing more to call or to say.
struct Turn: Sendable {
    private var runner: TurnRunner
    private(set) var frame: RequestFrame
    /// Names the family of models that can read a compaction of this model.
    let compactionHash: String?
    private var tools: ToolRound
    /// How often the model may be asked again, after tool calls or because it wants to go on.
    let toolLoopLimit: Int
    /// The items that the turn adds to the conversation: its messages, then the items of every round.
    private(set) var items: [ChappieJSON]
    /// How often the model has been asked again.
    private(set) var round = 0
    /// The beginning of the answer, from responses after which the model wanted to continue.
    private var answer = ""
    /// The backend's values for the turn.
    private(set) var routing = TurnRouting()
    /// Whether the backend could not read the conversation's encrypted items, which were left out then.
    private(set) var hasDroppedReasoning = false
    private var usage: ChappieTokenUsage?

    init(
        runner: TurnRunner, frame: RequestFrame, compactionHash: String? = nil, tools: ToolRound, toolLoopLimit: Int,
        items: [ChappieJSON], round: Int = 0
    ) {
        self.runner = runner
        self.frame = frame
        self.compactionHash = compactionHash
        self.tools = tools
        self.toolLoopLimit = toolLoopLimit
        self.items = items
        self.round = round
    }

    /// Runs the turn to its end.
    ///
    /// - Parameter pending: the round with which to continue, and the user's decisions since.
    /// - Returns: the last answer, with the tokens of all of them.
    mutating func run(
        resuming pending: (turn: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision])? = nil
    ) async throws -> ChappieResponse {
        if let pending {
            for result in pending.turn.completed { tools.ledger.record(result) }
            tools.isResumed = true
            try await carryOut(pending.turn.progress.calls, pending.decisions)
            tools.isResumed = false
        }
        while true {
            var response = try await ask()
            let ownUsage = response.usage
            usage = usage.map { $0.adding(response.usage) } ?? response.usage
            items += Conversation.kept(of: response)
            let calls = response.items.filter(\.isToolCall)
            guard response.status == .completed, !calls.isEmpty || response.wantsToGoOn else {
                measuredTokens = ownUsage?.totalTokens
                response.usage = usage
                let commentary = items.map(ChappieOutputItem.init).commentary
                if !commentary.isEmpty { response.commentary = commentary }
                response.outputText = answer + response.outputText
                return response
            }
            guard round < toolLoopLimit else { throw ChappieClientError.toolLoopLimitExceeded(toolLoopLimit) }
            round += 1
            if calls.isEmpty {
                // JSON is whole in one response, or not at all.
                if frame.outputSchema == nil { answer += response.outputText }
                continue
            }
            let known = try calls.map { item in
                guard let call = ChappieToolCall(item) else { throw ChappieClientError.invalidResponse }
                return call
            }
            // Approvals, results and records go by a call's id.
            guard Set(known.map(\.callID)).count == known.count else { throw ChappieClientError.invalidResponse }
            try await tools.record(.called(TurnProgress(calls: known, items: items, round: round, frame: frame)))
            try await carryOut(known)
            frame.toolChoice = .automatic
        }
    }

    var conversationID: String { conversation.id }
    /// Whether the backend compacts a conversation itself.
    var takesCompaction: Bool { runner.configuration.endpoints.profile.takesCompaction }
    /// The conversation before the turn, without what its model can't read.
    var conversation: Conversation { runner.conversation }

    /// Adds the usage of the turn so far, under another model or before a compaction.
    mutating func goOn(from earlier: Turn) {
        usage = earlier.usage
        answer = earlier.answer
        if earlier.frame.model == frame.model { routing = earlier.routing }
    }

    /// The turn as it joins the conversation.
    func finished(with response: ChappieResponse) -> FinishedTurn {
        FinishedTurn(
            items: items, response: response, model: frame.model, sessionID: runner.conversation.id,
            accountID: runner.conversation.account.ownerID, measuredTokens: measuredTokens,
            hasDroppedReasoning: hasDroppedReasoning)
    }

    /// Sends the input with which every turn of the conversation begins, so that the next turn is quick.
    func prewarm() async {
        let body = runner.conversation.body(adding: [], frame)
        guard body["input"]?.array?.isEmpty == false else { return }
        await runner.prewarm(body)
    }

    /// One request without tools, of a conversation cut to `items`, for a compaction.
    func answer(
        to question: ChappieJSON, after items: [ChappieJSON], toolChoice: ChappieToolChoice
    ) async throws -> ChappieResponse {
        var runner = runner
        runner.conversation.compact(into: items, summary: nil, model: frame.model, now: runner.conversation.updatedAt)
        var frame = frame
        frame.toolChoice = toolChoice
        // The lite form has no tool choice: tools that must not be called are not declared.
        if toolChoice == .none { frame.tools = [] }
        var routing = TurnRouting()
        let body = runner.conversation.body(adding: [question], frame)
        return try await runner.run(body, &routing, emit: { _ in })
    }

    private mutating func ask() async throws -> ChappieResponse {
        do {
            let body = runner.conversation.body(adding: items, frame)
            return try await runner.run(body, &routing, emit: tools.emit)
        } catch let failure as AttemptFailure where failure.kind == .unreadableReasoning && !hasDroppedReasoning {
            hasDroppedReasoning = true
            runner.conversation.dropReasoning()
            items.removeAll(where: ChappieClientContext.isEncrypted)
            return try await ask()
        } catch let error as ChappieClientError {
            switch error {
            case .modelUnavailable(var refusal):
                refusal.slug = frame.model
                throw ChappieClientError.modelUnavailable(refusal)
            case _ where refusesNamespaces(error):
                // Not every backend is known to take tools in namespaces: the flat form is tried once.
                runner.conversation.hasFlatTools = true
                frame.declare(tools.toolSet.declared(as: runner.configuration.endpoints.profile.toolEnvelope))
                return try await ask()
            default: throw error
            }
        }
    }

    private func refusesNamespaces(_ error: ChappieClientError) -> Bool {
        switch error {
        case .httpError(400, let body): refusesNamespaces(body)
        case .planRefused(let refusal): refusesNamespaces(refusal)
        default: false
        }
    }

    private func refusesNamespaces(_ body: String) -> Bool {
        guard hasNamespaces, let error = try? ChappieResponseError(body: ChappieJSON(parsing: body)) else {
            return false
        }
        // A lite request is refused by the name of the member alone.
        return (error.raw["param"]?.string ?? (frame.isLite ? nil : error.message)).map(Self.namesTools) ?? false
    }

    private func refusesNamespaces(_ refusal: ChappiePlanRefusal) -> Bool {
        guard hasNamespaces, refusal.reason == .capability, refusal.status == 400 else { return false }
        return (refusal.parameter ?? refusal.message).map(Self.namesTools) ?? false
    }

    private static func namesTools(_ text: String) -> Bool {
        let text = text.lowercased()
        return text.contains("tool") || text.contains("namespace")
    }

    private var hasNamespaces: Bool { !frame.tools.isEmpty && conversation.takesNamespaces(frame) }

    /// The size of the conversation after the turn, as the backend counted it.
    private(set) var measuredTokens: Int?

    private mutating func carryOut(
        _ calls: [ChappieToolCall], _ decisions: [String: ChappieApprovalDecision] = [:]
    ) async throws {
        let outcome = try await tools.carryOut(calls, round: round, decisions: decisions)
        guard outcome.open.isEmpty else {
            throw ChappieClientError.approvalPending(
                ChappiePendingTurn(
                    approvals: outcome.open, completed: outcome.results,
                    context: runner.conversation.context(model: frame.model),
                    progress: TurnProgress(calls: calls, items: items, round: round, frame: frame)))
        }
        items += outcome.results.map(\.item)
    }
}

extension ChappieTokenUsage {
    fileprivate func adding(_ other: ChappieTokenUsage?) -> ChappieTokenUsage {
        guard let other else { return self }
        // The counts come from a server: they may have any value.
        return ChappieTokenUsage(
            inputTokens: inputTokens &+ other.inputTokens,
            cachedInputTokens: cachedInputTokens &+ other.cachedInputTokens,
            outputTokens: outputTokens &+ other.outputTokens,
            reasoningTokens: reasoningTokens &+ other.reasoningTokens, totalTokens: totalTokens &+ other.totalTokens)
    }
}

extension ChappieToolExecutionResult {
    /// The result as an input item of the Responses API.
    fileprivate var item: ChappieJSON {
        let text: ChappieJSON = .string(result.output)
        let parts: [ChappieJSON] = [["type": "input_text", "text": text]] + result.parts
        return [
            "type": call.isCustom ? "custom_tool_call_output" : "function_call_output", "call_id": .string(call.callID),
            "output": result.parts.isEmpty ? text : .array(parts),
        ]
    }
}
