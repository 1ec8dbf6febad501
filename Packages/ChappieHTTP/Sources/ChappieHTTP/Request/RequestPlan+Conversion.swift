import ChappieCore
import ChappieCurl
import FoundationEssentials
import HTTPTypes

extension RequestPlan {
    /// Converts `request`, which goes by `route`; opens nothing and sends nothing.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration` when it can't be sent as it is.
    init(
        _ request: HTTPExchangeRequest, by route: CurlRoute, deadlines policyDeadlines: ChappieDeadlines
    ) throws(ChappieTransportError) {
        // CONNECT asks for a tunnel (RFC 9110, 9.3.6); curl builds those itself.
        guard request.method != .connect else {
            throw ChappieTransportError(
                .invalidURL, stage: .configuration, host: route.origin.label,
                reason: "CONNECT is no request to an origin")
        }
        self.route = route
        url = route.target(of: request.url)
        method = request.method.rawValue
        deadlines = request.deadlines ?? policyDeadlines

        var fields = request.headerFields
        // The adapter frames the message; a second opinion on its length would be an attack or a mistake.
        fields[.contentLength] = nil
        fields[.transferEncoding] = nil
        switch request.body {
        case nil:
            // A method that usually brings a body says so when there is none (RFC 9110, 8.6).
            body = [.post, .put, .patch].contains(request.method) ? [] : nil
        case .some(let given) where given.coding == .zstd:
            guard let compressed = ZstdCompression.compress(given.bytes) else {
                throw .unavailable("the request body can't be compressed", host: route.origin.label)
            }
            body = compressed
            fields[.contentEncoding] = "zstd"
        case .some(let given):
            body = given.bytes
        }
        headerLines = Self.lines(of: fields)
    }

    private static func lines(of fields: HTTPFields) -> [String] {
        var lines = fields.map { field in
            field.value.isEmpty ? "\(field.name.rawName);" : "\(field.name.rawName): \(field.value)"
        }
        // Nothing goes out that the request doesn't say: these curl would add by itself.
        for name in [HTTPField.Name.accept, .userAgent, .contentType, .expect] where fields[name] == nil {
            lines.append("\(name.rawName):")
        }
        return lines
    }
}
