/// A client broke a rule; the close code says which kind (RFC 6455, 7.4.1).
struct WebSocketViolation: Error, Sendable, Hashable {
    let code: UInt16
    let reason: String

    static func protocolError(_ reason: String) -> WebSocketViolation { WebSocketViolation(code: 1002, reason: reason) }
    static func invalidText(_ reason: String) -> WebSocketViolation { WebSocketViolation(code: 1007, reason: reason) }
    static func tooBig(_ reason: String) -> WebSocketViolation { WebSocketViolation(code: 1009, reason: reason) }
}
