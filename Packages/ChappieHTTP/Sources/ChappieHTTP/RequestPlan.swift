import CZstd
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import FoundationEssentials
import HTTPTypes

/// Everything curl is told about one exchange, checked and ready.
struct RequestPlan {
    let route: CurlRoute
    let request: CurlRequest
    /// As it travels.
    let body: [UInt8]
    let deadlines: ChappieDeadlines

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
        var fields = request.headerFields
        // The adapter frames the message; a second opinion on its length would be an attack or a mistake.
        fields[.contentLength] = nil
        fields[.transferEncoding] = nil
        // A method that usually brings a body says so when there is none (RFC 9110, 8.6).
        var body: [UInt8]? = [.post, .put, .patch].contains(request.method) ? [] : nil
        if let given = request.body {
            body = given.bytes
            if given.coding == .zstd {
                body = Self.compress(given.bytes)
                fields[.contentEncoding] = "zstd"
                if body == nil {
                    throw .unavailable("the request body can't be compressed", host: route.origin.label)
                }
            }
        }
        self.route = route
        self.body = body ?? []
        self.deadlines = request.deadlines ?? policyDeadlines
        self.request = CurlRequest(
            url: route.target(of: request.url), method: request.method.rawValue, headerLines: Self.lines(of: fields),
            bodyBytes: body?.count)
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

    /// One frame of the `zstd` content coding (RFC 8878) with its content size in the header; `nil` when the library has
    /// no memory left. Level 3, the library's own default, compresses hundreds of MB a second.
    private static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        let bound = ZSTD_compressBound(bytes.count)
        guard ZSTD_isError(bound) == 0 else { return nil }
        var failed = false
        let frame = [UInt8](unsafeUninitializedCapacity: bound) { buffer, count in
            let written = bytes.withUnsafeBytes {
                ZSTD_compress(buffer.baseAddress, buffer.count, $0.baseAddress, $0.count, 3)
            }
            failed = ZSTD_isError(written) != 0
            count = failed ? 0 : written
        }
        return failed ? nil : frame
    }
}
