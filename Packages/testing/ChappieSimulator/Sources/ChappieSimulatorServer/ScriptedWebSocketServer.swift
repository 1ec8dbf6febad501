public import ChappieCore
public import ChappieSimulator
import NIOCore
import NIOWebSocket
import Synchronization

/// A WebSocket server on 127.0.0.1 that plays scripted bytes, for tests of adapters against a peer that may do
/// anything.
///
/// ```swift
/// let server = try ScriptedWebSocketServer.start { request in
///     request.target == "/no" ? .response(status: 403) : .upgrade(request)
/// } reply: { message, _ in
///     [.send(WebSocketFrames.message(message)), .send(WebSocketFrames.close(1000)), .finish]
/// }
/// ```
///
/// It answers pings by itself, and answers a close frame with a close frame and the end of the connection. It accepts
/// no extension, reads messages of one frame, and has one event loop for all connections.
public final class ScriptedWebSocketServer: Sendable {
    /// The server's answer to a connection's request.
    public typealias Answer = ScriptedAnswer
    /// One step on a connection. After `stall`, nothing that arrives is answered.
    public typealias Step = ScriptedAnswer.Step
    /// Returns the answer to a handshake.
    public typealias Opening = @Sendable (ReceivedRequest) -> Answer
    /// Returns the steps that answer a message.
    ///
    /// - Parameter number: the index of the message, 0 for the connection's first message.
    public typealias Reply = @Sendable (_ message: WebSocketMessage, _ number: Int) -> [Step]

    /// A record of everything that a server has seen.
    public struct Record: Sendable {
        /// Every request, in order.
        public internal(set) var requests: [ReceivedRequest] = []
        /// Every message, of all connections, in order.
        public internal(set) var messages: [WebSocketMessage] = []
        /// The codes of the close frames that arrived.
        public internal(set) var closeCodes: [UInt16?] = []
        /// The number of pings that arrived.
        public internal(set) var pingCount = 0
        /// The number of pongs that arrived.
        public internal(set) var pongCount = 0
        /// The number of connections since the start.
        public internal(set) var connectionCount = 0
        /// The number of connections that are still open.
        public internal(set) var openConnectionCount = 0
        /// The number of bytes that the kernel has accepted from it. It does not change while a client doesn't read.
        public internal(set) var bytesWritten = 0
    }

    /// The frames that arrived. The other entries are in the listener's ledger.
    private final class FrameRecord: Sendable {
        let record = Mutex(Record())
    }

    private let listener: LoopbackListener
    private let frames: FrameRecord
    /// The port on which it listens.
    public var port: Int { listener.port }

    private init(opening: @escaping Opening, reply: @escaping Reply) throws(SimulatorError) {
        let frames = FrameRecord()
        self.frames = frames
        listener = try LoopbackListener.start { request in
            .frames(opening(request)) { frame, number in
                frames.record.withLock { $0.note(frame) }
                return switch frame {
                case .message(let message): reply(message, number)
                case .ping(let payload): [.send(WebSocketFrames.frame(10, payload))]
                case .pong: []
                case .close(let code): [.send(WebSocketFrames.close(code)), .finish]
                }
            }
        }
    }

    deinit { stop() }

    /// Starts a server on a free port.
    ///
    /// - Parameters:
    ///   - opening: called for each request, on the server's thread.
    ///   - reply: called for each message, on the same thread. Its steps are played after all earlier ones of the
    ///     connection.
    /// - Throws: ``SimulatorError`` when the socket can't be opened.
    public static func start(
        opening: @escaping Opening = { .upgrade($0) }, reply: @escaping Reply = { _, _ in [] }
    ) throws(SimulatorError) -> ScriptedWebSocketServer { try ScriptedWebSocketServer(opening: opening, reply: reply) }

    /// The record of everything so far.
    public var record: Record {
        var record = frames.record.withLock { $0 }
        let entries = listener.ledger.entries
        record.requests = entries.receivedRequests
        record.connectionCount = entries.connectionCount
        record.openConnectionCount = entries.openConnectionCount
        record.bytesWritten = entries.bytesWritten
        return record
    }

    /// Closes the socket and every connection, and returns when they are closed.
    public func stop() { listener.stopAndWait() }
}

extension ScriptedWebSocketServer.Record {
    fileprivate mutating func note(_ frame: ScriptedFrames.Frame) {
        switch frame {
        case .message(let message): messages.append(message)
        case .ping: pingCount += 1
        case .pong: pongCount += 1
        case .close(let code): closeCodes.append(code)
        }
    }
}

/// The handler of one connection after its request. It passes the frames to a script, and plays the script's steps.
///
/// It is used only on its channel's event loop.
final class ScriptedFrames: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    /// Returns the steps that answer a frame.
    ///
    /// - Parameter number: the number of messages before the frame.
    typealias Reaction = @Sendable (_ frame: Frame, _ number: Int) -> [ScriptedAnswer.Step]

    enum Frame {
        case message(WebSocketMessage)
        case ping([UInt8])
        case pong
        case close(UInt16?)
    }

    private let player: StepPlayer
    private let reaction: Reaction
    private var messageCount = 0

    init(player: StepPlayer, reaction: @escaping Reaction) {
        self.player = player
        self.reaction = reaction
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        let payload = frame.payload
        switch frame.opcode {
        case .text: received(.message(.text(String(decoding: payload, as: UTF8.self))))
        case .binary: received(.message(.binary(payload)))
        case .ping: received(.ping(payload))
        case .pong: received(.pong)
        case .connectionClose:
            received(.close(payload.count < 2 ? nil : UInt16(payload[0]) << 8 | UInt16(payload[1])))
        default: break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func received(_ frame: Frame) {
        guard !player.isParted else { return }
        let number = messageCount
        if case .message = frame { messageCount += 1 }
        player.enqueue(ScriptedAnswer(steps: reaction(frame, number)))
    }
}

/// Frames as a server sends them (RFC 6455, 5.2), correct or incorrect.
public enum WebSocketFrames {
    /// Returns one frame, unmasked.
    ///
    /// - Parameters:
    ///   - opcode: 0 continuation, 1 text, 2 binary, 8 close, 9 ping, 10 pong.
    ///   - payload: The bytes after the head.
    ///   - isFinal: Whether the frame ends its message. Default `true`.
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

    /// Returns a complete text message in one frame.
    public static func text(_ text: String) -> [UInt8] { frame(1, Array(text.utf8)) }
    /// Returns a ping. The peer's pong repeats its payload.
    public static func ping(_ payload: String = "") -> [UInt8] { frame(9, Array(payload.utf8)) }

    /// Returns a message as a server frames it.
    public static func message(_ message: WebSocketMessage) -> [UInt8] {
        switch message {
        case .text(let text): self.text(text)
        case .binary(let bytes): frame(2, bytes)
        }
    }

    /// Returns a close frame.
    ///
    /// - Parameters:
    ///   - code: The close code, or `nil` for a close frame without a body.
    ///   - reason: The text after the code.
    public static func close(_ code: UInt16?, reason: String = "") -> [UInt8] {
        frame(8, code.map { bigEndian(UInt64($0), bytes: 2) + Array(reason.utf8) } ?? [])
    }

    static func close(_ reason: WebSocketCloseReason) -> [UInt8] { close(reason.code, reason: reason.reason) }

    private static func bigEndian(_ value: UInt64, bytes: Int) -> [UInt8] {
        (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }
}
