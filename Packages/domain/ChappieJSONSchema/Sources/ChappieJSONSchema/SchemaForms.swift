import ChappieCore

/// Functions that read the keywords of any draft in the form of draft 2020-12.
extension ChappieJSONObject {
    /// The names of types in `type`, with `null` for a schema of OpenAPI 3.0 that is nullable. Empty without a type.
    var schemaTypes: [String] {
        var types = (self["type"]?.array ?? self["type"].map { [$0] } ?? []).compactMap(\.string)
        types.removeAll { $0 == "any" }
        if self["nullable"] == true, !types.isEmpty, !types.contains("null") { types.append("null") }
        return types
    }

    /// The limits of a number, without those of draft 4 that are `true` or `false`.
    var numberLimits: [(String, ChappieJSON)] {
        ["minimum", "maximum"].flatMap { name -> [(String, ChappieJSON)] in
            let exclusive = name == "minimum" ? "exclusiveMinimum" : "exclusiveMaximum"
            guard let isExclusive = self[exclusive]?.bool else {
                return [name, exclusive].compactMap { name in self[name].map { (name, $0) } }
            }
            return self[name].map { [(isExclusive ? exclusive : name, $0)] } ?? []
        }
    }

    /// The schemas of a tuple's elements with their places, and the schema of the other elements.
    var tupleParts: (prefix: [(path: [String], schema: ChappieJSON)], restName: String, rest: ChappieJSON?) {
        let isOld = self["items"]?.array != nil
        let name = isOld ? "items" : "prefixItems"
        let prefix = (self[name]?.array ?? []).enumerated().map { (path: [name, String($0)], schema: $1) }
        let restName = isOld ? "additionalItems" : "items"
        return (prefix, restName, self[restName])
    }
}

/// Regular expressions as different programs read them.
enum SchemaPattern {
    /// Returns whether the pattern has only parts that all common matchers know. Those of many services know no
    /// look-around, no back references and no flags.
    static func isCommon(_ pattern: String) -> Bool {
        var depth = 0
        var isInClass = false
        var rest = pattern.utf8[...]
        while let byte = rest.popFirst() {
            switch Unicode.Scalar(byte) {
            case "\\":
                guard let next = rest.popFirst() else { return false }
                if (0x31...0x39).contains(next) || next == UInt8(ascii: "k") { return false }
            case "[": isInClass = true
            case "]": isInClass = false
            case "(" where !isInClass:
                depth += 1
                if rest.first == UInt8(ascii: "?"), rest.dropFirst().first != UInt8(ascii: ":") { return false }
            case ")" where !isInClass: depth -= 1
            default: break
            }
            if depth < 0 { return false }
        }
        return depth == 0 && !isInClass
    }
}
