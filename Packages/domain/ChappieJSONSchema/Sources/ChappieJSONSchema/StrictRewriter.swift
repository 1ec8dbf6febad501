@_spi(ChappieInternals) import ChappieCore

/// A rewrite of a schema in the strict form of the service.
///
/// It was written by the service's guide to structured outputs in November 2026: objects are closed and require all
/// members, the root is an object, alternatives are `anyOf`, a `$ref` has no neighbours, and of the other keywords only
/// those below are known.
struct StrictRewriter {
    private typealias Fault = ChappieJSONSchemaError

    private static let kept: Set<String> = [
        "multipleOf", "minItems", "maxItems", "minLength", "maxLength",
    ]
    private static let formats: Set<String> = [
        "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
    ]
    /// The keywords of which a schema needs one to describe a value by itself.
    private static let descriptive = [
        "type", "properties", "items", "$ref", "enum", "const", "anyOf", "oneOf", "allOf",
    ]

    private let source: ChappieJSON
    private let compiled: SchemaCompiler
    private let rules: [[SchemaRule]]
    /// The name of the definition for each place that a reference leads to.
    private var names: [[String]: String] = [:]
    private var open: [(name: String, path: [String])] = []
    /// The places of members that were optional, in the new schema.
    private(set) var added: Set<[String]> = []

    init(_ source: ChappieJSON, compiled: SchemaCompiler) {
        self.source = source
        self.compiled = compiled
        rules = compiled.rules
    }

    /// Returns the new schema, and whether the root is the member `value` of another object.
    mutating func document() throws(ChappieJSONSchemaError) -> (ChappieJSON, isWrapped: Bool) {
        let path = try rootPath()
        let schema = JSONPointer.value(path, in: source) ?? source
        let start = self
        let plain = try form(schema, from: path, at: [])
        let isWrapped = plain["type"] != "object"
        if isWrapped { self = start }
        var root: ChappieJSONObject =
            isWrapped
            ? [
                "type": "object",
                "properties": ["value": try form(schema, from: path, at: ["properties", "value"])],
                "required": ["value"], "additionalProperties": false,
            ] : plain.object ?? [:]
        var definitions = ChappieJSONObject()
        while let (name, path) = open.popLast() {
            let schema = JSONPointer.value(path, in: source) ?? true
            definitions[name] = try form(schema, from: path, at: ["$defs", name])
        }
        if !definitions.isEmpty { root["$defs"] = .object(definitions) }
        return (.object(root), isWrapped)
    }

    /// Returns the place of the schema that the root refers to, or of the root itself.
    private func rootPath() throws(ChappieJSONSchemaError) -> [String] {
        var path: [String] = []
        while let schema = JSONPointer.value(path, in: source)?.object {
            if let reference = schema["$ref"]?.string {
                path = try target(of: reference, from: path)
            } else if schema["allOf"]?.array?.count == 1, schema["properties"] == nil {
                path += ["allOf", "0"]
            } else {
                break
            }
        }
        return path
    }

    private func target(of reference: String, from path: [String]) throws(ChappieJSONSchemaError) -> [String] {
        guard let target = JSONPointer.tokens(ofReference: reference, base: source["$id"]?.string),
            JSONPointer.value(target, in: source) != nil
        else {
            throw Fault(
                path: JSONPointer.text(path + ["$ref"]),
                reason: "the reference leads to no schema in this document: \(Quoted.name(reference))")
        }
        return target
    }

    // MARK: One schema

