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
