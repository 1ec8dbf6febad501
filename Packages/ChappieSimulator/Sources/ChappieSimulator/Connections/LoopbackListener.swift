import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import Synchronization

/// A listener's reaction to a request.
enum ServerReply: Sendable {
    /// Plays an answer; the connection goes on speaking HTTP.
    case answer(ScriptedAnswer)
    /// Plays the handshake's answer; what comes after it is WebSocket.
    case upgrade(ScriptedAnswer, WebSocketTerms)
}

/// The socket side of both servers: accepts on a loopback address, reads whole requests, plays the answers.
///
/// One event-loop thread for each listener: a server starts in well under a millisecond, and stopping it leaves nothing
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

    /// - Parameters:
    ///   - host: a literal loopback address; the caller has checked it.
    ///   - port: 0 for any free port.
    ///   - answer: called on the event loop for each whole request.
    static func start(
        host: String, port: Int, ledger: ConnectionLedger = ConnectionLedger(),
        answer: @escaping @Sendable (ReceivedRequest) -> ServerReply
    ) async throws(SimulatorError) -> LoopbackListener {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            // Every step of a script leaves as its own segment.
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
            let channel = try await bootstrap.bind(host: host, port: port).get()
            return LoopbackListener(port: channel.localAddress?.port ?? port, ledger: ledger, group: group)
        } catch {
            try? await group.shutdownGracefully()
            throw SimulatorError(listening: error, host: host, port: port)
        }
    }

    func stop() async {
        // An event loop that has shut down takes no more work: a second attempt would wait forever.
        let isFirst = isStopped.withLock { isStopped in
            defer { isStopped = true }
            return !isStopped
        }
        // Closes the listening socket and every connection, and ends the thread.
        if isFirst { try? await group.shutdownGracefully() }
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

/// One connection: gathers whole requests, and plays one answer after the other. Leaves to ``WebSocketHandler`` when a
/// request upgrades the connection.
///
/// Only ever touched on its channel's event loop.
final class ConnectionHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart

    /// A request body beyond this is answered with 413.
    private static let bodyLimit = 64 * 1024 * 1024
    /// Requests that may wait behind the one being answered.
    static let pipelineLimit = 64

    private struct Pending {
        var head: HTTPRequestHead
        var body: [UInt8] = []
        var isTooLarge = false
    }

    private let player: StepPlayer
    private let ledger: ConnectionLedger
    private let answer: @Sendable (ReceivedRequest) -> ServerReply
    private var pending: Pending?
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
            pending = Pending(head: head)
            // A client that waits for leave (RFC 9110, 10.1.1) would otherwise lose a second.
            if head.headers["expect"].contains(where: { $0.lowercased() == "100-continue" }), player.waitingCount == 0 {
                player.enqueue([.send(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))])
            }
        case .body(let bytes):
            guard let held = pending?.body.count, pending?.isTooLarge == false else { return }
            if held + bytes.readableBytes > Self.bodyLimit {
                pending?.isTooLarge = true
                pending?.body = []
            } else {
                pending?.body.append(contentsOf: bytes.readableBytesView)
            }
        case .end:
            guard let whole = pending else { return }
            pending = nil
            received(whole, context: context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard error is HTTPParserError else { return context.close(promise: nil) }
        refuse(400, context: context)
    }

    private func received(_ whole: Pending, context: ChannelHandlerContext) {
        guard !whole.isTooLarge else { return refuse(413, context: context) }
        let request = ReceivedRequest(
            method: whole.head.method.rawValue, target: whole.head.uri,
            headerFields: whole.head.headers.map { ($0.name, $0.value) }, body: whole.body, connection: player.number)
        ledger.received(request)
        switch answer(request) {
        case .answer(let answer): enqueue(answer, closesAfterwards: !whole.head.isKeepAlive, context: context)
        case .upgrade(let answer, let terms): upgrade(answer, terms: terms, context: context)
        }
    }

    private func refuse(_ status: Int, context: ChannelHandlerContext) {
        let refusal = ScriptedAnswer.response(status: status, headers: [("connection", "close")])
        enqueue(refusal, closesAfterwards: true, context: context)
    }

    private func enqueue(_ answer: ScriptedAnswer, closesAfterwards: Bool, context: ChannelHandlerContext) {
        guard player.waitingCount <= Self.pipelineLimit else { return context.close(promise: nil) }
        player.enqueue(answer.steps + (closesAfterwards ? [.finish] : []))
    }

    /// Puts the handlers for frames in the place of those for HTTP. The decoder leaves before the handshake is answered,
    /// so that it can't swallow a frame, and before the other handlers come, so that it can't hand them a request.
    private func upgrade(_ answer: ScriptedAnswer, terms: WebSocketTerms, context: ChannelHandlerContext) {
        isUpgraded = true
        let pipeline = context.pipeline.syncOperations
        do {
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            pipeline.removeHandler(decoder).assumeIsolated().whenComplete { [self] _ in
                guard !player.isParted else { return }
                do {
                    let frames = WebSocketFrameDecoder(maxFrameSize: MessageCodec.frameLimit)
                    let handler = WebSocketHandler(player: player, ledger: ledger, terms: terms)
                    try pipeline.addHandlers([
                        WebSocketFrameEncoder(), ByteToMessageHandler(frames),
                        MessageCodec(deflate: terms.deflate, connection: player.number), handler,
                    ])
                    pipeline.removeHandler(self, promise: nil)
                    handler.start(answer)
                } catch {
                    player.finish()
                }
            }
        } catch {
            player.finish()
        }
    }
}
