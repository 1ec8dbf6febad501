import ChappieCore

/// The limits for the bytes of one peer that this side must hold. The connection ends with close code 1009 if the peer
/// exceeds them. Both values fit zlib's 32-bit counters.
struct WebSocketLimits: Sendable {
    /// The maximum payload of one frame, in the form in which it is transmitted, and of one message that this side
    /// sends. It is the backend's own limit.
    var frameBytes = 16 << 20
    /// The maximum size of one message that this side receives, over all its frames and after decompression.
    var messageBytes = 64 << 20
}

/// The client's side of an open WebSocket (RFC 6455, RFC 7692), from bytes to messages and back.
///
/// It has no socket, no clock and no randomness. Bytes and commands go in, and messages and bytes come out, in any
/// chunking.
///
/// ```swift
/// var codec = WebSocketCodec(compression: nil, nextMaskingKey: { .random(in: .min ... .max) })
/// let bytes = try codec.send(.text("hello"))
/// let output = codec.receivedBytes(input)
/// ```
struct WebSocketCodec {
    /// The result of some input.
    struct Output: Hashable {
        /// The messages for the reader, in order.
        var messages: [WebSocketMessage] = []
        /// The bytes for the peer, which are pongs and our close frame.
        var bytes: [UInt8] = []
        /// The end of the connection. Either the peer has closed it, in answer to our close frame or by itself, or the
        /// connection has failed. Nothing follows.
        var end: Result<WebSocketCloseReason, WebSocketError>?
    }

    /// A message that is not complete yet.
    private struct Message {
        let isText: Bool
        let isCompressed: Bool
        /// The size of its frames so far, in the form in which they were transmitted.
        var wireBytes = 0
    }

    private let limits: WebSocketLimits
    private let compression: DeflateParameters?
    private let nextMaskingKey: () -> UInt32
    /// Whether our close frame has been returned. The peer's pings and its close frame are not answered after that.
    private var hasClosed = false
    private var hasEnded = false

    /// The first bytes of a header that is not complete yet.
    private var pendingHeader: [UInt8] = []
    private var frame: WebSocketFrameHeader?
    /// The number of payload bytes of the frame that have not arrived.
    private var missingBytes = 0
    private var control: [UInt8] = []
    private var message: Message?
    /// The message's bytes so far, decompressed. The array is kept from message to message for its capacity.
    private var payload: [UInt8] = []
    private var validator = UTF8Validator()
    // These are created when they are first needed. The first takes about 40 KB, and the second at most 32 KB.
    private var inflater: Inflater?
    private var deflater: Deflater?

    /// Creates a codec.
    ///
    /// - Parameters:
    ///   - compression: The negotiated parameters.
    ///   - nextMaskingKey: A closure that is called once for each frame that this side sends. The keys must not be
    ///     predictable (RFC 6455, 10.3).
    init(
        limits: WebSocketLimits = WebSocketLimits(), compression: DeflateParameters?,
        nextMaskingKey: @escaping () -> UInt32
    ) {
        self.limits = limits
        self.compression = compression
        self.nextMaskingKey = nextMaskingKey
    }

    // MARK: Receiving

    mutating func receivedBytes(_ bytes: UnsafeRawBufferPointer) -> Output {
        var output = Output()
        guard !hasEnded else { return output }
        var rest = bytes
        do throws(WebSocketError) {
            while output.end == nil, try readPiece(&rest, &output) {}
        } catch {
            output.bytes += close(WebSocketCloseReason(code: error.closeCode))
            output.end = .failure(error)
        }
        hasEnded = output.end != nil
        return output
    }

    /// Reads a header, as much of its payload as there is, or both.
    ///
    /// - Parameter rest: The bytes that have arrived. The bytes that were read are removed from its front.
    /// - Returns: `false` if all bytes have been read.
    private mutating func readPiece(
        _ rest: inout UnsafeRawBufferPointer, _ output: inout Output
    ) throws(WebSocketError) -> Bool {
        if frame == nil {
            guard let header = try readHeader(&rest) else { return false }
            try begin(header)
        } else if rest.isEmpty {
            return false
        }
        guard let frame else { return false }
        let piece = rest.takePrefix(missingBytes)
        missingBytes -= piece.count
        let endsFrame = missingBytes == 0
        if endsFrame { self.frame = nil }
        if frame.opcode.isControl {
            control += piece
            if endsFrame { try receivedControl(frame.opcode, &output) }
        } else if let arrived = try received(piece, isLast: endsFrame && frame.isFinal) {
            output.messages.append(arrived)
        }
        return true
    }

