import FoundationEssentials

/// base64 with padding (RFC 4648, 4).
enum Base64 {
    static func encode(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    /// How many bytes `text` stands for; `nil` when it is not base64.
    static func byteCount(of text: String) -> Int? { Data(base64Encoded: text)?.count }
}
