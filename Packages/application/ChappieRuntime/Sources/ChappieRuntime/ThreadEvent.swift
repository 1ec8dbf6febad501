public import ChappieCore

/// An event in a thread. A running turn and a kept turn use the same vocabulary.
public struct ChappieThreadEvent: Sendable, Hashable {
    /// The thread.
    public var threadID: String
    /// The turn.
    public var turnID: String
    /// The event itself.
    public var event: ChappieTurnEvent

    /// An event with the given properties.
    public init(threadID: String, turnID: String, event: ChappieTurnEvent) {
        self.threadID = threadID
        self.turnID = turnID
        self.event = event
    }
}

/// An event in a turn. New cases may come: switch with a `default`.
public enum ChappieTurnEvent: Sendable, Hashable {
    /// The turn began with these messages, and is kept. The model's slug is empty if the account's list, which is
    /// requested next, decides.
    case started([ChappieInputMessage], model: String)
    /// The turn came further. While it runs these are the client's own events; in a kept turn the text comes in one
    /// piece, and events of the connection are left out.
    case progressed(ChappieStreamEvent)
    /// The turn waits for the user's approval of these calls.
    case waiting([ChappieApprovalRequest])
    /// The turn ended in an error: its sentence.
    case failed(String)
    /// The turn was interrupted.
    case interrupted
}

extension ChappieThread {
    /// All events of the thread, in order, as if they happened now.
    public var events: [ChappieThreadEvent] {
        turns.flatMap { turn in turn.events.map { ChappieThreadEvent(threadID: id, turnID: turn.id, event: $0) } }
    }
}

extension ChappieTurn {
    /// All events of the turn, in order, as if they happened now. A finished turn ends with
    /// `.progressed(.completed(response))`.
    public var events: [ChappieTurnEvent] {
        var events: [ChappieTurnEvent] = [.started(messages, model: model)]
        for tool in toolCalls {
            events.append(.progressed(.toolCallRequested(ChappieToolExecutionRequest(call: tool.call))))
            if let result = tool.result { events.append(.progressed(.toolCallCompleted(result))) }
        }
        if !commentary.isEmpty { events.append(.progressed(.commentaryDelta(commentary))) }
        if !outputText.isEmpty { events.append(.progressed(.textDelta(outputText))) }
        if status == .finished {
            events += outputItems.map { .progressed(.item($0)) }
            events.append(.progressed(.completed(response)))
        }
        if status == .waitingForApproval { events.append(.waiting(approvals)) }
        if status == .failed { events.append(.failed(error ?? "")) }
        if status == .interrupted { events.append(.interrupted) }
        return events
    }
}
