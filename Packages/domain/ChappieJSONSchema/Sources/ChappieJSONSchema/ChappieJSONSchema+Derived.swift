public import ChappieCore

extension ChappieJSONSchemaProviding where Self: Decodable {
    /// The result of ``ChappieJSONSchema/derived(from:)``. If that fails, this is a schema whose
    /// ``ChappieJSONSchema/check()`` throws the reason.
    public static var jsonSchema: ChappieJSONSchema {
        do {
            return try .derived(from: Self.self)
        } catch {
            let place = error.path.isEmpty ? "" : ", at \(error.path)"
            return [SchemaCompiler.failure: .string(error.reason + place)]
        }
    }
}

extension ChappieJSONSchema {
    /// Returns the schema of the JSON that `type` is decoded from. It is derived by decoding a sample.
    ///
    /// ```swift
    /// struct Trip: Decodable {
    ///     enum Vehicle: String, Decodable, CaseIterable { case train, bicycle }
    ///     var towns: [String]
    ///     var vehicle: Vehicle
    ///     var days: Int?
    /// }
    /// try ChappieJSONSchema.derived(from: Trip.self)
    /// ```
    ///
    /// The result is strict, as the service's strict mode requires. An object has no other members, and every member is
    /// required. An optional member may be `null` instead, which also decodes to `nil`. Enums of raw values become an
    /// `enum` if they are `CaseIterable`. `Date`, `URL`, `UUID` and `Data` are strings, with dates in ISO 8601 and data
    /// in base64. A nested ``ChappieJSONSchemaProviding`` supplies its own schema. A dictionary is an object with any
    /// names, which strict mode does not support. The members that a custom `init(from:)` reads are discovered while it
    /// reads them.
    ///
    /// - Throws: ``ChappieJSONSchemaError`` for types without a derivable schema: types that contain themselves, enums
    ///   that are not `CaseIterable` or have payloads, and types whose initialiser refuses a sample (empty text, 0,
    ///   `false`).
    public static func derived<T: Decodable>(from type: T.Type) throws(ChappieJSONSchemaError) -> ChappieJSONSchema {
        let shape = Shape()
        do {
            _ = try Probe(shape: shape, place: []).value(type, asksType: false)
            return ChappieJSONSchema(try shape.schema(at: []))
        } catch let error as ChappieJSONSchemaError {
            throw error
        } catch {
            throw ChappieJSONSchemaError(path: "", reason: "\(type) can't be decoded from a sample")
        }
    }
}

extension ChappieJSONSchema {
    /// A decoder for JSON that fits a derived schema. Its dates are in ISO 8601, such as `2026-11-24T08:00:00Z`, with
    /// or without fractions of a second. A day without a time, which models often write, means midnight in UTC.
    public static var decoder: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            let container = try decoder.singleValueContainer()
            guard let date = date(try container.decode(String.self)) else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "It is not a date in ISO 8601.")
            }
            return date
        }
        return decoder
    }

    private static func date(_ text: String) -> Date? {
        if let date = try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true)) {
            return date
        }
        let day = Date.ISO8601FormatStyle.iso8601.year().month().day()
        // The parser accepts a day with any text after it, and a day that its month does not have.
        guard let date = try? Date(text, strategy: day), date.formatted(day) == text else {
            return try? Date(text, strategy: .iso8601)
        }
        return date
    }
}

extension ChappieToolCall {
    /// Decodes ``arguments`` as a value of `type`, with ``ChappieJSONSchema/decoder``.
    ///
    /// - Throws: `DecodingError`, with the coding path of the part that does not fit.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try ChappieJSONSchema.decoder.decode(type, from: Data((arguments.isEmpty ? "{}" : arguments).utf8))
    }
}

/// The facts that a probe has found about a value.
private final class Shape {
    /// The complete schema, if it is known.
    var known: ChappieJSON?
    var isNullable = false
    /// The members, in the order in which they were decoded.
    var members: [(name: String, shape: Shape)]?
    /// The values of a dictionary, whatever their names.
    var others: Shape?
    var elements: [Shape]?

    func member(_ name: String) -> Shape {
        if let known = members?.first(where: { $0.name == name }) { return known.shape }
        let shape = Shape()
        members = (members ?? []) + [(name, shape)]
        return shape
    }

    func schema(at place: [String]) throws -> ChappieJSON {
        let schema: ChappieJSON
        if let known {
            schema = known
        } else if let elements {
            let items = try elements.map { try $0.schema(at: place + ["items"]) }
            guard Set(items).count < 2 else {
                throw Probe.fault(place, "an array of different types has no derived schema")
            }
            schema = items.isEmpty ? ["type": "array"] : ["type": "array", "items": items[0]]
        } else if let others, members == nil {
            schema = [
                "type": "object", "additionalProperties": try others.schema(at: place + ["additionalProperties"]),
            ]
        } else {
            let members = members ?? []
            let schemas = try members.map { ($0.name, try $0.shape.schema(at: place + ["properties", $0.name])) }
            schema = [
                "type": "object", "properties": .object(ChappieJSONObject(schemas)),
                "required": .array(members.map { .string($0.name) }),
                "additionalProperties": try others?.schema(at: place + ["additionalProperties"]) ?? false,
            ]
        }
        return isNullable ? Self.orNull(schema) : schema
    }

