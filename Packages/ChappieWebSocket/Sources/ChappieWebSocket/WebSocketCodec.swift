import ChappieCore

/// The client's side of an open WebSocket (RFC 6455, RFC 7692), from bytes to messages and back.
///
/// It knows no socket, no clock and no randomness: bytes and commands go in, actions and bytes come out, and each frame
/// that it writes takes its masking key from the caller. It is linear, since decompression is a state that can't be copied.
///
/// ```swift
/// var codec = WebSocketCodec(limits: .default, compression: nil)
/// let bytes = try codec.send(.text("hello"), nextMaskingKey: { .random(in: .min ... .max, using: &generator) })
/// for action in codec.receivedBytes(input, nextMaskingKey: …) { … }
/// ```
struct WebSocketCodec: ~Copyable {
    /// The shell's work, in this order; at most one of each kind comes from one call.
    enum Action: Sendable, Hashable {
        /// Bytes for the peer: pongs, and our close frame. They come before the messages, so that an answer to one of
        /// these doesn't overtake the pong for a ping before it.
        case send([UInt8])
        /// Messages for the reader, at least one.
        case deliver([WebSocketMessage])
        /// The peer has closed, in answer to our close frame or of its own accord; our answer, if it needs one, is in
        /// the `send`. The server closes the connection now (RFC 6455, 7.1.1). Nothing follows.
        case peerClosed(WebSocketCloseReason)
        /// The connection is of no more use: what is to be sent, send, and close it. Nothing follows.
        case fail(WebSocketCodecError)
    }

    enum Phase: Sendable, Hashable {
        /// → closing, closed.
        case open
        /// Our close frame has been given out, the peer's has not come. → closed.
        case closing
        /// Both close frames, an error, or the end of the connection.
        case closed
    }

    private(set) var phase = Phase.open
    let limits: WebSocketLimits
    /// `nil`: no compression was agreed on.
    let compression: DeflateParameters?
    var reader: WebSocketFrameReader
    /// Made when it is first needed: it costs a quarter of a megabyte.
    private var deflater: Deflater?

    /// - Parameters:
    ///   - limits: for what the peer sends, and for our own messages.
    ///   - compression: what the handshake has negotiated.
    init(limits: WebSocketLimits = .default, compression: DeflateParameters?) {
        self.limits = limits
        self.compression = compression
        reader = WebSocketFrameReader(limits: limits, compression: compression)
    }

    // MARK: What happens

    /// Takes bytes from the peer, in any chunking.
    ///
    /// - Parameter nextMaskingKey: called once for each frame of ours; the keys must not be predictable (RFC 6455, 10.3).
    mutating func receivedBytes(_ bytes: UnsafeRawBufferPointer, nextMaskingKey: () -> UInt32) -> [Action] {
        guard phase != .closed else { return [] }
        var messages: [WebSocketMessage] = []
        var output: [UInt8] = []
        var ending: Action?
        do throws(WebSocketCodecError) {
            var rest = bytes
            while ending == nil, let element = try reader.next(&rest) {
                switch element {
                case .message(let message): messages.append(message)
                case .pong: break
                case .ping(let payload):
                    // After our close frame no answer is waited for.
                    if phase == .open { output += Self.control(.pong, payload, maskingKey: nextMaskingKey()) }
                case .close(let closure):
                    if phase == .open { output += Self.close(closure.code, maskingKey: nextMaskingKey()) }
                    ending = .peerClosed(closure)
                }
            }
        } catch {
            if phase == .open, let code = error.closeCode {
                output += Self.close(code, maskingKey: nextMaskingKey())
            }
            ending = .fail(error)
        }
        if ending != nil { end() }
        var actions: [Action] = []
        if !output.isEmpty { actions.append(.send(output)) }
        if !messages.isEmpty { actions.append(.deliver(messages)) }
        if let ending { actions.append(ending) }
        return actions
    }

    /// The connection has ended.
    mutating func connectionClosed() -> [Action] {
        guard phase != .closed else { return [] }
        end()
        return [.fail(.endedWithoutClose)]
    }

    private mutating func end() {
        phase = .closed
        reader = WebSocketFrameReader(limits: limits, compression: nil)
        deflater = nil
    }

