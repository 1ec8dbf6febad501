import ChappieSimulator
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A listener's reaction to a request.
enum ServerReply: Sendable {
    /// Plays an answer. The connection continues to use HTTP.
    case answer(ScriptedAnswer)
    /// Plays the answer to a handshake. After it, the connection is a WebSocket.
    case upgrade(ScriptedAnswer, WebSocketTerms)
    /// Plays the answer. The bytes after the request go to the script as frames.
    case frames(ScriptedAnswer, ScriptedFrames.Reaction)
}

/// The socket side of every server. It accepts connections on a loopback address, reads complete requests, and plays
/// the answers.
///
/// Each listener has one event-loop thread. A server starts in well under a millisecond, and stopping it leaves nothing
/// behind.
final class LoopbackListener: Sendable {
    let port: Int
    let ledger: ConnectionLedger
    private let group: MultiThreadedEventLoopGroup
    private let isStopped = Mutex(false)

    private init(port: Int, ledger: ConnectionLedger, group: MultiThreadedEventLoopGroup) {
        self.port = port
        self.ledger = ledger
        self.group = group
    }

    /// Starts a listener.
    ///
    /// - Parameters:
    ///   - host: a literal loopback address, which the caller has checked.
    ///   - port: the port, or 0 for any free port.
    ///   - answer: called on the event loop for each complete request.
    static func start(
        host: String = "127.0.0.1", port: Int = 0, ledger: ConnectionLedger = ConnectionLedger(),
        answer: @escaping @Sendable (ReceivedRequest) -> ServerReply
    ) throws(SimulatorError) -> LoopbackListener {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            // Every step of a script is sent as its own segment.
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let player = StepPlayer(channel: channel, ledger: ledger)
                    try channel.pipeline.syncOperations.addHandlers([
                        player,
                        ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes)),
                        ConnectionHandler(player: player, ledger: ledger, answer: answer),
                    ])
                }
            }
        do {
            let channel = try bootstrap.bind(host: host, port: port).wait()
            return LoopbackListener(port: channel.localAddress?.port ?? port, ledger: ledger, group: group)
        } catch {
            try? group.syncShutdownGracefully()
            throw SimulatorError(listening: error, host: host, port: port)
        }
    }

    /// Closes the listening socket and every connection, and ends the thread.
    func stop() async {
        if stopsNow() { try? await group.shutdownGracefully() }
    }

    /// Does the same as ``stop()``, for a caller that may block.
    func stopAndWait() {
        if stopsNow() { try? group.syncShutdownGracefully() }
    }

    /// Returns whether this call is the first one to stop the listener. An event loop that has shut down takes no more
    /// work, so that a second attempt would wait forever.
    private func stopsNow() -> Bool {
        isStopped.withLock { isStopped in
            defer { isStopped = true }
            return !isStopped
        }
    }
}

extension SimulatorError {
    fileprivate init(listening error: any Error, host: String, port: Int) {
        switch (error as? IOError)?.errnoCode {
        case EADDRINUSE: self.init(.portInUse, reason: "Port \(port) of \(host) is already in use")
        case EACCES, EPERM: self.init(.portDenied, reason: "Port \(port) of \(host) may not be opened by this user")
        default: self.init(.listenFailed, reason: "Could not listen on port \(port) of \(host): \(error)")
        }
    }
}

/// The handler of one connection. It gathers complete requests, and plays one answer after the other. When a request
/// upgrades the connection, ``WebSocketHandler`` replaces it.
///
/// It is used only on its channel's event loop.
final class ConnectionHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart

    private let player: StepPlayer
    private let ledger: ConnectionLedger
    private let answer: @Sendable (ReceivedRequest) -> ServerReply
    /// The request that is being received.
    private var pending: (head: HTTPRequestHead, body: [UInt8])?
    private var isUpgraded = false

    init(
        player: StepPlayer, ledger: ConnectionLedger, answer: @escaping @Sendable (ReceivedRequest) -> ServerReply
    ) {
        self.player = player
        self.ledger = ledger
        self.answer = answer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isUpgraded else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            pending = (head, [])
            // A client that waits for permission (RFC 9110, 10.1.1) would otherwise lose a second.
            if head.headers["expect"].contains(where: { $0.lowercased() == "100-continue" }), player.isIdle {
                player.enqueue(.raw("HTTP/1.1 100 Continue\r\n\r\n"))
            }
        case .body(let bytes): pending?.body.append(contentsOf: bytes.readableBytesView)
        case .end:
            guard let whole = pending else { return }
            pending = nil
            received(whole.head, whole.body, context: context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard error is HTTPParserError else { return context.close(promise: nil) }
        player.enqueue(ScriptedAnswer.response(status: 400, headers: [("connection", "close")]).finishing())
    }

    private func received(_ head: HTTPRequestHead, _ body: [UInt8], context: ChannelHandlerContext) {
        let request = ReceivedRequest(
            method: head.method.rawValue, target: head.uri,
            headerFields: head.headers.map { ($0.name, $0.value) }, body: body, connection: player.number)
        ledger.received(request)
        switch answer(request) {
        case .answer(let answer): player.enqueue(head.isKeepAlive ? answer : answer.finishing())
        case .upgrade(let answer, let terms):
            let handler = WebSocketHandler(player: player, ledger: ledger, terms: terms)
            upgrade(context, to: handler, frameLimit: MessageCodec.frameLimit) { handler.start(answer) }
        case .frames(let answer, let reaction):
            let handler = ScriptedFrames(player: player, reaction: reaction)
            upgrade(context, to: handler, frameLimit: 1 << 30) { [player] in player.enqueue(answer) }
        }
    }

    /// Replaces the handlers for HTTP with those for frames. The decoder is removed before the handshake is answered,
    /// so that it can't swallow a frame, and before the other handlers are added, so that it can't pass them a request.
    private func upgrade(
        _ context: ChannelHandlerContext, to handler: some ChannelInboundHandler, frameLimit: Int,
        start: @escaping () -> Void
    ) {
        isUpgraded = true
        let pipeline = context.pipeline.syncOperations
        do {
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            pipeline.removeHandler(decoder).assumeIsolated().whenComplete { [self] _ in
                guard !player.isParted else { return }
                do {
                    let frames = WebSocketFrameDecoder(maxFrameSize: frameLimit)
                    try pipeline.addHandlers([ByteToMessageHandler(frames), handler])
                    pipeline.removeHandler(self, promise: nil)
                    start()
                } catch {
                    player.finish()
                }
            }
        } catch {
            player.finish()
        }
    }
}