    private static func orNull(_ schema: ChappieJSON) -> ChappieJSON {
        guard var object = schema.object, !object.isEmpty else { return schema }
        guard let type = object["type"]?.string, object["const"] == nil else {
            return ["anyOf": [schema, ["type": "null"]]]
        }
        object["type"] = [.string(type), "null"]
        if let values = object["enum"]?.array { object["enum"] = .array(values + [.null]) }
        return .object(object)
    }
}

/// A decoder without input. It returns samples, and records what it is asked for.
private struct Probe: Decoder {
    /// The types that are being decoded around this one. They also apply while another type's `jsonSchema` is computed.
    @TaskLocal static var around: [ObjectIdentifier] = []
    /// The name that represents all names of a dictionary. It is a number, so that it also fits dictionaries with
    /// numbers as keys.
    static let anyName = "0"

    let shape: Shape
    /// The place in the schema.
    let place: [String]

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    static func fault(_ place: [String], _ reason: String) -> ChappieJSONSchemaError {
        ChappieJSONSchemaError(path: JSONPointer.text(place), reason: reason)
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        shape.members = shape.members ?? []
        return KeyedDecodingContainer(Members(probe: self))
    }

    func unkeyedContainer() -> any UnkeyedDecodingContainer {
        shape.elements = shape.elements ?? []
        return Elements(probe: self)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { Scalar(probe: self) }

    // MARK: Samples

    /// Returns a sample of `type`. The schema of `type` becomes the schema of the shape.
    ///
    /// - Parameter asksType: Whether to use the type's own jsonSchema, if it has one. It is `false` for the outermost
    ///   type, whose jsonSchema usually calls this function.
    func value<T: Decodable>(_ type: T.Type, asksType: Bool = true) throws -> T {
        if let (schema, sample) = Self.known(type), let sample = sample as? T {
            shape.known = schema
            return sample
        }
        guard !Self.around.contains(ObjectIdentifier(type)), Self.around.count < 64 else {
            throw Self.fault(place, "\(type) contains itself, so it needs its own jsonSchema")
        }
        return try Self.$around.withValue(Self.around + [ObjectIdentifier(type)]) {
            guard asksType, let type = type as? any (ChappieJSONSchemaProviding & Decodable).Type,
                let sample = try provided(by: type) as? T
            else { return try decoded(type) }
            return sample
        }
    }

    private func decoded<T: Decodable>(_ type: T.Type) throws -> T {
        do {
            return try T(from: self)
        } catch let error as ChappieJSONSchemaError {
            throw error
        } catch {
            throw Self.fault(
                place,
                "\(type) can't be decoded from a sample; make an enum CaseIterable, or give the type a jsonSchema "
                    + "of its own")
        }
    }

    /// Returns a sample of a type that supplies its own schema.
    private func provided<T: ChappieJSONSchemaProviding & Decodable>(by type: T.Type) throws -> T {
        let around = Self.around.dropLast()
        let schema = Self.$around.withValue(Array(around)) { T.jsonSchema.json }
        if let reason = schema[SchemaCompiler.failure]?.string { throw Self.fault(place, reason) }
        guard !Self.refers(schema) else {
            throw Self.fault(
                place, "the jsonSchema of \(type) has references, which lead elsewhere inside another schema")
        }
        shape.known = schema
        if let sample = try? T(from: Probe(shape: Shape(), place: place)) { return sample }
        let text = Self.sample(of: schema).serializedBytes()
        if let sample = try? ChappieJSONSchema.decoder.decode(T.self, from: Data(text)) { return sample }
        throw Self.fault(place, "\(type) can't be decoded from a sample")
    }

    private static func refers(_ schema: ChappieJSON) -> Bool {
        switch schema {
        case .object(let object): object["$ref"]?.string != nil || object.members.contains { refers($0.value) }
        case .array(let elements): elements.contains(where: refers)
        default: false
        }
    }

    /// Returns a value that fits `schema`, if the schema is simple.
    private static func sample(of schema: ChappieJSON) -> ChappieJSON {
        if let value = schema["const"] ?? schema["enum"]?[0] { return value }
        if let alternative = schema["anyOf"]?[0] ?? schema["oneOf"]?[0] { return sample(of: alternative) }
        switch schema["type"]?.string ?? schema["type"]?[0]?.string {
        case "string": return ""
        case "integer", "number": return schema["minimum"] ?? 0
        case "boolean": return false
        case "array": return []
        case "object":
            let names = schema["required"]?.array?.compactMap(\.string) ?? []
            return .object(ChappieJSONObject(names.map { ($0, sample(of: schema["properties"]?[$0] ?? .null)) }))
        default: return .null
        }
    }

    /// Returns the schema and a sample of a type that every decoder knows, or of an enum that lists its cases. Returns
    /// `nil` for other types.
    private static func known(_ type: any Decodable.Type) -> (ChappieJSON, Any)? {
        switch type {
        case is Bool.Type: return (["type": "boolean"], false)
        case is String.Type: return (["type": "string"], "")
        case is Date.Type: return (["type": "string", "format": "date-time"], Date(timeIntervalSinceReferenceDate: 0))
        case is UUID.Type: return (["type": "string", "format": "uuid"], UUID())
        // Strict mode supports neither the format of URLs nor `contentEncoding`.
        case is URL.Type: return (["type": "string", "description": "A URL."], URL(filePath: "/"))
        case is Data.Type: return (["type": "string", "description": "In base64."], Data())
        case is Decimal.Type: return (["type": "number"], Decimal())
        case is ChappieJSON.Type: return ([:], ChappieJSON.null)
        case let type as any FixedWidthInteger.Type: return integer(type)
        case let type as any BinaryFloatingPoint.Type: return (["type": "number"], zero(type))
        case let type as any (RawRepresentable & CaseIterable).Type: return enumeration(type)
        default: return nil
        }
    }

    private static func zero<Number: BinaryFloatingPoint>(_ type: Number.Type) -> Any { Number.zero }

    private static func integer<Number: FixedWidthInteger>(_ type: Number.Type) -> (ChappieJSON, Any) {
        (Number.isSigned ? ["type": "integer"] : ["type": "integer", "minimum": 0], Number.zero)
    }

    private static func enumeration<Value: RawRepresentable & CaseIterable>(_ type: Value.Type) -> (ChappieJSON, Any)? {
        guard let first = Value.allCases.first else { return nil }
        let texts = Value.allCases.compactMap { ($0.rawValue as? String).map(ChappieJSON.string) }
        if !texts.isEmpty { return (["type": "string", "enum": .array(texts)], first) }
        let numbers = Value.allCases.compactMap { ($0.rawValue as? any FixedWidthInteger).flatMap { Int(exactly: $0) } }
        guard numbers.count == Value.allCases.count else { return nil }
        return (["type": "integer", "enum": .array(numbers.map(ChappieJSON.integer))], first)
    }

    // MARK: Containers

    // One generic method replaces the dozen that the protocols require.

    private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let probe: Probe
        var codingPath: [any CodingKey] { [] }

        /// The name that represents all names. Dictionaries read this, and so do enums with payloads, which don't find
        /// the name among their cases.
        var allKeys: [Key] {
            guard let key = Key(stringValue: Probe.anyName) else { return [] }
            probe.shape.others = probe.shape.others ?? Shape()
            if probe.shape.members?.isEmpty == true { probe.shape.members = nil }
            return [key]
        }

        private func member(_ name: String) -> Probe {
            if name == Probe.anyName, let others = probe.shape.others {
                return Probe(shape: others, place: probe.place + ["additionalProperties"])
            }
            return Probe(shape: probe.shape.member(name), place: probe.place + ["properties", name])
        }

        func contains(_ key: Key) -> Bool { true }
        func decodeNil(forKey key: Key) -> Bool {
            member(key.stringValue).shape.isNullable = true
            return false
        }
        func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
            try member(key.stringValue).value(type)
        }
        func nestedContainer<Nested>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedDecodingContainer<Nested> {
            member(key.stringValue).container(keyedBy: type)
        }
        func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedDecodingContainer {
            member(key.stringValue).unkeyedContainer()
        }
        func superDecoder() -> any Decoder { member("super") }
        func superDecoder(forKey key: Key) -> any Decoder { member(key.stringValue) }
    }

    private struct Elements: UnkeyedDecodingContainer {
        let probe: Probe
        var codingPath: [any CodingKey] { [] }
        var count: Int? { nil }
        private(set) var currentIndex = 0
        /// Whether an element has been decoded. One element is enough to determine the type of all elements.
        var isAtEnd: Bool { currentIndex > 0 }

        init(probe: Probe) { self.probe = probe }

        private mutating func next() -> Probe {
            currentIndex += 1
            let shape = Shape()
            probe.shape.elements?.append(shape)
            return Probe(shape: shape, place: probe.place + ["items"])
        }

        /// Returns `false`. The caller then decodes the element itself, which records whether it is optional.
        mutating func decodeNil() -> Bool { false }
        mutating func decode<T: Decodable>(_ type: T.Type) throws -> T { try next().value(type) }
        mutating func nestedContainer<Nested>(keyedBy type: Nested.Type) -> KeyedDecodingContainer<Nested> {
            next().container(keyedBy: type)
        }
        mutating func nestedUnkeyedContainer() -> any UnkeyedDecodingContainer { next().unkeyedContainer() }
        mutating func superDecoder() -> any Decoder { next() }
    }

    private struct Scalar: SingleValueDecodingContainer {
        let probe: Probe
        var codingPath: [any CodingKey] { [] }

        func decodeNil() -> Bool {
            probe.shape.isNullable = true
            return false
        }
        func decode<T: Decodable>(_ type: T.Type) throws -> T { try probe.value(type) }
    }
}
