@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// Exchanges of a host that runs tools and keeps the conversation itself.
extension ChappieClient {
    /// Sends the items of an exchange and streams the answer. No tool runs, and nothing is kept. The exchange starts
    /// immediately, or after the earlier turns and exchanges of this client. Releasing the stream ends it.
    ///
    /// The stream ends with `.completed`, whose response has the text, the items, the calls among them, and the usage.
    /// If the model ends an answer without a call and wants to continue, the client asks again, and the response has
    /// the items, the text and the usage of all these answers. An answer that ended early is not an error.
    ///
    /// Authorization, transports, repetition after a break, pauses, limits, errors and the choice of the model are those
    /// of a turn. Exchanges have their own WebSocket and their own ids. Reasoning in the input that the service can't
    /// read is left out after its refusal. A compaction that it can't read is an error. ``ChappieClient/interrupt()``
    /// cancels an exchange, and ``ChappieConversation/steer(_:)-(ChappieInputMessage)`` has no effect on it.
    ///
    /// Before anything is sent, an exchange is checked as follows, in addition to the checks of a turn. The errors are
    /// ``ChappieClientError/unsupportedInput(_:_:)`` and ``ChappieClientError/invalidTool(_:_:)``.
    ///
    /// - The input has an item. Each element is an object with a `type`, or a message's `role`.
    /// - The output of a function or a custom tool has its call before it, and each such call has an output.
    /// - The names of tools have 1 to 64 letters, digits, `_` and `-`, and none occurs twice. Their schemas are of type
    ///   object and can be used. The tool choice names one of them.
    /// - No service tool makes pictures.
    ///
    /// The stream throws ``ChappieClientError``. It throws `CancellationError` within 100 ms when the task that reads it
    /// is cancelled.
    public nonisolated func stream(
        _ exchange: ChappieExchange
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        queue.begin(endsWithItsStream: true) { [self] emit, _ in
            let observation = observer?.began(.turn, in: nil)
            return try await run(within: exchange.timeLimit, observation) {
                try await self.runExchange(exchange, observation, emit)
            }
        }.events
    }

    /// Opens the WebSocket of the exchanges and sends the beginning of the next exchange, so that its answer starts
    /// quickly. Call it with everything that is known before the user's next message. The input may be empty.
    ///
    /// The next exchange sends only its new items if it begins with these ones, and everything else is the same.
    /// ``prewarm()`` lists when nothing is sent. An exchange with a mistake is not sent, either.
    public func prewarm(_ exchange: ChappieExchange) async {
        guard (try? exchange.checkParts()) != nil, let frame = try? RequestFrame(of: exchange) else { return }
        await prewarm(frame, for: exchange)
    }

    @concurrent
    private nonisolated func runExchange(
        _ exchange: ChappieExchange, _ observation: (any ChappieObservation)?,
        _ emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        try exchange.check()
        let frame = try RequestFrame(of: exchange)
        await endPrewarm()
        let context = TurnContext(
            account: try await turnAccount(), exchange: exchange, emit: emit, observation: observation,
            restarts: configuration.replayDivergence == .restart)
        let start = Beginning(items: [], frame: frame, wish: await wish(of: exchange))
        let answered = try await runUntilAnswered(start, context)
        try Task.checkCancellation()
        await learn(from: answered)
        emit(.completed(answered.response))
        return answered.response
    }

    /// Keeps the facts about the service that an exchange has shown.
    private func learn(from answered: Answered) {
        let turn = answered.turn
        let calls = answered.response.items.filter(\.isToolCall).compactMap(\.callID)
        exchangeIdentity?.openTurn = turn.routing.turnState.map { ($0, Set(calls)) }
        if turn.transcript.hasFlatTools, configuration.endpoints.usesPlan { hasFlatTools = true }
        note(turn.routing.modelsETag)
    }

    /// Returns the value that the backend requires in every further request of a turn, if an exchange continues one: its
    /// input ends with the output of a call of the last answer.
    func turnState(of exchange: ChappieExchange) -> String? {
        guard let open = exchangeIdentity?.openTurn, let last = exchange.input.last,
            last["type"]?.string?.hasSuffix("_call_output") == true,
            last["call_id"]?.string.map(open.calls.contains) == true
        else { return nil }
        return open.state
    }

    /// Returns the wish for the model of an exchange. The conversation's model does not count.
    func wish(of exchange: ChappieExchange) -> ModelWish { ModelWish(named: exchange.model ?? named) }

    /// Returns the transcript of an exchange, which has its own ids. Another account gets others.
    ///
    /// - Parameter model: the model that the same exchange was sent to before, or an empty string. Only it can read the
    ///   reasoning in the input.
    func transcript(
        of exchange: ChappieExchange, readBy model: String, _ account: ChappieAccountInfo
    ) -> Transcript {
        let now = clock.now
        var identity = ExchangeIdentity(account: account, id: UUIDv7.make(now: now, entropy: entropy))
        if let exchangeIdentity, exchangeIdentity.account.isSameAccount(as: account) {
            identity = exchangeIdentity
        } else if let retired = exchangeConnection.retire() {
            Task { await retired.close(.normal) }
        }
        exchangeIdentity = identity
        var configuration = configuration
        configuration.harness = exchange.harness
        let context = ChappieClientContext(
            sessionID: identity.id, model: "", items: exchange.input, compactedSummary: nil, createdAt: now,
            updatedAt: now, reasoningModel: model.isEmpty ? nil : model)
        var transcript = Transcript(
            context, account: account, newID: identity.id, now: now, configuration: configuration)
        transcript.hasFlatTools = hasFlatTools
        return transcript
    }
}

/// The account and the id under which a client sends exchanges.
struct ExchangeIdentity: Sendable {
    let account: ChappieAccountInfo
    /// The id of the session and of the prompt cache.
    let id: String
    /// The backend's value for the turn of the last answer, and the calls by which the host may continue that turn.
    var openTurn: (state: String, calls: Set<String>)?
}
