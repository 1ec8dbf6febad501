@_spi(ChappieInternals) public import ChappieCore

/// The reason why a schema can't be used, and the place in it.
public struct ChappieJSONSchemaError: ChappieError, Hashable {
    /// The place in the schema, as a JSON Pointer (RFC 6901).
    public var path: String
    /// The reason, as a clause.
    public var reason: String

    /// Creates an error with the given properties.
    public init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    public var errorDescription: String? {
        "The JSON schema can't be used: \(path.isEmpty ? "" : "at \(path), ")\(reason)."
    }
}

/// A part of a value that does not fit a schema.
public struct ChappieSchemaViolation: ChappieError, Hashable, Codable, CustomStringConvertible {
    /// The place in the instance, as a JSON Pointer (RFC 6901). It is empty for the entire instance.
    public var path: String
    /// The violation, as a clause.
    public var message: String

    /// Creates a violation with the given properties.
    public init(path: String, message: String) {
        self.path = path
        self.message = message
    }

    /// The place and the message.
    public var description: String { "\(path.isEmpty ? "the value" : path): \(message)" }
    public var errorDescription: String? { UntrustedText.sentence("This does not fit, \(description)") }
}
