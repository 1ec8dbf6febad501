/// `application/x-www-form-urlencoded` (RFC 6749, appendix B).
enum FormEncoding {
    /// The fields in their order; everything but letters, digits and `-._~` is percent-encoded.
    static func encode(_ fields: [(name: String, value: String)]) -> [UInt8] {
        var output: [UInt8] = []
        for (index, field) in fields.enumerated() {
            if index > 0 { output.append(UInt8(ascii: "&")) }
            append(field.name, to: &output)
            output.append(UInt8(ascii: "="))
            append(field.value, to: &output)
        }
        return output
    }

    private static func append(_ text: String, to output: inout [UInt8]) {
        let hex: StaticString = "0123456789ABCDEF"
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                output.append(byte)
            default:
                output.append(UInt8(ascii: "%"))
                output.append(hex.utf8Start[Int(byte >> 4)])
                output.append(hex.utf8Start[Int(byte & 0x0F)])
            }
        }
    }
}
