public import ChappieCore
public import ChappieSimulator
import Glibc
import NIOCore
import NIOPosix
import NIOWebSocket
import Synchronization

/// A WebSocket server on 127.0.0.1 that plays scripted bytes, for tests of adapters against a peer that may do anything.
///
/// ```swift
/// let server = try ScriptedWebSocketServer.start { request in
///     request.target == "/no" ? .init(.response(status: 403)) : .upgrade(request)
/// } reply: { message, _ in
///     [.send(WebSocketFrames.message(message)), .send(WebSocketFrames.close(1000)), .finish]
/// }
/// ```
///
/// By itself it answers pings, and a close frame with a close frame and the end of the connection. It agrees to no
/// extension, reads messages of one frame, and has one event loop for all connections.
public final class ScriptedWebSocketServer: Sendable {
    /// The server's answer to a connection's request, or to a message.
    public struct Answer: Sendable {
        /// In order.
        public var steps: [Step]

        /// An answer of these steps.
        public init(steps: [Step]) { self.steps = steps }

        /// An answer in the words of ``ScriptedServer``.
        public init(_ answer: ScriptedAnswer) { steps = answer.steps.map { .raw($0) } }

        /// The handshake succeeds, and `steps` follow.
        public static func upgrade(
            _ request: ReceivedRequest, headers: [(String, String)] = [], then steps: [Step] = []
        ) -> Answer {
            Answer(steps: Answer(.switchingToWebSocket(request, headers: headers)).steps + steps)
        }
    }

    /// One thing that happens.
    public enum Step: Sendable, Hashable {
        /// A step of ``ScriptedServer``. After `stall` nothing that comes is answered any more.
        case raw(ScriptedAnswer.Step)
        /// Sends the bytes one after the other, each in a packet of its own.
        case drip([UInt8])
        /// Goes on when the test opens the gate.
        case wait(until: ScriptedGate)
        /// Leaves what comes in the kernel's buffer.
        case stopReading
        /// Reads again.
        case startReading

        /// Writes these bytes as they are.
        public static func send(_ bytes: [UInt8]) -> Step { .raw(.send(bytes)) }
        /// Lets this much time pass before the next step.
        public static func wait(_ duration: Duration) -> Step { .raw(.wait(duration)) }
        /// Closes with FIN.
        public static let finish = Step.raw(.finish)
        /// Closes with RST.
        public static let reset = Step.raw(.reset)
        /// Says nothing more.
        public static let stall = Step.raw(.stall)
    }

    /// Decides what is played to a handshake.
    public typealias Opening = @Sendable (ReceivedRequest) -> Answer
    /// - Parameter number: 0 for the connection's first message.
    public typealias Reply = @Sendable (_ message: WebSocketMessage, _ number: Int) -> [Step]

    /// Everything that a server has seen.
    public struct Record: Sendable {
        /// Every request, in order.
        public internal(set) var requests: [ReceivedRequest] = []
        /// Every message, of all connections, in order.
        public internal(set) var messages: [WebSocketMessage] = []
        /// The codes of the close frames that came.
        public internal(set) var closeCodes: [UInt16?] = []
        /// Pings that came.
        public internal(set) var pingCount = 0
        /// Pongs that came.
        public internal(set) var pongCount = 0
        /// Connections since the start.
        public internal(set) var connectionCount = 0
        /// Connections that are still open.
        public internal(set) var openConnectionCount = 0
        /// Bytes that the kernel has taken from it; stands still while a client doesn't read.
        public internal(set) var bytesWritten = 0
    }

    /// What the event loop and the tests share.
    fileprivate final class Ledger: Sendable {
        let record = Mutex(Record())
    }

    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let ledger = Ledger()
    private let isStopped = Mutex(false)
    /// The port it listens on.
    public let port: Int

    private init(opening: @escaping Opening, reply: @escaping Reply) throws {
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { [ledger] channel in
                channel.eventLoop.makeCompletedFuture {
                    let player = ScriptedSocket(channel, ledger: ledger, opening: opening, reply: reply)
                    try channel.pipeline.syncOperations.addHandlers([
                        player, ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: 1 << 30)),
                        ScriptedSocketFrames(player: player),
                    ])
                }
            }
        do {
            port = try bootstrap.bind(host: "127.0.0.1", port: 0).wait().localAddress?.port ?? 0
        } catch {
            throw ContractViolation("No socket to listen on: \(error).")
        }
    }

    deinit { stop() }

    /// Starts a server on a free port.
    ///
    /// - Parameters:
    ///   - opening: called for each request, on the server's thread.
    ///   - reply: called for each message, likewise; its steps come after all earlier ones of the connection.
    /// - Throws: ``ContractViolation`` when the socket can't be had.
    public static func start(
        opening: @escaping Opening = { .upgrade($0) }, reply: @escaping Reply = { _, _ in [] }
    ) throws -> ScriptedWebSocketServer { try ScriptedWebSocketServer(opening: opening, reply: reply) }

    /// Everything so far.
    public var record: Record { ledger.record.withLock { $0 } }

    /// Closes the socket and every connection; returns when they are gone.
    public func stop() {
        let isFirst = isStopped.withLock { isStopped in
            defer { isStopped = true }
            return !isStopped
        }
        if isFirst { try? group.syncShutdownGracefully() }
    }
}

