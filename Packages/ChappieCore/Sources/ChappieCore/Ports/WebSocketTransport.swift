public import HTTPTypes

/// Opens WebSocket connections (RFC 6455) under the same network policy as ``HTTPTransport``.
public protocol WebSocketTransport: Sendable {
    /// Performs the opening handshake.
    ///
    /// - Parameters:
    ///   - url: `https` or `wss`; `http` or `ws` to a loopback host only.
    ///   - headerFields: sent as given, beside the fields of the handshake itself.
    /// - Throws: ``ChappieTransportError`` when there is no answer or a wrong one; `CancellationError` within 100 ms. An
    ///   answer other than 101 is not an error: it is ``WebSocketOpening/refused(_:)`` with its head and body.
    func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening
}

/// How an opening handshake ended.
public enum WebSocketOpening: Sendable {
    /// The server switched protocols; the fields are those of its 101 answer.
    case opened(any WebSocketConnection, headerFields: HTTPFields)
    /// The server answered with another status.
    case refused(HTTPExchangeResponse)
}

/// One open WebSocket, for one sender and one receiver at a time.
///
/// Pings are answered, and sent where the peer is silent, whether anybody receives or not. Letting go of the connection
/// drops it without a closing handshake.
public protocol WebSocketConnection: Sendable {
    /// Whether no close, no error and no silence beyond the liveness deadline is known yet. `true` is no promise.
    var isOpen: Bool { get }

    /// Sends one message and waits until the network has taken it, so that a deadline for the answer does not count a long
    /// upload. It waits no longer when the connection ends, the network takes nothing for as long as a peer may be silent,
    /// or so much has arrived that it has to be received first; ``receive(within:)`` tells what became of the connection.
    ///
    /// - Throws: ``ChappieTransportError`` when the connection has ended; `CancellationError`, and the message may be sent.
    func send(_ message: WebSocketMessage) async throws

    /// All messages that have arrived since the last call, in order; waits for one when there is none. Once the
    /// connection has ended, what had arrived before is delivered first, and then its end, at every further call.
    ///
    /// - Parameter deadline: how long to wait for a message; `nil` waits forever. Pings are no messages.
    /// - Throws: ``ChappieTransportError``: `.timedOut` at stage `.message` when the deadline has passed (the connection
    ///   stays usable) or `.liveness` (it does not), `.connectionLost` when the peer went without a close frame,
    ///   `.protocolViolation` when it broke the rules. `CancellationError`; the connection stays usable.
    func receive(within deadline: Duration?) async throws -> WebSocketInbound

    /// Sends what is queued, closes with a handshake (RFC 6455, 7.1.2), and returns when it is over, or some seconds later.
    func close(_ closure: WebSocketCloseReason) async

    /// Drops the connection at once. May be called at any time, from any thread, more than once.
    func cancel()
}

/// A whole WebSocket message, defragmented and decompressed.
public enum WebSocketMessage: Sendable, Hashable {
    /// UTF-8, checked.
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

/// A message or the end, as a receiver gets it.
public enum WebSocketInbound: Sendable, Hashable {
    /// One or more, in order.
    case messages([WebSocketMessage])
    /// The peer has closed, properly. Nothing follows.
    case closed(WebSocketCloseReason)
}

/// Why a WebSocket was closed (RFC 6455, 7.1.5 and 7.1.6).
public struct WebSocketCloseReason: Sendable, Hashable {
    /// 1000 is normal, 1001 going away, 1002 a protocol error, …; `nil` when the peer gave none.
    public var code: UInt16?
    /// For logs, not for people; at most 123 bytes of UTF-8.
    public var reason: String

    /// A reason with the given code and text.
    public init(code: UInt16? = nil, reason: String = "") {
        self.code = code
        self.reason = reason
    }

    /// 1000: the conversation is over.
    public static let normal = WebSocketCloseReason(code: 1000)
    /// 1001: the program or the server stops.
    public static let goingAway = WebSocketCloseReason(code: 1001)
}