    private mutating func readHeader(
        _ rest: inout UnsafeRawBufferPointer
    ) throws(WebSocketError) -> WebSocketFrameHeader? {
        let allowsCompression = compression != nil
        if pendingHeader.isEmpty, let header = try WebSocketFrameHeader(rest, allowsCompression: allowsCompression) {
            _ = rest.takePrefix(header.byteCount)
            return header
        }
        while !rest.isEmpty {
            pendingHeader += rest.takePrefix(1)
            let header = try pendingHeader.withUnsafeBufferPointer { bytes throws(WebSocketError) in
                try WebSocketFrameHeader(UnsafeRawBufferPointer(bytes), allowsCompression: allowsCompression)
            }
            guard let header else { continue }
            pendingHeader.removeAll(keepingCapacity: true)
            return header
        }
        return nil
    }

    /// Checks the frame against the frames before it (RFC 6455, 5.4) and against the limits.
    private mutating func begin(_ header: WebSocketFrameHeader) throws(WebSocketError) {
        frame = header
        missingBytes = header.payloadBytes
        guard !header.opcode.isControl else { return }
        guard header.payloadBytes <= limits.frameBytes else {
            throw .tooLarge("the server sent a frame", limit: limits.frameBytes)
        }
        switch (header.opcode, message) {
        case (.continuation, nil): throw .violation("the server continued a message that it had not begun")
        case (.continuation, _): break
        case (_, nil): message = Message(isText: header.opcode == .text, isCompressed: header.isCompressed)
        default: throw .violation("the server began a message inside another one")
        }
        message?.wireBytes += header.payloadBytes
        // The bytes of a compressed message are counted when they are decompressed.
        if let message, !message.isCompressed, message.wireBytes > limits.messageBytes {
            throw .tooLarge("the server sent a message", limit: limits.messageBytes)
        }
    }

    private mutating func receivedControl(_ opcode: WebSocketOpcode, _ output: inout Output) throws(WebSocketError) {
        defer { control = [] }
        switch opcode {
        case .ping: if !hasClosed { output.bytes += frame(.pong, control) }
        case .close:
            let reason = try WebSocketCloseReason(closePayload: control)
            output.bytes += close(WebSocketCloseReason(code: reason.code))
            output.end = .success(reason)
        default: break
        }
    }

    /// Takes a piece of the message. Returns the message if this piece completes it.
    private mutating func received(
        _ piece: UnsafeRawBufferPointer, isLast: Bool
    ) throws(WebSocketError) -> WebSocketMessage? {
        guard let message else { return nil }
        if isLast { self.message = nil }
        if isLast, payload.isEmpty, !message.isCompressed {
            // Most messages arrive in one piece and are taken directly from the received bytes. The standard library's
            // own check runs unspecialised code, which costs more than a small message.
            guard message.isText else { return .binary(Array(piece)) }
            guard validator.receivedBytes(piece), validator.isComplete else { throw .invalidUTF8 }
            return .text(String(decoding: piece, as: UTF8.self))
        }
        let start = payload.count
        var problem: WebSocketError?
        do throws(WebSocketError) {
            if message.isCompressed { try decompress(piece, isLast: isLast) } else { payload += piece }
        } catch {
            problem = error
        }
        // The bytes that were decompressed before an error may contain an earlier error.
        if message.isText {
            let isText = payload.withUnsafeBytes {
                validator.receivedBytes(UnsafeRawBufferPointer(rebasing: $0[start...]))
            }
            guard isText, !isLast || problem != nil || validator.isComplete else { throw .invalidUTF8 }
        }
        if let problem { throw problem }
        guard isLast else { return nil }
        defer { payload.removeAll(keepingCapacity: message.isText && payload.count <= 64 << 10) }
        return message.isText ? .text(String(decoding: payload, as: UTF8.self)) : .binary(payload)
    }