/// One connection: reads the request, plays the steps, and hands what comes after the request on as it is. Only ever
/// touched on its channel's event loop.
private final class ScriptedSocket: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let channel: any Channel
    private let ledger: ScriptedWebSocketServer.Ledger
    private let opening: ScriptedWebSocketServer.Opening
    private let reply: ScriptedWebSocketServer.Reply
    private var number = 0
    /// The request as far as it has come; `nil` once it was whole.
    private var request: ByteBuffer? = ByteBuffer()
    private var messageCount = 0
    private var steps: [ScriptedWebSocketServer.Step] = []
    /// A step is under way, or it was the last.
    private var isBusy = false
    private var isPlaying = false
    private var hasEnded = false

    init(
        _ channel: any Channel, ledger: ScriptedWebSocketServer.Ledger,
        opening: @escaping ScriptedWebSocketServer.Opening, reply: @escaping ScriptedWebSocketServer.Reply
    ) {
        self.channel = channel
        self.ledger = ledger
        self.opening = opening
        self.reply = reply
    }

    func note(_ change: (inout ScriptedWebSocketServer.Record) -> Void) { ledger.record.withLock { change(&$0) } }

    func channelActive(context: ChannelHandlerContext) {
        note { record in
            number = record.connectionCount
            record.connectionCount += 1
            record.openConnectionCount += 1
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        hasEnded = true
        note { $0.openConnectionCount -= 1 }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasEnded else { return }
        guard var bytes = request else { return context.fireChannelRead(data) }
        bytes.writeImmutableBuffer(unwrapInboundIn(data))
        request = bytes
        guard let end = bytes.readableBytesView.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        request = nil
        let head = bytes.readString(length: end.lowerBound - bytes.readerIndex) ?? ""
        bytes.moveReaderIndex(forwardBy: end.count)
        received(head: head.split(separator: "\r\n"))
        if bytes.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(bytes)) }
    }

    private func received(head lines: [Substring]) {
        let words = (lines.first ?? "").split(separator: " ")
        let fields = lines.dropFirst().map { line in
            let halves = line.split(separator: ":", maxSplits: 1)
            return (name: String(halves[0]), value: String((halves.last ?? "").drop { $0 == " " }))
        }
        let request = ReceivedRequest(
            method: String(words.first ?? ""), target: String(words.dropFirst().first ?? ""), headerFields: fields,
            connection: number)
        note { $0.requests.append(request) }
        play(opening(request).steps)
    }

    func received(_ message: WebSocketMessage) {
        note { $0.messages.append(message) }
        messageCount += 1
        play(reply(message, messageCount - 1))
    }

    // MARK: Playing

    /// Plays `steps` after all that wait. Steps that end at once come back here while it runs: they must not deepen the
    /// stack.
    func play(_ more: [ScriptedWebSocketServer.Step] = []) {
        steps += more
        guard !isPlaying else { return }
        isPlaying = true
        while !isBusy, !hasEnded, !steps.isEmpty { begin(steps.removeFirst()) }
        isPlaying = false
    }

    private func resume() {
        isBusy = false
        play()
    }

    private func begin(_ step: ScriptedWebSocketServer.Step) {
        let loop = channel.eventLoop.assumeIsolated()
        switch step {
        case .raw(.send(let bytes)): write(bytes)
        case .raw(.wait(let duration)):
            isBusy = true
            loop.scheduleTask(in: TimeAmount(duration)) { self.resume() }
        case .raw(.stall): isBusy = true
        case .wait(until: let gate):
            isBusy = true
            let opened = channel.eventLoop.makeFutureWithTask { try await gate.pass() }
            opened.assumeIsolated().whenComplete { _ in self.resume() }
        case .stopReading: reads(false)
        case .startReading: reads(true)
        case .drip(let bytes): steps = bytes.flatMap { [.send([$0]), .wait(.microseconds(50))] } + steps
        case .raw(.finish):
            hasEnded = true
            // What has come is read to its end: unread bytes would turn the end into a reset.
            reads(true)
            channel.close(mode: .output, promise: nil)
            loop.scheduleTask(in: .milliseconds(50)) { self.channel.close(promise: nil) }
        case .raw(.reset):
            hasEnded = true
            let lingers = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
            lingers?.assumeIsolated().whenComplete { _ in self.channel.close(promise: nil) }
        }
    }

    private func reads(_ reads: Bool) { try? channel.syncOptions?.setOption(.autoRead, value: reads) }

    /// In pieces, so that the record shows how far it has come.
    private func write(_ bytes: [UInt8]) {
        isBusy = true
        var rest = ByteBuffer(bytes: bytes)
        var written = channel.eventLoop.makeSucceededVoidFuture()
        while let piece = rest.readSlice(length: min(64 << 10, rest.readableBytes)), piece.readableBytes > 0 {
            written = channel.write(piece)
            written.assumeIsolated().whenSuccess { self.note { $0.bytesWritten += piece.readableBytes } }
        }
        written.assumeIsolated().whenSuccess { self.resume() }
        channel.flush()
    }
}

