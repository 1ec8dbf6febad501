/// A whole WebSocket message, defragmented and decompressed.
public enum WebSocketMessage: Sendable, Hashable {
    /// UTF-8, checked.
    case text(String)
    case binary([UInt8])

    /// The size of the payload before any compression.
    public var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .binary(let bytes): bytes.count
        }
    }
}

/// What a receiver is given.
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

    public init(code: UInt16? = nil, reason: String = "") {
        self.code = code
        self.reason = reason
    }

    public static let normal = WebSocketCloseReason(code: 1000)
    public static let goingAway = WebSocketCloseReason(code: 1001)
}
