/// How long each stage of an exchange may take. None of them bounds a stream as a whole.
///
/// Over a WebSocket, ``upgrade`` bounds the answer to the handshake, ``firstByte`` the first message after a request and
/// ``idle`` each further one; ``liveness`` alone speaks of the connection, whether messages are due or not.
public struct ChappieDeadlines: Sendable, Hashable {
    /// Resolving, connecting, and the TLS and proxy handshakes together. Default 15 s.
    public var connect: Duration
    /// From the request sent to the complete response head. Default 60 s.
    public var responseHead: Duration
    /// From the head to the first byte of the body. Default 120 s.
    public var firstByte: Duration
    /// Between two reads of a body that has begun. Default 300 s, as the Codex CLI's stream idle time-out.
    public var idle: Duration
    /// From the opening handshake of a WebSocket to its answer, which no model has to think about. Default 15 s.
    public var upgrade: Duration
    /// How long a WebSocket may be silent altogether. Half-way a ping goes out (RFC 6455, 5.5.2), so that a living peer is
    /// never silent that long; one that is has gone. Default 60 s.
    public var liveness: Duration

    /// Values below one millisecond become one millisecond.
    public init(
        connect: Duration = .seconds(15), responseHead: Duration = .seconds(60), firstByte: Duration = .seconds(120),
        idle: Duration = .seconds(300), upgrade: Duration = .seconds(15),
        liveness: Duration = .seconds(60)
    ) {
        self.connect = max(connect, .milliseconds(1))
        self.responseHead = max(responseHead, .milliseconds(1))
        self.firstByte = max(firstByte, .milliseconds(1))
        self.idle = max(idle, .milliseconds(1))
        self.upgrade = max(upgrade, .milliseconds(1))
        self.liveness = max(liveness, .milliseconds(1))
    }

    public static let `default` = ChappieDeadlines()
}