/// Hands a connection's frames to its ``ScriptedSocket``.
private final class ScriptedSocketFrames: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame

    private let player: ScriptedSocket

    init(player: ScriptedSocket) { self.player = player }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        let payload = unmasked(frame)
        switch frame.opcode {
        case .text: player.received(.text(String(decoding: payload, as: UTF8.self)))
        case .binary: player.received(.binary(payload))
        case .ping:
            player.note { $0.pingCount += 1 }
            player.play([.send(WebSocketFrames.frame(10, payload))])
        case .pong: player.note { $0.pongCount += 1 }
        case .connectionClose:
            let code = payload.count < 2 ? nil : UInt16(payload[0]) << 8 | UInt16(payload[1])
            player.note { $0.closeCodes.append(code) }
            player.play([.send(WebSocketFrames.close(code)), .finish])
        default: break
        }
    }

    /// In words: swift-nio goes byte by byte, which takes it seconds for megabytes in a debug build.
    private func unmasked(_ frame: WebSocketFrame) -> [UInt8] {
        let key = frame.maskKey.map { Array($0) } ?? [0, 0, 0, 0]
        let word = (key + key).withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
        var payload = [UInt8](frame.data.readableBytesView)
        payload.withUnsafeMutableBytes { bytes in
            let tail = bytes.count & ~7
            for index in stride(from: 0, to: tail, by: 8) {
                let masked = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                bytes.storeBytes(of: masked ^ word, toByteOffset: index, as: UInt64.self)
            }
            for index in tail..<bytes.count { bytes[index] ^= key[index & 3] }
        }
        return payload
    }
}

/// Frames as a server sends them (RFC 6455, 5.2), right or wrong.
public enum WebSocketFrames {
    /// One frame, unmasked.
    ///
    /// - Parameters:
    ///   - opcode: 0 continuation, 1 text, 2 binary, 8 close, 9 ping, 10 pong.
    ///   - reserved: the three reserved bits as a number.
    public static func frame(
        _ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, reserved: UInt8 = 0
    ) -> [UInt8] {
        let first = (isFinal ? 0x80 : 0) | reserved << 4 | opcode
        let length: [UInt8] =
            switch payload.count {
            case ..<126: [UInt8(payload.count)]
            case ..<65_536: [126] + bigEndian(UInt64(payload.count), bytes: 2)
            default: [127] + bigEndian(UInt64(payload.count), bytes: 8)
            }
        return [first] + length + payload
    }

    /// A whole text message in one frame.
    public static func text(_ text: String) -> [UInt8] { frame(1, Array(text.utf8)) }
    /// A ping; the peer's pong repeats its payload.
    public static func ping(_ payload: String = "") -> [UInt8] { frame(9, Array(payload.utf8)) }

    /// A message as a server frames it.
    public static func message(_ message: WebSocketMessage) -> [UInt8] {
        switch message {
        case .text(let text): self.text(text)
        case .binary(let bytes): frame(2, bytes)
        }
    }

    /// - Parameter code: `nil` for a close frame without a body.
    public static func close(_ code: UInt16?, reason: String = "") -> [UInt8] {
        frame(8, code.map { bigEndian(UInt64($0), bytes: 2) + Array(reason.utf8) } ?? [])
    }

    private static func bigEndian(_ value: UInt64, bytes: Int) -> [UInt8] {
        (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }
}
