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
