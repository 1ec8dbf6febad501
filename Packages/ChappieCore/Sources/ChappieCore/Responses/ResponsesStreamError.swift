public import FoundationEssentials

/// A Responses stream that ended, or went wrong, before its terminal event.
public enum ResponsesStreamError: Error, Sendable, Hashable {
    /// The stream ended before `response.completed`, `.failed` or `.incomplete`. `eventsReceived` counts what came.
    case endedEarly(eventsReceived: Int)
    /// One event is over the limit.
    case eventTooLarge(limitBytes: Int)
}

extension ResponsesStreamError: LocalizedError {
    public var errorDescription: String? {
        switch self {
        case .endedEarly(0): "The server closed the stream before it sent anything."
        case .endedEarly: "The server closed the stream before the answer was complete."
        case .eventTooLarge(let limit): "The server sent a single event of more than \(limit) bytes."
        }
    }
}
