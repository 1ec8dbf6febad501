import ChappieCore

/// Reads what a server sends: frames become messages and control frames.
struct WebSocketFrameReader: ~Copyable {
    enum Element: Sendable, Hashable {
        case message(WebSocketMessage)
        case ping([UInt8])
        case pong
        case close(WebSocketCloseReason)
    }

    /// A frame whose header has been read.
    private struct Frame {
        let opcode: WebSocketOpcode
        let isFinal: Bool
        /// The bytes of its payload that have not come.
        var remainingBytes: Int
    }

    private let limits: WebSocketLimits
    private let compression: DeflateParameters?
    /// The beginning of a header that has not come whole.
    private var pendingHeader: [UInt8] = []
    private var frame: Frame?
    /// The message that data frames belong to until its final one.
    private var message: MessageAssembly?
    /// The size of that message's frames so far, as they travelled.
    private var messageBytes = 0
    /// The payload of a control frame that has not come whole.
    private var control: [UInt8] = []
    /// Made when the first compressed message comes.
    private var inflater: Inflater?

    init(limits: WebSocketLimits, compression: DeflateParameters?) {
        self.limits = limits
        self.compression = compression
    }

    /// Reads up to the end of the next message or control frame.
    ///
    /// - Parameter rest: what has come; what has been read is taken from its front.
    /// - Returns: `nil` when everything has been read.
    mutating func next(_ rest: inout UnsafeRawBufferPointer) throws(WebSocketCodecError) -> Element? {
        while true {
            if frame == nil {
                guard let header = try readHeader(&rest) else { return nil }
                frame = try begin(header)
            }
            guard var current = frame else { return nil }
            let piece = UnsafeRawBufferPointer(rebasing: rest.prefix(current.remainingBytes))
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(piece.count))
            current.remainingBytes -= piece.count
            let endsFrame = current.remainingBytes == 0
            frame = endsFrame ? nil : current
            if let element = try read(piece, of: current, endsFrame: endsFrame) { return element }
            if rest.isEmpty { return nil }
        }
    }

    // MARK: Headers

    private mutating func readHeader(
        _ rest: inout UnsafeRawBufferPointer
    ) throws(WebSocketCodecError) -> WebSocketFrameHeader? {
        let allowsCompression = compression != nil
        if pendingHeader.isEmpty, rest.count >= 2 {
            let count = WebSocketFrameHeader.byteCount(secondByte: rest[1])
            if count <= rest.count {
                let header = try WebSocketFrameHeader(rest, allowsCompression: allowsCompression)
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
                return header
            }
        }
        while let byte = rest.first {
            pendingHeader.append(byte)
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(1))
            guard pendingHeader.count >= 2 else { continue }
            _ = try WebSocketFrameHeader.check(
                pendingHeader[0], pendingHeader[1], allowsCompression: allowsCompression)
            guard pendingHeader.count == WebSocketFrameHeader.byteCount(secondByte: pendingHeader[1]) else { continue }
            let header = try pendingHeader.withUnsafeBufferPointer { bytes throws(WebSocketCodecError) in
                try WebSocketFrameHeader(UnsafeRawBufferPointer(bytes), allowsCompression: allowsCompression)
            }
            pendingHeader.removeAll(keepingCapacity: true)
            return header
        }
        return nil
    }

    /// Checks the frame against what came before it and against the limits.
    private mutating func begin(_ header: WebSocketFrameHeader) throws(WebSocketCodecError) -> Frame {
        let opcode = header.opcode
        if !opcode.isControl {
            if opcode == .continuation {
                guard message != nil else { throw .unexpectedContinuation }
            } else {
                guard message == nil else { throw .expectedContinuation }
                message = MessageAssembly(isText: opcode == .text, isCompressed: header.isCompressed)
                messageBytes = 0
            }
            guard header.payloadBytes <= UInt64(limits.maximumFrameBytes) else {
                throw .frameTooLarge(limitBytes: limits.maximumFrameBytes)
            }
            messageBytes += Int(header.payloadBytes)
            // Compressed bytes are counted as they come out.
            if message?.isCompressed == false, messageBytes > limits.maximumMessageBytes {
                throw .messageTooLarge(limitBytes: limits.maximumMessageBytes)
            }
        }
        return Frame(opcode: opcode, isFinal: header.isFinal, remainingBytes: Int(header.payloadBytes))
    }

    // MARK: Payloads

    private mutating func read(
        _ piece: UnsafeRawBufferPointer, of frame: Frame, endsFrame: Bool
    ) throws(WebSocketCodecError) -> Element? {
        if frame.opcode.isControl {
            control.append(contentsOf: piece)
            guard endsFrame else { return nil }
            let payload = control
            control = []
            switch frame.opcode {
            case .close: return .close(try WebSocketCloseReason(closePayload: payload))
            case .ping: return .ping(payload)
            default: return .pong
            }
        }
        let endsMessage = endsFrame && frame.isFinal
        // Most messages come whole, so they never live in `message`.
        guard var assembly = message.take() else { return nil }
        if assembly.isCompressed {
            try decompress(piece, into: &assembly, endsMessage: endsMessage)
            if endsMessage { return try finishCompressed(assembly).map(Element.message) }
        } else {
            if endsMessage { return .message(try assembly.finish(with: piece, limit: limits.maximumMessageBytes)) }
            try assembly.append(piece, limit: limits.maximumMessageBytes)
        }
        message = consume assembly
        return nil
    }

    private mutating func decompress(
        _ piece: UnsafeRawBufferPointer, into assembly: inout MessageAssembly, endsMessage: Bool
    ) throws(WebSocketCodecError) {
        let limit = limits.maximumMessageBytes
        if inflater == nil { inflater = try Inflater(windowBits: compression?.serverMaxWindowBits ?? 15) }
        do throws(WebSocketCodecError) {
            try inflater?.receivedBytes(piece, endsMessage: endsMessage) { bytes throws(WebSocketCodecError) in
                try assembly.append(bytes, limit: limit)
            }
        } catch {
            // The bytes that came out before the error may hold an earlier one.
            if error == .invalidCompression {
                try inflater?.drain { bytes throws(WebSocketCodecError) in try assembly.append(bytes, limit: limit) }
            }
            throw error
        }
        guard !endsMessage else { return }
        try inflater?.drain { bytes throws(WebSocketCodecError) in try assembly.append(bytes, limit: limit) }
    }

    private mutating func finishCompressed(
        _ assembly: consuming MessageAssembly
    ) throws(WebSocketCodecError) -> WebSocketMessage? {
        let limit = limits.maximumMessageBytes
        // A closure can't consume what it captures; it can take it out of an optional.
        var whole: MessageAssembly? = consume assembly
        let message = try inflater?.drain { bytes throws(WebSocketCodecError) in
            try whole.take()?.finish(with: bytes, limit: limit)
        }
        if compression?.serverNoContextTakeover == true { inflater = nil }
        return message ?? nil
    }
}

