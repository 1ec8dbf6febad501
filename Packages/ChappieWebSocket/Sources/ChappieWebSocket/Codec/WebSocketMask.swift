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
