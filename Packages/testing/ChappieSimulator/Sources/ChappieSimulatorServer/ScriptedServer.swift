public import ChappieSimulator
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
/// It reads requests with `Content-Length` and chunked bodies up to 64 MiB, also several on one connection, and answers
/// them in order. It sends `100 Continue` by itself on request.
public final class ScriptedServer: Sendable {
    private let listener: LoopbackListener

    private init(listener: LoopbackListener) { self.listener = listener }

    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// - Parameter answer: called once for each complete request, in order for each connection. It runs on the server's
    ///   thread and must not block.
    /// - Throws: ``SimulatorError`` when the socket can't be opened.
    public static func start(
        _ answer: @escaping @Sendable (ReceivedRequest) -> ScriptedAnswer
    ) async throws -> ScriptedServer {
        ScriptedServer(listener: try LoopbackListener.start { .answer(answer($0)) })
    }

    /// The port on which it listens.
    public var port: Int { listener.port }
    /// Every request so far, in the order in which they became complete.
    public var receivedRequests: [ReceivedRequest] { listener.ledger.entries.receivedRequests }
    /// The number of connections that it has accepted since it started.
    public var connectionCount: Int { listener.ledger.entries.connectionCount }
    /// The number of these connections that are still open.
    public var openConnectionCount: Int { listener.ledger.entries.openConnectionCount }
    /// The number of bytes that the kernel has accepted from it so far. It does not change while a client doesn't read.
    public var bytesWritten: Int { listener.ledger.entries.bytesWritten }

    /// Closes the socket and every connection, and returns when they are closed. A second call does nothing.
    public func stop() async { await listener.stop() }
}

extension ScriptedAnswer {
    /// Returns the head that turns the connection into a WebSocket (RFC 6455, 4.2.2), with the correct answer to the
    /// key in `request`. Frames may be sent after it.
    public static func switchingToWebSocket(
        _ request: ReceivedRequest, headers: [(String, String)] = []
    ) -> ScriptedAnswer {
        let accept = webSocketAccept(key: request.header("sec-websocket-key") ?? "")
        let own = [("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-accept", accept)]
        return ScriptedAnswer(steps: [.send(head(status: 101, headers: own + headers))])
    }

    /// Returns a successful handshake followed by `steps`.
    public static func upgrade(
        _ request: ReceivedRequest, headers: [(String, String)] = [], then steps: [Step] = []
    ) -> ScriptedAnswer {
        ScriptedAnswer(steps: switchingToWebSocket(request, headers: headers).steps + steps)
    }
}

/// Returns the `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (RFC 6455, 4.2.2), as swift-nio computes it for a
/// channel.
func webSocketAccept(key: String) -> String {
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
