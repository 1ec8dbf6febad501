import NIOCore
import NIOWebSocket

/// A client broke a rule; the close code says which kind (RFC 6455, 7.4.1).
struct WebSocketViolation: Error, Sendable, Hashable {
    let code: UInt16
    let reason: String

    static func protocolError(_ reason: String) -> WebSocketViolation { WebSocketViolation(code: 1002, reason: reason) }
    static func invalidText(_ reason: String) -> WebSocketViolation { WebSocketViolation(code: 1007, reason: reason) }
    static func tooBig(_ reason: String) -> WebSocketViolation { WebSocketViolation(code: 1009, reason: reason) }
}

/// A client's message or frame.
enum WebSocketInput {
    case message(ReceivedMessage)
    case ping([UInt8])
    case pong
    /// `code` is `nil` when the close frame has no body.
    case close(code: UInt16?)
    /// The client broke a rule; nothing after it is read.
    case broken(WebSocketViolation)
}

/// A message or frame to a client.
enum WebSocketOutput {
    /// A text message.
    ///
    /// - Parameters:
    ///   - faults: how it is put into frames.
    ///   - isOdd: whether it is the message that breaks the rules, if one is to.
    case message([UInt8], faults: FrameFaults?, isOdd: Bool)
    case control(WebSocketOpcode, [UInt8])

    /// - Parameter code: `nil` for a close frame without a body.
    static func close(_ code: UInt16?, reason: String = "") -> WebSocketOutput {
        guard let code else { return .control(.connectionClose, []) }
        return .control(
            .connectionClose, [UInt8(truncatingIfNeeded: code >> 8), UInt8(truncatingIfNeeded: code)] + reason.utf8)
    }
}

