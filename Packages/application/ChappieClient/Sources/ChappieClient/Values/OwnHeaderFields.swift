@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The header fields that a program adds to its requests.
enum OwnHeaderFields {
    /// The maximum number of fields, and the maximum number of bytes of all names and values together.
    private static let limit = (count: 50, bytes: 16 << 10)

    /// Returns the fields in the form in which they are sent, in the order of their names.
    ///
    /// - Throws: ``ChappieClientError/unsupportedInput(_:_:)`` for a name or a value that HTTP does not allow (RFC
    ///   9110, 5.1 and 5.5), a field that the client or the transport sets, or too many fields. Values are secret, so
    ///   the error names only the field.
    static func checked(_ fields: [String: String]) throws(ChappieClientError) -> HTTPFields {
        guard !fields.isEmpty else { return [:] }
        let size = fields.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        guard fields.count <= limit.count, size <= limit.bytes else {
            throw .unsupportedInput(
                "The request has too many additional header fields.",
                "Give at most \(limit.count) fields of \(limit.bytes >> 10) KiB together.")
        }
        var checked: HTTPFields = [:]
        for (text, value) in fields.sorted(by: { $0.key < $1.key }) {
            let shown = UntrustedText.message(text, limit: 100) ?? ""
            guard let name = HTTPField.Name(text), HTTPField.isValidValue(value) else {
                throw .unsupportedInput(
                    "The header field \"\(shown)\" can't be sent: HTTP does not allow its name or its value.",
                    "Give a name of letters, digits and hyphens, and a value without line breaks.")
            }
            guard !isReserved(name.canonicalName), checked[name] == nil else {
                throw .unsupportedInput(
                    "The header field \"\(shown)\" is set by the client itself, or given twice.", "Leave it out.")
            }
            checked[name] = value
        }
        return checked
    }

    /// Returns whether the client, the sign-in, the transport or the service's routing owns the field.
    private static func isReserved(_ name: String) -> Bool {
        names.contains(name) || beginnings.contains { name.hasPrefix($0) }
    }

    private static let names: Set<String> = [
        "accept", "accept-encoding", "authorization", "connection", "cookie", "expect", "host", "http2-settings",
        "keep-alive", "originator", "origin", "session-id", "te", "thread-id", "trailer", "transfer-encoding",
        "upgrade",
        "user-agent", "version", "x-client-request-id", "x-models-etag",
    ]
    private static let beginnings = [
        "chatgpt-", "content-", "openai-", "proxy-", "sec-", "x-codex-", "x-openai-",
    ]
}

extension HTTPExchangeRequest {
    func adding(_ fields: HTTPFields) -> HTTPExchangeRequest {
        var request = self
        for field in fields where request.headerFields[field.name] == nil { request.headerFields.append(field) }
        return request
    }
}
