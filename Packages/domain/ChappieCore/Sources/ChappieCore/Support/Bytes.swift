/// Conversions to and from base64url (RFC 4648, section 5).
@_spi(ChappieInternals) public enum Base64URL {
    /// Returns `bytes` in base64url without padding.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// Returns the bytes that `text` encodes, with or without padding, or `nil` if it is not base64url.
    public static func decode(_ text: String) -> [UInt8]? {
        guard !text.contains(where: { $0 == "+" || $0 == "/" }) else { return nil }
        let padding = text.contains("=") ? 0 : (4 - text.utf8.count % 4) % 4
        let digits = text.replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: digits + String(repeating: "=", count: padding)).map(Array.init)
    }
}

/// FNV-1a with 64 bits, for file names. It does not protect secrets, and two texts may have the same digest.
@_spi(ChappieInternals) public enum FNV1a {
    /// Returns the digest of `parts`, which must not contain a NUL character, in 16 digits.
    public static func hexadecimal(_ parts: [String]) -> String {
        var digest: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in parts.joined(separator: "\0").utf8 { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01b3 }
        let text = String(digest, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }
}
