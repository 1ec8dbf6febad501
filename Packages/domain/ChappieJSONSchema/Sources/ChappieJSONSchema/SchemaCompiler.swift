@_spi(ChappieInternals) import ChappieCore

/// A compiler from a JSON schema to lists of rules, one list for each schema in it. The first list is for the entire
/// schema.
///
/// The time is linear in the size of the schema. All errors of a schema are found here, so that validation can't fail.
struct SchemaCompiler {
    private typealias Fault = ChappieJSONSchemaError

    /// The keywords that restrict values but are not checked here. The peer checks them.
    private static let unchecked: Set<String> = [
        "pattern", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies",
        "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary",
    ]
    /// The parts of a `$schema` whose dialect is read here.
    private static let knownDialects = ["json-schema.org/draft", "json-schema.org/schema", "spec.openapis.org/"]
    /// The name of a member that marks a schema as invalid. The value of the member is the reason.
    static let failure = "chappie-failure"
    /// The limit for a chain of schemas that are applied to the same value through each other. It is more than any real
    /// schema needs, and small enough for a thread's stack.
    private static let longestChain = 64

    /// A step of a JSON pointer into the schema.
    private struct Step: Hashable {
        let parent: Int
        let token: SchemaName
    }

    private var schemas: [[SchemaRule]] = []
    private var steps: [Step] = []
    /// The place that a step leads to, and the index of the schema there.
    private var places: [Step: Int] = [:]
    private var schemaAt: [Int: Int] = [:]
    private var anchors: [Step: Int] = [:]
    private var references: [Reference] = []
    /// The schemas that have keywords of ``unchecked``, or a reference to another document.
    private var partial: [Int] = []
    private let root: ChappieJSON
    private var base: String?
    /// The place of the nearest schema with its own `$id`, in which references are resolved.
    private var resource = -1
    /// Whether the schema is of draft 7 or older. A `$ref` then hides its neighbours.
    private let isOld: Bool

    private struct Reference {
        let schema: Int
        let rule: Int
        let target: String
        let resource: Int
    }

    private init(_ root: ChappieJSON) {
        self.root = root
        isOld = root["$schema"]?.string?.contains("json-schema.org/draft-0") == true
    }

    static func compile(_ json: ChappieJSON) throws(ChappieJSONSchemaError) -> [[SchemaRule]] {
        let rules = try read(json).rules
        // In an unknown dialect, the keywords may have another meaning.
        if let dialect = json["$schema"]?.string, !knownDialects.contains(where: dialect.contains) { return [[]] }
        return rules
    }

    /// Reads a schema by the keywords of the known dialects, whatever dialect it names.
    static func read(_ json: ChappieJSON) throws(ChappieJSONSchemaError) -> SchemaCompiler {
        if let trouble = SchemaShape.trouble(in: json) {
            throw Fault(path: trouble.path, reason: "it \(trouble.message)")
        }
        var compiler = SchemaCompiler(json)
        _ = try compiler.schema(json, at: -1)
        try compiler.resolveReferences()
        try compiler.refuseCircles()
        return compiler
    }

    var rules: [[SchemaRule]] { schemas.relaxed(around: partial) }

    /// Returns the index of the schema at a place, or `nil` if there is none.
    func index(at path: [String]) -> Int? {
        var place = -1
        for token in path {
            guard let next = places[Step(parent: place, token: SchemaName(token))] else { return nil }
            place = next
        }
        return schemaAt[place]
    }

    // MARK: Places

    private mutating func step(_ parent: Int, _ token: String) -> Int {
        let step = Step(parent: parent, token: SchemaName(token))
        if let place = places[step] { return place }
        steps.append(step)
        places[step] = steps.count - 1
        return steps.count - 1
    }

    private func fault(_ place: Int, _ reason: String) -> ChappieJSONSchemaError { fault(place, nil, reason) }

    private func fault(_ place: Int, _ keyword: String?, _ reason: String) -> ChappieJSONSchemaError {
        var tokens = keyword.map { [$0] } ?? []
        var place = place
        while place >= 0 {
            tokens.append(steps[place].token.text)
            place = steps[place].parent
        }
        return Fault(path: JSONPointer.text(tokens.reversed()), reason: reason)
    }

