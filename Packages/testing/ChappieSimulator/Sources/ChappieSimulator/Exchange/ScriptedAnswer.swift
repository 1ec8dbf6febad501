/// The steps on a connection in answer to one request: raw bytes, pauses, and the way to close.
///
/// ```swift
/// let cutShort = ScriptedAnswer(steps: [
///     .send(Array("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly a little".utf8)),
///     .reset,
/// ])
/// ```
///
/// After the last step, the connection stays open for the next request, unless this request asked to close it
/// (`Connection: close`, or HTTP/1.0 without keep-alive).
public struct ScriptedAnswer: Sendable, Hashable {
    /// One step on the connection.
    public enum Step: Sendable, Hashable {
        /// Writes these bytes unchanged and flushes them separately.
        case send([UInt8])
        /// Writes the bytes one after the other, each in a separate packet.
        case drip([UInt8])
        /// Lets this much time pass before the next step.
        case wait(Duration)
        /// Continues when the test opens the gate.
        case gate(ScriptedGate)
        /// Stops reading. Bytes that arrive stay in the kernel's buffer.
        case stopReading
        /// Starts to read again.
        case startReading
        /// Closes in the regular way, so that the peer sees the end of the stream (FIN). Later steps don't happen.
        case finish
        /// Closes abruptly, so that the peer sees a connection reset (RST). Later steps don't happen.
        case reset
        /// Keeps the connection open and silent until the peer closes it. Later steps don't happen.
        case stall

        /// Returns a step that continues when the test opens `gate`.
        public static func wait(until gate: ScriptedGate) -> Step { .gate(gate) }
    }

    /// The steps, in order.
    public var steps: [Step]

    /// Creates an answer of these steps.
    public init(steps: [Step]) { self.steps = steps }

    /// Returns a complete response with `content-length`, in one write.
    public static func response(status: Int, headers: [(String, String)] = [], body: [UInt8] = []) -> ScriptedAnswer {
        let head = head(status: status, headers: headers + [("content-length", String(body.count))])
        return ScriptedAnswer(steps: [.send(head + body)])
    }

    /// Returns an answer of only these bytes. Write line ends as `\r\n` where HTTP requires them.
    public static func raw(_ text: String) -> ScriptedAnswer { ScriptedAnswer(steps: [.send(Array(text.utf8))]) }

    /// Returns this answer followed by the end of the connection.
    package func finishing() -> ScriptedAnswer { ScriptedAnswer(steps: steps + [.finish]) }

    /// Returns a status line and header fields, up to and including the empty line.
    package static func head(status: Int, headers: [(String, String)]) -> [UInt8] {
        let lines = headers.map { "\($0.0): \($0.1)\r\n" }.joined()
        return Array("HTTP/1.1 \(status) \(reasonPhrases[status] ?? "")\r\n\(lines)\r\n".utf8)
    }

    /// The reason phrases of the statuses that are in use (RFC 9110, 15). Another status has an empty phrase, as that
    /// clause allows.
    private static let reasonPhrases = [
        100: "Continue", 101: "Switching Protocols", 200: "OK", 204: "No Content", 304: "Not Modified",
        307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized",
        402: "Payment Required", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
        408: "Request Timeout", 409: "Conflict", 413: "Payload Too Large", 415: "Unsupported Media Type",
        426: "Upgrade Required", 429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway",
        503: "Service Unavailable", 504: "Gateway Timeout",
    ]
}
