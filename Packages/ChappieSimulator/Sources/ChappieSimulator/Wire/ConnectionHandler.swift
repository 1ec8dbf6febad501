import NIOCore
import NIOHTTP1

/// One connection: gathers whole requests, and plays one answer after the other. Leaves to ``WebSocketHandler`` when a
/// request upgrades the connection.
///
/// Only ever touched on its channel's event loop.
final class ConnectionHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    /// A request body beyond this is answered with 413.
    static let bodyLimit = 64 * 1024 * 1024
    /// Requests that may wait behind the one being answered.
    static let pipelineLimit = 64

    private struct Pending {
        var head: HTTPRequestHead
        var body: [UInt8] = []
        var isTooLarge = false
    }

    private let ledger: ConnectionLedger
    private let answer: @Sendable (ReceivedRequest) -> ServerReply
    private var number = 0
    private var player: StepPlayer?
    private var pending: Pending?
    private var isUpgraded = false

    init(ledger: ConnectionLedger, answer: @escaping @Sendable (ReceivedRequest) -> ServerReply) {
        self.ledger = ledger
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        number = ledger.connectionOpened()
        player = StepPlayer(channel: context.channel, ledger: ledger, connection: number)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        player?.closed()
        ledger.connectionClosed(number)
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isUpgraded else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            pending = Pending(head: head)
            // A client that waits for leave (RFC 9110, 10.1.1) would otherwise lose a second.
            if head.headers["expect"].contains(where: { $0.lowercased() == "100-continue" }), player?.waitingCount == 0
            {
                let go = context.channel.allocator.buffer(string: "HTTP/1.1 100 Continue\r\n\r\n")
                context.writeAndFlush(wrapOutboundOut(go), promise: nil)
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
            headerFields: whole.head.headers.map { ($0.name, $0.value) }, body: whole.body, connection: number)
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
        guard let player, player.waitingCount <= Self.pipelineLimit else { return context.close(promise: nil) }
        player.enqueue(answer.steps + (closesAfterwards ? [.finish] : []))
    }

    /// Makes room for the frames: the decoder leaves before the handshake is answered, so that it can't swallow any,
    /// and before the frames' handler comes, so that it can't hand it requests.
    private func upgrade(_ answer: ScriptedAnswer, terms: WebSocketTerms, context: ChannelHandlerContext) {
        guard let player else { return context.close(promise: nil) }
        isUpgraded = true
        let handler = WebSocketHandler(player: player, ledger: ledger, terms: terms, connection: number)
        let pipeline = context.pipeline.syncOperations
        do {
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            pipeline.removeHandler(decoder).assumeIsolated().whenComplete { [self] _ in
                guard !player.isParted else { return }
                do {
                    try pipeline.addHandler(handler)
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
