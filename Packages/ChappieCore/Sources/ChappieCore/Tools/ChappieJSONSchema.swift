/// A JSON Schema (draft 2020-12), for the arguments of tools and for structured output.
///
/// ```swift
/// let schema: ChappieJSONSchema = [
///     "type": "object", "properties": ["town": ["type": "string", "minLength": 1]], "required": ["town"],
/// ]
/// try schema.violations(in: ["town": 7])      // [/town: must be a string, not a number]
/// ```
///
/// Supported are: `type`, `enum`, `const`; `properties`, `required`, `additionalProperties`, `patternProperties`,
/// `propertyNames`, `minProperties`, `maxProperties`, `dependentRequired`, `dependentSchemas`; `items`, `prefixItems`,
/// `contains`, `minContains`, `maxContains`, `minItems`, `maxItems`, `uniqueItems`; `minimum`, `maximum`,
/// `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`; `minLength`, `maxLength`, `pattern`; `allOf`, `anyOf`, `oneOf`,
/// `not`, `if`, `then`, `else`; `$ref` within the schema, `$anchor`, `$defs`, `definitions`; `true` and `false`.
///
/// These say nothing about what fits: `title`, `description`, `default`, `examples`, `deprecated`, `readOnly`, `writeOnly`,
/// `$comment`, `format`, `contentEncoding`, `contentMediaType`, `contentSchema`, `$schema`, the root's `$id`, and every word
/// that begins with `x-`. Any other word is refused, so that nothing is silently ignored: `unevaluatedProperties`,
/// `unevaluatedItems`, `$dynamicRef`, `$dynamicAnchor`, `$vocabulary`, a `$ref` to another document, a `$id` inside.
public struct ChappieJSONSchema: Sendable, Hashable, ExpressibleByDictionaryLiteral {
    /// The schema itself.
    public let json: ChappieJSONValue

    /// Takes any JSON; ``check()`` tells whether it is a schema.
    public init(_ json: ChappieJSONValue) { self.json = json }
    public init(dictionaryLiteral elements: (String, ChappieJSONValue)...) {
        json = .object(ChappieJSONObject(elements))
    }

    /// A schema of these members, keywords and their values.
    public static func object(_ members: ChappieJSONObject) -> ChappieJSONSchema { ChappieJSONSchema(.object(members)) }

    /// Refuses what is no schema and keywords that are not supported.
    ///
    /// A schema that would go round in circles is refused too: one that refers to itself without going deeper into the value.
    ///
    /// - Throws: ``ChappieJSONSchemaError``.
    public func check() throws(ChappieJSONSchemaError) { _ = try SchemaCompiler.compile(json) }

    /// What is wrong with `instance`, first things first; empty when it fits.
    ///
    /// Numbers are compared by their meaning, exactly, strings by their code points. At most 20 violations are told. The work
    /// is bounded, whatever schema and value are: where the bound is reached, the value counts as one that does not fit. So
    /// does a value that holds two members of the same name, since decoders differ about which of them counts.
    ///
    /// - Throws: ``ChappieJSONSchemaError``, as ``check()``.
    public func violations(in instance: ChappieJSONValue) throws(ChappieJSONSchemaError) -> [ChappieSchemaViolation] {
        SchemaValidator.violations(in: instance, of: try SchemaCompiler.compile(json))
    }
}

extension ChappieJSONSchema: Codable {
    /// Reads any JSON; ``check()`` tells whether it is a schema.
    public init(from decoder: any Decoder) throws { json = try ChappieJSON(from: decoder) }
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// A schema that can't be used: where in it, and why.
public struct ChappieJSONSchemaError: ChappieError, Hashable {
    /// The place in the schema, as a JSON Pointer (RFC 6901).
    public var path: String
    /// A sentence.
    public var reason: String

    /// An error with the given properties.
    public init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    public var errorDescription: String? {
        "The JSON schema can't be used: \(path.isEmpty ? "" : "at \(path), ")\(reason)."
    }
}

/// What does not fit a schema.
public struct ChappieSchemaViolation: ChappieError, Hashable, Codable, CustomStringConvertible {
    /// The place in the instance, as a JSON Pointer (RFC 6901); empty for the whole.
    public var path: String
    /// A sentence about it.
    public var message: String

    /// A violation with the given properties.
    public init(path: String, message: String) {
        self.path = path
        self.message = message
    }

    /// Place and message.
    public var description: String { "\(path.isEmpty ? "the value" : path): \(message)" }
    public var errorDescription: String? { UntrustedText.sentence("This does not fit, \(description)") }
}

/// A type that says by itself what its JSON looks like.
///
/// A `Decodable` type needs to write nothing: its schema is ``ChappieJSONSchema/derived(from:)``'s.
public protocol ChappieJSONSchemaProviding {
    /// The schema of the type's JSON.
    static var jsonSchema: ChappieJSONSchema { get }
}
