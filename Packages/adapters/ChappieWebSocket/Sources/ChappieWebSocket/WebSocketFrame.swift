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

/// The head of a frame from a server (RFC 6455, 5.2).
struct WebSocketFrameHeader {
    let isFinal: Bool
    /// Whether RSV1 is set, which means that the message is compressed (RFC 7692, 6).
    let isCompressed: Bool
    let opcode: WebSocketOpcode
    let payloadBytes: Int
    /// The size of the head, which is two bytes, and up to eight for the length. A server sends no masking key.
    let byteCount: Int

    /// Reads the head at the beginning of the bytes. Returns `nil` if more bytes are needed. If the first two bytes are
    /// wrong, the head is refused before the rest arrives.
    ///
    /// - Parameter allowsCompression: Whether permessage-deflate has been negotiated.
    init?(_ bytes: UnsafeRawBufferPointer, allowsCompression: Bool) throws(WebSocketError) {
        guard bytes.count >= 2 else { return nil }
        let first = bytes[0]
        let second = bytes[1]
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else {
            throw .violation("the server sent a frame of the unknown kind \(first & 0x0F)")
        }
        isCompressed = first & 0x40 != 0
        guard first & 0x30 == 0, !isCompressed || allowsCompression && (opcode == .text || opcode == .binary) else {
            throw .violation("the server set a reserved bit in a frame")
        }
        guard second & 0x80 == 0 else { throw .violation("the server sent a masked frame") }
        isFinal = first & 0x80 != 0
        guard isFinal || !opcode.isControl else { throw .violation("the server sent a control frame in fragments") }
        guard second <= 125 || !opcode.isControl else {
            throw .violation("the server sent a control frame of more than 125 bytes")
        }
        self.opcode = opcode
        let lengthBytes = second == 127 ? 8 : second == 126 ? 2 : 0
        byteCount = 2 + lengthBytes
        guard bytes.count >= byteCount else { return nil }
        guard lengthBytes > 0 else {
            payloadBytes = Int(second)
            return
        }
        let length = bytes[2..<byteCount].reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        // The length must use as few bytes as possible, and be below 2⁶³.
        guard length > (lengthBytes == 2 ? 125 : 0xFFFF), let payloadBytes = Int(exactly: length) else {
            throw .violation("the server sent a frame whose length can't be read")
        }
        self.payloadBytes = payloadBytes
    }
}

/// A writer of a client's frames, which are final, masked, and have the length in as few bytes as possible (RFC 6455,
/// 5.2).
enum WebSocketFrameWriter {
    /// Returns a complete frame, in one allocation of its exact size.
    ///
    /// - Parameter isCompressed: Whether to set RSV1.
    static func frame(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool = false, maskingKey: UInt32
    ) -> [UInt8] {
        let size = payload.count
        let lengthBytes = size <= 125 ? 0 : size <= 0xFFFF ? 2 : 8
        let header = 2 + lengthBytes + 4
        return [UInt8](unsafeUninitializedCapacity: header + size) { frame, count in
            frame[0] = 0x80 | (isCompressed ? 0x40 : 0) | opcode.rawValue
            frame[1] = 0x80 | (lengthBytes == 0 ? UInt8(size) : lengthBytes == 2 ? 126 : 127)
            for index in 0..<lengthBytes {
                frame[2 + index] = UInt8(truncatingIfNeeded: size >> (8 * (lengthBytes - 1 - index)))
            }
            for index in 0..<4 {
                frame[header - 4 + index] = UInt8(truncatingIfNeeded: maskingKey >> (24 - 8 * UInt32(index)))
            }
            mask(
                payload, into: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(frame)[header...]),
                key: maskingKey)
            count = header + size
        }
    }

    /// Copies `source` in masked form (RFC 6455, 5.3). Every byte is XORed with the next of the key's four bytes, in
    /// turn. `key` consists of these four bytes in the order in which they are transmitted, read as a big-endian
    /// number.
    static func mask(_ source: UnsafeRawBufferPointer, into destination: UnsafeMutableRawBufferPointer, key: UInt32) {
        // The key is in memory order. Each word starts with the same key byte, since a word is a multiple of four
        // bytes.
        let ordered = UInt64(key.bigEndian)
        let block = SIMD4<UInt64>(repeating: ordered << 32 | ordered)
        let blockBytes = MemoryLayout<SIMD4<UInt64>>.size
        var position = 0
        while position &+ blockBytes <= source.count {
            let bytes = source.loadUnaligned(fromByteOffset: position, as: SIMD4<UInt64>.self)
            destination.storeBytes(of: bytes ^ block, toByteOffset: position, as: SIMD4<UInt64>.self)
            position &+= blockBytes
        }
        var rest = key
        while position < source.count {
            rest = rest << 8 | rest >> 24
            destination[position] = source[position] ^ UInt8(truncatingIfNeeded: rest)
            position &+= 1
        }
    }
}
