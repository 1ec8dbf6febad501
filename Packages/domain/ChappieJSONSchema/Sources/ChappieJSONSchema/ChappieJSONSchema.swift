public import ChappieCore

/// A JSON Schema (draft 2020-12 and earlier ones), for the arguments of tools and for structured output.
///
/// ```swift
/// let schema: ChappieJSONSchema = [
///     "type": "object", "properties": ["town": ["type": "string", "minLength": 1]], "required": ["town"],
/// ]
/// try schema.violations(in: ["town": 7])      // [/town: must be a string, not a number]
/// ```
///
/// These keywords are supported: `type`, `enum`, `const`; `properties`, `required`, `additionalProperties`,
/// `propertyNames`, `minProperties`, `maxProperties`; `items`, `prefixItems`, `contains`, `minContains`, `maxContains`,
/// `minItems`, `maxItems`, `uniqueItems`; `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`;
/// `minLength`, `maxLength`; `allOf`, `anyOf`, `oneOf`, `not`, `if`, `then`, `else`; `$ref` within the schema,
/// `$anchor`, `$id`, `$defs`, `definitions`; `true` and `false`.
///
/// These are not checked: `pattern`, `patternProperties`, `dependentRequired`, `dependentSchemas`, `dependencies`,
/// `unevaluatedProperties`, `unevaluatedItems`, `$dynamicRef`, `$recursiveRef`, `$vocabulary`, and a `$ref` to another
/// document or to a missing schema. A value that violates only these keywords counts as fitting. The service or the
/// tool that reads the value checks them.
///
/// All other keywords are annotations, which restrict nothing (JSON Schema 2020-12, 6.5). Among them are `format`,
/// `discriminator` and `example`.
///
/// The forms of older drafts are read: a list as `items` with `additionalItems`, `exclusiveMinimum` and
/// `exclusiveMaximum` as `true` or `false`, `id`, and a `$ref` that hides its neighbours if `$schema` names draft 7 or
/// an older one. `nullable` of OpenAPI 3.0 allows `null`. A schema whose `$schema` names an unknown dialect is not
/// checked.
public struct ChappieJSONSchema: Sendable, Hashable, ExpressibleByDictionaryLiteral {
    /// The JSON of the schema.
    public let json: ChappieJSONValue

    /// Creates a schema from any JSON. ``check()`` decides whether it is a schema.
    public init(_ json: ChappieJSONValue) { self.json = json }
    public init(dictionaryLiteral elements: (String, ChappieJSONValue)...) {
        json = .object(ChappieJSONObject(elements))
    }

    /// Returns a schema with these members, which are keywords and their values.
    public static func object(_ members: ChappieJSONObject) -> ChappieJSONSchema { ChappieJSONSchema(.object(members)) }

    /// Throws if the JSON is not a schema, or if the value of a keyword is not what the keyword takes.
    ///
    /// It also refuses a circular schema, which refers to itself without going deeper into the value.
    ///
    /// - Throws: ``ChappieJSONSchemaError``.
    public func check() throws(ChappieJSONSchemaError) { _ = try SchemaCompiler.compile(json) }

    /// Returns the violations of the schema in `instance`, in order. The list is empty if the value fits.
    ///
    /// Numbers are compared exactly, by their value, and strings by their code points. At most 20 violations are
    /// reported. The work is bounded for any schema and value. If the bound is reached, the value counts as a
    /// violation. So does a value that has two members with the same name, because decoders differ about which of them
    /// counts.
    ///
    /// - Throws: The errors of ``check()``.
    public func violations(in instance: ChappieJSONValue) throws(ChappieJSONSchemaError) -> [ChappieSchemaViolation] {
        SchemaValidator.violations(in: instance, of: try SchemaCompiler.compile(json))
    }
}

extension ChappieJSONSchema: Codable {
    /// Decodes a schema from any JSON. ``check()`` decides whether it is a schema.
    public init(from decoder: any Decoder) throws { json = try ChappieJSON(from: decoder) }
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// A type that supplies its own JSON schema.
///
/// A `Decodable` type needs no code for this. Its schema is the result of ``ChappieJSONSchema/derived(from:)``.
public protocol ChappieJSONSchemaProviding {
    /// The schema of the type's JSON.
    static var jsonSchema: ChappieJSONSchema { get }
}
