public import FoundationEssentials
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
