/// A JSON value (RFC 8259) that loses nothing: numbers keep their digits, objects keep their order and unknown members.
///
/// ```swift
/// let body: ChappieJSON = ["model": "gpt-5.5", "stream": true]
/// let text = body.serialized()          // {"model":"gpt-5.5","stream":true}
/// let value = try ChappieJSON(parsing: text)
/// value["model"]?.string                // "gpt-5.5"
/// ```
public enum ChappieJSON: Sendable, Hashable {
    case null
    case bool(Bool)
    case number(ChappieJSONNumber)
    case string(String)
    case array([ChappieJSON])
    case object(ChappieJSONObject)
}

// MARK: Reading

extension ChappieJSON {
    /// The member `key` of an object; `nil` for other values and missing members.
    public subscript(key: String) -> ChappieJSON? {
        if case .object(let object) = self { object[key] } else { nil }
    }

    /// The element at `index` of an array; `nil` for other values and indices out of range.
    public subscript(index: Int) -> ChappieJSON? {
        if case .array(let array) = self, array.indices.contains(index) { array[index] } else { nil }
    }

    public var isNull: Bool { self == .null }
    public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    public var string: String? { if case .string(let value) = self { value } else { nil } }
    public var array: [ChappieJSON]? { if case .array(let value) = self { value } else { nil } }
    public var object: ChappieJSONObject? { if case .object(let value) = self { value } else { nil } }
    /// The number as an integer, if it is one and fits.
    public var int: Int? { if case .number(let value) = self { value.int } else { nil } }
    /// The number as a double; finite.
    public var double: Double? { if case .number(let value) = self { value.double } else { nil } }
}

// MARK: Literals

extension ChappieJSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByFloatLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int) { self = .number(ChappieJSONNumber(value)) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(nilLiteral: ()) { self = .null }
    public init(arrayLiteral elements: ChappieJSON...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, ChappieJSON)...) { self = .object(ChappieJSONObject(elements)) }
    /// A value that is not finite becomes `null`: JSON has no other word for it.
    public init(floatLiteral value: Double) { self = ChappieJSONNumber(value).map(ChappieJSON.number) ?? .null }

    /// An integer as a JSON number.
    public static func integer(_ value: Int) -> ChappieJSON { .number(ChappieJSONNumber(value)) }
    /// A double as a JSON number; `null` when it is not finite.
    public static func double(_ value: Double) -> ChappieJSON { ChappieJSON(floatLiteral: value) }
}
