public import ChappieCore
public import ChappieSimulator
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
/// extension, reads messages of one frame, and has one thread for all connections.
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

    private let loop: ScriptedSocketLoop

    private init(loop: ScriptedSocketLoop) { self.loop = loop }

    deinit { loop.stop() }

    /// Starts a server on a free port.
    ///
    /// - Parameters:
    ///   - opening: called for each request, on the server's thread.
    ///   - reply: called for each message, likewise; its steps come after all earlier ones of the connection.
    /// - Throws: ``ContractViolation`` when the socket can't be had.
    public static func start(
        opening: @escaping Opening = { .upgrade($0) }, reply: @escaping Reply = { _, _ in [] }
    ) throws -> ScriptedWebSocketServer {
        ScriptedWebSocketServer(loop: try ScriptedSocketLoop.start(opening: opening, reply: reply))
    }

    /// The port it listens on.
    public var port: Int { loop.port }
    /// Everything so far.
    public var record: Record { loop.record.withLock { $0 } }

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
        /// Bytes that came.
        public internal(set) var bytesRead = 0
    }

    /// Closes the socket and every connection; returns when they are gone.
    public func stop() { loop.stop() }
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
