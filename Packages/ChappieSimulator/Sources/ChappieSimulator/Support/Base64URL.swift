/// base64url without padding (RFC 4648, 5).
enum Base64URL {
    static func encode(_ bytes: [UInt8]) -> String {
        let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        var output: [UInt8] = []
        output.reserveCapacity((bytes.count * 4 + 2) / 3)
        var buffer: UInt32 = 0
        var bits = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                output.append(alphabet.utf8Start[Int(buffer >> bits & 0x3F)])
            }
        }
        if bits > 0 { output.append(alphabet.utf8Start[Int(buffer << (6 - bits) & 0x3F)]) }
        return String(decoding: output, as: UTF8.self)
    }

    static func encode(_ text: String) -> String { encode(Array(text.utf8)) }
}
