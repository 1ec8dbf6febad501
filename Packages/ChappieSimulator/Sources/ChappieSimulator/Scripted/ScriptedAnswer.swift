/// What to do on the socket in answer to one request: raw bytes, pauses, and how to part.
///
/// ```swift
/// let cutShort = ScriptedAnswer(steps: [
///     .send(Array("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly a little".utf8)),
///     .reset,
/// ])
/// ```
///
/// When the steps run out the connection stays open for the next request, unless this one asked to close
/// (`Connection: close`, or HTTP/1.0 without keep-alive).
public struct ScriptedAnswer: Sendable, Hashable {
    /// One thing that happens on the connection.
    public enum Step: Sendable, Hashable {
        /// Writes these bytes as they are, flushed on their own.
        case send([UInt8])
        /// Lets this much time pass before the next step.
        case wait(Duration)
        /// Closes in the regular way: the peer sees the end of the stream (FIN). Later steps don't happen.
        case finish
        /// Closes abruptly: the peer sees a connection reset (RST). Later steps don't happen.
        case reset
        /// Keeps the connection open and silent until the peer closes it. Later steps don't happen.
        case stall
    }

    public var steps: [Step]

    public init(steps: [Step]) { self.steps = steps }

    /// A whole response with `content-length`, in one write.
    public static func response(
        status: Int, headers: [(String, String)] = [], body: [UInt8] = []
    ) -> ScriptedAnswer {
        var bytes = head(status: status, headers: headers + [("content-length", String(body.count))])
        bytes.append(contentsOf: body)
        return ScriptedAnswer(steps: [.send(bytes)])
    }

    /// These bytes and nothing else; write line ends as `\r\n` where HTTP wants them.
    public static func raw(_ text: String) -> ScriptedAnswer { ScriptedAnswer(steps: [.send(Array(text.utf8))]) }

    /// The same, and the connection ends after it.
    var finishing: ScriptedAnswer { ScriptedAnswer(steps: steps + [.finish]) }

    /// Whether all of it is played, and the connection goes on afterwards.
    var leavesOpen: Bool { !steps.contains { [.finish, .reset, .stall].contains($0) } }

    /// A status line and header fields, up to and including the empty line.
    static func head(status: Int, headers: [(String, String)]) -> [UInt8] {
        var text = "HTTP/1.1 \(status) \(ReasonPhrase.of(status))\r\n"
        for (name, value) in headers { text += "\(name): \(value)\r\n" }
        return Array((text + "\r\n").utf8)
    }
}
