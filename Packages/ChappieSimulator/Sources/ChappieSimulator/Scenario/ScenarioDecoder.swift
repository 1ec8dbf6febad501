import ChappieCore

/// A JSON object of a scenario. Its stored properties are the members that it can have; any other member is an error.
protocol ScenarioPart: Decodable, Sendable, Hashable {
    /// Bounds of the numbers among the members. A number that is not listed goes from 0 to 1,000,000, or up to a day
    /// where it is a number of seconds.
    static var bounds: [String: ClosedRange<Double>] { get }
    /// Why the members don't fit together, to follow the key path; `nil` when they do.
    var complaint: String? { get }
}

extension ScenarioPart {
    static var bounds: [String: ClosedRange<Double>] { [:] }
    var complaint: String? { nil }
}

/// A member that is one of a few words.
protocol ScenarioChoice: RawRepresentable<String>, CaseIterable, Decodable, Sendable, Hashable {}

extension ScenarioChoice {
    init(from decoder: any Decoder) throws {
        let here = try ScenarioDecoder.of(decoder)
        guard let choice = here.value.string.flatMap(Self.init(rawValue:)) else {
            throw here.wrong("must be one of " + Self.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", "))
        }
        self = choice
    }
}

/// Decodes a scenario. In contrast to `JSONDecoder` it refuses unknown members and numbers out of bounds, keeps the
/// order of members in free JSON, and names the key path in its errors.
final class ScenarioDecoder: Decoder, SingleValueDecodingContainer {
    let value: ChappieJSON
    private let path: String
    /// Bounds of this value, where it is a number or a list of them.
    private let range: ClosedRange<Double>?
    /// Bounds of its members.
    private var bounds: [String: ClosedRange<Double>] = [:]
    /// The members that were asked for.
    private var known: Set<String> = []

    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    init(_ value: ChappieJSON, path: String = "", range: ClosedRange<Double>? = nil) {
        self.value = value
        self.path = path
        self.range = range
    }

    /// The decoder itself, for types that read their JSON by hand.
    static func of(_ decoder: any Decoder) throws -> ScenarioDecoder {
        guard let here = decoder as? ScenarioDecoder else {
            throw SimulatorError(.invalidScenario, reason: "Scenarios are read by ScenarioDecoder alone")
        }
        return here
    }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if let json = value as? Value { return json }
        if type == Duration.self, let duration = Duration.seconds(try number()) as? Value { return duration }
        guard let part = type as? any ScenarioPart.Type else { return try Value(from: self) }
        guard let object = value.object else { throw wrong("must be an object") }
        bounds = part.bounds
        let decoded = try Value(from: self)
        if let unknown = object.names.first(where: { !known.contains($0) }) {
            throw SimulatorError(
                .invalidScenario,
                reason: "\(memberPath(unknown)) is not a member a scenario can have here; there are: "
                    + known.sorted().joined(separator: ", "))
        }
        if let complaint = (decoded as? any ScenarioPart)?.complaint { throw wrong(complaint) }
        return decoded
    }

    /// An error about this value, or about a member of it.
    func wrong(_ complaint: String, in member: String? = nil) -> SimulatorError {
        let place = member.map(memberPath) ?? path
        return SimulatorError(.invalidScenario, reason: "\(place.isEmpty ? "The scenario" : place) \(complaint)")
    }

    private func memberPath(_ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

    // MARK: Values

    func bool() throws -> Bool {
        guard let bool = value.bool else { throw wrong("must be true or false") }
        return bool
    }

    func string() throws -> String {
        guard let string = value.string else { throw wrong("must be a string") }
        return string
    }

    func integer<Value: FixedWidthInteger>() throws -> Value {
        let range = range ?? 0...1_000_000
        guard let integer = value.int, range.contains(Double(integer)), let fitting = Value(exactly: integer) else {
            throw wrong("must be an integer from \(Int(range.lowerBound)) to \(Int(range.upperBound))")
        }
        return fitting
    }

    func number() throws -> Double {
        let range = range ?? 0...86_400
        guard let number = value.double, range.contains(number) else {
            throw wrong("must be a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    // MARK: Containers

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard value.object != nil else { throw wrong("must be an object") }
        return KeyedDecodingContainer(Members(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard let array = value.array else { throw wrong("must be a list") }
        return Elements(
            rest: array.enumerated().map { ScenarioDecoder($0.element, path: "\(path)[\($0.offset)]", range: range) })
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let decoder: ScenarioDecoder
        let codingPath: [any CodingKey] = []
        let allKeys: [Key] = []

        func contains(_ key: Key) -> Bool {
            decoder.known.insert(key.stringValue)
            return decoder.value[key.stringValue] != nil
        }

        func member(_ key: Key) throws -> ScenarioDecoder {
            guard contains(key), let value = decoder.value[key.stringValue] else {
                throw decoder.wrong("needs a member \"\(key.stringValue)\"")
            }
            return ScenarioDecoder(
                value, path: decoder.memberPath(key.stringValue), range: decoder.bounds[key.stringValue])
        }

        /// `null` is a value like any other, and few members can have it.
        func decodeNil(forKey key: Key) -> Bool { false }
        func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
            try member(key).decode(type)
        }
        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type, forKey key: Key
        ) throws -> KeyedDecodingContainer<Nested> { try member(key).container(keyedBy: type) }
        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
            try member(key).unkeyedContainer()
        }
        func superDecoder() -> any Decoder { decoder }
        func superDecoder(forKey key: Key) throws -> any Decoder { try member(key) }
    }

    private struct Elements: UnkeyedDecodingContainer {
        var rest: [ScenarioDecoder]
        var currentIndex = 0
        var codingPath: [any CodingKey] { [] }
        var count: Int? { rest.count }
        var isAtEnd: Bool { currentIndex >= rest.count }

        mutating func next() -> ScenarioDecoder {
            defer { currentIndex += 1 }
            return rest[currentIndex]
        }

        mutating func decodeNil() -> Bool { false }
        mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try next().decode(type) }
        mutating func nestedContainer<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
            try next().container(keyedBy: type)
        }
        mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try next().unkeyedContainer() }
        mutating func superDecoder() -> any Decoder { next() }
    }

    // The numbers that scenarios have; another type needs its line here.
    func decodeNil() -> Bool { value.isNull }
    func decode(_: Bool.Type) throws -> Bool { try bool() }
    func decode(_: String.Type) throws -> String { try string() }
    func decode(_: Double.Type) throws -> Double { try number() }
    func decode(_: Int.Type) throws -> Int { try integer() }
    func decode(_: UInt8.Type) throws -> UInt8 { try integer() }
    func decode(_: UInt16.Type) throws -> UInt16 { try integer() }
}
