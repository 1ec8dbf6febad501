import ChappieSimulator
import NIOCore
import NIOWebSocket

/// The handler of one connection after its upgrade. It answers messages and control frames, sends pings, and closes.
///
/// It is used only on its channel's event loop.
final class WebSocketHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame

    private enum State {
        /// The handshake is still being answered.
        case opening
        case open
        /// A close frame has been sent, and the client's is awaited.
        case closing
        /// Everything that arrives is ignored.
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

    /// Answers the handshake, after the handlers of HTTP have been removed.
    func start(_ handshake: ScriptedAnswer) {
        // This is before the client can know of it, so that a test that asks afterwards doesn't ask too early.
        if !handshake.steps.contains(where: { [.finish, .reset, .stall].contains($0) }) {
            ledger.upgraded(player.number)
        }
        player.enqueue(handshake) { [self] in
            state = .open
            schedulePing()
            guard let close = terms.close else { return }
            closeTimer = schedule(in: close.delay) { handler in
                handler.player.letIn(WebSocketFrames.close(close.reason))
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
            case .ping(let payload) where state == .open && terms.answersPings:
                player.letIn(WebSocketFrames.frame(10, payload))
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
            return end(
                1003, "only text", after: MessageAnswer.refusal(code: "invalid_message", message: problem))
        }
        guard !isAnswering else {
            let problem = "One request at a time: a response is being streamed."
            let refusal = MessageAnswer.refusal(code: "response_in_progress", message: problem)
            return player.enqueue(ScriptedAnswer(steps: [.send(WebSocketFrames.frame(1, refusal))]))
        }
        isAnswering = true
        let answer = terms.answer(message)
        for part in answer.render(frames: { [codec] in codec.frames(of: $0, faults: answer.frames) }) {
            player.enqueue(part)
        }
        player.enqueue(ScriptedAnswer(steps: [])) { [self] in isAnswering = false }
        // These frames follow when the client may already send its next request.
        var rest = answer.after.flatMap { codec.frames(of: $0, faults: answer.frames) }
        if let close = answer.close { rest += WebSocketFrames.close(close) }
        player.enqueue(ScriptedAnswer(steps: [.send(rest)])) { [self] in
            if answer.close != nil { awaitClose() }
        }
    }

    // MARK: Closing

    /// Sends a close frame at the end of the next message, unless one has already been sent, and ends the connection.
    private func end(_ code: UInt16?, _ reason: String = "", after error: [UInt8]? = nil) {
        guard state == .open || state == .closing else { return }
        let isFirst = state == .open
        state = .over
        pings?.cancel()
        guard isFirst else { return player.finish() }
        let problem = error.map { WebSocketFrames.frame(1, $0) } ?? []
        player.letIn(problem + WebSocketFrames.close(code, reason: reason), thenFinishes: true)
    }

    /// Waits for the client's close frame, after ours has been sent. The client has five seconds (RFC 6455, 7.1.1).
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
            handler.player.letIn(WebSocketFrames.ping("chappie"))
            handler.schedulePing()
        }
    }

    private func schedule(in delay: Duration, _ body: @escaping (WebSocketHandler) -> Void) -> Scheduled<Void>? {
        context?.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) { [self] in body(self) }
    }
}
