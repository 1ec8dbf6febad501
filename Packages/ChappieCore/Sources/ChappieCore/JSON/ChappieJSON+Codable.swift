extension ChappieJSON: Codable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Decodes any value. Through `JSONDecoder` integers are exact within 64 bits and the order of members is the
    /// decoder's; for everything else use ``init(parsing:)-([UInt8])``.
    public init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: Key.self) {
            let keys = container.allKeys.sorted { $0.stringValue < $1.stringValue }
            self = .object(
                ChappieJSONObject(try keys.map { ($0.stringValue, try container.decode(ChappieJSON.self, forKey: $0)) })
            )
        } else if var container = try? decoder.unkeyedContainer() {
            var elements: [ChappieJSON] = []
            while !container.isAtEnd { elements.append(try container.decode(ChappieJSON.self)) }
            self = .array(elements)
        } else {
            self = try ChappieJSON(scalar: try decoder.singleValueContainer())
        }
    }

    private init(scalar container: any SingleValueDecodingContainer) throws {
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int.self) {
            self = .integer(value)
        } else if let value = try? container.decode(UInt64.self) {
            self = .number(ChappieJSONNumber(checked: String(value)))
        } else if let value = try? container.decode(Double.self) {
            self = .double(value)
        } else {
            self = .string(try container.decode(String.self))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .null: try encodeScalar(Bool?.none, to: encoder)
        case .bool(let value): try encodeScalar(value, to: encoder)
        case .string(let value): try encodeScalar(value, to: encoder)
        case .number(let number):
            if let value = Int(number.literal) {
                try encodeScalar(value, to: encoder)
            } else if let value = UInt64(number.literal) {
                try encodeScalar(value, to: encoder)
            } else {
                try encodeScalar(number.double, to: encoder)
            }
        case .array(let elements):
            var container = encoder.unkeyedContainer()
            for element in elements { try container.encode(element) }
        case .object(let object):
            var container = encoder.container(keyedBy: Key.self)
            for member in object.members { try container.encode(member.value, forKey: Key(stringValue: member.name)) }
        }
    }

    private func encodeScalar(_ value: some Encodable, to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(value)
    }
}
