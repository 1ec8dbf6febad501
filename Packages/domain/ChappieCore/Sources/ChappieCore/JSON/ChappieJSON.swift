/// A JSON value (RFC 8259) that loses nothing. Numbers keep their digits, and objects keep their order and unknown
/// members.
///
/// ```swift
/// let body: ChappieJSON = ["model": "gpt-6-sol", "stream": true]
/// let text = body.serialized()          // {"model":"gpt-6-sol","stream":true}
/// let value = try ChappieJSON(parsing: text)
/// value["model"]?.string                // "gpt-6-sol"
/// ```
public enum ChappieJSON: Sendable, Hashable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number with its original digits.
    case number(ChappieJSONNumber)
    /// A string without its escapes.
    case string(String)
    /// Elements in order.
    case array([ChappieJSON])
    /// Members in order.
    case object(ChappieJSONObject)
}

/// The name of ``ChappieJSON`` in the documents.
public typealias ChappieJSONValue = ChappieJSON

// MARK: Reading

extension ChappieJSON {
    /// The member `key` of an object, or `nil` for other values and missing members.
    public subscript(key: String) -> ChappieJSON? {
        if case .object(let object) = self { object[key] } else { nil }
    }

    /// The element at `index` of an array, or `nil` for other values and indices out of range.
    public subscript(index: Int) -> ChappieJSON? {
        if case .array(let array) = self, array.indices.contains(index) { array[index] } else { nil }
    }

    /// Whether the value is `null`.
    public var isNull: Bool { if case .null = self { true } else { false } }
    /// The value of `true` or `false`.
    public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The text of a string.
    public var string: String? { if case .string(let value) = self { value } else { nil } }
    /// The elements of an array.
    public var array: [ChappieJSON]? { if case .array(let value) = self { value } else { nil } }
    /// The members of an object.
    public var object: ChappieJSONObject? { if case .object(let value) = self { value } else { nil } }
    /// The number as an integer, or `nil` if it is not an integer or does not fit.
    public var int: Int? { if case .number(let value) = self { value.int } else { nil } }
    /// The number as a double, which is always finite.
    public var double: Double? { if case .number(let value) = self { value.double } else { nil } }
}

// MARK: Literals

extension ChappieJSON: ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByFloatLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int) { self = .number(ChappieJSONNumber(value)) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(nilLiteral: ()) { self = .null }
    public init(arrayLiteral elements: ChappieJSON...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, ChappieJSON)...) { self = .object(ChappieJSONObject(elements)) }
    /// Creates a number. A value that is not finite becomes `null`, because JSON can't express it.
    public init(floatLiteral value: Double) { self = ChappieJSONNumber(value).map(ChappieJSON.number) ?? .null }

    /// Returns an integer as a JSON number.
    public static func integer(_ value: Int) -> ChappieJSON { .number(ChappieJSONNumber(value)) }
    /// Returns a double as a JSON number, or `null` if it is not finite.
    public static func double(_ value: Double) -> ChappieJSON { ChappieJSON(floatLiteral: value) }
    /// Returns the same as ``integer(_:)``, under the name of the case.
    public static func number(_ value: Int) -> ChappieJSON { integer(value) }
    /// Returns the same as ``double(_:)``, under the name of the case.
    public static func number(_ value: Double) -> ChappieJSON { double(value) }
}

// MARK: Objects

/// The members of a JSON object, in their original order.
///
/// Look-up is linear, because objects of this protocol have few members. If a name occurs twice, the last one counts.
public struct ChappieJSONObject: Sendable, Hashable, ExpressibleByDictionaryLiteral {
    /// One name and its value.
    public struct Member: Sendable, Hashable {
        /// The name, without escapes.
        public var name: String
        /// The value of the member.
        public var value: ChappieJSON

        /// Creates a member with this name and value.
        public init(name: String, value: ChappieJSON) {
            self.name = name
            self.value = value
        }
    }

