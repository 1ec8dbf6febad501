#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Reads one JSON string (RFC 8259, 7) out of a buffer; shared by the parser and the delta fast path.
enum JSONStringScanner {
    /// The string whose opening quote is at `start`, and the offset past its closing quote.
    ///
    /// Half a surrogate pair becomes U+FFFD.
    ///
    /// - Returns: `nil` when the string does not end, holds a control character, an unknown escape, or bytes that are not
    ///   UTF-8.
    static func scan(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> (String, end: Int)? {
        guard start < bytes.count, bytes[start] == UInt8(ascii: "\"") else { return nil }
        var isASCII = true
        var index = start + 1
        while true {
            index = ByteScanner.endOfPlainText(bytes, from: index)
            guard index < bytes.count else { return nil }
            switch bytes[index] {
            case UInt8(ascii: "\""):
                let text = UnsafeBufferPointer(rebasing: bytes[(start + 1)..<index])
                // Measured: validating costs twice as much as decoding, and ASCII needs no validating.
                if isASCII { return (String(decoding: text, as: UTF8.self), index + 1) }
                guard let string = String(validating: text, as: UTF8.self) else { return nil }
                return (string, index + 1)
            case UInt8(ascii: "\\"): return scanEscaped(bytes, from: start + 1, firstEscape: index)
            case 0..<0x20: return nil
            default:
                isASCII = false
                skipNonASCII(bytes, &index)
            }
        }
    }

    private static func skipNonASCII(_ bytes: UnsafeBufferPointer<UInt8>, _ index: inout Int) {
        while index < bytes.count, bytes[index] >= 0x80 { index += 1 }
    }

    private static func scanEscaped(
        _ bytes: UnsafeBufferPointer<UInt8>, from start: Int, firstEscape: Int
    ) -> (String, end: Int)? {
        var unescaped = [UInt8](bytes[start..<firstEscape])
        var index = firstEscape
        while index < bytes.count {
            let byte = bytes[index]
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = String(validating: unescaped, as: UTF8.self) else { return nil }
                return (string, index + 1)
            case UInt8(ascii: "\\"):
                guard let next = appendEscape(bytes, at: index + 1, to: &unescaped) else { return nil }
                index = next
            case 0..<0x20: return nil
            default:
                let run = index
                if byte >= 0x80 {
                    skipNonASCII(bytes, &index)
                } else {
                    index = ByteScanner.endOfPlainText(bytes, from: index)
                }
                unescaped.append(contentsOf: bytes[run..<index])
            }
        }
        return nil
    }

    /// Appends the character whose escape letter is at `index`; gives the offset after the escape.
    private static func appendEscape(
        _ bytes: UnsafeBufferPointer<UInt8>, at index: Int, to output: inout [UInt8]
    ) -> Int? {
        guard index < bytes.count else { return nil }
        switch bytes[index] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): output.append(bytes[index])
        case UInt8(ascii: "b"): output.append(0x08)
        case UInt8(ascii: "f"): output.append(0x0C)
        case UInt8(ascii: "n"): output.append(0x0A)
        case UInt8(ascii: "r"): output.append(0x0D)
        case UInt8(ascii: "t"): output.append(0x09)
        case UInt8(ascii: "u"): return appendCodeUnit(bytes, at: index + 1, to: &output)
        default: return nil
        }
        return index + 1
    }

    private static func appendCodeUnit(
        _ bytes: UnsafeBufferPointer<UInt8>, at index: Int, to output: inout [UInt8]
    ) -> Int? {
        guard let first = hexUnit(bytes, at: index) else { return nil }
        var end = index + 4
        var scalar = UInt32(first)
        if (0xD800...0xDBFF).contains(first), end + 1 < bytes.count, bytes[end] == UInt8(ascii: "\\"),
            bytes[end + 1] == UInt8(ascii: "u"), let second = hexUnit(bytes, at: end + 2),
            (0xDC00...0xDFFF).contains(second)
        {
            scalar = 0x10000 + ((UInt32(first) - 0xD800) << 10) + (UInt32(second) - 0xDC00)
            end += 6
        }
        // Half a pair stands for no character. Servers that cut text by UTF-16 units send it, and the rest is good.
        output.append(contentsOf: UTF8.encode(Unicode.Scalar(scalar) ?? "\u{FFFD}") ?? .init())
        return end
    }

    private static func hexUnit(_ bytes: UnsafeBufferPointer<UInt8>, at index: Int) -> UInt16? {
        guard index + 4 <= bytes.count else { return nil }
        var unit: UInt16 = 0
        for byte in bytes[index..<(index + 4)] {
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
            default: return nil
            }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }
}

/// Searches in runs of bytes for the decoders, eight at a time where that pays.
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
