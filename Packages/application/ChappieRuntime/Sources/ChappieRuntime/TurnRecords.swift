@_spi(ChappieInternals) import ChappieClient
import ChappieCore

extension ChappieThread {
    /// Returns the record of a step of the turn `id`.
    func entry(for step: TurnStep, of id: String) -> (kind: ChappieThreadRecord.Kind, body: ChappieJSON) {
        let turn: ChappieJSON = .string(id)
        switch step {
        case .compacted(let context):
            var body: ChappieJSONObject = ["items": .array(context.items)]
            if let summary = context.compactedSummary { body["summary"] = .string(summary) }
            if let model = context.reasoningModel { body["reasoningModel"] = .string(model) }
            if let hash = context.compactionHash { body["compactionHash"] = .string(hash) }
            return (.compacted, id.isEmpty ? ["context": .object(body)] : ["turn": turn, "context": .object(body)])
        case .called(let progress):
            var body = added(progress.items, to: id)
            body["round"] = .integer(progress.round)
            body["calls"] = Records.json(progress.calls)
            body["frame"] = (try? ChappieJSON(parsing: progress.frameText)) ?? [:]
            return (.toolsCalled, .object(body))
        case .running(let calls): return (.toolsStarted, ["turn": turn, "calls": Records.json(calls)])
        case .ran(let result): return (.toolFinished, ["turn": turn, "result": Records.json(result)])
        case .finished(let finished):
            let response = finished.response
            var body = added(finished.items, to: id)
            body["model"] = .string(finished.model)
            if let model = response.model, Records.isOther(model, than: finished.model) {
                body["answeredBy"] = .string(model)
            }
            // An answer is stored only once, among the turn's items.
            body["output"] = Records.output(response.items, in: finished.items)
            if ChappieResponse(items: response.items).outputText != response.outputText {
                body["text"] = .string(response.outputText)
            }
            body["response"] = .string(response.id)
            if let usage = response.usage { body["usage"] = Records.json(usage) }
            if let reason = response.incompleteReason { body["incompleteReason"] = .string(reason) }
            if let tokens = finished.measuredTokens { body["measuredTokens"] = .integer(tokens) }
            Records.note(&body, finished.accountID, finished.userID)
            if finished.sessionID != self.id { body["session"] = .string(finished.sessionID) }
            if finished.hasDroppedReasoning { body["droppedReasoning"] = true }
            if finished.hasRebuilt { body["rebuilt"] = true }
            if finished.isModelGuessed { body["guessed"] = true }
            return (.turnFinished, .object(body))
        case .stopped(let stopped):
            var body = added(stopped.items, to: id)
            body["model"] = .string(stopped.model)
            if !stopped.response.outputText.isEmpty { body["text"] = .string(stopped.response.outputText) }
            return (.turnInterrupted, .object(body))
        }
    }

    /// The last turn and the record with which it becomes part of the conversation, if it has no complete answer and
    /// still belongs to the conversation.
    var inclusion: (turn: ChappieTurn, body: ChappieJSON)? {
        guard let turn = latestTurn, turn.isToBeIncluded else { return nil }
        var body = added(turn.itemsSoFar, to: turn.id)
        body["isIncluded"] = true
        body["model"] = .string(turn.model)
        turn.noteAccount(in: &body)
        if context.sessionID != id { body["session"] = .string(context.sessionID) }
        return (turn, .object(body))
    }

    /// Returns the records that take these turns back, together with the compactions since the first of them.
    func takingBack(_ taken: [ChappieTurn]) -> [(kind: ChappieThreadRecord.Kind, body: ChappieJSON)] {
        guard let first = taken.first?.id, let start = records.firstIndex(where: { $0.turnID == first }) else {
            return []
        }
        let model = turns.last { turn in turn.status == .finished && !taken.contains { $0.id == turn.id } }?.model
        return taken.map { turn in
            let own = records[start...].filter { record in
                record.turnID == turn.id || turn.id == first && record.kind == .compacted && record.turnID == nil
            }
            var body: ChappieJSONObject = [
                "turn": .string(turn.id), "records": .array(own.map { .integer($0.position) }),
            ]
            if let model { body["model"] = .string(model) }
            return (.turnTakenBack, .object(body))
        }
    }

    /// Returns the records with which the turn `id` replaces an earlier one, or none if it replaces nothing. Earlier
    /// attempts to replace that turn are also taken back.
    func replacing(by id: String) -> [(kind: ChappieThreadRecord.Kind, body: ChappieJSON)] {
        guard let replaced = turns.last(where: { $0.id == id })?.replacedTurn else { return [] }
        return takingBack(turns.filter { $0.id == replaced || $0.replacedTurn == replaced && $0.id != id })
    }

    /// Returns the thread that the turn `id` continues, which is the thread without the turn that it replaces.
    func continued(by id: String) -> ChappieThread {
        var thread = self
        for (kind, body) in replacing(by: id) {
            let position = thread.records.count
            thread.add(ChappieThreadRecord(position: position, kind: kind, date: summary.updatedAt, body: body))
        }
        return thread
    }

    /// Returns the turn's items that are not stored yet, and the index at which they begin.
    private func added(_ items: [ChappieJSON], to id: String) -> ChappieJSONObject {
        let turn = turns.last { $0.id == id }
        let same = zip(turn?.items ?? [], items).prefix { $0 == $1 }.count
        let new = items.dropFirst(same).map { turn?.stored($0) ?? $0 }
        return ["turn": .string(id), "from": .integer(same), "items": .array(new)]
    }
}

extension TurnStep {
    /// Whether the turn replaces the turn that it was to replace. It has called tools, or its answer is complete.
    var replacesTurns: Bool {
        switch self {
        case .called: true
        case .finished(let finished): finished.response.incompleteReason == nil
        default: false
        }
    }
}
