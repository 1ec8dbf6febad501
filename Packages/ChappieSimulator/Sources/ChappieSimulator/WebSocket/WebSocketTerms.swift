/// What was agreed when a connection became a WebSocket, and how it is to behave.
struct WebSocketTerms: Sendable {
    /// `nil` when messages are not compressed.
    var deflate: DeflateTerms?
    /// Time between the server's own pings; `nil` for none.
    var pingInterval: Duration?
    /// Whether pings are answered.
    var answersPings = true
    /// Turns this connection answers before it says that its time is over; `nil` for no limit.
    var requestLimit: Int?
    /// The turn state the handshake gave out, for the first turn.
    var turnState = ""
    /// When to close by itself; `nil` for never.
    var closure: HandshakeFaults.Closure?
    /// Pieces of text for each second; `nil` for as fast as it goes.
    var deltasPerSecond: Double?
    /// Answers a message.
    var answer: @Sendable (ReceivedMessage, inout WebSocketConversation) -> MessageAnswer
}
