public import ChappieCore

/// One thing that the far end of a scripted WebSocket does.
public enum ScriptedWebSocketStep: Sendable {
    /// Sends these messages.
    case deliver([WebSocketMessage])
    /// Goes on when the test opens the gate.
    case wait(until: ScriptedGate)
    /// Closes with a close frame. Later steps don't happen.
    case close(WebSocketCloseReason)
    /// Breaks the connection: `.connectionLost`. Later steps don't happen.
    case cut
    /// The connection fails with this. Later steps don't happen.
    case fail(ChappieTransportError)
    /// Says nothing more: a receiver with a deadline runs into it at once, whatever the clock says; one without waits.
    /// Steps that are played afterwards wait in line for ever.
    case silence

    /// Sends these texts, a message each.
    public static func deliver(_ texts: [String]) -> ScriptedWebSocketStep { .deliver(texts.map { .text($0) }) }
}
