/// A validator for UTF-8 (RFC 3629) that arrives in pieces. It fails at the first byte that can't be valid.
struct UTF8Validator: Sendable {
    /// The number of continuation bytes that the current character still needs.
    private var missing: UInt8 = 0
    /// The bounds of the next byte. They are narrower after E0, ED, F0 and F4, to exclude overlong forms, surrogates
    /// and numbers beyond U+10FFFF.
    private var lower: UInt8 = 0x80
    private var upper: UInt8 = 0xBF

    /// Whether the last character is complete.
    var isComplete: Bool { missing == 0 }

    /// Checks the next bytes.
    ///
    /// - Returns: Whether the bytes, after all earlier ones, may still become valid UTF-8.
    mutating func receivedBytes(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let base = bytes.baseAddress else { return true }
        var position = 0
        while position < bytes.count {
            if missing == 0 {
                position = Self.endOfASCII(base, from: position, to: bytes.count)
                if position == bytes.count { return true }
            }
            guard accept(base.load(fromByteOffset: position, as: UInt8.self)) else { return false }
            position &+= 1
        }
        return true
    }

    @inline(__always)
    private mutating func accept(_ byte: UInt8) -> Bool {
        if missing > 0 {
            guard byte >= lower, byte <= upper else { return false }
            missing &-= 1
            lower = 0x80
            upper = 0xBF
            return true
        }
        switch byte {
        case 0x00...0x7F: return true
        case 0xC2...0xDF: missing = 1
        case 0xE0:
            missing = 2
            lower = 0xA0
        case 0xED:
            missing = 2
            upper = 0x9F
        case 0xE1...0xEF: missing = 2
        case 0xF0:
            missing = 3
            lower = 0x90
        case 0xF4:
            missing = 3
            upper = 0x8F
        case 0xF1...0xF3: missing = 3
        default: return false
        }
        return true
    }

    /// Returns the position of the first byte from `start` on that is not ASCII, or `end` if all are ASCII.
    @inline(__always)
    private static func endOfASCII(_ base: UnsafeRawPointer, from start: Int, to end: Int) -> Int {
        var position = start
        while position &+ 32 <= end {
            let bytes = base.loadUnaligned(fromByteOffset: position, as: SIMD4<UInt64>.self)
            let folded = (bytes[0] | bytes[1]) | (bytes[2] | bytes[3])
            if folded & 0x8080_8080_8080_8080 != 0 { break }
            position &+= 32
        }
        while position < end, base.load(fromByteOffset: position, as: UInt8.self) < 0x80 { position &+= 1 }
        return position
    }
}