    /// All members, including those with a repeated name.
    public private(set) var members: [Member]

    /// Creates an object with its members in the order given.
    public init(_ members: [(String, ChappieJSON)] = []) {
        self.members = members.map { Member(name: $0.0, value: $0.1) }
    }

    /// Creates an object with its members in the order given.
    public init(members: [Member]) { self.members = members }

    public init(dictionaryLiteral elements: (String, ChappieJSON)...) { self.init(elements) }

    /// Whether the object has no members.
    public var isEmpty: Bool { members.isEmpty }
    /// The names in order, including repeated ones.
    public var names: [String] { members.map(\.name) }

    /// The value of `name`. Setting a value replaces it in place or appends it. Setting `nil` removes every occurrence.
    public subscript(name: String) -> ChappieJSON? {
        get { members.last { $0.name == name }?.value }
        set {
            guard let newValue else { return members.removeAll { $0.name == name } }
            if let index = members.lastIndex(where: { $0.name == name }) {
                members[index].value = newValue
            } else {
                members.append(Member(name: name, value: newValue))
            }
        }
    }
}

extension ChappieJSONObject {
    /// The value that counts for each name.
    private var values: [String: ChappieJSON] {
        Dictionary(members.map { ($0.name, $0.value) }, uniquingKeysWith: { _, last in last })
    }

    /// Returns whether both have the same names with the same values. The order does not count, because an object is
    /// unordered (RFC 8259, 1) and `JSONDecoder` keeps no order. Compare ``members`` if the order matters.
    ///
    /// Each value is compared once. Two comparisons on each level would cost 2^depth for values that differ at the
    /// bottom.
    public static func == (one: ChappieJSONObject, other: ChappieJSONObject) -> Bool {
        let (ours, theirs) = (one.members, other.members)
        // Copies of one object share their members. Before each request, a conversation is compared with itself.
        let isCopy = ours.withUnsafeBufferPointer { ours in
            theirs.withUnsafeBufferPointer { ours.baseAddress == $0.baseAddress }
        }
        if isCopy { return true }
        guard ours.count == theirs.count, ours.indices.allSatisfy({ ours[$0].name == theirs[$0].name })
        else { return one.values == other.values }
        var counting: [String: Int]?
        for index in ours.indices where ours[index].value != theirs[index].value {
            let places = counting ?? one.places
            if places[ours[index].name] == index { return false }
            counting = places
        }
        return true
    }

    /// The index of the member that counts for each name.
    private var places: [String: Int] {
        Dictionary(members.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { _, last in last })
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(values) }
}

// MARK: Numbers

/// A JSON number in its original spelling, so that integers of any size survive a round trip.
public struct ChappieJSONNumber: Sendable, Hashable {
    /// The number in JSON's grammar (RFC 8259, 6).
    public let literal: String

    /// Creates an integer.
    public init(_ value: Int) { literal = String(value) }

    /// Creates a number, or returns `nil` for NaN and the infinities, which JSON can't express.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        literal = Int(exactly: value)?.description ?? value.description
    }

    /// Creates a number from text that was checked against the grammar.
    init(checked literal: String) { self.literal = literal }

    /// The value, if it is an integer that fits. A number with a fraction or an exponent (`1.0`, `1e3`) is read as a
    /// double, and counts if it is below 2^53.
    public var int: Int? {
        Int(literal) ?? Double(literal).flatMap { abs($0) < 0x1p53 ? Int(exactly: $0) : nil }
    }
    /// The nearest double, or `nil` if the number is out of range.
    public var double: Double? { Double(literal).flatMap { $0.isFinite ? $0 : nil } }
}

@_spi(ChappieInternals) extension ChappieJSON {
    /// The maximum number of objects and arrays inside each other. It is deeper than any real payload, and shallow
    /// enough for a small thread's stack.
    public static let maximumDepth = 256

    /// The maximum number of members and elements of a JSON text.
    public static let maximumCount = 4_000_000
}
