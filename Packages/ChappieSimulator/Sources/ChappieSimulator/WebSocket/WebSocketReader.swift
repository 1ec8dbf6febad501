/// Reads what a client sends: frames become messages (RFC 6455, 5 and 6.2; RFC 7692, 7.2.2). Sans-IO.
struct WebSocketReader {
    /// Largest payload of one frame, in bytes.
    static let frameLimit = 16 * 1024 * 1024
    /// Largest message, in bytes, before and after decompression.
    static let messageLimit = 64 * 1024 * 1024

    enum Event: Sendable, Hashable {
        case message(ReceivedMessage)
        case ping([UInt8])
        case pong
        /// `code` is `nil` when the close frame has no body.
        case close(code: UInt16?)
        /// The client broke a rule; nothing after it is read.
        case broken(WebSocketViolation)
    }

    /// A message whose last frame has not come yet.
    private struct Partial {
        let opcode: UInt8
        let isCompressed: Bool
        var payload: [UInt8] = []
        var wireSize = 0
        var frameCount = 0
    }

    private let inflater: MessageInflater?
    private let connection: Int
    private var header: [UInt8] = []
    private var payload: [UInt8] = []
    private var payloadLeft = 0
    private var partial: Partial?
    private var isBroken = false

    init(deflate: DeflateTerms?, connection: Int) {
        inflater = deflate.map(MessageInflater.init)
        self.connection = connection
    }

    mutating func received(_ bytes: [UInt8]) -> [Event] {
        var events: [Event] = []
        var rest = bytes[...]
        while !isBroken, !rest.isEmpty {
            do throws(WebSocketViolation) {
                if let event = try read(&rest) { events.append(event) }
            } catch {
                isBroken = true
                events.append(.broken(error))
            }
        }
        return events
    }

    private mutating func read(_ rest: inout ArraySlice<UInt8>) throws(WebSocketViolation) -> Event? {
        if payloadLeft > 0 {
            let count = min(payloadLeft, rest.count)
            payload.append(contentsOf: rest.prefix(count))
            rest = rest.dropFirst(count)
            payloadLeft -= count
        } else {
            guard let byte = rest.popFirst() else { return nil }
            header.append(byte)
            guard let size = FrameHeader.size(of: header), header.count == size else { return nil }
            payloadLeft = try checkedLength()
        }
        guard payloadLeft == 0 else { return nil }
        return try finishFrame()
    }

    // MARK: Headers

    private func checkedLength() throws(WebSocketViolation) -> Int {
        let opcode = header[0] & 0x0F
        let isFinal = header[0] & FrameHeader.finalBit != 0
        let reserved = header[0] >> 4 & 0x7
        guard header[1] & FrameHeader.maskBit != 0 else { throw .protocolError("a client's frames must be masked") }
        guard Opcode.isKnown(opcode) else { throw .protocolError("opcode \(opcode) is reserved") }
        let length = FrameHeader.payloadLength(in: header)
        if Opcode.isControl(opcode) {
            guard isFinal, let length, length <= 125 else {
                throw .protocolError("a control frame must be whole and at most 125 bytes")
            }
        } else if opcode == Opcode.continuation {
            guard partial != nil else { throw .protocolError("there is nothing to continue") }
        } else {
            guard partial == nil else { throw .protocolError("the last message is not finished") }
        }
        let mayBeCompressed = inflater != nil && !Opcode.isControl(opcode) && opcode != Opcode.continuation
        guard reserved == 0 || reserved == 4 && mayBeCompressed else {
            throw .protocolError("a reserved bit is set")
        }
        guard let length, length <= Self.frameLimit else { throw .tooBig("a frame is over \(Self.frameLimit) bytes") }
        guard (partial?.payload.count ?? 0) + length <= Self.messageLimit else {
            throw .tooBig("a message is over \(Self.messageLimit) bytes")
        }
        return length
    }

    // MARK: Frames

    private mutating func finishFrame() throws(WebSocketViolation) -> Event? {
        let opcode = header[0] & 0x0F
        let isFinal = header[0] & FrameHeader.finalBit != 0
        let isCompressed = header[0] & 0x40 != 0
        unmask()
        let body = payload
        let size = header.count + body.count
        header = []
        payload = []
        switch opcode {
        case Opcode.ping: return .ping(body)
        case Opcode.pong: return .pong
        case Opcode.close: return try closing(body)
        default: break
        }
        var message = partial ?? Partial(opcode: opcode, isCompressed: isCompressed)
        partial = nil
        if message.payload.isEmpty { message.payload = body } else { message.payload.append(contentsOf: body) }
        message.wireSize += size
        message.frameCount += 1
        guard isFinal else {
            partial = message
            return nil
        }
        return .message(try finished(message))
    }

    private mutating func unmask() {
        let key = header.suffix(4)
        let (first, second, third, fourth) = (
            key[key.startIndex], key[key.startIndex + 1], key[key.startIndex + 2], key[key.startIndex + 3]
        )
        payload.withUnsafeMutableBufferPointer { bytes in
            var index = 0
            while index + 4 <= bytes.count {
                bytes[index] ^= first
                bytes[index + 1] ^= second
                bytes[index + 2] ^= third
                bytes[index + 3] ^= fourth
                index += 4
            }
            if index < bytes.count { bytes[index] ^= first }
            if index + 1 < bytes.count { bytes[index + 1] ^= second }
            if index + 2 < bytes.count { bytes[index + 2] ^= third }
        }
    }

    private func finished(_ message: Partial) throws(WebSocketViolation) -> ReceivedMessage {
        var body = message.payload
        if message.isCompressed, let inflater {
            do throws(MessageInflater.Failure) {
                body = try inflater.decompress(body, limit: Self.messageLimit)
            } catch {
                throw error == .tooLarge
                    ? .tooBig("a message is over \(Self.messageLimit) bytes when decompressed")
                    : .protocolError("a message can't be decompressed")
            }
        }
        if message.opcode == Opcode.text, String(validating: body, as: UTF8.self) == nil {
            throw .invalidText("a text message is not UTF-8")
        }
        return ReceivedMessage(
            connection: connection, isText: message.opcode == Opcode.text, body: body,
            isCompressed: message.isCompressed, frameCount: message.frameCount, wireByteCount: message.wireSize)
    }

    private func closing(_ body: [UInt8]) throws(WebSocketViolation) -> Event {
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
}
