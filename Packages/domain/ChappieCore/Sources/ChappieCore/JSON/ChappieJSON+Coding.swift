// MARK: Text

extension ChappieJSON {
    /// Returns the value as compact JSON, with the members in their order. The same value always gives the same bytes.
    public func serialized() -> String { String(decoding: serializedBytes(), as: UTF8.self) }

    /// Returns the value as compact JSON in UTF-8.
    public func serializedBytes() -> [UInt8] {
        var output: [UInt8] = []
        append(to: &output)
        return output
    }

    private func append(to output: inout [UInt8]) {
        switch self {
        case .null: output.append(contentsOf: "null".utf8)
        case .bool(let value): output.append(contentsOf: (value ? "true" : "false").utf8)
        case .number(let number): output.append(contentsOf: number.literal.utf8)
        case .string(let string): Self.append(string, to: &output)
        case .array(let elements):
            output.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                element.append(to: &output)
            }
            output.append(UInt8(ascii: "]"))
        case .object(let object):
            output.append(UInt8(ascii: "{"))
            for (index, member) in object.members.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                Self.append(member.name, to: &output)
                output.append(UInt8(ascii: ":"))
                member.value.append(to: &output)
            }
            output.append(UInt8(ascii: "}"))
        }
    }

    private static func append(_ string: String, to output: inout [UInt8]) {
        let hex: StaticString = "0123456789abcdef"
        output.append(UInt8(ascii: "\""))
        for byte in string.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                output.append(UInt8(ascii: "\\"))
                output.append(byte)
            case 0x0A: output.append(contentsOf: "\\n".utf8)
            case 0x0D: output.append(contentsOf: "\\r".utf8)
            case 0x09: output.append(contentsOf: "\\t".utf8)
            case 0..<0x20, 0x7F:
                output.append(contentsOf: "\\u00".utf8)
                output.append(hex.utf8Start[Int(byte >> 4)])
                output.append(hex.utf8Start[Int(byte & 0x0F)])
            default: output.append(byte)
            }
        }
        output.append(UInt8(ascii: "\""))
    }
}

// MARK: Codable

extension ChappieJSON: Codable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Decodes any value. With `JSONDecoder`, integers are exact within 64 bits, and the members have the decoder's
    /// order. For exact numbers and the original order use ``init(parsing:)-([UInt8])``.
    public init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: Key.self) {
            let keys = container.allKeys.sorted { $0.stringValue < $1.stringValue }
            self = .object(
                ChappieJSONObject(try keys.map { ($0.stringValue, try container.decode(ChappieJSON.self, forKey: $0)) })
            )
            return
        }
        if (try? decoder.unkeyedContainer()) != nil {
            self = .array(try [ChappieJSON](from: decoder))
            return
        }
        let scalar = try decoder.singleValueContainer()
        if scalar.decodeNil() {
            self = .null
        } else if let value = try? scalar.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? scalar.decode(Int.self) {
            self = .integer(value)
        } else if let value = try? scalar.decode(UInt64.self) {
            self = .number(ChappieJSONNumber(checked: String(value)))
        } else if let value = try? scalar.decode(Double.self) {
            self = .double(value)
        } else {
            self = .string(try scalar.decode(String.self))
        }
    }

    /// Encodes any value. A number beyond 64 bits is encoded as the nearest double.
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .null: try Bool?.none.encode(to: encoder)
        case .bool(let value): try value.encode(to: encoder)
        case .string(let value): try value.encode(to: encoder)
        case .number(let number):
            let integer: (any Encodable)? = Int(number.literal) as (any Encodable)? ?? UInt64(number.literal)
            try (integer ?? number.double).encode(to: encoder)
        case .array(let elements): try elements.encode(to: encoder)
        case .object(let object):
            var container = encoder.container(keyedBy: Key.self)
            for member in object.members { try container.encode(member.value, forKey: Key(stringValue: member.name)) }
        }
    }
}

extension ChappieJSONObject: Codable {
    /// Decodes the output of ``encode(to:)``, or an object in the decoder's own format, whose members have no order.
    public init(from decoder: any Decoder) throws {
        var json = try ChappieJSON(from: decoder)
        if let text = json.string { json = try ChappieJSON(parsing: text) }
        guard let object = json.object else {
            throw DecodingError.typeMismatch(
                ChappieJSONObject.self, .init(codingPath: decoder.codingPath, debugDescription: "It is not an object."))
        }
        self = object
    }

    /// Encodes the object as its JSON text, because encoders don't keep the order of members, and requests depend on
    /// it.
    public func encode(to encoder: any Encoder) throws { try ChappieJSON.object(self).serialized().encode(to: encoder) }
}
