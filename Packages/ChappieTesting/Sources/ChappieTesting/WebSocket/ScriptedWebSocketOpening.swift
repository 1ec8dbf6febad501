public import ChappieCore
public import HTTPTypes

/// How one opening of a ``ScriptedWebSocketTransport`` goes.
public struct ScriptedWebSocketOpening: Sendable {
    /// What the far end does about a message.
    ///
    /// - Parameter number: 0 for the first message of the connection.
    public typealias Reply = @Sendable (_ message: WebSocketMessage, _ number: Int) -> [ScriptedWebSocketStep]

    enum Answer: Sendable {
        case opened(headerFields: HTTPFields, greeting: [ScriptedWebSocketStep], reply: Reply)
        case refused(ScriptedHTTPAnswer)
        case failed(ChappieTransportError)
        case hangs
    }

    let answer: Answer

    /// The handshake succeeds, and every message is answered by what `reply` says.
    ///
    /// - Parameters:
    ///   - headerFields: those of the 101 answer.
    ///   - greeting: what happens before any message.
    ///   - reply: called for each message, one after the other. Its steps come after all earlier ones.
    public static func opened(
        headerFields: HTTPFields = [:], greeting: [ScriptedWebSocketStep] = [], reply: @escaping Reply
    ) -> ScriptedWebSocketOpening {
        ScriptedWebSocketOpening(answer: .opened(headerFields: headerFields, greeting: greeting, reply: reply))
    }

    /// The handshake succeeds; the messages are answered by `replies` in order, those after the last by silence.
    public static func opened(
        headerFields: HTTPFields = [:], greeting: [ScriptedWebSocketStep] = [],
        replies: [[ScriptedWebSocketStep]] = []
    ) -> ScriptedWebSocketOpening {
        opened(headerFields: headerFields, greeting: greeting) { _, number in
            replies.indices.contains(number) ? replies[number] : []
        }
    }

    /// The server answers with another status than 101.
    public static func refused(_ answer: ScriptedHTTPAnswer) -> ScriptedWebSocketOpening {
        ScriptedWebSocketOpening(answer: .refused(answer))
    }

    /// There is no answer at all.
    public static func failed(_ error: ChappieTransportError) -> ScriptedWebSocketOpening {
        ScriptedWebSocketOpening(answer: .failed(error))
    }

    /// The handshake is never answered, until the transport's deadline passes or the task is cancelled.
    public static let hangs = ScriptedWebSocketOpening(answer: .hangs)
}
