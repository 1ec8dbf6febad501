import ChappieCore

/// One header field of a scenario.
struct ScenarioHeader: Sendable, Hashable {
    let name: String
    let value: String

    /// The members of an object as header fields. Names are tokens and values have no line breaks (RFC 9110, 5).
    static func list(_ reader: ScenarioReader) throws(SimulatorError) -> [ScenarioHeader] {
        guard let object = reader.value.object else { throw reader.wrong("must be an object") }
        var headers: [ScenarioHeader] = []
        for name in object.names {
            guard let member = reader[name] else { continue }
            guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte) else {
                throw member.wrong("is not a header field name")
            }
            headers.append(ScenarioHeader(name: name, value: try value(member)))
        }
        return headers
    }

    /// The value of a field: a string or an integer.
    static func value(_ reader: ScenarioReader) throws(SimulatorError) -> String {
        let value: String
        if let number = reader.value.int { value = String(number) } else { value = try reader.string() }
        guard value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
            throw reader.wrong("must not hold control characters")
        }
        return value
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
