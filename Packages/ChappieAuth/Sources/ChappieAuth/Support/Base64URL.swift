/// base64url (RFC 4648, 5), padding optional.
enum Base64URL {
    /// The decoded bytes; `nil` for characters outside the alphabet or a length that no encoder produces.
    static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var output: [UInt8] = []
        output.reserveCapacity(text.count / 4 * 3 + 3)
        var buffer: UInt32 = 0
        var digits = 0
        var padding = 0
        for byte in text {
            if byte == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            guard padding == 0, let value = value(of: byte) else { return nil }
            buffer = buffer << 6 | value
            digits += 1
            if digits % 4 == 0 {
                output.append(UInt8(truncatingIfNeeded: buffer >> 16))
                output.append(UInt8(truncatingIfNeeded: buffer >> 8))
                output.append(UInt8(truncatingIfNeeded: buffer))
                buffer = 0
            }
        }
        guard padding == 0 || (digits + padding) % 4 == 0, padding <= 2 else { return nil }
        switch digits % 4 {
        case 1: return nil
        case 2: output.append(UInt8(truncatingIfNeeded: buffer >> 4))
        case 3:
            output.append(UInt8(truncatingIfNeeded: buffer >> 10))
            output.append(UInt8(truncatingIfNeeded: buffer >> 2))
        default: break
        }
        return output
    }

    private static func value(of byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
