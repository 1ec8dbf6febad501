public import FoundationEssentials

/// An event stream that can't be decoded any further.
public enum ServerSentEventError: Error, Sendable, Hashable {
    /// One event, or one line, is over the limit.
    case eventTooLarge(limitBytes: Int)
}

extension ServerSentEventError: LocalizedError {
    public var errorDescription: String? {
        switch self {
        case .eventTooLarge(let limit): "The server sent a single event of more than \(limit) bytes."
        }
    }
}
