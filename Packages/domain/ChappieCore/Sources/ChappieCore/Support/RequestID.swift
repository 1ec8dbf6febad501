public import HTTPTypes

/// The server's id of an exchange, for questions to its operator.
@_spi(ChappieInternals) public enum RequestID {
    /// The header fields in which the service sends the id of an exchange.
    private static let serviceNames = ["x-request-id", "x-oai-request-id"]
    /// The header fields that may contain the id, in the order of preference. The service's edge sends the last one.
    public static let names = serviceNames + ["cf-ray"]
    private static let limit = 200

    /// The usual field. Its name is valid in RFC 9110's grammar, so the fallback only avoids a trap.
    public static let field = HTTPField.Name(serviceNames[0]) ?? .accept

    /// Returns the sentence with which an error reports the id.
    public static func sentence(_ id: String) -> String { "The request's id is \(id)." }

    /// Returns the id that ``sentence(_:)`` has put at the end of `text`.
    public static func named(in text: String) -> String? {
        guard let start = text.firstRange(of: "The request's id is ") else { return nil }
        return token(String(text[start.upperBound...].dropLast()))
    }

    private static func token(_ text: String?) -> String? { UntrustedText.token(text, limit: limit) }

    /// Returns whether the service itself has sent an id of the exchange.
    public static func isOfService(_ fields: HTTPFields) -> Bool {
        serviceNames.contains { name in token(HTTPField.Name(name).flatMap { fields[$0] }) != nil }
    }

    /// Returns the first valid id.
    ///
    /// - Parameter value: Returns the value of a header field.
    public static func of(_ value: (String) -> String?) -> String? {
        names.compactMap { token(value($0)) }.first
    }
}

@_spi(ChappieInternals) extension HTTPFields {
    /// The server's id of the exchange with these fields.
    public var requestID: String? { RequestID.of { HTTPField.Name($0).flatMap { self[$0] } } }
}