    // MARK: Commands

    /// The bytes of a message, as one frame.
    ///
    /// - Throws: `.messageTooLarge` beyond ``WebSocketLimits/maximumFrameBytes``, before compression, and `.closed` after
    ///   either side's close frame.
    mutating func send(
        _ message: WebSocketMessage, nextMaskingKey: () -> UInt32
    ) throws(WebSocketCodecError) -> [UInt8] {
        guard phase == .open else { throw .closed }
        guard message.byteCount <= limits.maximumFrameBytes else {
            throw .messageTooLarge(limitBytes: limits.maximumFrameBytes)
        }
        switch message {
        case .text(var text): return text.withUTF8 { frame(.text, UnsafeRawBufferPointer($0), nextMaskingKey()) }
        case .binary(let bytes): return bytes.withUnsafeBytes { frame(.binary, $0, nextMaskingKey()) }
        }
    }

    /// The bytes of a ping; empty after either side's close frame.
    ///
    /// - Parameter payload: what the peer's pong repeats; at most 125 bytes, what is more is left out.
    func ping(_ payload: [UInt8] = [], nextMaskingKey: () -> UInt32) -> [UInt8] {
        phase == .open ? Self.control(.ping, payload, maskingKey: nextMaskingKey()) : []
    }

    /// The bytes of our close frame; empty after either side's close frame. What the peer still sends is delivered, until
    /// its own close frame.
    ///
    /// - Parameter closure: a code that must not travel (RFC 6455, 7.4) is left out, with its reason; a reason of more
    ///   than 123 bytes ends earlier, with a whole character.
    mutating func close(_ closure: WebSocketCloseReason, nextMaskingKey: () -> UInt32) -> [UInt8] {
        guard phase == .open else { return [] }
        phase = .closing
        deflater = nil
        return Self.close(closure.code, reason: closure.reason, maskingKey: nextMaskingKey())
    }

    private mutating func frame(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, _ maskingKey: UInt32
    ) -> [UInt8] {
        guard let compression, !payload.isEmpty else {
            return WebSocketFrameWriter.frame(opcode, payload, maskingKey: maskingKey)
        }
        if deflater == nil { deflater = Deflater.make(windowBits: compression.clientMaxWindowBits) }
        guard deflater != nil else { return WebSocketFrameWriter.frame(opcode, payload, maskingKey: maskingKey) }
        let bytes = WebSocketFrameWriter.compressedFrame(opcode, payload, maskingKey: maskingKey, deflater: &deflater)
        if compression.clientNoContextTakeover { deflater = nil }
        return bytes
    }

    private static func control(_ opcode: WebSocketOpcode, _ payload: [UInt8], maskingKey: UInt32) -> [UInt8] {
        payload.prefix(125).withUnsafeBytes { WebSocketFrameWriter.frame(opcode, $0, maskingKey: maskingKey) }
    }

    private static func close(_ code: UInt16?, reason: String = "", maskingKey: UInt32) -> [UInt8] {
        guard let code, WebSocketCloseReason.mayTravel(code) else { return control(.close, [], maskingKey: maskingKey) }
        var payload = [UInt8(code >> 8), UInt8(code & 0xFF)]
        for character in reason {
            guard payload.count + character.utf8.count <= 125 else { break }
            payload += character.utf8
        }
        return control(.close, payload, maskingKey: maskingKey)
    }
}

extension WebSocketCloseReason {
    /// Whether the code may stand in a close frame: assigned for that purpose, or in the ranges for libraries and
    /// applications (RFC 6455, 7.4; 1012 to 1014 by IANA's registry). 1004 to 1006 and 1015 never travel.
    static func mayTravel(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// Reads the payload of a close frame (RFC 6455, 5.5.1).
    init(closePayload payload: [UInt8]) throws(WebSocketCodecError) {
        guard !payload.isEmpty else {
            self.init()
            return
        }
        guard payload.count >= 2 else { throw .invalidClose }
        let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
        guard Self.mayTravel(code) else { throw .invalidClose }
        guard let reason = String(validating: payload[2...], as: UTF8.self) else { throw .invalidUTF8 }
        self.init(code: code, reason: reason)
    }
}