    private mutating func decompress(_ piece: UnsafeRawBufferPointer, isLast: Bool) throws(WebSocketError) {
        if inflater == nil { inflater = try Inflater() }
        try inflater?.decompress(piece, endsMessage: isLast, into: &payload, limit: limits.messageBytes)
        if isLast, compression?.serverNoContextTakeover == true { inflater = nil }
    }

    // MARK: Sending

    /// Encodes a message as one frame.
    ///
    /// - Throws: `.tooLarge` for a message beyond ``WebSocketLimits/frameBytes``, measured before compression. No part
    ///   of it is sent.
    mutating func send(_ message: WebSocketMessage) throws(WebSocketError) -> [UInt8] {
        guard message.byteCount <= limits.frameBytes else { throw .tooLarge("a message", limit: limits.frameBytes) }
        switch message {
        case .text(var text): return text.withUTF8 { dataFrame(.text, UnsafeRawBufferPointer($0)) }
        case .binary(let bytes): return bytes.withUnsafeBytes { dataFrame(.binary, $0) }
        }
    }

    /// Encodes a ping.
    func ping() -> [UInt8] { frame(.ping, []) }

    /// Encodes our close frame. Returns an empty array if it was returned before. Messages of the peer are still
    /// delivered until its own close frame arrives.
    ///
    /// - Parameter reason: The reason. A code that must not be transmitted (RFC 6455, 7.4) is omitted together with its
    ///   text. A text of more than 123 bytes is cut off after a complete character.
    mutating func close(_ reason: WebSocketCloseReason) -> [UInt8] {
        guard !hasClosed else { return [] }
        hasClosed = true
        guard let code = reason.code, WebSocketCloseReason.mayTravel(code) else { return frame(.close, []) }
        var payload = [UInt8(code >> 8), UInt8(code & 0xFF)]
        for character in reason.reason {
            guard payload.count + character.utf8.count <= 125 else { break }
            payload += character.utf8
        }
        return frame(.close, payload)
    }

    private mutating func dataFrame(_ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer) -> [UInt8] {
        if let compression, !payload.isEmpty {
            if deflater == nil { deflater = Deflater(windowBits: compression.clientMaxWindowBits) }
            defer { if compression.clientNoContextTakeover { deflater = nil } }
            if let compressed = deflater?.compress(payload) { return frame(opcode, compressed, isCompressed: true) }
        }
        return WebSocketFrameWriter.frame(opcode, payload, maskingKey: nextMaskingKey())
    }

    private func frame(_ opcode: WebSocketOpcode, _ payload: [UInt8], isCompressed: Bool = false) -> [UInt8] {
        payload.withUnsafeBytes {
            WebSocketFrameWriter.frame(opcode, $0, isCompressed: isCompressed, maskingKey: nextMaskingKey())
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Removes and returns at most `count` bytes from the front.
    mutating func takePrefix(_ count: Int) -> UnsafeRawBufferPointer {
        let taken = UnsafeRawBufferPointer(rebasing: prefix(count))
        self = UnsafeRawBufferPointer(rebasing: dropFirst(count))
        return taken
    }
}

extension WebSocketCloseReason {
    /// Returns whether the code may appear in a close frame. It must be assigned for that purpose, or be in the ranges
    /// for libraries and applications (RFC 6455, 7.4; 1012 to 1014 by IANA's registry). 1004 to 1006 and 1015 are never
    /// transmitted.
    static func mayTravel(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// Reads the payload of a close frame (RFC 6455, 5.5.1).
    init(closePayload payload: [UInt8]) throws(WebSocketError) {
        guard !payload.isEmpty else {
            self.init()
            return
        }
        let code = payload.count >= 2 ? UInt16(payload[0]) << 8 | UInt16(payload[1]) : 0
        guard Self.mayTravel(code) else { throw .violation("the server sent a close frame that can't be read") }
        guard let reason = String(validating: payload[2...], as: UTF8.self) else { throw .invalidUTF8 }
        self.init(code: code, reason: reason)
    }
}