    // MARK: One schema

    private mutating func schema(_ json: ChappieJSON, at place: Int) throws(ChappieJSONSchemaError) -> Int {
        let index = schemas.count
        schemas.append([])
        schemaAt[place] = index
        switch json {
        case .bool(let isAny): if !isAny { schemas[index] = [.never] }
        case .object(let object):
            var members = Dictionary(object.members.map { ($0.name, $0.value) }) { _, last in last }
            if let reason = members[Self.failure]?.string { throw fault(place, reason) }
            if isOld, members["$ref"]?.string != nil {
                members = members.filter { ["$ref", "definitions"].contains($0.key) }
            }
            let outer = resource
            defer { resource = outer }
            try identify(members, index, at: place)
            if !Self.unchecked.isDisjoint(with: members.keys) { partial.append(index) }
            schemas[index] += try scalarRules(members, at: place)
            schemas[index] += try arrayRules(members, at: place)
            schemas[index] += try objectRules(members, at: place)
            try appendApplicators(members, to: index, at: place)
            for name in ["$defs", "definitions", "patternProperties", "dependentSchemas"] {
                _ = try named(members, name, at: place)
            }
        default: throw fault(place, "a schema is an object, true or false")
        }
        return index
    }

    private mutating func identify(
        _ members: [String: ChappieJSON], _ index: Int, at place: Int
    ) throws(ChappieJSONSchemaError) {
        var anchor = members["$anchor"]?.string ?? members["$dynamicAnchor"]?.string
        if let id = members["$id"]?.string ?? (isOld ? members["id"]?.string : nil) {
            let parts = id.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
            if place < 0 {
                base = parts.first.map(String.init)
            } else if parts.first?.isEmpty == false {
                resource = place
            }
            // Before 2019-09, an anchor was an id.
            if parts.count > 1, !parts[1].isEmpty { anchor = String(parts[1]) }
        }
        guard let anchor else { return }
        guard anchors.updateValue(index, forKey: Step(parent: resource, token: SchemaName(anchor))) == nil else {
            throw fault(place, "the anchor \(Quoted.name(anchor)) appears twice")
        }
    }

    // MARK: Keywords

    private mutating func scalarRules(
        _ members: [String: ChappieJSON], at place: Int
    ) throws(ChappieJSONSchemaError) -> [SchemaRule] {
        var rules: [SchemaRule] = []
        if let value = members["type"], value != "any" {
            // OpenAPI 3.0 has this member instead of the type.
            var types = members["nullable"] == true ? SchemaTypes("null") ?? [] : []
            for name in value.array ?? [value] {
                guard let type = name.string.flatMap(SchemaTypes.init) else {
                    throw fault(place, "type", "there is no type \(Quoted.value(name))")
                }
                types.formUnion(type)
            }
            guard value != [] else { throw fault(place, "type", "an empty list of types fits nothing") }
            rules.append(.types(types))
        }
        if let value = members["enum"] {
            guard let values = value.array else { throw fault(place, "enum", "a list of values is expected") }
            rules.append(.values(Set(values.map(SchemaIdentity.init)), list: Quoted.list(values)))
        }
        if let value = members["const"] {
            rules.append(.values([SchemaIdentity(value)], list: Quoted.list([value])))
        }
        for limit in SchemaLimit.allCases {
            guard members[limit.rawValue]?.bool == nil,
                let (number, literal) = try number(members, limit.rawValue, at: place)
            else { continue }
            // In draft 4, this is a separate member.
            let isExclusive = limit.exclusive.map { members[$0.rawValue] == true } ?? false
            rules.append(.limit(isExclusive ? limit.exclusive ?? limit : limit, number, literal: literal))
        }
        if let (number, literal) = try number(members, "multipleOf", at: place) {
            guard number.isDivisor else {
                throw fault(place, "multipleOf", "a number above 0, of at most 19 digits, is expected")
            }
            rules.append(.multiple(of: number, literal: literal))
        }
        if let (minimum, maximum) = try counts(members, "minLength", "maxLength", at: place) {
            rules.append(.length(minimum: minimum, maximum: maximum))
        }
        return rules
    }

