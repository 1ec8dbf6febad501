@_spi(ChappieInternals) public import ChappieCore

extension ChappieJSONSchema {
    /// Whether the schema may describe an object, as the schema of a tool's arguments must.
    @_spi(ChappieInternals) public var allowsObjects: Bool {
        guard let object = json.object else { return false }
        return object.schemaTypes.isEmpty || object.schemaTypes.contains("object")
    }

    /// The schema in a form that the service accepts as a tool's parameters.
    ///
    /// The service refuses an entire request for one schema that it does not accept. This form is an object without
    /// combinations at its root. Its arrays have `items`, its objects `properties`, and its patterns only common parts.
    /// Older drafts are written as draft 2020-12. Negations, conditions and unknown keywords are left out. The arguments
    /// are checked against the schema itself.
    @_spi(ChappieInternals) public var toolParameters: ChappieJSONValue { ToolParameters(json).root() }
}

/// A rewrite of a schema as a tool's parameters.
private struct ToolParameters {
    private static let annotations: Set<String> = [
        "title", "description", "default", "examples", "deprecated", "format", "enum", "const", "multipleOf",
        "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains",
        "minProperties", "maxProperties", "dependentRequired",
    ]
    private static let combinations = ["allOf", "anyOf", "oneOf"]

    private let json: ChappieJSON

    init(_ json: ChappieJSON) { self.json = json }

    func root() -> ChappieJSON {
        let document = adapted(json)
        var root = target(of: document, in: document).object ?? [:]
        for name in ["$defs", "definitions"] { root[name] = document[name] }
        for name in Self.combinations {
            merge(root[name]?.array?.map { target(of: $0, in: document) } ?? [], of: name, into: &root)
            root[name] = nil
        }
        for name in ["enum", "const"] { root[name] = nil }
        root["type"] = "object"
        root["properties"] = root["properties"] ?? [:]
        return withoutDanglingReferences(.object(root), in: .object(root))
    }

    /// Returns the schema that a schema refers to, or the schema itself.
    private func target(of schema: ChappieJSON, in document: ChappieJSON) -> ChappieJSON {
        var schema = schema
        // The compiler refuses circles and long chains.
        for _ in 0..<64 {
            guard let reference = schema["$ref"]?.string,
                let path = JSONPointer.tokens(ofReference: reference, base: nil),
                let target = JSONPointer.value(path, in: document)
            else { break }
            schema = target
        }
        return schema
    }

    /// Adds the members of the alternatives to an object.
    private func merge(_ alternatives: [ChappieJSON], of name: String, into root: inout ChappieJSONObject) {
        guard !alternatives.isEmpty else { return }
        var properties = root["properties"]?.object ?? [:]
        for member in alternatives.flatMap({ $0["properties"]?.object?.members ?? [] }) {
            guard let earlier = properties[member.name], earlier != member.value else {
                properties[member.name] = member.value
                continue
            }
            let both = earlier.object?.names == ["anyOf"] ? earlier["anyOf"]?.array ?? [] : [earlier]
            if !both.contains(member.value) { properties[member.name] = ["anyOf": .array(both + [member.value])] }
        }
        root["properties"] = .object(properties)
        let lists = alternatives.map { $0["required"]?.array ?? [] }
        var required = root["required"]?.array ?? []
        for value in lists.joined() where !required.contains(value) {
            if name == "allOf" || lists.allSatisfy({ $0.contains(value) }) { required.append(value) }
        }
        if !required.isEmpty { root["required"] = .array(required) }
    }

    private func adapted(_ json: ChappieJSON) -> ChappieJSON {
        guard let object = json.object else { return json == false ? ["not": [:]] : [:] }
        var new = ChappieJSONObject()
        let types = object.schemaTypes
        if let type = types.first {
            new["type"] = types.count == 1 ? .string(type) : .array(types.map { .string($0) })
        }
        for member in object.members {
            let name = member.name
            let value = member.value
            switch name {
            case _ where Self.annotations.contains(name): new[name] = value
            case "$ref":
                let path = value.string.flatMap { JSONPointer.tokens(ofReference: $0, base: self.json["$id"]?.string) }
                new[name] = path.map { .string("#" + JSONPointer.text($0)) }
            case "pattern" where value.string.map(SchemaPattern.isCommon) == true: new[name] = value
            case "properties", "$defs", "definitions", "dependentSchemas": new[name] = named(value)
            case "patternProperties": new[name] = named(value, where: SchemaPattern.isCommon)
            case "required" where value.array != nil: new[name] = value
            case "additionalProperties": new[name] = value.bool == nil ? adapted(value) : value
            case "propertyNames", "contains": new[name] = adapted(value)
            case "allOf", "anyOf", "oneOf":
                // A part may be looser than the original, so more than one alternative may fit.
                let list = (value.array ?? []).map(adapted)
                if !list.isEmpty { new[name == "oneOf" && new["anyOf"] == nil ? "anyOf" : name] = .array(list) }
            default: break
            }
        }
        for (name, value) in object.numberLimits { new[name] = value }
        if new["patternProperties"]?.object?.names != object["patternProperties"]?.object?.names {
            new["additionalProperties"] = nil
        }
        if types.contains("object") { new["properties"] = new["properties"] ?? [:] }
        let (prefix, _, rest) = object.tupleParts
        if !prefix.isEmpty { new["prefixItems"] = .array(prefix.map { adapted($0.schema) }) }
        if types.contains("array") || rest != nil { new["items"] = rest?.object == nil ? [:] : rest.map(adapted) }
        if rest == false, object["maxItems"] == nil { new["maxItems"] = .integer(prefix.count) }
        return .object(new)
    }

    /// Returns the schemas of an object without those that no value fits.
    private func named(_ json: ChappieJSON, where isKept: (String) -> Bool = { _ in true }) -> ChappieJSON {
        let members = (json.object?.members ?? []).filter { $0.value != false && isKept($0.name) }
        return .object(ChappieJSONObject(members.map { ($0.name, adapted($0.value)) }))
    }

    private func withoutDanglingReferences(_ json: ChappieJSON, in document: ChappieJSON) -> ChappieJSON {
        switch json {
        case .array(let elements): return .array(elements.map { withoutDanglingReferences($0, in: document) })
        case .object(var object):
            if let reference = object["$ref"]?.string {
                let path = JSONPointer.tokens(ofReference: reference, base: nil)
                if path.flatMap({ JSONPointer.value($0, in: document) }) == nil { object["$ref"] = nil }
            }
            return .object(
                ChappieJSONObject(
                    object.members.map { ($0.name, withoutDanglingReferences($0.value, in: document)) }))
        default: return json
        }
    }
}
