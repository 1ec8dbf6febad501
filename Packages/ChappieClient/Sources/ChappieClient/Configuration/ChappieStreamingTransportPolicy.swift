/// How answers travel, and what happens when the way breaks.
///
/// A connection that breaks while an answer comes is opened again after 0.2 s, doubling, with some jitter; the request is
/// sent again in full. What had been shown is not shown twice: the new answer must begin with the same text and make the
/// same tool calls, or the turn ends with ``ChappieClientError/streamingTransportReplayDiverged(_:)``. The stream tells with
/// `.transport` events what happens.
///
/// A host that can't be reached is an error at once, unless the turn had reached it before. A WebSocket that a reachable
/// host does not give (status 426 and others, no answer to the handshake), and one on which nothing comes within the
/// deadlines, are given up at once. After giving up, later turns try WebSocket again after half a minute, doubling up to a
/// quarter of an hour.
public struct ChappieStreamingTransportPolicy: Sendable, Hashable {
    /// Whether a turn tries WebSocket first: one connection for the whole conversation, on which each turn sends only what
    /// is new. Default `true`.
    public var prefersWebSocket: Bool
    /// How often one turn opens a WebSocket again after a break. Default 5; negative values become 0.
    public var maxWebSocketReconnectionAttempts: Int
    /// Whether a turn that has no more WebSocket attempts, or whose message is too large for one, goes on over server-sent
    /// events. Default `true`.
    public var fallsBackToHTTPSSE: Bool
    /// How often one turn asks again over server-sent events after a break or a 5xx. Default 2; negative values become 0.
    public var maxHTTPSSEReconnectionAttempts: Int

    /// A policy with these choices.
    public init(
        prefersWebSocket: Bool = true, maxWebSocketReconnectionAttempts: Int = 5, fallsBackToHTTPSSE: Bool = true,
        maxHTTPSSEReconnectionAttempts: Int = 2
    ) {
        self.prefersWebSocket = prefersWebSocket
        self.maxWebSocketReconnectionAttempts = max(maxWebSocketReconnectionAttempts, 0)
        self.fallsBackToHTTPSSE = fallsBackToHTTPSSE
        self.maxHTTPSSEReconnectionAttempts = max(maxHTTPSSEReconnectionAttempts, 0)
    }

    /// The policy of a client that names no other.
    public static let `default` = ChappieStreamingTransportPolicy()
    /// Server-sent events, never WebSocket.
    public static let httpSSEOnly = ChappieStreamingTransportPolicy(
        prefersWebSocket: false, maxWebSocketReconnectionAttempts: 0)
}
