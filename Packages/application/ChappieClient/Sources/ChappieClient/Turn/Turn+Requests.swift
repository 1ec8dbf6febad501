@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The requests of a turn, and the forms that they take after a refusal.
extension Turn {
    /// Sends one request without tools, of a conversation reduced to `items`, and returns its response, for a
    /// compaction.
    func answer(
        to question: ChappieJSON, after items: [ChappieJSON], toolChoice: ChappieToolChoice
    ) async throws -> ChappieResponse {
        var turn = self
        turn.runner.restarts = true
        turn.runner.transcript.narrow(to: items)
        turn.items = [question]
        turn.routing = TurnRouting()
        turn.tools.emit = { _ in }
        turn.frame.toolChoice = toolChoice
        turn.frame.outputSchema = nil
        // The lite form has no tool choice, so tools that must not be called are not declared.
        // A conversation that has searched for tools needs the declaration of the search.
        if toolChoice == .none, turn.tools.toolSet.search == nil { turn.frame.tools = [] }
        return try await turn.sendRequest()
    }

    /// Sends one request, and repeats it in another form while the service refuses a part of it that can be left out.
    mutating func sendRequest() async throws -> ChappieResponse {
        let known = frame.refused
        var refusals: Set<RequestRefusal> = []
        while true {
            let body = runner.transcript.body(adding: items, frame)
            do {
                let response = try await runner.runAttempts(body, &routing, &unfinished, emit: tools.emit)
                if frame.refused != known { await learn(frame.model, frame.refused) }
                return response
            } catch let failure as AttemptFailure where failure.kind == .unreadableReasoning {
                guard !runner.transcript.hasCompaction else { throw UnreadableCompaction(refusal: failure) }
                guard dropReasoning() else {
                    throw (failure.error as? ChappieClientError).map { explained($0, .item(nil)) } ?? failure.error
                }
            } catch let error as ChappieClientError {
                if case .modelUnavailable(var refusal) = error {
                    refusal.slug = frame.model
                    throw ChappieClientError.modelUnavailable(refusal)
                }
                if refusesNamespaces(error) {
                    // Some backends may not take tools in namespaces, so the form without namespaces is tried once.
                    runner.transcript.hasFlatTools = true
                    declareTools()
                } else {
                    guard let refusal = RequestRefusal(error, isLite: frame.isLite) else { throw error }
                    if case .item(let index) = refusal, Self.isCompaction(at: index, in: body) {
                        throw UnreadableCompaction(refusal: AttemptFailure(.unreadableReasoning, error))
                    }
                    guard refusals.insert(refusal).inserted, mend(refusal) else { throw explained(error, refusal) }
                }
            }
        }
    }

    /// Changes the request so that it lacks the refused part.
    ///
    /// - Returns: whether the request differs now.
    private mutating func mend(_ refusal: RequestRefusal) -> Bool {
        switch refusal {
        case .liteForm:
            frame.refused.liteForm = true
            frame.isLite = false
            declareTools()
            return true
        case .developerInstructions:
            frame.refused.developerInstructions = true
            return !frame.isLite
        case .member(let name, let isKnown):
            guard !frame.leftOut.contains(name) else { return false }
            if isKnown { frame.leftOutOnce.insert(name) } else { frame.refused.members.insert(name) }
            if ["reasoning.effort", "text.verbosity", "service_tier"].contains(name) {
                tools.emit(.notice(.optionLeftOut(name, by: frame.model)))
            }
            return true
        case .item: return dropReasoning(keepsCompactions: true)
        }
    }

    /// Returns whether a refused item is a compaction. A refusal that names no item may be about any item.
    private static func isCompaction(at index: Int?, in body: ChappieJSONObject) -> Bool {
        let input = body["input"]?.array ?? []
        guard let index else { return input.contains(where: ChappieClientContext.isCompaction) }
        return input.indices.contains(index) && ChappieClientContext.isCompaction(input[index])
    }

    /// Returns the error of a refusal that no other form of the request avoids.
    private func explained(_ error: ChappieClientError, _ refusal: RequestRefusal) -> ChappieClientError {
        guard case .item(let index) = refusal, !transcript.items.isEmpty,
            let message = RequestRefusal.response(of: error)?.message
        else { return error }
        let count = runner.transcript.body(adding: [], frame)["input"]?.array?.count ?? 0
        return index.map { $0 < count } ?? true ? .conversationRefused(message) : error
    }

    private mutating func declareTools() {
        guard !frame.tools.isEmpty else { return }
        let onPlan = runner.configuration.endpoints.usesPlan
        frame.declare(tools.toolSet.declared(onPlan: onPlan, inNamespace: transcript.takesNamespaces(frame)))
    }

    /// Leaves out the encrypted items.
    ///
    /// - Returns: whether there was anything to leave out.
    private mutating func dropReasoning(keepsCompactions: Bool = false) -> Bool {
        let before = (items, transcript.items)
        // A turn's records can't express that reasoning is left out while a compaction stays.
        let keeps = keepsCompactions && runner.transcript.hasCompaction
        items = ChappieClientContext.withoutReasoning(items, keepsCompactions: keeps)
        runner.transcript.dropReasoning(keepsCompactions: keeps)
        guard (items, transcript.items) != before else { return false }
        if !keeps { hasDroppedReasoning = true }
        return true
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
        return (error.parameter ?? error.message).map(Self.namesTools) ?? false
    }

    private func refusesNamespaces(_ refusal: ChappiePlanRefusal) -> Bool {
        guard hasNamespaces, refusal.reason == .capability, refusal.status == 400 else { return false }
        return (refusal.parameter ?? refusal.message).map(Self.namesTools) ?? false
    }

    private static func namesTools(_ text: String) -> Bool {
        let text = text.lowercased()
        return text.contains("tool") || text.contains("namespace")
    }

    private var hasNamespaces: Bool {
        !frame.tools.isEmpty && !frame.isLite && transcript.takesNamespaces(frame)
    }
}