    private mutating func arrayRules(
        _ members: [String: ChappieJSON], at place: Int
    ) throws(ChappieJSONSchemaError) -> [SchemaRule] {
        var rules: [SchemaRule] = []
        if let (minimum, maximum) = try counts(members, "minItems", "maxItems", at: place) {
            rules.append(.itemCount(minimum: minimum, maximum: maximum))
        }
        if let value = members["uniqueItems"] {
            guard let isUnique = value.bool else { throw fault(place, "uniqueItems", "true or false is expected") }
            if isUnique { rules.append(.unique) }
        }
        // Until 2019-09, a tuple was a list of items.
        let isTuple = members["items"]?.array != nil
        let prefix = members["items"] == [] ? nil : try list(members, isTuple ? "items" : "prefixItems", at: place)
        let rest = try single(members, isTuple ? "additionalItems" : "items", at: place)
        if prefix != nil || rest != nil { rules.append(.items(prefix: prefix ?? [], rest: rest)) }
        let bounds = try counts(members, "minContains", "maxContains", at: place)
        if let contained = try single(members, "contains", at: place) {
            let minimum = members["minContains"] == nil ? 1 : bounds?.0 ?? 1
            rules.append(.contains(contained, minimum: minimum, maximum: bounds?.1))
        }
        return rules
    }

    private mutating func objectRules(
        _ members: [String: ChappieJSON], at place: Int
    ) throws(ChappieJSONSchemaError) -> [SchemaRule] {
        var rules: [SchemaRule] = []
        if let (minimum, maximum) = try counts(members, "minProperties", "maxProperties", at: place) {
            rules.append(.memberCount(minimum: minimum, maximum: maximum))
        }
        // In draft 3, a member states that it is required.
        if let value = members["required"], value.bool == nil {
            rules.append(.required(try names(value, at: step(place, "required"))))
        }
        let properties = try named(members, "properties", at: place)
        let additional = try single(members, "additionalProperties", at: place)
        if properties != nil || additional != nil {
            let properties = Dictionary(properties ?? []) { _, last in last }
            // A member that is not named may match a pattern.
            let isDecided = members["patternProperties"] == nil
            rules.append(.members(properties: properties, additional: isDecided ? additional : nil))
        }
        if let schema = try single(members, "propertyNames", at: place) { rules.append(.names(schema)) }
        return rules
    }

    private mutating func appendApplicators(
        _ members: [String: ChappieJSON], to index: Int, at place: Int
    ) throws(ChappieJSONSchemaError) {
        if let value = members["$ref"] {
            let place = step(place, "$ref")
            guard let target = value.string else { throw fault(place, "a reference is a string") }
            references.append(
                Reference(schema: index, rule: schemas[index].count, target: target, resource: resource))
            schemas[index].append(.all([]))
        }
        if let schemas = try list(members, "allOf", at: place) { self.schemas[index].append(.all(schemas)) }
        if let schemas = try list(members, "anyOf", at: place) { self.schemas[index].append(.any(schemas)) }
        if let schemas = try list(members, "oneOf", at: place) { self.schemas[index].append(.one(schemas)) }
        if let schema = try single(members, "not", at: place) { schemas[index].append(.not(schema)) }
        let test = try single(members, "if", at: place)
        let then = try single(members, "then", at: place)
        let otherwise = try single(members, "else", at: place)
        if let test, then != nil || otherwise != nil {
            schemas[index].append(.condition(test, then: then, else: otherwise))
        }
    }

    // MARK: Values of keywords

    private mutating func single(
        _ members: [String: ChappieJSON], _ name: String, at place: Int
    ) throws(ChappieJSONSchemaError) -> Int? {
        guard let value = members[name] else { return nil }
        return try schema(value, at: step(place, name))
    }

    private mutating func list(
        _ members: [String: ChappieJSON], _ name: String, at place: Int
    ) throws(ChappieJSONSchemaError) -> [Int]? {
        guard let value = members[name] else { return nil }
        let place = step(place, name)
        guard let values = value.array, !values.isEmpty else { throw fault(place, "a list of schemas is expected") }
        var schemas: [Int] = []
        for (index, value) in values.enumerated() { schemas.append(try schema(value, at: step(place, String(index)))) }
        return schemas
    }

