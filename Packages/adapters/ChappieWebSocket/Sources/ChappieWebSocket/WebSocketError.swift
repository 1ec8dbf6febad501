import ChappieCore

/// An error that prevents the opening of a connection or the sending of a message, or that ends a connection without a
/// proper close.
struct WebSocketError: Error, Sendable, Hashable {
    var code = ChappieTransportError.Code.protocolViolation
    /// The code of our close frame (RFC 6455, 7.4.1).
    var closeCode: UInt16 = 1002
    /// The reason as one clause in plain language, without a full stop.
    let reason: String

    /// Returns the error for a peer that broke a rule.
    static func violation(_ reason: String, closeCode: UInt16 = 1002) -> WebSocketError {
        WebSocketError(closeCode: closeCode, reason: reason)
    }

    static func tooLarge(_ subject: String, limit: Int) -> WebSocketError {
        WebSocketError(code: .bodyTooLarge, closeCode: 1009, reason: "\(subject) of more than \(limit) bytes")
    }

    /// The error for message text or a close reason that is not UTF-8 (RFC 6455, 8.1).
    static let invalidUTF8 = violation("the server sent text that is not UTF-8", closeCode: 1007)

    func error(at stage: ChappieTransportError.Stage, host: String) -> ChappieTransportError {
        ChappieTransportError(code, stage: stage, host: host, reason: reason)
    }
}
