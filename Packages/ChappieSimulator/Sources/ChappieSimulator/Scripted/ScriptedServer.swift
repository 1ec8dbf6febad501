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
    /// - Throws: ``SimulatorError`` when the socket can't be had.
    public static func start(
        _ answer: @escaping @Sendable (ReceivedRequest) -> ScriptedAnswer
    ) async throws -> ScriptedServer {
        ScriptedServer(listener: try await LoopbackListener.start(host: "127.0.0.1", port: 0) { .answer(answer($0)) })
    }

    /// The port it listens on.
    public var port: Int { listener.port }
    /// Every request so far, in the order in which they became whole.
    public var receivedRequests: [ReceivedRequest] { listener.ledger.receivedRequests }
    /// How many connections it has accepted since it started.
    public var connectionCount: Int { listener.ledger.connectionCount }
    /// How many of them are still open.
    public var openConnectionCount: Int { listener.ledger.openConnectionCount }
    /// Bytes the kernel has taken from it so far; it stands still while a client doesn't read.
    public var bytesWritten: Int { listener.ledger.bytesWritten }

    /// Closes the socket and every connection, and returns when they are gone. Calling it again does nothing.
    public func stop() async { await listener.stop() }
}
