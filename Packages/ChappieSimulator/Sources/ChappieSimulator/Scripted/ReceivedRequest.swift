/// One HTTP/1.1 request as it arrived, its body whole and its transfer coding removed.
public struct ReceivedRequest: Sendable {
    public let method: String
    /// The request target as written on the request line: path and query, still percent-encoded.
    public let target: String
    /// Every header field in the order it came, names in the sender's spelling, repeats kept.
    public let headerFields: [(name: String, value: String)]
    /// The body without chunked framing; a content coding (zstd) is still on.
    public let body: [UInt8]
    /// Which connection it came on: 0 is the first one the server accepted.
    public let connection: Int

    public init(
        method: String, target: String, headerFields: [(name: String, value: String)] = [], body: [UInt8] = [],
        connection: Int = 0
    ) {
        self.method = method
        self.target = target
        self.headerFields = headerFields
        self.body = body
        self.connection = connection
    }

    /// The value of the first field called `name`, in whatever case.
    public func header(_ name: String) -> String? {
        let wanted = name.lowercased()
        return headerFields.first { $0.name.lowercased() == wanted }?.value
    }
}