    /// Returns the strict form of a schema.
    ///
    /// - Parameters:
    ///   - path: the place of the schema in the source.
    ///   - place: the place of the form in the new schema.
    private mutating func form(
        _ json: ChappieJSON, from path: [String], at place: [String]
    ) throws(ChappieJSONSchemaError) -> ChappieJSON {
        func fault(_ reason: String) -> Fault { Fault(path: JSONPointer.text(path), reason: reason) }
        guard let schema = json.object else {
            throw fault(json == false ? "no value fits" : "a value of any kind has no strict form")
        }
        if let reference = schema["$ref"]?.string {
            let others = Self.descriptive.filter { $0 != "$ref" && $0 != "type" && schema[$0] != nil }
            if !isOld, let other = others.first {
                throw fault("\"$ref\" next to \(Quoted.name(other)) has no strict form")
            }
            return ["$ref": .string("#/$defs/" + name(of: try target(of: reference, from: path)))]
        }
        for combination in ["anyOf", "oneOf", "allOf"] {
            guard let alternatives = schema[combination]?.array else { continue }
            let describes = alternatives.contains { one in Self.descriptive.contains { one[$0] != nil } }
            let isDescribed = ["properties", "items", "enum", "const"].contains { schema[$0] != nil }
            // Alternatives of described values are conditions, which only the answer is checked against.
            if !describes, isDescribed || schema["type"] != nil { continue }
            guard !isDescribed else {
                throw fault("\(Quoted.name(combination)) next to \"properties\" or \"items\" has no strict form")
            }
            if combination == "allOf" {
                guard alternatives.count == 1 else { throw fault("\"allOf\" of several schemas has no strict form") }
                return try form(alternatives[0], from: path + ["allOf", "0"], at: place)
            }
            var forms: [ChappieJSON] = []
            for (index, one) in alternatives.enumerated() {
                forms.append(
                    try form(one, from: path + [combination, String(index)], at: place + ["anyOf", String(index)]))
            }
            if schema["nullable"] == true { forms.append(["type": "null"]) }
            var new: ChappieJSONObject = ["anyOf": .array(forms)]
            if let description = schema["description"]?.string { new["description"] = .string(description) }
            return .object(new)
        }
        return try plainForm(schema, from: path, at: place)
    }

    private var isOld: Bool { source["$schema"]?.string?.contains("json-schema.org/draft-0") == true }

    private mutating func name(of path: [String]) -> String {
        if let name = names[path] { return name }
        let letters = (path.last ?? "Root").filter { $0.isASCII && ($0.isLetter || $0.isNumber || "_-".contains($0)) }
        let stem = letters.isEmpty ? "Definition" : String(letters.prefix(40))
        let taken = Set(names.values)
        var name = stem
        var number = 2
        while taken.contains(name) {
            name = "\(stem)_\(number)"
            number += 1
        }
        names[path] = name
        open.append((name, path))
        return name
    }

    /// Returns the form of a schema that describes its values by their type.
    private mutating func plainForm(
        _ schema: ChappieJSONObject, from path: [String], at place: [String]
    ) throws(ChappieJSONSchemaError) -> ChappieJSON {
        var new = ChappieJSONObject()
        let types = try types(of: schema, at: path)
        new["type"] = types.count == 1 ? .string(types[0]) : .array(types.map { .string($0) })
        if let description = schema["description"]?.string { new["description"] = .string(description) }
        if let value = schema["const"] { new["enum"] = [value] } else { new["enum"] = schema["enum"] }
        if let pattern = schema["pattern"]?.string, SchemaPattern.isCommon(pattern) {
            new["pattern"] = .string(pattern)
        }
        if let format = schema["format"]?.string, Self.formats.contains(format) { new["format"] = .string(format) }
        for member in schema.members where Self.kept.contains(member.name) { new[member.name] = member.value }
        for (name, value) in schema.numberLimits { new[name] = value }
        if types.contains("array") { try addItems(of: schema, from: path, at: place, to: &new) }
        if types.contains("object") { try addMembers(of: schema, from: path, at: place, to: &new) }
        return .object(new)
    }

