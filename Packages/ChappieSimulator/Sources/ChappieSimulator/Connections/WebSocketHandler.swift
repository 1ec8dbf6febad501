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
    /// The turn state the handshake gave out, for the first turn.
    var turnState: String
    /// Pieces of text for each second; `nil` for as fast as it goes.
    var deltasPerSecond: Double?
    var answer: @Sendable (ReceivedMessage, inout WebSocketConversation) -> MessageAnswer
}

/// One connection after its upgrade: answers messages and control frames, sends pings, and closes.
///
/// Only ever touched on its channel's event loop.
final class WebSocketHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketInput
    typealias OutboundOut = WebSocketOutput

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
    private var conversation: WebSocketConversation
    private var context: ChannelHandlerContext?
    private var state = State.opening
    private var isAnswering = false
    private var pings: Scheduled<Void>?
    private var closeTimer: Scheduled<Void>?

    init(player: StepPlayer, ledger: ConnectionLedger, terms: WebSocketTerms) {
        self.player = player
        self.ledger = ledger
        self.terms = terms
        conversation = WebSocketConversation(turnState: terms.turnState, requestLimit: terms.handshake.requestLimit)
    }

    /// The handlers of HTTP have left.
    func start(_ handshake: ScriptedAnswer) {
        // Before the client can know of it, so that a test that asks afterwards doesn't ask too early.
        if !handshake.steps.contains(where: { [.finish, .reset, .stall].contains($0) }) {
            ledger.upgraded(player.number, isCompressed: terms.deflate != nil)
        }
        player.enqueue(handshake.steps) { [self] in
            state = .open
            player.startsFrames()
            schedulePing()
            guard let close = terms.handshake.close else { return }
            closeTimer = schedule(in: close.after ?? .zero) { handler in
                handler.player.letIn(handler.bytes(.close(close.code?.number, reason: close.reason ?? "")))
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

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (unwrapInboundIn(data), state) {
        case (_, .opening), (_, .over): break
        case (.pong, _): ledger.note(player.number) { $0.pongCount += 1 }
        case (.close(let code), .open):
            noteClose(code)
            end(with: .close(code))
        case (.close(let code), .closing):
            noteClose(code)
            state = .over
            player.finish()
        case (.message(let message), .open): answer(message)
        case (.ping(let payload), .open):
            ledger.note(player.number) { $0.pingCount += 1 }
            if terms.handshake.pongs != false { player.letIn(bytes(.control(.pong, payload))) }
        case (.broken(let violation), .open): end(with: .close(violation.code, reason: violation.reason))
        case (.broken, .closing):
            state = .over
            player.finish()
        case (.message, .closing), (.ping, .closing): break
        }
    }

    private func noteClose(_ code: UInt16?) {
        ledger.note(player.number) {
            $0.hasSentClose = true
            $0.closeCode = code
        }
    }

    // MARK: Answers

    private func answer(_ message: ReceivedMessage) {
        ledger.received(message)
        guard message.isText else {
            let error = ErrorMessage.make(400, code: "invalid_message", message: "Only text messages are understood.")
            return end(with: .close(1003, reason: "only text"), after: error)
        }
        guard player.waitingCount < ConnectionHandler.pipelineLimit else {
            return end(with: .close(1008, reason: "too many requests at once"))
        }
        guard !isAnswering else {
            let error = ErrorMessage.make(
                400, code: "response_in_progress", message: "One request at a time: a response is being streamed.")
            return player.enqueue([.send(plainBytes(error))])
        }
        isAnswering = true
        let answer = terms.answer(message, &conversation)
        let rendered = MessageRenderer(answer: answer, deltasPerSecond: terms.deltasPerSecond, bytes: bytes).render()
        player.enqueue(rendered.steps) { [self] in isAnswering = false }
        player.enqueue(rendered.afterwards) { [self] in
            if rendered.closes { awaitClose() }
        }
    }

    /// The bytes that the handlers between this one and the player make of it.
    private func bytes(_ output: WebSocketOutput) -> [UInt8] {
        player.collecting { context?.write(wrapOutboundOut(output), promise: nil) }
    }

    /// The bytes of a message that is not compressed.
    private func plainBytes(_ text: [UInt8]) -> [UInt8] {
        bytes(.message(text, faults: FrameFaults(compress: false), isOdd: false))
    }

    // MARK: Closing

    /// Sends a close frame at the next frame's end, and ends the connection.
    private func end(with close: WebSocketOutput, after message: [UInt8]? = nil) {
        state = .over
        pings?.cancel()
        player.letIn((message.map(plainBytes) ?? []) + bytes(close), thenFinishes: true)
    }

    /// Our close frame is sent; the client has five seconds for its own (RFC 6455, 7.1.1).
    private func awaitClose() {
        guard case .open = state else { return }
        state = .closing
        pings?.cancel()
        closeTimer?.cancel()
        closeTimer = schedule(in: .seconds(5)) { $0.player.finish() }
    }

    private func schedulePing() {
        guard let interval = terms.pingInterval else { return }
        pings = schedule(in: interval) { handler in
            handler.player.letIn(handler.bytes(.control(.ping, Array("chappie".utf8))))
            handler.schedulePing()
        }
    }

    private func schedule(in delay: Duration, _ body: @escaping (WebSocketHandler) -> Void) -> Scheduled<Void>? {
        context?.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) { [self] in body(self) }
    }
}

/// The state that one connection keeps from message to message.
struct WebSocketConversation: Sendable {
    /// Bytes of input and output that are remembered. Past it the connection forgets, and says
    /// `previous_response_not_found` as if it had never known.
    static let memoryLimit = 16 * 1024 * 1024

    /// The turn state of the handshake, until the first turn has taken it.
    var turnState: String?
    /// Turns until the connection's time is over; `nil` for no limit.
    var requestLimit: Int?
    private var turnCount = 0
    private(set) var lastResponseID: String?
    /// The input of the last response, and its output.
    private(set) var items: [ChappieJSON] = []
    private var size = 0

    init(turnState: String? = nil, requestLimit: Int? = nil) {
        self.turnState = turnState
        self.requestLimit = requestLimit
    }

    /// Whether the connection has answered all that it may.
    var isOverLimit: Bool { requestLimit.map { turnCount >= $0 } ?? false }

    mutating func countTurn() { turnCount += 1 }

    /// A response was given: the next input may start from it.
    ///
    /// - Parameters:
    ///   - input: the whole input it answered.
    ///   - byteCount: bytes of the message that brought it.
    ///   - continues: whether the message started from the response before.
    mutating func remember(
        response id: String, input: [ChappieJSON], output: [ChappieJSON], byteCount: Int, continues: Bool
    ) {
        size = (continues ? size : 0) + byteCount + output.reduce(0) { $0 + $1.serializedBytes().count }
        let fits = size <= Self.memoryLimit
        lastResponseID = fits ? id : nil
        items = fits ? input + output : []
        if !fits { size = 0 }
    }
}
