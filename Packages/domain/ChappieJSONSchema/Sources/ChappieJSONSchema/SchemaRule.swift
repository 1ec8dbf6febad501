@_spi(ChappieInternals) import ChappieCore

/// A condition of a schema. It refers to other schemas by their index in the compiled list.
enum SchemaRule: Sendable {
    /// The rule of the schema `false`, which no value fits.
    case never
    case types(SchemaTypes)
    /// The rule of `enum` and `const`, with the list of values for messages.
    case values(Set<SchemaIdentity>, list: String)
    case limit(SchemaLimit, SchemaNumber, literal: String)
    case multiple(of: SchemaNumber, literal: String)
    case length(minimum: Int, maximum: Int?)
    case itemCount(minimum: Int, maximum: Int?)
    case unique
    case items(prefix: [Int], rest: Int?)
    case contains(Int, minimum: Int, maximum: Int?)
    case memberCount(minimum: Int, maximum: Int?)
    case required([SchemaName])
    case members(properties: [SchemaName: Int], additional: Int?)
    case names(Int)
    case reference(Int)
    case all([Int])
    case any([Int])
    case one([Int])
    case not(Int)
    case condition(Int, then: Int?, else: Int?)

    /// The schemas that are applied to the same value.
    var inPlace: [Int] {
        switch self {
        case .reference(let schema), .not(let schema): [schema]
        case .all(let schemas), .any(let schemas), .one(let schemas): schemas
        case .condition(let test, let then, let otherwise): [test, then, otherwise].compactMap(\.self)
        default: []
        }
    }

    /// The schemas that are applied to parts of the value.
    var inside: [Int] {
        switch self {
        case .items(let prefix, let rest): prefix + [rest].compactMap(\.self)
        case .contains(let schema, _, _), .names(let schema): [schema]
        case .members(let properties, let additional): properties.values + [additional].compactMap(\.self)
        default: []
        }
    }
}

/// The limits of numbers.
enum SchemaLimit: String, Sendable, CaseIterable {
    case minimum, exclusiveMinimum, maximum, exclusiveMaximum

    func admits(_ value: SchemaNumber, _ bound: SchemaNumber) -> Bool {
        switch self {
        case .minimum: value >= bound
        case .exclusiveMinimum: value > bound
        case .maximum: value <= bound
        case .exclusiveMaximum: value < bound
        }
    }

    /// The limit that excludes the bound, or `nil` for one that already does.
    var exclusive: SchemaLimit? {
        switch self {
        case .minimum: .exclusiveMinimum
        case .maximum: .exclusiveMaximum
        default: nil
        }
    }

    var sentence: String {
        switch self {
        case .minimum: "must be at least"
        case .exclusiveMinimum: "must be greater than"
        case .maximum: "must be at most"
        case .exclusiveMaximum: "must be less than"
        }
    }
}

/// The types of JSON values. Every integer is also a number.
struct SchemaTypes: OptionSet, Sendable {
    let rawValue: Int

    private static let names = ["null", "boolean", "integer", "number", "string", "array", "object"]
    static let integer = SchemaTypes(rawValue: 1 << 2)

    init(rawValue: Int) { self.rawValue = rawValue }

    /// Creates the type with this name.
    init?(_ name: String) {
        guard let index = Self.names.firstIndex(of: name) else { return nil }
        rawValue = 1 << index
    }

    /// Creates the types of `value`. An integer has two.
    init(of value: ChappieJSON) {
        switch value {
        case .null: rawValue = 1
        case .bool: rawValue = 1 << 1
        case .number(let number): rawValue = 1 << 3 | (SchemaNumber(number).isInteger ? 1 << 2 : 0)
        case .string: rawValue = 1 << 4
        case .array: rawValue = 1 << 5
        case .object: rawValue = 1 << 6
        }
    }

    /// The types as part of a message, such as "a string or null".
    var sentence: String {
        let articles = ["null", "a boolean", "an integer", "a number", "a string", "an array", "an object"]
        return articles.indices.filter { rawValue & 1 << $0 != 0 }.map { articles[$0] }.joined(separator: " or ")
    }
}
