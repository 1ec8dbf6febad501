@_spi(ChappieInternals) public import ChappieCore

/// The fields of a query (https://url.spec.whatwg.org/#application/x-www-form-urlencoded).
@_spi(ChappieInternals) public struct FormFields: Sendable {
    private let fields: [(name: String, value: String)]

    /// - Returns: `nil` if an escape is invalid or the bytes are not UTF-8.
    init?(_ query: String) {
        var fields: [(name: String, value: String)] = []
        for field in query.utf8.split(separator: UInt8(ascii: "&")) {
            let parts = field.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decoded(parts[0]), let value = parts.count > 1 ? Self.decoded(parts[1]) : "" else {
                return nil
            }
            fields.append((name, value))
        }
        self.fields = fields
    }

    /// Returns the values of all fields with this name.
    func all(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

    /// Returns the value of the first field with this name.
    func first(_ name: String) -> String? { fields.first { $0.name == name }?.value }

    /// Returns the value of the field with this name, or `nil` if there is none or more than one.
    func only(_ name: String) -> String? {
        let values = all(name)
        return values.count == 1 ? values[0] : nil
    }

    /// Encodes the fields as `application/x-www-form-urlencoded` (RFC 6749, appendix B). It escapes all bytes except
    /// letters, digits and `-._~`.
    public static func encoded(_ fields: [(name: String, value: String)]) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        func escaped(_ text: String) -> [UInt8] {
            text.utf8.flatMap { byte in
                isUnreserved(byte) ? [byte] : [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 0x0F)]]
            }
        }
        return Array(
            fields.map { escaped($0.name) + [UInt8(ascii: "=")] + escaped($0.value) }.joined(separator: "&".utf8))
    }

    private static func decoded(_ text: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}

extension URL {
    /// Returns this address with the fields at the end of its query, or `nil` if that is not an address.
    @_spi(ChappieInternals) public func appending(query fields: [(name: String, value: String)]) -> URL? {
        let query = String(decoding: FormFields.encoded(fields), as: UTF8.self)
        return URL(string: absoluteString + (absoluteString.contains("?") ? "&" : "?") + query)
    }
}

/// Returns whether the byte is a letter, a digit or in `-._~` (RFC 3986, 2.3).
func isUnreserved(_ byte: UInt8) -> Bool {
    byte.isASCIIAlphanumeric || "-._~".utf8.contains(byte)
}
