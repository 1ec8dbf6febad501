@_spi(ChappieInternals) import ChappieCore

/// A validator that checks a value against a compiled schema.
struct SchemaValidator {
    /// An error that stops a check that is too expensive. The value then counts as a violation, even inside a `not`.
    private struct Stop: Error {
        let violation: ChappieSchemaViolation
    }

    private static let mostViolations = 20
    /// The limit for schemas that are applied inside each other. It is small enough for a small thread's stack.
    private static let deepest = 256
    /// The limit for the work, with about one unit for each step per byte. It amounts to some tenths of a second.
    private static let allFuel = 10_000_000

    private let schemas: [[SchemaRule]]
    private var violations: [ChappieSchemaViolation] = []
    /// Whether violations are collected. Otherwise only the result counts.
    private var isCollecting = true
    private var path: [String] = []
    private var depth = 0
    private var fuel = allFuel

    static func violations(in value: ChappieJSON, of schemas: [[SchemaRule]]) -> [ChappieSchemaViolation] {
        if let trouble = SchemaShape.trouble(in: value) { return [trouble] }
        var validator = SchemaValidator(schemas: schemas)
        do throws(Stop) {
            _ = try validator.fits(value, 0)
        } catch {
            return [error.violation]
        }
        return validator.violations
    }

    /// Returns whether a value fits the schema with this index.
    static func fits(_ value: ChappieJSON, _ schema: Int, of schemas: [[SchemaRule]]) -> Bool {
        var validator = SchemaValidator(schemas: schemas)
        validator.isCollecting = false
        return (try? validator.fits(value, schema)) ?? false
    }

    private init(schemas: [[SchemaRule]]) { self.schemas = schemas }

    // MARK: Applying schemas

    private mutating func fits(_ value: ChappieJSON, _ schema: Int) throws(Stop) -> Bool {
        guard depth < Self.deepest else { throw stop("is nested too deeply for its schema") }
        try charge(8)
        depth += 1
        defer { depth -= 1 }
        var isFit = true
        for rule in schemas[schema] where try !obeys(rule, value) {
            isFit = false
            if !isCollecting { break }
            // If a value has the wrong type, further violations don't matter.
            if case .types = rule { break }
        }
        return isFit
    }

    private mutating func fits(_ value: ChappieJSON, _ schema: Int, at token: @autoclosure () -> String) throws(Stop)
        -> Bool
    {
        path.append(isCollecting ? token() : "")
        defer { path.removeLast() }
        return try fits(value, schema)
    }

    /// Returns whether the value fits the schema, without collecting violations.
    private mutating func fitsQuietly(_ value: ChappieJSON, _ schema: Int) throws(Stop) -> Bool {
        let wasCollecting = isCollecting
        isCollecting = false
        defer { isCollecting = wasCollecting }
        return try fits(value, schema)
    }

    private mutating func charge(_ steps: Int) throws(Stop) {
        fuel -= steps
        if fuel < 0 { throw stop("takes too long to check against its schema") }
    }

    /// Charges for the digits of a number, because each rule reads all digits again.
    private mutating func charge(for value: ChappieJSON) throws(Stop) {
        if case .number(let number) = value { try charge(number.literal.utf8.count) }
    }

    private func stop(_ message: String) -> Stop {
        Stop(violation: ChappieSchemaViolation(path: "", message: message))
    }

    /// Records a violation if `isFit` is false. Returns `isFit`.
    private mutating func expect(_ isFit: Bool, _ message: @autoclosure () -> String) -> Bool {
        if !isFit, isCollecting {
            violations.append(ChappieSchemaViolation(path: JSONPointer.text(path), message: message()))
            if violations.count == Self.mostViolations { isCollecting = false }
        }
        return isFit
    }

    // MARK: Rules

    private mutating func obeys(_ rule: SchemaRule, _ value: ChappieJSON) throws(Stop) -> Bool {
        switch rule {
        case .never: return expect(false, "is not allowed")
        case .types(let types):
            try charge(for: value)
            let own = SchemaTypes(of: value)
            return expect(
                !types.isDisjoint(with: own), "must be \(types.sentence), not \(own.subtracting(.integer).sentence)")
        case .values(let values, let list):
            return expect(values.contains(try identity(value)), list)
        case .reference(let schema): return try fits(value, schema)
        case .all, .any, .one, .not, .condition: return try obeysCombination(rule, value)
        default: break
        }
        switch value {
        case .number(let number):
            try charge(for: value)
            return obeys(rule, number)
        case .string(let text): return try obeys(rule, text)
        case .array(let elements): return try obeys(rule, elements)
        case .object(let object): return try obeys(rule, object)
        case .null, .bool: return true
        }
    }

    private mutating func identity(_ value: ChappieJSON) throws(Stop) -> SchemaIdentity {
        let identity = SchemaIdentity(value)
        try charge(identity.bytes.count)
        return identity
    }

    private mutating func obeys(_ rule: SchemaRule, _ number: ChappieJSONNumber) -> Bool {
        switch rule {
        case .limit(let limit, let bound, let literal):
            return expect(limit.admits(SchemaNumber(number), bound), "\(limit.sentence) \(literal)")
        case .multiple(let divisor, let literal):
            return expect(SchemaNumber(number).isMultiple(of: divisor), "must be a multiple of \(literal)")
        default: return true
        }
    }

    private mutating func obeys(_ rule: SchemaRule, _ text: String) throws(Stop) -> Bool {
        switch rule {
        case .length(let minimum, let maximum):
            try charge(text.utf8.count / 8)
            let count = text.unicodeScalars.count
            return expect(count >= minimum, "must have at least \(Quoted.count(minimum, "character")), not \(count)")
                && expect(
                    count <= maximum ?? count, "must have at most \(Quoted.count(maximum, "character")), not \(count)")
        default: return true
        }
    }

