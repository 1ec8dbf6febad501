/// What a listener does with a request.
enum ServerReply: Sendable {
    /// Plays an answer; the connection goes on speaking HTTP.
    case answer(ScriptedAnswer)
    /// Plays the handshake's answer; what comes after it is WebSocket.
    case upgrade(ScriptedAnswer, WebSocketTerms)
}
