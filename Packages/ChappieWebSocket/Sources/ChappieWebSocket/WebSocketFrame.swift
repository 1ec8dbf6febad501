/// The head of a frame from a server (RFC 6455, 5.2).
struct WebSocketFrameHeader: Sendable, Hashable {
    let isFinal: Bool
    /// RSV1: the message is compressed (RFC 7692, 6).
    let isCompressed: Bool
    let opcode: WebSocketOpcode
    let payloadBytes: UInt64

    /// Two bytes, and up to eight for the length. A masking key would follow, but a server may not send one.
    static let maximumBytes = 10

    /// How many bytes the header has whose second byte this is.
    static func byteCount(secondByte: UInt8) -> Int {
        switch secondByte & 0x7F {
        case 126: 4
        case 127: 10
        default: 2
        }
    }

    /// Checks what the first two bytes tell, so that a wrong frame is refused before its length has come.
    ///
    /// - Parameter allowsCompression: whether permessage-deflate has been negotiated.
    static func check(
        _ first: UInt8, _ second: UInt8, allowsCompression: Bool
    ) throws(WebSocketCodecError) -> WebSocketOpcode {
        guard first & 0x30 == 0 else { throw .reservedBitSet }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else { throw .unknownOpcode(first & 0x0F) }
        if first & 0x40 != 0 {
            guard allowsCompression, opcode == .text || opcode == .binary else { throw .reservedBitSet }
        }
        guard second & 0x80 == 0 else { throw .maskedFrame }
        if opcode.isControl {
            guard first & 0x80 != 0 else { throw .fragmentedControlFrame }
            guard second & 0x7F <= 125 else { throw .controlFrameTooLong }
        }
        return opcode
    }

    /// Reads a whole header.
    ///
    /// - Parameter bytes: as many as ``byteCount(secondByte:)`` says.
    init(_ bytes: UnsafeRawBufferPointer, allowsCompression: Bool) throws(WebSocketCodecError) {
        let (first, second) = (bytes[0], bytes[1])
        opcode = try Self.check(first, second, allowsCompression: allowsCompression)
        isFinal = first & 0x80 != 0
        isCompressed = first & 0x40 != 0
        switch second & 0x7F {
        case 126:
            payloadBytes = UInt64(UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self)))
            guard payloadBytes > 125 else { throw .invalidLength }
        case 127:
            payloadBytes = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt64.self))
            guard payloadBytes > 0xFFFF, payloadBytes >> 63 == 0 else { throw .invalidLength }
        case let short: payloadBytes = UInt64(short)
        }
    }
}

/// The kind of a frame (RFC 6455, 5.2 and 11.8).
enum WebSocketOpcode: UInt8, Sendable {
    case continuation = 0x0
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case ping = 0x9
    case pong = 0xA

    var isControl: Bool { rawValue >= 0x8 }
}

/// Frames of a client: final, masked, their length in as few bytes as it needs (RFC 6455, 5.2).
enum WebSocketFrameWriter {
    /// Two bytes, eight of length, four of the key.
    static let maximumHeaderBytes = 14

    /// A whole frame, in one allocation of its exact size.
    static func frame(_ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, maskingKey: UInt32) -> [UInt8] {
        let header = headerBytes(payload.count)
        return [UInt8](unsafeUninitializedCapacity: header + payload.count) { buffer, count in
            guard let base = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
            writeHeader(opcode.rawValue | 0x80, payload.count, maskingKey, to: base)
            WebSocketMask.copy(payload, to: base + header, key: maskingKey)
            count = header + payload.count
        }
    }

    /// A whole frame with a compressed payload (RFC 7692, 7.2.1).
    ///
    /// The payload is compressed to where the longest header would end, and moved to its place while it is masked.
    static func compressedFrame(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, maskingKey: UInt32, deflater: inout Deflater?
    ) -> [UInt8] {
        let bound = deflater?.bound(payload.count) ?? 0
        return [UInt8](unsafeUninitializedCapacity: maximumHeaderBytes + bound) { buffer, count in
            guard let base = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
            let room = UnsafeMutableRawBufferPointer(start: base + maximumHeaderBytes, count: bound)
            let written = deflater?.compress(payload, into: room) ?? 0
            let header = headerBytes(written)
            writeHeader(opcode.rawValue | 0xC0, written, maskingKey, to: base)
            WebSocketMask.copy(
                UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(room)[..<written]), to: base + header,
                key: maskingKey)
            count = header + written
        }
    }

    private static func headerBytes(_ payloadBytes: Int) -> Int {
        switch payloadBytes {
        case ...125: 6
        case ...0xFFFF: 8
        default: 14
        }
    }

    private static func writeHeader(
        _ first: UInt8, _ payloadBytes: Int, _ maskingKey: UInt32, to base: UnsafeMutableRawPointer
    ) {
        base.storeBytes(of: first, as: UInt8.self)
        let lengthEnd: Int
        switch payloadBytes {
        case ...125:
            base.storeBytes(of: 0x80 | UInt8(payloadBytes), toByteOffset: 1, as: UInt8.self)
            lengthEnd = 2
        case ...0xFFFF:
            base.storeBytes(of: 0x80 | 126, toByteOffset: 1, as: UInt8.self)
            base.storeBytes(of: UInt16(payloadBytes).bigEndian, toByteOffset: 2, as: UInt16.self)
            lengthEnd = 4
        default:
            base.storeBytes(of: 0x80 | 127, toByteOffset: 1, as: UInt8.self)
            base.storeBytes(of: UInt64(payloadBytes).bigEndian, toByteOffset: 2, as: UInt64.self)
            lengthEnd = 10
        }
        base.storeBytes(of: maskingKey.bigEndian, toByteOffset: lengthEnd, as: UInt32.self)
    }
}

/// Masking (RFC 6455, 5.3): every byte XOR one of the key's four, in turn.
///
/// A key is its four bytes as they travel, read as a big-endian number.
enum WebSocketMask {
    /// Copies `source` to `destination` masked. The two may overlap when `destination` begins first or in the same place,
    /// so that a frame can be masked where it lies.
    static func copy(
        _ source: UnsafeRawBufferPointer, to destination: UnsafeMutableRawPointer, key: UInt32
    ) {
        guard let base = source.baseAddress else { return }
        // In memory order; the same key again after each word, since words are multiples of four bytes.
        let ordered = key.bigEndian
        let word = UInt64(ordered) << 32 | UInt64(ordered)
        let block = SIMD4<UInt64>(repeating: word)
        let blockBytes = MemoryLayout<SIMD4<UInt64>>.size
        var position = 0
        while position &+ blockBytes <= source.count {
            let bytes = base.loadUnaligned(fromByteOffset: position, as: SIMD4<UInt64>.self)
            destination.storeBytes(of: bytes ^ block, toByteOffset: position, as: SIMD4<UInt64>.self)
            position &+= blockBytes
        }
        while position &+ 8 <= source.count {
            let bytes = base.loadUnaligned(fromByteOffset: position, as: UInt64.self)
            destination.storeBytes(of: bytes ^ word, toByteOffset: position, as: UInt64.self)
            position &+= 8
        }
        var rest = key
        while position < source.count {
            rest = rest << 8 | rest >> 24
            let byte = base.load(fromByteOffset: position, as: UInt8.self)
            destination.storeBytes(of: byte ^ UInt8(truncatingIfNeeded: rest), toByteOffset: position, as: UInt8.self)
            position &+= 1
        }
    }
}
