import HTTPTypes

/// A handshake that the server has accepted.
struct WebSocketUpgrade: Sendable, Hashable {
    /// Those of the 101 answer.
    let headerFields: HTTPFields
    /// The server's choice among those offered; `nil` when it chose none.
    let subprotocol: String?
    /// `nil`: no compression.
    let compression: DeflateParameters?
    /// What came behind the head: the first frames. To be given to the codec first.
    let leftover: [UInt8]
}