    private mutating func obeys(_ rule: SchemaRule, _ elements: [ChappieJSON]) throws(Stop) -> Bool {
        switch rule {
        case .itemCount(let minimum, let maximum):
            let count = elements.count
            return expect(count >= minimum, "must have at least \(Quoted.count(minimum, "item")), not \(count)")
                && expect(count <= maximum ?? count, "must have at most \(Quoted.count(maximum, "item")), not \(count)")
        case .unique:
            var seen: Set<SchemaIdentity> = []
            for (index, element) in elements.enumerated() where !seen.insert(try identity(element)).inserted {
                return expect(false, "must not have the same item twice, as item \(index) is")
            }
            return true
        case .items(let prefix, let rest):
            var areFit = true
            for (index, element) in elements.enumerated() {
                guard let schema = index < prefix.count ? prefix[index] : rest else { break }
                if try !fits(element, schema, at: String(index)) {
                    areFit = false
                    if !isCollecting { break }
                }
            }
            return areFit
        case .contains(let schema, let minimum, let maximum):
            var count = 0
            for element in elements where try fitsQuietly(element, schema) { count += 1 }
            return expect(
                count >= minimum, "must have at least \(Quoted.count(minimum, "item")) of a certain kind, not \(count)")
                && expect(
                    count <= maximum ?? count,
                    "must have at most \(Quoted.count(maximum, "item")) of a certain kind, not \(count)")
        default: return true
        }
    }

    private mutating func obeys(_ rule: SchemaRule, _ object: ChappieJSONObject) throws(Stop) -> Bool {
        switch rule {
        case .memberCount(let minimum, let maximum):
            let count = object.members.count
            return expect(count >= minimum, "must have at least \(Quoted.count(minimum, "member")), not \(count)")
                && expect(
                    count <= maximum ?? count, "must have at most \(Quoted.count(maximum, "member")), not \(count)")
        case .required(let required):
            let names = try names(object)
            fuel -= required.reduce(0) { $0 + 1 + $1.text.utf8.count / 8 }
            let missing = required.filter { !names.contains($0) }
            for name in missing { _ = expect(false, "lacks the member \(Quoted.name(name.text))") }
            return missing.isEmpty
        case .members(let properties, let additional):
            var areFit = true
            for member in object.members {
                try charge(member.name.utf8.count / 8)
                guard let schema = properties[SchemaName(member.name)] ?? additional else { continue }
                areFit = try fits(member.value, schema, at: member.name) && areFit
                if !areFit, !isCollecting { break }
            }
            return areFit
        case .names(let schema):
            var areFit = true
            for member in object.members where try !fitsQuietly(.string(member.name), schema) {
                areFit = expect(false, "must not have a member with the name \(Quoted.name(member.name))")
                if !isCollecting { break }
            }
            return areFit
        default: return true
        }
    }

    private mutating func names(_ object: ChappieJSONObject) throws(Stop) -> Set<SchemaName> {
        try charge(object.members.reduce(0) { $0 + 8 + $1.name.utf8.count / 8 })
        return Set(object.members.map { SchemaName($0.name) })
    }

    // MARK: Combinations

    private mutating func obeysCombination(_ rule: SchemaRule, _ value: ChappieJSON) throws(Stop) -> Bool {
        switch rule {
        case .all(let schemas):
            var isFit = true
            for schema in schemas where try !fits(value, schema) {
                isFit = false
                if !isCollecting { break }
            }
            return isFit
        case .any(let alternatives):
            for schema in alternatives where try fitsQuietly(value, schema) { return true }
            return try explain(value, alternatives)
        case .one(let alternatives):
            var fitting: [Int] = []
            for (index, schema) in alternatives.enumerated() where try fitsQuietly(value, schema) {
                fitting.append(index)
            }
            if fitting.isEmpty { return try explain(value, alternatives) }
            return expect(
                fitting.count == 1,
                "must fit exactly one of \(alternatives.count) alternatives, not \(fitting.count) of them")
        case .not(let schema):
            return expect(try !fitsQuietly(value, schema), "is of a kind that is not allowed")
        case .condition(let test, let then, let otherwise):
            guard let schema = try fitsQuietly(value, test) ? then : otherwise else { return true }
            return try fits(value, schema)
        default: return true
        }
    }

    /// Records why `value` fits none of the alternatives. If only one alternative allows the value's type, this records
    /// the violations of that alternative.
    private mutating func explain(_ value: ChappieJSON, _ alternatives: [Int]) throws(Stop) -> Bool {
        guard isCollecting else { return false }
        let types = SchemaTypes(of: value)
        let likely = alternatives.filter { self.types(of: $0)?.isDisjoint(with: types) != true }
        if likely.count == 1 { return try fits(value, likely[0]) }
        let all = alternatives.map { self.types(of: $0) }
        if likely.isEmpty {
            let wanted = all.reduce(into: SchemaTypes()) { $0.formUnion($1 ?? []) }
            return expect(false, "must be \(wanted.sentence), not \(types.subtracting(.integer).sentence)")
        }
        return expect(false, "fits none of \(alternatives.count) alternatives")
    }

    /// Returns the types that a schema names directly or through a leading reference, or `nil` if it names none.
    private func types(of schema: Int) -> SchemaTypes? {
        var schema = schema
        while true {
            for rule in schemas[schema] { if case .types(let types) = rule { return types } }
            guard case .reference(let target)? = schemas[schema].first else { return nil }
            schema = target
        }
    }
}
