import CZstd
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import FoundationEssentials
import HTTPTypes

/// All of curl's input for one exchange, in its checked form.
struct RequestPlan {
    let route: CurlRoute
    let method: HTTPRequest.Method
    let target: String
    /// The header fields in curl's notation.
    let headerLines: [String]
    /// The bytes that are sent, or `nil` for no body.
    let body: [UInt8]?
    let deadlines: ChappieDeadlines
    /// Whether the request is sent over HTTP/1.1.
    var isHTTP1 = false

    /// Converts `request`, which uses `route`. Opens nothing and sends nothing.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration` if the request can't be sent unchanged.
    init(
        _ request: HTTPExchangeRequest, by route: CurlRoute, deadlines policyDeadlines: ChappieDeadlines
    ) throws(ChappieTransportError) {
        var fields = try request.fields(to: route.origin)
        if let given = request.body, given.coding == .zstd {
            body = try Self.compress(given.bytes, for: route.origin)
            fields[.contentEncoding] = "zstd"
        } else {
            // A method that usually has a body states that there is none (RFC 9110, 8.6).
            body = request.body?.bytes ?? ([.post, .put, .patch].contains(request.method) ? [] : nil)
        }
        self.route = route
        method = request.method
        target = route.origin.target(of: request.url)
        // curl would add these fields by itself. Only the fields of the request are sent.
        let suppressed = [HTTPField.Name.accept, .userAgent, .contentType, .expect].filter { fields[$0] == nil }
        headerLines =
            fields.map { $0.value.isEmpty ? "\($0.name.rawName);" : "\($0.name.rawName): \($0.value)" }
            + suppressed.map { "\($0.rawName):" }
        deadlines = request.deadlines ?? policyDeadlines
    }

    /// Compresses `bytes` into one frame of the `zstd` content coding (RFC 8878) with its content size in the header.
    /// Level 3, the library's own default, compresses hundreds of MB per second.
    private static func compress(_ bytes: [UInt8], for origin: Origin) throws(ChappieTransportError) -> [UInt8] {
        let bound = ZSTD_compressBound(bytes.count)
        var hasFailed = false
        let frame = [UInt8](unsafeUninitializedCapacity: bound) { buffer, count in
            let written = bytes.withUnsafeBytes {
                ZSTD_compress(buffer.baseAddress, buffer.count, $0.baseAddress, $0.count, 3)
            }
            hasFailed = ZSTD_isError(written) != 0
            count = hasFailed ? 0 : written
        }
        if hasFailed { throw .unavailable("the request body can't be compressed", host: origin.label) }
        return frame
    }
}
