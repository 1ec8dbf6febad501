/// A Responses stream that ended or failed before its terminal event.
public enum ResponsesStreamError: Error, Sendable, Hashable {
    /// The stream ended before `response.completed`, `.failed` or `.incomplete`. `eventsReceived` is the number of
    /// events before.
    case endedEarly(eventsReceived: Int)
    /// One event is over the limit.
    case eventTooLarge(limitBytes: Int)
}

extension ResponsesStreamError: ChappieError {
    public var errorDescription: String? {
        switch self {
        case .endedEarly(0): "The server closed the stream before it sent anything."
        case .endedEarly: "The server closed the stream before the answer was complete."
        case .eventTooLarge(let limit): "The server sent a single event of more than \(limit) bytes."
        }
    }
}
