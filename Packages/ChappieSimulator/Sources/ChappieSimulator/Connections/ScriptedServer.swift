import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOWebSocket

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

    /// `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (RFC 6455, 4.2.2), as swift-nio works it out for a channel.
    static func webSocketAccept(key: String) -> String {
        let upgrader = NIOWebSocketServerUpgrader(
            shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture([:]) },
            upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() })
        let request = HTTPRequestHead(
            version: .http1_1, method: .GET, uri: "/",
            headers: ["sec-websocket-key": key, "sec-websocket-version": "13"])
        let headers = upgrader.buildUpgradeResponse(
            channel: EmbeddedChannel(), upgradeRequest: request, initialResponseHeaders: [:])
        return (try? headers.wait())?.first(name: "sec-websocket-accept") ?? ""
    }

    /// The same, and then the end of the connection.
    func finishing() -> ScriptedAnswer { ScriptedAnswer(steps: steps + [.finish]) }

    /// A status line and header fields, up to and including the empty line.
    static func head(status: Int, headers: [(String, String)]) -> [UInt8] {
        let lines = headers.map { "\($0.0): \($0.1)\r\n" }.joined()
        return Array("HTTP/1.1 \(status) \(HTTPResponseStatus(statusCode: status).reasonPhrase)\r\n\(lines)\r\n".utf8)
    }
}