/// A message of which not everything has come.
struct MessageAssembly: ~Copyable {
    let isText: Bool
    let isCompressed: Bool
    private(set) var bytes: [UInt8] = []
    private var validator = UTF8Validator()

    init(isText: Bool, isCompressed: Bool) {
        self.isText = isText
        self.isCompressed = isCompressed
    }

    /// Adds the next bytes, decompressed ones.
    mutating func append(_ piece: UnsafeRawBufferPointer, limit: Int) throws(WebSocketCodecError) {
        // In this order, so that the same message fails in the same way however it was cut.
        let allowed = UnsafeRawBufferPointer(rebasing: piece.prefix(limit - bytes.count))
        if isText, !validator.receivedBytes(allowed) { throw .invalidUTF8 }
        guard allowed.count == piece.count else { throw .messageTooLarge(limitBytes: limit) }
        bytes.append(contentsOf: piece)
    }

    /// The message, when `last` is its last piece.
    consuming func finish(
        with last: UnsafeRawBufferPointer, limit: Int
    ) throws(WebSocketCodecError) -> WebSocketMessage {
        if bytes.isEmpty, validator.isComplete, last.count <= limit {
            // Everything in one piece: straight into the message.
            guard isText else { return .binary(Array(last)) }
            // The standard library's own check goes through unspecialised code, which costs more than a small message.
            guard validator.receivedBytes(last), validator.isComplete else { throw .invalidUTF8 }
            return .text(String(decoding: last, as: UTF8.self))
        }
        try append(last, limit: limit)
        guard isText else { return .binary(bytes) }
        guard validator.isComplete else { throw .invalidUTF8 }
        return .text(String(decoding: bytes, as: UTF8.self))
    }
}
