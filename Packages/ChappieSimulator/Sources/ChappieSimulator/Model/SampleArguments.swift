import ChappieCore

/// Makes up arguments that fit a JSON schema: the required members of objects, the first of an enumeration.
enum SampleArguments {
    static func make(for schema: ChappieJSON, depth: Int = 0) -> ChappieJSON {
        guard depth < 16 else { return .null }
        if let constant = schema["const"] { return constant }
        if let first = schema["enum"]?[0] { return first }
        if let example = schema["default"] ?? schema["examples"]?[0] { return example }
        if let choice = schema["anyOf"]?[0] ?? schema["oneOf"]?[0] { return make(for: choice, depth: depth + 1) }
        switch schema["type"]?.string ?? schema["type"]?[0]?.string ?? "object" {
        case "string": return "example"
        case "integer", "number": return schema["minimum"] ?? 1
        case "boolean": return true
        case "null": return .null
        case "array":
            let count = min(max(schema["minItems"]?.int ?? 0, 0), 8)
            return .array((0..<count).map { _ in make(for: schema["items"] ?? .null, depth: depth + 1) })
        default:
            let required = (schema["required"]?.array ?? []).compactMap(\.string).prefix(64)
            return .object(
                ChappieJSONObject(
                    required.map { ($0, make(for: schema["properties"]?[$0] ?? ["type": "string"], depth: depth + 1)) })
            )
        }
    }
}
