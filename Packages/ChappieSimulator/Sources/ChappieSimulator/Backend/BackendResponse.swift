import ChappieCore

/// What a route answers, before it becomes bytes and before a scenario spoils it.
struct BackendResponse: Sendable {
    enum Body: Sendable {
        case bytes([UInt8])
        case events([StreamedEvent])
    }

    var status: Int
    var headers: [(String, String)]
    var body: Body

    static func json(_ value: ChappieJSON, status: Int = 200, headers: [(String, String)] = []) -> BackendResponse {
        BackendResponse(
            status: status, headers: [("content-type", "application/json")] + headers,
            body: .bytes(value.serializedBytes()))
    }

    static func html(_ text: String, status: Int = 200, headers: [(String, String)] = []) -> BackendResponse {
        BackendResponse(
            status: status, headers: [("content-type", "text/html; charset=utf-8")] + headers,
            body: .bytes(Array(text.utf8)))
    }

    static func empty(status: Int, headers: [(String, String)] = []) -> BackendResponse {
        BackendResponse(status: status, headers: headers, body: .bytes([]))
    }

    /// An error as this backend words most of them.
    static func error(
        _ status: Int, code: String, message: String, type: String = "invalid_request_error", parameter: String? = nil,
        headers: [(String, String)] = []
    ) -> BackendResponse {
        let error: ChappieJSON = [
            "message": .string(message), "type": .string(type), "param": parameter.map(ChappieJSON.string) ?? .null,
            "code": .string(code),
        ]
        return json(["error": error, "status": .integer(status)], status: status, headers: headers)
    }

    /// The head alone: what follows the answer to a HEAD request is the next answer (RFC 9112, 6.3).
    var withoutBody: BackendResponse { BackendResponse(status: status, headers: headers, body: .bytes([])) }

    /// Sets a header field, replacing what was there.
    mutating func setHeader(_ name: String, _ value: String) {
        headers.removeAll { $0.0.lowercased() == name.lowercased() }
        headers.append((name, value))
    }
}
