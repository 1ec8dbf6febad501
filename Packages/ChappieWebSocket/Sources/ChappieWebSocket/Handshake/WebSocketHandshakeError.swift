/// An answer to the opening handshake that can't be used, or a request that can't be made.
enum WebSocketHandshakeError: Error, Sendable, Hashable {
    /// The target or the host can't stand in a request's head.
    case invalidRequest
    /// The answer is no HTTP/1.1 head, or breaks its grammar; the clause says where.
    case invalidHead(String)
    /// The heads of the answer, 1xx ones included, have more than that many bytes.
    case headTooLarge(limitBytes: Int)
    /// The body of an answer other than 101 breaks the framing that its head announced.
    case invalidBody
    /// No `Upgrade: websocket` (RFC 6455, 4.1, second list, 2).
    case missingUpgrade
    /// No `Connection: Upgrade` (RFC 6455, 4.1, second list, 3).
    case missingConnection
    /// `Sec-WebSocket-Accept` is absent, there twice, or not the answer to our nonce (RFC 6455, 4.1, second list, 4).
    case wrongAccept
    /// An extension, or a parameter of one, that was not offered or makes no sense (RFC 6455, 4.1, second list, 5;
    /// RFC 7692, 7.1).
    case unofferedExtension
    /// A subprotocol that was not offered (RFC 6455, 4.1, second list, 6).
    case unofferedSubprotocol
    /// The peer went away before its answer was whole.
    case connectionClosed

    /// One clause in plain words, without a final stop.
    var reason: String {
        switch self {
        case .invalidRequest: "the address or a header field can't stand in a request"
        case .invalidHead(let clause): clause
        case .headTooLarge(let limit): "its response head is over \(limit) bytes"
        case .invalidBody: "its answer breaks off or is framed wrongly"
        case .missingUpgrade: "it switched protocols, but not to WebSocket"
        case .missingConnection: "it switched protocols without saying so for this connection"
        case .wrongAccept: "it did not prove that it understood the WebSocket handshake"
        case .unofferedExtension: "it chose a WebSocket extension that was not offered"
        case .unofferedSubprotocol: "it chose a WebSocket subprotocol that was not offered"
        case .connectionClosed: "it closed the connection before its answer was whole"
        }
    }
}
