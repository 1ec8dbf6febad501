@_spi(ChappieInternals) public import ChappieCore

/// A schema in the form in which it is sent with `strict: true`.
///
/// The service makes the model follow a schema only in this form. Every object is closed and requires all of its
/// members. A member that was optional may be `null` instead, and ``answer(_:)`` removes these nulls again. A root that
/// is not an object becomes the member `value` of one.
///
/// ```swift
/// let strict = try ChappieStrictSchema(["type": "object", "properties": ["town": ["type": "string"]]])
/// strict.answer(["town": nil])      // {}
/// ```
///
/// Conditions without a strict form, such as `uniqueItems`, `not` and `pattern` with look-around, are left out. Check
/// the answer against the schema itself.
public struct ChappieStrictSchema: Sendable {
    /// The JSON that is sent.
    public let json: ChappieJSONValue
    /// Whether ``answer(_:)`` may change an answer.
    public var changesAnswers: Bool { isWrapped || !added.isEmpty }

    /// Whether the root is the member `value` of another object.
    @_spi(ChappieInternals) public let isWrapped: Bool
    /// The places of the members that were optional.
    private let added: Set<[String]>
    private let compiled: SchemaCompiler

    /// Rewrites a schema.
    ///
    /// - Throws: ``ChappieJSONSchemaError`` with the place of a part that has no strict form, such as an object whose
    ///   members have any names, or a value of any kind.
    public init(_ schema: ChappieJSONSchema) throws(ChappieJSONSchemaError) {
        var rewriter = StrictRewriter(schema.json, compiled: try SchemaCompiler.read(schema.json))
        (json, isWrapped) = try rewriter.document()
        added = rewriter.added
        compiled = try SchemaCompiler.read(json)
    }

    /// Returns an answer in the strict form as a value of the schema, without the nulls and the object that the form
    /// has added.
    public func answer(_ value: ChappieJSONValue) -> ChappieJSONValue {
        guard changesAnswers else { return value }
        let rules = compiled.rules
        let whole = reduced(value, at: [], rules)
        return isWrapped ? whole["value"] ?? whole : whole
    }

    /// Returns an answer's text, in which ``answer(_:)`` has been applied. Text that is not JSON stays.
    @_spi(ChappieInternals) public func answer(text: String) -> String {
        guard changesAnswers, let value = try? ChappieJSON(parsing: text) else { return text }
        let answer = answer(value)
        return answer == value ? text : answer.serialized()
    }

    private func reduced(_ value: ChappieJSON, at path: [String], _ rules: [[SchemaRule]]) -> ChappieJSON {
        guard let schema = JSONPointer.value(path, in: json)?.object else { return value }
        if let reference = schema["$ref"]?.string {
            return reduced(value, at: JSONPointer.tokens(ofReference: reference, base: nil) ?? [], rules)
        }
        if let alternatives = schema["anyOf"]?.array {
            let fitting = alternatives.indices.map { path + ["anyOf", String($0)] }.first { path in
                compiled.index(at: path).map { SchemaValidator.fits(value, $0, of: rules) } == true
            }
            return fitting.map { reduced(value, at: $0, rules) } ?? value
        }
        switch value {
        case .array(let elements): return .array(elements.map { reduced($0, at: path + ["items"], rules) })
        case .object(let object):
            let members = object.members.compactMap { member -> ChappieJSONObject.Member? in
                let path = path + ["properties", member.name]
                if member.value.isNull, added.contains(path) { return nil }
                return ChappieJSONObject.Member(name: member.name, value: reduced(member.value, at: path, rules))
            }
            return .object(ChappieJSONObject(members: members))
        default: return value
        }
    }
}
