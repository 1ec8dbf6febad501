import ChappieCore
import NIOCore
import NIOWebSocket

/// The terms agreed on when a connection became a WebSocket, and its behaviour.
struct WebSocketTerms: Sendable {
    /// `nil` when messages are not compressed.
    var deflate: DeflateTerms?
    /// Time between the server's own pings; `nil` for none.
    var pingInterval: Duration?
    var handshake: HandshakeFaults
    var conversation: WebSocketConversation
    /// Pieces of text for each second; `nil` for as fast as it goes.
    var deltasPerSecond: Double?
    var answer: @Sendable (ReceivedMessage, inout WebSocketConversation) -> MessageAnswer
}

/// One connection after its upgrade: answers messages and control frames, sends pings, and closes.
///
/// Only ever touched on its channel's event loop.
final class WebSocketHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private enum State {
        /// The handshake is still being answered.
        case opening
        case open
        /// A close frame is on its way; the client's is awaited.
        case closing
        /// Nothing that comes is looked at.
        case over
    }

    private let player: StepPlayer
    private let ledger: ConnectionLedger
    private var terms: WebSocketTerms
    private let codec: MessageCodec
    private var context: ChannelHandlerContext?
    private var state = State.opening
    private var isAnswering = false
    private var pings: Scheduled<Void>?
    private var closeTimer: Scheduled<Void>?

    init(player: StepPlayer, ledger: ConnectionLedger, terms: WebSocketTerms) {
        self.player = player
        self.ledger = ledger
        self.terms = terms
        codec = MessageCodec(deflate: terms.deflate, connection: player.number)
    }

    /// The handlers of HTTP have left.
    func start(_ handshake: ScriptedAnswer) {
        // Before the client can know of it, so that a test that asks afterwards doesn't ask too early.
        if !handshake.steps.contains(where: { [.finish, .reset, .stall].contains($0) }) {
            ledger.upgraded(player.number)
        }
        player.enqueue(handshake) { [self] in
            state = .open
            schedulePing()
            guard let close = terms.handshake.close else { return }
            closeTimer = schedule(in: (close.after ?? 0).seconds) { handler in
                handler.player.letIn(handler.bytes([MessageCodec.close(close.code, reason: close.reason ?? "")]))
                handler.awaitClose()
            }
        }
    }

    // MARK: Inputs

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        state = .over
        pings?.cancel()
        closeTimer?.cancel()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error as? NIOWebSocketError {
        case .invalidFrameLength: end(1009, "a frame is over \(MessageCodec.frameLimit) bytes")
        case .fragmentedControlFrame, .multiByteControlFrameLength:
            end(1002, "a control frame must be whole and at most 125 bytes")
        case nil: context.close(promise: nil)
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard state == .open || state == .closing else { return }
        do throws(WebSocketViolation) {
            switch try codec.read(unwrapInboundIn(data)) {
            case .close(let code): end(code)
            case .message(let message) where state == .open: answer(message)
            case .ping(let payload) where state == .open && terms.handshake.pongs != false:
                player.letIn(bytes([WebSocketFrame(fin: true, opcode: .pong, data: payload)]))
            case .message, .ping, nil: break
            }
        } catch {
            end(error.code, error.reason)
        }
    }

    // MARK: Answers

    private func answer(_ message: ReceivedMessage) {
        ledger.received(message)
        guard message.isText else {
            let problem = "Only text messages are understood."
            return end(1003, "only text", after: .error(400, code: "invalid_message", message: problem))
        }
        guard !isAnswering else {
            let problem = "One request at a time: a response is being streamed."
            let error = BackendResponse.error(400, code: "response_in_progress", message: problem)
            return player.enqueue(ScriptedAnswer(steps: [.send(plainBytes(error))]))
        }
        isAnswering = true
        let answer = terms.answer(message, &terms.conversation)
        let frames = answer.effect.frames
        let renderer = AnswerRenderer(deltasPerSecond: terms.deltasPerSecond, effect: answer.effect)
        for part in renderer.render(
            answer,
            bytes: { [self] event, index in
                (index == 2 ? frames?.bytes?.bytes ?? [] : []) + bytes(codec.frames(of: event.data, faults: frames))
            })
        {
            player.enqueue(part)
        }
        player.enqueue(ScriptedAnswer(steps: [])) { [self] in isAnswering = false }
        // What follows when the client may already ask again.
        var rest = (frames?.after ?? []).flatMap { codec.frames(of: $0.serializedBytes(), faults: frames) }
        if let close = answer.close { rest.append(MessageCodec.close(close.code, reason: close.reason ?? "")) }
        player.enqueue(ScriptedAnswer(steps: [.send(bytes(rest))])) { [self] in
            if answer.close != nil { awaitClose() }
        }
    }

    /// The bytes that the handlers between this one and the player make of frames.
    private func bytes(_ frames: [WebSocketFrame]) -> [UInt8] {
        player.collecting { for frame in frames { context?.write(wrapOutboundOut(frame), promise: nil) } }
    }

    /// An error as a message that is not compressed.
    private func plainBytes(_ error: BackendResponse) -> [UInt8] {
        bytes(codec.frames(of: error.message().serializedBytes(), faults: FrameFaults(compress: false)))
    }

    // MARK: Closing

    /// Sends a close frame at the next message's end, unless one is sent already, and ends the connection.
    private func end(_ code: UInt16?, _ reason: String = "", after error: BackendResponse? = nil) {
        guard state == .open || state == .closing else { return }
        let isFirst = state == .open
        state = .over
        pings?.cancel()
        guard isFirst else { return player.finish() }
        player.letIn(
            (error.map(plainBytes) ?? []) + bytes([MessageCodec.close(code, reason: reason)]), thenFinishes: true)
    }

    /// Our close frame is sent; the client has five seconds for its own (RFC 6455, 7.1.1).
    private func awaitClose() {
        guard state == .open else { return }
        state = .closing
        pings?.cancel()
        closeTimer?.cancel()
        closeTimer = schedule(in: .seconds(5)) { $0.player.finish() }
    }

    private func schedulePing() {
        guard let interval = terms.pingInterval else { return }
        pings = schedule(in: interval) { handler in
            let ping = WebSocketFrame(fin: true, opcode: .ping, data: ByteBuffer(string: "chappie"))
            handler.player.letIn(handler.bytes([ping]))
            handler.schedulePing()
        }
    }

    private func schedule(in delay: Duration, _ body: @escaping (WebSocketHandler) -> Void) -> Scheduled<Void>? {
        context?.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) { [self] in body(self) }
    }
}
