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
        ScriptedServer(listener: try LoopbackListener.start { .answer(answer($0)) })
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

extension ScriptedAnswer {
    /// Returns the head that turns the connection into a WebSocket (RFC 6455, 4.2.2), with the right answer to the key
    /// in `request`; frames may be sent behind it.
    public static func switchingToWebSocket(
        _ request: ReceivedRequest, headers: [(String, String)] = []
    ) -> ScriptedAnswer {
        let accept = webSocketAccept(key: request.header("sec-websocket-key") ?? "")
        let own = [("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-accept", accept)]
        return ScriptedAnswer(steps: [.send(head(status: 101, headers: own + headers))])
    }

    /// The handshake succeeds, and `steps` follow.
    public static func upgrade(
        _ request: ReceivedRequest, headers: [(String, String)] = [], then steps: [Step] = []
    ) -> ScriptedAnswer {
        ScriptedAnswer(steps: switchingToWebSocket(request, headers: headers).steps + steps)
    }
}

/// `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (RFC 6455, 4.2.2), as swift-nio works it out for a channel.
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
