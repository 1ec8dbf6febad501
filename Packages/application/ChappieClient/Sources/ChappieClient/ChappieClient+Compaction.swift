@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

extension ChappieClient {
    /// Compacts the conversation if the question would fill its model's window.
    func compactIfDue(for request: ChappieResponseRequest, _ context: TurnContext) async throws {
        guard configuration.automaticCompaction != nil else { return }
        let transcript = currentTranscript(of: context.account)
        guard !transcript.items.isEmpty else { return }
        let list = try await listForTurn(of: context.account)
        let wish = wish(request.model)
        let model = wish.choice(from: list, of: context.account.plan, at: clock.now).flatMap { list?[$0.slug] }
        let question = ChappieClientContext.estimatedTokens(of: request.messages.map(\.inputItem))
        // A question that is too long by itself gets no room from a compaction.
        guard let limit = compactionLimit(of: model), question < limit,
            transcript.context().estimatedTokens + question >= limit
        else { return }
        // A conversation that can't be compacted at the moment may still be answered.
        do {
            try await compact(for: wish, isAutomatic: true, context)
        } catch is CancellationError {
            throw CancellationError()
        } catch {}
    }

    /// Returns the number of tokens from which on a conversation is compacted, or `nil` if the host has disabled that.
    func compactionLimit(of model: ChappieModel?) -> Int? {
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
    func compact(
        for next: ModelWish, isAutomatic: Bool = false, _ context: TurnContext
    ) async throws -> Bool {
        var (wish, hasLostCompaction) = (next, false)
        while true {
            let writer = try await compactor(for: wish, in: context.account)
            let turn = try await prepare([], RequestFrame(), writer, context.withoutRecords)
            let before = turn.transcript
            guard transcript?.id == before.id, !before.items.isEmpty else { return false }
            let reader = wish.choice(from: modelList, of: context.account.plan, at: clock.now)?.slug ?? turn.frame.model
            let compaction = Compaction(
                turn: turn, items: before.items, window: window(of: turn.frame.model),
                mayBeEncrypted: modelList?.canRead(compactionOf: turn.frame.model, with: reader) ?? true)
            do {
                let outcome = try await compaction.run()
                try Task.checkCancellation()
                return try await apply(outcome, to: turn, isAutomatic: isAutomatic, context)
            } catch is UnreadableCompaction where !hasLostCompaction {
                hasLostCompaction = true
                loseCompaction()
            } catch ChappieClientError.modelUnavailable(let refusal) where refusal.reason == .atCapacity {
                // The model may have capacity again soon, so it is not remembered as refused.
                throw ChappieClientError.modelUnavailable(refusal)
            } catch ChappieClientError.modelUnavailable(var refusal) {
                if refusal.slug.isEmpty { refusal.slug = turn.frame.model }
                let explained = await explain(refusal, after: wish.refusals, of: context.account)
                wish.refusals.append(explained)
                guard refusal.slug != wish.named, wish.refusals.count < Self.modelsTried else {
                    throw ChappieClientError.modelUnavailable(explained)
                }
            }
        }
    }

    /// Replaces the conversation of `turn` with its compaction, after the recorder has kept that.
    private func apply(
        _ outcome: Compaction.Outcome, to turn: Turn, isAutomatic: Bool, _ context: TurnContext
    ) async throws -> Bool {
        let before = turn.transcript
        guard transcript?.id == before.id else { return false }
        var after = before
        after.compact(
            into: outcome.words + [outcome.made], summary: outcome.summary, model: turn.frame.model,
            compactionHash: turn.compactionHash, now: clock.now)
        try await context.record(.compacted(after.context(model: named)))
        guard transcript?.id == before.id else { return false }
        transcript = after
        report(outcome, isAutomatic: isAutomatic, context)
        return after.items != before.items
    }

    /// Reports to the user that the conversation was compacted, and what was left out. No notice is sent if the user
    /// asked for the compaction and nothing was left out.
    private func report(_ outcome: Compaction.Outcome, isAutomatic: Bool, _ context: TurnContext) {
        let made = isAutomatic ? "The conversation was summed up to make room." : nil
        let sentences = [made, outcome.leftOut].compactMap(\.self)
        guard !sentences.isEmpty else { return }
        let notice = ChappieNotice(.compacted, sentences.joined(separator: " "))
        log.notes(notice)
        context.observation?.learned(.compacted)
        context.emit?(.notice(notice))
    }

    /// Returns the wish for the model that makes a compaction. It is the next turn's, unless the conversation does not
    /// fit into that model's window and fits into another one's.
    private func compactor(for wish: ModelWish, in account: ChappieAccountInfo) async throws -> ModelWish {
        let transcript = currentTranscript(of: account)
        guard let list = try await listForTurn(of: account) else { return wish }
        let size = transcript.context().estimatedTokens
        guard let choice = wish.choice(from: list, of: account.plan, at: clock.now), window(of: choice.slug) < size
        else { return wish }
        let own = [wish.conversation, transcript.model, transcript.reasoningModel].compactMap(\.self)
        let others = own + list.models.filter(\.isListed).map(\.slug)
        let able = others.first { slug in
            guard let model = list[slug], !model.isRetired(at: clock.now) else { return false }
            return !wish.refusals.contains { $0.slug == slug } && window(of: slug) >= size
        }
        return able.map { ModelWish(conversation: $0, refusals: wish.refusals) } ?? wish
    }

    private func window(of slug: String) -> Int { modelList?[slug]?.contextWindow ?? Compaction.usualWindow }

    /// Marks the conversation's compaction as unreadable for the backend, so that the next request leaves it out.
    func loseCompaction() { transcript?.isUnreadable = true }

    /// The steps that have made a turn shorter. Each is taken only once, or once in a round of tools.
    struct RoomMade {
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
    nonisolated func shortened(
        _ turn: Turn, after error: any Error, _ room: inout RoomMade, _ wish: ModelWish, _ context: TurnContext
    ) async throws -> Turn {
        let window = await window(of: turn.frame.model)
        do {
            // The conversation of an exchange is its host's.
            guard context.exchange == nil, configuration.automaticCompaction != nil || turn.hasRebuilt else {
                throw error
            }
            if !room.isConversationCompacted, ChappieClientContext.estimatedTokens(of: turn.items) < window {
                room.isConversationCompacted = true
                if try await compact(for: wish, isAutomatic: true, context) { return turn }
            }
            let items = turn.transcript.items + turn.items
            // A compaction keeps the user's messages, so it makes no room among them.
            let rest = ChappieClientContext.estimatedTokens(of: items.filter { !Compaction.isWord($0) })
            guard turn.round > room.round, rest * 4 >= ChappieClientContext.estimatedTokens(of: items) else {
                throw error
            }
            room.round = turn.round
            let outcome = try await Compaction(turn: turn, items: items, window: window).run()
            var shorter = turn
            shorter.compact(into: outcome.made)
            await report(outcome, isAutomatic: true, context)
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
            let all = size(of: turn.transcript.items + question, isQuestion: false)
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
