/// A JSON Schema (draft 2020-12), for the arguments of tools and for structured output.
public struct ChappieJSONSchema: Sendable, Hashable, Codable, ExpressibleByDictionaryLiteral {
    /// The schema itself.
    public let json: ChappieJSONValue

    /// Takes any JSON; ``check()`` tells whether it is a schema.
    public init(_ json: ChappieJSONValue) { self.json = json }
    public init(dictionaryLiteral elements: (String, ChappieJSONValue)...) { json = .object(ChappieJSONObject(elements)) }

    /// Refuses what is no schema and keywords that are not supported.
    ///
    /// - Throws: ``ChappieJSONSchemaError``.
    public func check() throws(ChappieJSONSchemaError) {}

    /// What is wrong with `instance`, first things first; empty when it fits.
    ///
    /// - Throws: ``ChappieJSONSchemaError``, as ``check()``.
    public func violations(in instance: ChappieJSONValue) throws(ChappieJSONSchemaError) -> [ChappieSchemaViolation] {
        try check()
        return []
    }
}

/// A schema that can't be used: where in it, and why.
public struct ChappieJSONSchemaError: Error, Sendable, Hashable {
    /// The place in the schema, as a JSON Pointer (RFC 6901).
    public var path: String
    /// A sentence.
    public var reason: String

    /// An error with the given properties.
    public init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }
}

/// What does not fit a schema.
public struct ChappieSchemaViolation: Error, Sendable, Hashable, Codable {
    /// The place in the instance, as a JSON Pointer (RFC 6901); empty for the whole.
    public var path: String
    /// A sentence about it.
    public var message: String

    /// A violation with the given properties.
    public init(path: String, message: String) {
        self.path = path
        self.message = message
    }
}

/// A type that says by itself what its JSON looks like.
public protocol ChappieJSONSchemaProviding {
    /// The schema of the type's JSON.
    static var jsonSchema: ChappieJSONSchema { get }
}
