public import HTTPTypes

/// A port that opens WebSocket connections (RFC 6455) under the same network policy as ``HTTPTransport``.
public protocol WebSocketTransport: Sendable {
    /// Performs the opening handshake.
    ///
    /// - Parameters:
    ///   - url: An `https` or `wss` URL. `http` and `ws` are allowed only for a loopback host.
    ///   - headerFields: The fields that are sent unchanged, in addition to the fields of the handshake itself.
    /// - Throws: ``ChappieTransportError`` if there is no valid answer, or `CancellationError` within 100 ms. An answer
    ///   other than 101 is not an error. It is ``WebSocketOpening/refused(_:)`` with its head and body.
    func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening
}

/// The result of an opening handshake.
public enum WebSocketOpening: Sendable {
    /// The server switched protocols. The fields are from its 101 answer.
    case opened(any WebSocketConnection, headerFields: HTTPFields)
    /// The server answered with another status.
    case refused(HTTPExchangeResponse)
}

/// One open WebSocket, for one sender and one receiver at a time.
///
/// The connection answers pings, and sends them while the peer is silent, whether a task receives or not. Releasing the
/// connection drops it without a closing handshake.
public protocol WebSocketConnection: Sendable {
    /// Whether no close, no error and no silence beyond the liveness deadline is known so far. `true` is not a
    /// guarantee.
    var isOpen: Bool { get }

    /// Sends one message and waits until the network has accepted it, so that a deadline for the answer does not
    /// include a long upload. It stops waiting if the connection ends, if the network accepts nothing for as long as a
    /// peer may be silent, or if so many messages have arrived that they must be received before it can continue.
    /// ``receive(within:)`` reports the state of the connection.
    ///
    /// - Throws: ``ChappieTransportError`` if the connection has ended, or `CancellationError`, in which case the
    ///   message may have been sent.
    func send(_ message: WebSocketMessage) async throws

    /// Returns all messages that have arrived since the last call, in order. Waits for one if none has arrived. After
    /// the end of the connection, this returns the messages that arrived before it, and then its end on every further
    /// call.
    ///
    /// - Parameter deadline: The time to wait for a message. `nil` waits forever. Pings don't count as messages.
    /// - Throws: ``ChappieTransportError``: `.timedOut` at stage `.message` if the deadline has passed (the connection
    ///   stays usable) or at `.liveness` (it doesn't), `.connectionLost` if the peer left without a close frame,
    ///   `.protocolViolation` if it broke the rules. `CancellationError`, after which the connection stays usable.
    func receive(within deadline: Duration?) async throws -> WebSocketInbound

    /// Queues a ping ahead of later messages, and returns at once. If no byte of the peer arrives within `allowance`,
    /// the connection ends with `.timedOut`. The stage is `.firstByte` if no byte has arrived since the handshake, and
    /// `.liveness` otherwise.
    func ping(within allowance: Duration)

    /// Waits until a byte has arrived after the last ``ping(within:)``. It need not be the pong.
    ///
    /// - Throws: ``ChappieTransportError`` if the connection has ended, or `CancellationError`.
    func pong() async throws

    /// Sends the queued messages, closes with a handshake (RFC 6455, 7.1.2), and returns when it is complete, or after
    /// a few seconds.
    func close(_ closure: WebSocketCloseReason) async

    /// Drops the connection at once. May be called at any time, from any thread, more than once.
    func cancel()
}

/// A complete WebSocket message, defragmented and decompressed.
public enum WebSocketMessage: Sendable, Hashable {
    /// Text that was checked to be valid UTF-8.
    case text(String)
    /// Bytes of any kind.
    case binary([UInt8])

    /// The size of the payload before any compression.
    public var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .binary(let bytes): bytes.count
        }
    }
}

/// The next messages, or the end of the connection.
public enum WebSocketInbound: Sendable, Hashable {
    /// One or more messages, in order.
    case messages([WebSocketMessage])
    /// The peer has closed with a handshake. Nothing follows.
    case closed(WebSocketCloseReason)
}

/// The reason why a WebSocket was closed (RFC 6455, 7.1.5 and 7.1.6).
public struct WebSocketCloseReason: Sendable, Hashable {
    /// The close code: 1000 is normal, 1001 going away, 1002 a protocol error, …. `nil` if the peer sent none.
    public var code: UInt16?
    /// The text for logs, not for users. It has at most 123 bytes of UTF-8.
    public var reason: String

    /// Creates a reason with the given code and text.
    public init(code: UInt16? = nil, reason: String = "") {
        self.code = code
        self.reason = reason
    }

    /// 1000, which means that the conversation has ended.
    public static let normal = WebSocketCloseReason(code: 1000)
    /// 1001, which means that the program or the server stops.
    public static let goingAway = WebSocketCloseReason(code: 1001)
}
