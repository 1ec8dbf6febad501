public import HTTPTypes

/// The name under which the server knows an exchange, for a question to its operator.
@_spi(ChappieInternals) public enum RequestID {
    /// The header fields in which the service names an exchange.
    private static let serviceNames = ["x-request-id", "x-oai-request-id"]
    /// The header fields that may contain the name, in the order of preference. The service's edge sends the last one.
    public static let names = serviceNames + ["cf-ray"]
    private static let limit = 200

    /// The usual field. The name is valid by RFC 9110's grammar; the fallback only spares a trap.
    public static let field = HTTPField.Name(serviceNames[0]) ?? .accept

    /// Returns the sentence in which an error names it.
    public static func sentence(_ id: String) -> String { "The request's id is \(id)." }

    /// Returns the name that ``sentence(_:)`` has put at the end of `text`.
    public static func named(in text: String) -> String? {
        guard let start = text.firstRange(of: "The request's id is ") else { return nil }
        return token(String(text[start.upperBound...].dropLast()))
    }

    private static func token(_ text: String?) -> String? { UntrustedText.token(text, limit: limit) }

    /// Whether the service itself has named the exchange.
    public static func isOfService(_ fields: HTTPFields) -> Bool {
        serviceNames.contains { name in token(HTTPField.Name(name).flatMap { fields[$0] }) != nil }
    }

    /// Returns the first valid name.
    ///
    /// - Parameter value: returns the value of a header field.
    public static func of(_ value: (String) -> String?) -> String? {
        names.compactMap { token(value($0)) }.first
    }
}

@_spi(ChappieInternals) extension HTTPFields {
    /// The name under which the server knows the exchange of these fields.
    public var requestID: String? { RequestID.of { HTTPField.Name($0).flatMap { self[$0] } } }
}
