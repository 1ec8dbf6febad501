public import ChappieCore
import Synchronization

/// An event in a thread. A running turn and a kept turn have the same kinds of events.
public struct ChappieThreadEvent: Sendable, Hashable {
    /// The id of the thread.
    public var threadID: String
    /// The id of the turn.
    public var turnID: String
    /// The event itself.
    public var event: ChappieTurnEvent

    /// Creates an event with the given properties.
    public init(threadID: String, turnID: String, event: ChappieTurnEvent) {
        self.threadID = threadID
        self.turnID = turnID
        self.event = event
    }
}

/// An event in a turn. New cases may be added, so switch with a `default`.
public enum ChappieTurnEvent: Sendable, Hashable {
    /// The turn began with these messages, and is kept. The model's slug is empty if the account's list, which is
    /// requested next, determines the model.
    case started([ChappieInputMessage], model: String)
    /// The turn made progress. While it runs, these are the client's own events. In a kept turn, the text is in one
    /// piece, and events of the connection are left out.
    case progressed(ChappieStreamEvent)
    /// The turn waits for the user's approval of these calls.
    case waiting([ChappieApprovalRequest])
    /// The turn ended in an error. The string is its sentence.
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
        events += steeringMessages.map { .progressed(.steered($0)) }
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

/// A sender of events to any number of readers. The streams end with it.
final class EventBroadcast: Sendable {
    private let readers = Mutex<[UUID: AsyncStream<ChappieThreadEvent>.Continuation]>([:])

    deinit { readers.withLock { $0.values.forEach { $0.finish() } } }

    /// All later events.
    var events: AsyncStream<ChappieThreadEvent> {
        let (events, continuation) = AsyncStream<ChappieThreadEvent>.makeStream()
        let id = UUID()
        readers.withLock { $0[id] = continuation }
        continuation.onTermination = { [weak self] _ in self?.readers.withLock { $0[id] = nil } }
        return events
    }

    func send(_ event: ChappieThreadEvent) {
        for reader in readers.withLock({ Array($0.values) }) { reader.yield(event) }
    }
}
