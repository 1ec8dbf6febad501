import ChappieCore

/// The JSON of the messages that say what is wrong over WebSocket, where there is no status line.
enum ErrorFrame {
    static func make(_ status: Int, code: String, message: String) -> [UInt8] {
        make(BackendResponse.error(status, code: code, message: message))
    }

    /// The answer of HTTP as a message: its status and error as members, and those header fields that tell something.
    ///
    /// - Parameters:
    ///   - statusMember: the name the status goes by; `nil` to leave it out.
    static func make(_ response: BackendResponse, statusMember: String? = "status") -> [UInt8] {
        var frame = ChappieJSONObject([("type", "error")])
        if let statusMember { frame[statusMember] = .integer(response.status) }
        frame["error"] = error(in: response)
        let headers = response.headers.filter { !["content-type", "allow", "connection"].contains($0.0.lowercased()) }
        if !headers.isEmpty {
            frame["headers"] = .object(ChappieJSONObject(headers.map { ($0.0.lowercased(), .string($0.1)) }))
        }
        return ChappieJSON.object(frame).serializedBytes()
    }

    private static func error(in response: BackendResponse) -> ChappieJSON {
        guard case .bytes(let bytes) = response.body, !bytes.isEmpty else { return plain("Status \(response.status).") }
        guard let body = try? ChappieJSON(parsing: bytes) else { return plain(String(decoding: bytes, as: UTF8.self)) }
        return body["error"] ?? plain(body["detail"]?.string ?? body.serialized())
    }

    private static func plain(_ message: String) -> ChappieJSON {
        ["type": "server_error", "code": nil, "message": .string(message), "param": nil]
    }
}
