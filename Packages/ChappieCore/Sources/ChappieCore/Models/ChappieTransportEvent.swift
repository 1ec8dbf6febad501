/// What happens on the wire below a stream.
public enum ChappieTransportEvent: Sendable, Hashable {
    /// How an answer travels.
    public enum Kind: String, Sendable, Hashable, Codable {
        case serverSentEvents = "sse"
        case webSocket = "websocket"
    }

    /// The answer has begun to arrive.
    case connected(Kind)
    /// Waiting before another try after a rate limit: try `attempt` of `maximum`, `delay` from now.
    case waiting(attempt: Int, maximum: Int, delay: Duration)
    /// The connection broke, or would not open: attempt `attempt` of `maximum` follows, `delay` from now. What has been
    /// shown of the answer is not shown again.
    case reconnecting(attempt: Int, maximum: Int, delay: Duration)
    /// The answer comes another way from here on.
    case fellBack(Kind)
}
