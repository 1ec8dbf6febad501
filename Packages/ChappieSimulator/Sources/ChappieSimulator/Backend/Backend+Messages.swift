import ChappieCore

extension Backend {
    /// What a `response.create` message leads to.
    enum MessageOutcome: Sendable {
        case events([StreamedEvent])
        /// An error, as HTTP would answer it.
        case refusal(BackendResponse)
    }

    /// One turn, or the warming up for one (`generate: false`).
    ///
    /// - Parameters:
    ///   - body: the message, known to be a `response.create`.
    ///   - account: whose connection it is; `nil` for the settings' own.
    ///   - byteCount: how long it was.
    ///   - conversation: what the connection remembers; the answer is added to it.
    ///   - quirks: how the model is to differ.
    mutating func responseCreate(
        _ body: ChappieJSON, for account: SimulatorAccount? = nil, byteCount: Int, now: Int,
        conversation: inout WebSocketConversation, quirks: ModelQuirks = ModelQuirks(), edits: EventEdits = EventEdits()
    ) -> MessageOutcome {
        if conversation.isOverLimit { return .refusal(Backend.connectionLimitReached) }
        if let problem = Backend.problem(with: body, chains: true) { return .refusal(problem) }
        let previous = body["previous_response_id"]?.string
        if body["previous_response_id"]?.isNull == false, previous == nil || previous != conversation.lastResponseID {
            return .refusal(Backend.previousResponseNotFound(previous ?? ""))
        }
        guard var whole = body.object else { return .refusal(Backend.notAnObject) }
        let input = (previous == nil ? [] : conversation.items) + (body["input"]?.array ?? [])
        whole["input"] = .array(input)
        let isPrewarm = body["generate"] == false
        let prompt = Prompt(.object(whole))
        let reply = isPrewarm ? Reply(outputs: []) : EchoModel.reply(to: prompt).changed(by: quirks)
        let written = ReplyWriter.write(
            reply, body: .object(whole), prompt: prompt, now: now, identifiers: &identifiers)
        if edits.ending == .completed || edits.ending == .incomplete {
            conversation.remember(
                response: written.responseID, input: input, output: written.items, byteCount: byteCount,
                continues: previous != nil)
        }
        if isPrewarm { return .events(written.events.filter { $0.name != "response.in_progress" }) }
        conversation.countTurn()
        return .events(
            edits.applied(
                to: addingMetadata(
                    to: written.events, for: account ?? settings.account, body: body, prompt: prompt, now: now,
                    &conversation)))
    }

    /// Puts in what HTTP says in header fields: usage, model and turn state.
    private mutating func addingMetadata(
        to events: [StreamedEvent], for account: SimulatorAccount, body: ChappieJSON, prompt: Prompt, now: Int,
        _ conversation: inout WebSocketConversation
    ) -> [StreamedEvent] {
        let turnState =
            body["client_metadata"]?["x-codex-turn-state"]?.string ?? conversation.turnState
            ?? identifiers.counted("ts_")
        conversation.turnState = nil
        let headers: ChappieJSON = [
            "openai-model": .string(prompt.model), "x-codex-turn-state": .string(turnState),
        ]
        var events = events
        events.insert(
            contentsOf: [
                StreamedEvent("codex.rate_limits", usageEvent(of: account, now: now)),
                StreamedEvent("response.metadata", ["type": "response.metadata", "headers": headers]),
            ], at: min(2, events.count))
        return events
    }

    static let notAnObject = invalid("The body is not a JSON object.")
}
