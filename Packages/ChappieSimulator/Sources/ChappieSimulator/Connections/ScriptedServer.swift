import FoundationEssentials

/// A server on 127.0.0.1 that plays scripted bytes, for tests of HTTP clients against a peer that may do anything.
///
/// ```swift
/// let server = try await ScriptedServer.start { request in
///     request.target == "/slow"
///         ? ScriptedAnswer(steps: [.stall])
///         : .response(status: 200, headers: [("content-type", "text/plain")], body: Array("hello".utf8))
/// }
/// defer { Task { await server.stop() } }
/// ```
///
/// Reads requests with `Content-Length` and chunked bodies up to 64 MiB, several after each other on one connection,
/// and answers them in order. Sends `100 Continue` by itself when it is asked for.
public final class ScriptedServer: Sendable {
    private let listener: LoopbackListener

    private init(listener: LoopbackListener) { self.listener = listener }

    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// - Parameter answer: called once for each whole request, in order for each connection, on the server's thread:
    ///   it must not block.
    /// - Throws: ``SimulatorError`` when the socket can't be opened.
    public static func start(
        _ answer: @escaping @Sendable (ReceivedRequest) -> ScriptedAnswer
    ) async throws -> ScriptedServer {
        ScriptedServer(listener: try await LoopbackListener.start(host: "127.0.0.1", port: 0) { .answer(answer($0)) })
    }

    /// The port it listens on.
    public var port: Int { listener.port }
    /// Every request so far, in the order in which they became whole.
    public var receivedRequests: [ReceivedRequest] { listener.ledger.entries.receivedRequests }
    /// How many connections it has accepted since it started.
    public var connectionCount: Int { listener.ledger.entries.connectionCount }
    /// How many of them are still open.
    public var openConnectionCount: Int { listener.ledger.entries.openConnectionCount }
    /// Bytes the kernel has taken from it so far; it stands still while a client doesn't read.
    public var bytesWritten: Int { listener.ledger.entries.bytesWritten }

    /// Closes the socket and every connection, and returns when they are gone. Calling it again does nothing.
    public func stop() async { await listener.stop() }
}

/// The answer on the socket to one request: raw bytes, pauses, and how to close.
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

    /// The steps, in order.
    public var steps: [Step]

    /// An answer of these steps.
    public init(steps: [Step]) { self.steps = steps }

    /// A whole response with `content-length`, in one write.
    public static func response(status: Int, headers: [(String, String)] = [], body: [UInt8] = []) -> ScriptedAnswer {
        let head = head(status: status, headers: headers + [("content-length", String(body.count))])
        return ScriptedAnswer(steps: [.send(head + body)])
    }

    /// These bytes and nothing else; write line ends as `\r\n` where HTTP wants them.
    public static func raw(_ text: String) -> ScriptedAnswer { ScriptedAnswer(steps: [.send(Array(text.utf8))]) }

    /// The head that turns the connection into a WebSocket (RFC 6455, 4.2.2), with the right answer to the key in
    /// `request`; frames may be sent behind it.
    public static func switchingToWebSocket(
        _ request: ReceivedRequest, headers: [(String, String)] = []
    ) -> ScriptedAnswer {
        let accept = webSocketAccept(key: request.header("sec-websocket-key") ?? "")
        let own = [("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-accept", accept)]
        return ScriptedAnswer(steps: [.send(head(status: 101, headers: own + headers))])
    }

    /// `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (RFC 6455, 4.2.2).
    ///
    /// swift-nio works it out on a channel alone, and this is also asked where there is none.
    static func webSocketAccept(key: String) -> String {
        Data(SHA1.digest(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))).base64EncodedString()
    }

    /// A status line and header fields, up to and including the empty line.
    static func head(status: Int, headers: [(String, String)]) -> [UInt8] {
        var text = "HTTP/1.1 \(status) \(reasonPhrases[status] ?? "Status")\r\n"
        for (name, value) in headers { text += "\(name): \(value)\r\n" }
        return Array((text + "\r\n").utf8)
    }

    /// Clients must not read these (RFC 9112, 4); people who look at a trace do.
    private static let reasonPhrases: [Int: String] = [
        100: "Continue", 101: "Switching Protocols", 200: "OK", 201: "Created", 204: "No Content",
        301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified", 307: "Temporary Redirect",
        308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden",
        404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout", 409: "Conflict", 410: "Gone",
        413: "Content Too Large", 415: "Unsupported Media Type", 421: "Misdirected Request",
        422: "Unprocessable Content", 425: "Too Early", 426: "Upgrade Required", 429: "Too Many Requests",
        431: "Request Header Fields Too Large", 451: "Unavailable For Legal Reasons", 500: "Internal Server Error",
        501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
        520: "Unknown Error", 529: "Overloaded",
    ]
}