    private mutating func named(
        _ members: [String: ChappieJSON], _ name: String, at place: Int
    ) throws(ChappieJSONSchemaError) -> [(SchemaName, Int)]? {
        guard let value = members[name] else { return nil }
        let place = step(place, name)
        guard let object = value.object else { throw fault(place, "an object of schemas is expected") }
        var schemas: [(SchemaName, Int)] = []
        for member in object.members {
            schemas.append((SchemaName(member.name), try schema(member.value, at: step(place, member.name))))
        }
        return schemas
    }

    private mutating func names(_ value: ChappieJSON, at place: Int) throws(ChappieJSONSchemaError) -> [SchemaName] {
        let names = value.array?.compactMap { $0.string.map { SchemaName($0) } }
        guard let names, names.count == value.array?.count else { throw fault(place, "a list of names is expected") }
        return names
    }

    private mutating func number(
        _ members: [String: ChappieJSON], _ name: String, at place: Int
    ) throws(ChappieJSONSchemaError) -> (SchemaNumber, literal: String)? {
        guard let value = members[name] else { return nil }
        guard case .number(let number) = value else { throw fault(place, name, "a number is expected") }
        return (SchemaNumber(number), Quoted.value(value))
    }

    private mutating func counts(
        _ members: [String: ChappieJSON], _ minimum: String, _ maximum: String, at place: Int
    ) throws(ChappieJSONSchemaError) -> (Int, Int?)? {
        var counts: [Int?] = []
        for name in [minimum, maximum] {
            let value = try number(members, name, at: place)
            counts.append(value?.0.count)
            if value != nil, value?.0.count == nil { throw fault(place, name, "an integer of 0 or more is expected") }
        }
        return counts[0] == nil && counts[1] == nil ? nil : (counts[0] ?? 0, counts[1])
    }

    // MARK: References

    /// Resolves the references. A schema that one leads to may have references itself.
    private mutating func resolveReferences() throws(ChappieJSONSchemaError) {
        var count = 0
        while count < references.count {
            let reference = references[count]
            count += 1
            if let target = try target(of: reference) {
                schemas[reference.schema][reference.rule] = .reference(target)
            } else {
                partial.append(reference.schema)
            }
        }
    }

    /// Returns the schema that a reference leads to, or `nil` if it is in another document or missing.
    private mutating func target(of reference: Reference) throws(ChappieJSONSchemaError) -> Int? {
        let parts = reference.target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        guard let document = parts.first, let fragment = JSONPointer.withoutPercents(parts.count > 1 ? parts[1] : "")
        else { return nil }
        guard document.isEmpty || base.map({ document == $0 }) == true else { return nil }
        var place = document.isEmpty ? reference.resource : -1
        if fragment.isEmpty { return schemaAt[place] }
        guard fragment.utf8.first == UInt8(ascii: "/") else {
            return anchors[Step(parent: place, token: SchemaName(fragment))]
        }
        let isFromRoot = place < 0
        let tokens = JSONPointer.tokens(fragment)
        for token in tokens { place = step(place, token) }
        if let schema = schemaAt[place] { return schema }
        // Documents also keep schemas in members that are no keywords, such as "components".
        guard isFromRoot, let json = JSONPointer.value(tokens, in: root), json.object != nil || json.bool != nil else {
            return nil
        }
        return try schema(json, at: place)
    }

    /// Throws if schemas are applied to the same value in a circle, or in a chain that is too long.
    private func refuseCircles() throws(ChappieJSONSchemaError) {
        switch schemas.chainFault(longest: Self.longestChain) {
        case .circle(let schema):
            throw fault(place(of: schema), "the schema refers to itself without going deeper into the value")
        case .tooLong(let schema):
            throw fault(place(of: schema), "more than \(Self.longestChain) schemas refer to each other in a row")
        case nil: break
        }
    }

    private func place(of schema: Int) -> Int { schemaAt.first { $0.value == schema }?.key ?? -1 }
}
