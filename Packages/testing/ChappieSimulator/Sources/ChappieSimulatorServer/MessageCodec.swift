import ChappieSimulator
import NIOCore
import NIOWebSocket

/// A client's violation of a rule. The close code specifies the kind (RFC 6455, 7.4.1).
struct WebSocketViolation: Error {
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
    /// `code` is `nil` when the close frame has no body.
    case close(code: UInt16?)
}

/// A codec between frames and messages. It joins and splits fragments, compresses and decompresses (RFC 6455, 5 and
/// 6.2; RFC 7692, 7.2), and finds the rules that a client broke.
final class MessageCodec {
    /// The largest payload of one frame, in bytes.
    static let frameLimit = 16 * 1024 * 1024
    /// The largest message, in bytes, before and after decompression.
    private static let messageLimit = 64 * 1024 * 1024

    /// A message whose last frame has not arrived yet.
    private struct Partial {
        let isText: Bool
        let isCompressed: Bool
        var payload: [UInt8] = []
        var wireSize = 0
    }

    private let deflate: PermessageDeflate?
    private let connection: Int
    private var partial: Partial?

    init(deflate: DeflateTerms?, connection: Int) {
        self.deflate = deflate.map(PermessageDeflate.init)
        self.connection = connection
    }

    // MARK: In

    /// Returns the input that a frame completes, or `nil` for a pong and for a frame that doesn't end its message.
    func read(_ frame: WebSocketFrame) throws(WebSocketViolation) -> WebSocketInput? {
        guard frame.maskKey != nil else { throw .protocolError("a client's frames must be masked") }
        let startsMessage = frame.opcode == .text || frame.opcode == .binary
        guard frame.reservedBits.isEmpty || frame.reservedBits == .rsv1 && startsMessage && deflate != nil else {
            throw .protocolError("a reserved bit is set")
        }
        switch frame.opcode {
        case .ping: return .ping(frame.payload)
        case .pong: return nil
        case .connectionClose: return try readClose(frame.payload)
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
        partial?.payload += frame.payload
        partial?.wireSize += frame.length + (frame.length < 126 ? 6 : frame.length < 65_536 ? 8 : 14)
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
            wireByteCount: message.wireSize)
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

    /// Returns the frames of a text message.
    func frames(of text: [UInt8], faults: FrameFaults?) -> [UInt8] {
        let compressed = faults?.compress == false ? nil : try? deflate?.compress(text)
        let payload = compressed ?? text
        let size = max(1, faults?.fragmentBytes.map(Int.init) ?? .max)
        var frames: [UInt8] = []
        for start in stride(from: 0, to: max(1, payload.count), by: size) {
            let end = payload.count - start > size ? start + size : payload.count
            if start > 0, faults?.pingsInside == true { frames += WebSocketFrames.ping("inside") }
            frames += WebSocketFrames.frame(
                start == 0 ? 1 : 0, Array(payload[start..<end]), isFinal: end == payload.count,
                reserved: start == 0 && compressed != nil ? 4 : 0)
        }
        return frames
    }
}

extension WebSocketFrame {
    /// The unmasked payload. It is unmasked word by word, because swift-nio works byte by byte, which takes seconds for
    /// megabytes in a debug build.
    var payload: [UInt8] {
        let key = maskKey.map { Array($0) } ?? [0, 0, 0, 0]
        let word = (key + key).withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
        var payload = [UInt8](data.readableBytesView)
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
