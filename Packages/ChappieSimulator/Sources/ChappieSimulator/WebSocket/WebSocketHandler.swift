import NIOCore

/// One connection after its upgrade: feeds what arrives to the reader, and what that means to the player.
///
/// Only ever touched on its channel's event loop.
final class WebSocketHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

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
    private let terms: WebSocketTerms
    private let connection: Int
    private let deflater: MessageDeflater?
    private var reader: WebSocketReader
    private var conversation: WebSocketConversation
    private var state = State.opening
    private var isAnswering = false
    private var eventLoop: (any EventLoop)?
    private var pings: Scheduled<Void>?
    private var patience: Scheduled<Void>?

    init(player: StepPlayer, ledger: ConnectionLedger, terms: WebSocketTerms, connection: Int) {
        self.player = player
        self.ledger = ledger
        self.terms = terms
        self.connection = connection
        deflater = terms.deflate.map(MessageDeflater.init)
        reader = WebSocketReader(deflate: terms.deflate, connection: connection)
        conversation = WebSocketConversation(
            connection: connection, turnState: terms.turnState, requestLimit: terms.requestLimit)
    }

    /// The decoder of HTTP has left.
    func start(_ handshake: ScriptedAnswer) {
        // Before the client can know of it, so that nobody who asks afterwards comes too early.
        if handshake.leavesOpen { ledger.upgraded(connection, isCompressed: terms.deflate != nil) }
        player.enqueue(handshake.steps) { [self] in
            state = .open
            player.startsFrames()
            schedulePing()
            if let closure = terms.closure { scheduleClose(closure) }
        }
    }

    // MARK: Inputs

    func handlerAdded(context: ChannelHandlerContext) { eventLoop = context.eventLoop }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Array(unwrapInboundIn(data).readableBytesView)
        switch state {
        case .open, .closing: for event in reader.received(bytes) { handle(event) }
        case .opening, .over: break
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        state = .over
        pings?.cancel()
        patience?.cancel()
        player.closed()
        ledger.connectionClosed(connection)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func handle(_ event: WebSocketReader.Event) {
        switch (event, state) {
        case (.close(let code), .open):
            ledger.closed(connection, code: code)
            end(with: .close(code))
        case (.close(let code), .closing):
            ledger.closed(connection, code: code)
            state = .over
            player.finish()
        case (.message(let message), .open): answer(message)
        case (.ping(let payload), .open):
            ledger.pinged(connection)
            if terms.answersPings { player.letIn(ServerFrame.pong(payload).bytes) }
        case (.pong, _): ledger.ponged(connection)
        case (.broken(let violation), .open): end(with: .close(violation.code, reason: violation.reason))
        case (.broken, .closing):
            state = .over
            player.finish()
        default: break
        }
    }

    // MARK: Answers

    private func answer(_ message: ReceivedMessage) {
        ledger.received(message)
        guard message.isText else {
            let error = ServerFrame(
                opcode: Opcode.text,
                payload: ErrorFrame.make(400, code: "invalid_message", message: "Only text messages are understood."))
            return end(with: .close(1003, reason: "only text"), after: error.bytes)
        }
        guard player.waitingCount < ConnectionHandler.pipelineLimit else {
            return end(with: .close(1008, reason: "too many requests at once"))
        }
        guard !isAnswering else {
            let error = ErrorFrame.make(
                400, code: "response_in_progress", message: "One request at a time: a response is being streamed.")
            return player.enqueue([.send(ServerFrame(opcode: Opcode.text, payload: error).bytes)])
        }
        let answer = terms.answer(message, &conversation)
        let rendered = WebSocketRenderer(answer: answer, deltasPerSecond: terms.deltasPerSecond, deflater: deflater)
            .render()
        isAnswering = true
        player.enqueue(rendered.steps) { [self] in isAnswering = false }
        player.enqueue(rendered.afterwards) { [self] in
            if rendered.closes { awaitClose() }
        }
    }

    // MARK: Closing

    /// Says goodbye at the next frame's end, and goes.
    private func end(with frame: ServerFrame, after bytes: [UInt8] = []) {
        state = .over
        pings?.cancel()
        player.letIn(bytes + frame.bytes, thenFinishes: true)
    }

    /// Our close frame is sent; the client has five seconds for its own (RFC 6455, 7.1.1).
    private func awaitClose() {
        guard case .open = state else { return }
        state = .closing
        pings?.cancel()
        patience = eventLoop?.assumeIsolated().scheduleTask(in: .seconds(5)) { [self] in player.finish() }
    }

    private func scheduleClose(_ closure: HandshakeFaults.Closure) {
        patience = eventLoop?.assumeIsolated().scheduleTask(in: TimeAmount(closure.delay)) { [self] in
            player.letIn(ServerFrame.close(closure.code, reason: closure.reason).bytes)
            awaitClose()
        }
    }

    private func schedulePing() {
        guard let interval = terms.pingInterval else { return }
        pings = eventLoop?.assumeIsolated().scheduleTask(in: TimeAmount(interval)) { [self] in
            player.letIn(ServerFrame.ping(Array("chappie".utf8)).bytes)
            schedulePing()
        }
    }
}
