#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What the decoders ask of runs of bytes, eight at a time where that pays.
enum ByteScanner {
    /// The offset of the first byte from `start` on that is a quote, a backslash, a control character or not ASCII: the
    /// bytes of a JSON string that need a closer look. `bytes.count` when there is none.
    static func endOfPlainText(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        guard let base = UnsafeRawPointer(bytes.baseAddress) else { return 0 }
        var index = start
        while bytes.count - index >= 8 {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            // In each lane the top bit says "below": x - n borrows exactly where x < n, and the first lane that does is
            // right, since only lanes after it see its borrow.
            let quote = (word ^ 0x2222_2222_2222_2222) &- lanes
            let backslash = (word ^ 0x5C5C_5C5C_5C5C_5C5C) &- lanes
            let control = word &- 0x2020_2020_2020_2020
            let found = (quote | backslash | control | word) & topBits
            if found != 0 { return index + found.trailingZeroBitCount / 8 }
            index += 8
        }
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0..<0x20, 0x80...: return index
            default: index += 1
            }
        }
        return index
    }

    private static let lanes: UInt64 = 0x0101_0101_0101_0101
    private static let topBits: UInt64 = 0x8080_8080_8080_8080

    /// The offset of the first `byte` in `from..<to`.
    static func find(_ byte: UInt8, _ base: UnsafePointer<UInt8>, from: Int, to: Int) -> Int? {
        guard from < to, let hit = memchr(base + from, Int32(byte), to - from) else { return nil }
        return UnsafeRawPointer(hit) - UnsafeRawPointer(base)
    }

    static func equal(_ bytes: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
        guard let base = bytes.baseAddress, bytes.count == word.utf8CodeUnitCount else { return false }
        return memcmp(base, word.utf8Start, bytes.count) == 0
    }
}
