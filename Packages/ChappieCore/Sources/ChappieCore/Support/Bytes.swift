#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Writes all of `bytes`, over signals and short writes. It waits for a descriptor that would block: another program may
/// have set that mode on a shared one.
///
/// - Returns: 0, or the `errno` of the write that failed; a part may have been written then. A descriptor that takes
///   nothing counts as full (`ENOSPC`).
@_spi(ChappieInternals) public func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32 {
    var rest = bytes[...]
    while !rest.isEmpty {
        let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if count > 0 {
            rest = rest.dropFirst(count)
        } else if count == 0 {
            return ENOSPC
        } else if errno == EAGAIN {
            var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            _ = poll(&poller, 1, -1)
        } else if errno != EINTR {
            return errno
        }
    }
    return 0
}

/// base64url (RFC 4648, section 5).
@_spi(ChappieInternals) public enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// `bytes` without padding.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var output: [UInt8] = []
        var buffer: UInt32 = 0
        var bits = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                output.append(alphabet[Int(buffer >> bits & 0x3F)])
            }
        }
        if bits > 0 { output.append(alphabet[Int(buffer << (6 - bits) & 0x3F)]) }
        return String(decoding: output, as: UTF8.self)
    }

    /// The bytes that `text` stands for, with padding or without.
    ///
    /// - Returns: `nil` for characters outside the alphabet or a length that no encoder produces.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let digits = text.utf8.prefix { $0 != UInt8(ascii: "=") }
        let padding = text.utf8.dropFirst(digits.count)
        let isPaddingRight = padding.isEmpty || (padding.count <= 2 && text.utf8.count % 4 == 0)
        guard digits.count % 4 != 1, isPaddingRight, padding.allSatisfy({ $0 == UInt8(ascii: "=") }) else { return nil }
        var output: [UInt8] = []
        output.reserveCapacity(digits.count / 4 * 3 + 2)
        var buffer: UInt32 = 0
        var bits = 0
        for digit in digits {
            guard let value = value(of: digit) else { return nil }
            buffer = buffer << 6 | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                output.append(UInt8(truncatingIfNeeded: buffer >> bits))
            }
        }
        return output
    }

    private static func value(of digit: UInt8) -> UInt32? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
