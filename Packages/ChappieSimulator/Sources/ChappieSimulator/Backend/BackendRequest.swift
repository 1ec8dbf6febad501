import ChappieCore

/// A request as the routes look at it.
struct BackendRequest: Sendable {
    /// Largest body after its content coding is off.
    static let bodyLimit = 64 * 1024 * 1024

    let received: ReceivedRequest
    let carrier: ScenarioMatch.Carrier
    /// Without the query.
    let path: String
    let query: FormFields

    init(_ received: ReceivedRequest, over carrier: ScenarioMatch.Carrier = .http) {
        self.received = received
        self.carrier = carrier
        let parts = received.target.utf8.split(separator: UInt8(ascii: "?"), maxSplits: 1)
        let path = parts.first.map { String(decoding: $0, as: UTF8.self) } ?? "/"
        // A proxy's absolute form (RFC 9112, 3.2.2) names the same resources.
        self.path = BackendRequest.pathOfAbsoluteForm(path) ?? path
        query = FormFields(parts.count > 1 ? Array(parts[1]) : [])
    }

    var method: String { received.method }
    func header(_ name: String) -> String? { received.header(name) }

    /// Whether it asks for the WebSocket of the Responses endpoint.
    var asksForWebSocket: Bool {
        method == "GET" && Route(path: path) == .responses && header("upgrade")?.lowercased() == "websocket"
    }

    /// The media type without parameters, in lower case.
    var mediaType: String {
        let value = header("content-type") ?? ""
        return (value.split(separator: ";").first.map(String.init) ?? "").trimmed.lowercased()
    }

    /// The body without its content coding.
    func decodedBody() throws(BodyFailure) -> [UInt8] {
        switch (header("content-encoding") ?? "identity").trimmed.lowercased() {
        case "identity", "": return received.body
        case "zstd":
            do throws(ZstdDecoder.Failure) {
                return try ZstdDecoder.decode(received.body, limit: Self.bodyLimit)
            } catch {
                throw error == .tooLarge ? .tooLarge : .malformed
            }
        default: throw .unsupportedCoding
        }
    }

    /// The body as JSON; `nil` when it is not.
    var json: ChappieJSON? { (try? decodedBody()).flatMap { try? ChappieJSON(parsing: $0) } }

    enum BodyFailure: Error, Sendable, Hashable { case malformed, tooLarge, unsupportedCoding }

    private static func pathOfAbsoluteForm(_ target: String) -> String? {
        guard target.lowercased().hasPrefix("http://") else { return nil }
        let rest = target.dropFirst("http://".count)
        return rest.firstIndex(of: "/").map { String(rest[$0...]) } ?? "/"
    }
}
