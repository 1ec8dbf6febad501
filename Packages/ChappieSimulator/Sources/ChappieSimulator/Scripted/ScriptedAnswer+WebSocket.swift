extension ScriptedAnswer {
    /// The head that turns the connection into a WebSocket (RFC 6455, 4.2.2), with the right answer to the key in
    /// `request`; frames may be sent behind it.
    public static func switchingToWebSocket(
        _ request: ReceivedRequest, headers: [(String, String)] = []
    ) -> ScriptedAnswer {
        let key = (request.header("sec-websocket-key") ?? "") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        let accept = Base64.encode(SHA1.digest(Array(key.utf8)))
        let own = [("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-accept", accept)]
        return ScriptedAnswer(steps: [.send(head(status: 101, headers: own + headers))])
    }
}