/// Between frames and messages: puts fragments together and apart, compresses and decompresses (RFC 6455, 5 and 6.2;
/// RFC 7692, 7.2), and finds the rules that a client broke.
final class MessageCodec: ChannelInboundHandler, ChannelOutboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias InboundOut = WebSocketInput
    typealias OutboundIn = WebSocketOutput
    typealias OutboundOut = WebSocketFrame

    /// Largest payload of one frame, in bytes.
    static let frameLimit = 16 * 1024 * 1024
    /// Largest message, in bytes, before and after decompression.
    static let messageLimit = 64 * 1024 * 1024

    /// A message whose last frame has not come yet.
    private struct Partial {
        let isText: Bool
        let isCompressed: Bool
        var payload: [UInt8] = []
        var wireSize = 0
        var frameCount = 0
    }

    private let deflate: PermessageDeflate?
    private let connection: Int
    private var partial: Partial?
    private var isBroken = false

    init(deflate: DeflateTerms?, connection: Int) {
        self.deflate = deflate.map(PermessageDeflate.init)
        self.connection = connection
    }

    // MARK: In

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isBroken else { return }
        do throws(WebSocketViolation) {
            if let input = try read(unwrapInboundIn(data)) { context.fireChannelRead(wrapInboundOut(input)) }
        } catch {
            fail(error, context: context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error as? NIOWebSocketError {
        case .invalidFrameLength: fail(.tooBig("a frame is over \(Self.frameLimit) bytes"), context: context)
        case .fragmentedControlFrame, .multiByteControlFrameLength:
            fail(.protocolError("a control frame must be whole and at most 125 bytes"), context: context)
        case nil: context.fireErrorCaught(error)
        }
    }

    private func fail(_ violation: WebSocketViolation, context: ChannelHandlerContext) {
        guard !isBroken else { return }
        isBroken = true
        context.fireChannelRead(wrapInboundOut(.broken(violation)))
    }

    private func read(_ frame: WebSocketFrame) throws(WebSocketViolation) -> WebSocketInput? {
        guard frame.maskKey != nil else { throw .protocolError("a client's frames must be masked") }
        let startsMessage = frame.opcode == .text || frame.opcode == .binary
        guard frame.reservedBits.isEmpty || frame.reservedBits == .rsv1 && startsMessage && deflate != nil else {
            throw .protocolError("a reserved bit is set")
        }
        switch frame.opcode {
        case .ping: return .ping(Array(frame.unmaskedData.readableBytesView))
        case .pong: return .pong
        case .connectionClose: return try readClose(Array(frame.unmaskedData.readableBytesView))
        case .continuation where partial == nil: throw .protocolError("there is nothing to continue")
        case .text, .binary:
            guard partial == nil else { throw .protocolError("the last message is not finished") }
            partial = Partial(isText: frame.opcode == .text, isCompressed: frame.rsv1)
        case .continuation: break
        default: throw .protocolError("opcode \(UInt8(webSocketOpcode: frame.opcode)) is reserved")
        }
        return try readData(frame).map(WebSocketInput.message)
    }

    private func readData(_ frame: WebSocketFrame) throws(WebSocketViolation) -> ReceivedMessage? {
        guard (partial?.payload.count ?? 0) + frame.length <= Self.messageLimit else {
            throw .tooBig("a message is over \(Self.messageLimit) bytes")
        }
        partial?.payload.append(contentsOf: frame.unmaskedData.readableBytesView)
        partial?.wireSize += frame.length + (frame.length < 126 ? 6 : frame.length < 65_536 ? 8 : 14)
        partial?.frameCount += 1
        guard frame.fin, let message = partial else { return nil }
        partial = nil
        var body = message.payload
        if message.isCompressed, let deflate {
            do throws(PermessageDeflate.Failure) {
                body = try deflate.decompress(body, limit: Self.messageLimit)
            } catch {
                throw error == .tooLarge
                    ? .tooBig("a message is over \(Self.messageLimit) bytes when decompressed")
                    : .protocolError("a message can't be decompressed")
            }
        }
        guard !message.isText || String(validating: body, as: UTF8.self) != nil else {
            throw .invalidText("a text message is not UTF-8")
        }
        return ReceivedMessage(
            connection: connection, isText: message.isText, body: body, isCompressed: message.isCompressed,
            frameCount: message.frameCount, wireByteCount: message.wireSize)
    }

    private func readClose(_ body: [UInt8]) throws(WebSocketViolation) -> WebSocketInput {
        guard !body.isEmpty else { return .close(code: nil) }
        guard body.count >= 2 else { throw .protocolError("a close frame holds half a code") }
        let code = UInt16(body[0]) << 8 | UInt16(body[1])
        guard (1000...1003).contains(code) || (1007...1014).contains(code) || (3000...4999).contains(code) else {
            throw .protocolError("\(code) is not a close code")
        }
        guard String(validating: body.dropFirst(2), as: UTF8.self) != nil else {
            throw .invalidText("the reason of a close frame is not UTF-8")
        }
        return .close(code: code)
    }

    // MARK: Out

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        func send(
            _ opcode: WebSocketOpcode, _ payload: ArraySlice<UInt8>, _ change: (inout WebSocketFrame) -> Void = { _ in }
        ) {
            var frame = WebSocketFrame(fin: true, opcode: opcode, data: ByteBuffer(bytes: payload))
            change(&frame)
            context.write(wrapOutboundOut(frame), promise: nil)
        }
        switch unwrapOutboundIn(data) {
        case .control(let opcode, let payload): send(opcode, payload[...])
        case .message(var payload, let faults, let isOdd):
            // Inside the first string of the JSON, where nothing but the coding is wrong.
            if isOdd, faults?.invalidUTF8 == true { payload.insert(0xFF, at: min(2, payload.count)) }
            let compressed = faults?.compress == false ? nil : deflate?.compress(payload)
            payload = compressed ?? payload
            let limit = faults?.fragmentBytes ?? .max
            for start in stride(from: 0, to: max(1, payload.count), by: limit) {
                let end = payload.count - start > limit ? start + limit : payload.count
                send(start == 0 ? .text : .continuation, payload[start..<end]) { frame in
                    frame.fin = end == payload.count
                    guard start == 0 else { return }
                    frame.rsv1 = compressed != nil
                    if isOdd, let faults { Self.spoil(&frame, faults) }
                }
                if faults?.pingsInside == true, end < payload.count { send(.ping, Array("inside".utf8)[...]) }
            }
        }
        promise?.succeed()
    }

    private static func spoil(_ frame: inout WebSocketFrame, _ faults: FrameFaults) {
        if let opcode = faults.opcode.flatMap(WebSocketOpcode.init(encodedWebSocketOpcode:)) { frame.opcode = opcode }
        let bits = WebSocketFrame.ReservedBits(rawValue: (faults.reservedBits ?? 0) << 4)
        frame.reservedBits = frame.reservedBits.union(bits)
        // A key of zeros leaves the payload as it is; what counts is that the bit is set.
        if faults.masked == true { frame.maskKey = [0, 0, 0, 0] }
    }
}