    private func types(of schema: ChappieJSONObject, at path: [String]) throws(ChappieJSONSchemaError) -> [String] {
        let types = schema.schemaTypes
        if !types.isEmpty { return types }
        if schema["properties"] != nil { return ["object"] }
        if schema["items"] != nil || schema["prefixItems"] != nil { return ["array"] }
        var found: [String] = []
        for value in schema["const"].map({ [$0] }) ?? schema["enum"]?.array ?? [] {
            let type =
                switch value {
                case .null: "null"
                case .bool: "boolean"
                case .number: SchemaTypes(of: value).contains(.integer) ? "integer" : "number"
                case .string: "string"
                case .array, .object:
                    throw Fault(path: JSONPointer.text(path), reason: "a constant list or object has no strict form")
                }
            if !found.contains(type) { found.append(type) }
        }
        guard !found.isEmpty else {
            throw Fault(path: JSONPointer.text(path), reason: "a value of any kind has no strict form")
        }
        return found
    }

    /// Adds the items of an array. Those of a tuple may be in any order, because the strict form has no tuples.
    private mutating func addItems(
        of schema: ChappieJSONObject, from path: [String], at place: [String], to new: inout ChappieJSONObject
    ) throws(ChappieJSONSchemaError) {
        let (prefix, restName, rest) = schema.tupleParts
        var parts = prefix.map { (path + $0.path, $0.schema) }
        if let rest, rest.bool == nil { parts.append((path + [restName], rest)) }
        parts = parts.enumerated().filter { part in !parts[..<part.offset].contains { $0.1 == part.element.1 } }
            .map(\.element)
        guard !parts.isEmpty else {
            throw Fault(
                path: JSONPointer.text(path), reason: "an array without \"items\" has no strict form")
        }
        if rest?.object == nil, new["maxItems"] == nil, !prefix.isEmpty { new["maxItems"] = .integer(prefix.count) }
        guard parts.count > 1 else {
            new["items"] = try form(parts[0].1, from: parts[0].0, at: place + ["items"])
            return
        }
        var forms: [ChappieJSON] = []
        for (path, schema) in parts {
            forms.append(try form(schema, from: path, at: place + ["items", "anyOf", String(forms.count)]))
        }
        new["items"] = ["anyOf": .array(forms)]
    }

    /// Adds the members of an object. Those that were optional may be null.
    private mutating func addMembers(
        of schema: ChappieJSONObject, from path: [String], at place: [String], to new: inout ChappieJSONObject
    ) throws(ChappieJSONSchemaError) {
        guard let properties = schema["properties"]?.object ?? (schema["additionalProperties"] == false ? [:] : nil),
            !properties.isEmpty || schema["additionalProperties"]?.object == nil
        else {
            throw Fault(
                path: JSONPointer.text(path), reason: "an object whose members have any names has no strict form")
        }
        let required = Set((schema["required"]?.array ?? []).compactMap(\.string))
        if let missing = required.subtracting(properties.names).min() {
            throw Fault(
                path: JSONPointer.text(path + ["required"]),
                reason: "\(Quoted.name(missing)) is not among \"properties\"")
        }
        var order = schema["x-order"]?.array?.compactMap(\.string).filter(properties.names.contains) ?? []
        order += properties.names.filter { !order.contains($0) }
        var members = ChappieJSONObject()
        for name in order {
            guard let property = properties[name], property != false else { continue }
            let path = path + ["properties", name]
            let place = place + ["properties", name]
            let isOptional = !required.contains(name) && !takesNull(path)
            guard isOptional else {
                members[name] = try form(property, from: path, at: place)
                continue
            }
            added.insert(place)
            members[name] = ["anyOf": [try form(property, from: path, at: place + ["anyOf", "0"]), ["type": "null"]]]
        }
        new["properties"] = .object(members)
        new["required"] = .array(members.names.map { .string($0) })
        new["additionalProperties"] = false
    }

    private func takesNull(_ path: [String]) -> Bool {
        compiled.index(at: path).map { SchemaValidator.fits(.null, $0, of: rules) } ?? false
    }
}
