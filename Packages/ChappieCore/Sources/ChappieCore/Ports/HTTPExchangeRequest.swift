public import FoundationEssentials
public import HTTPTypes

/// The request of one HTTP exchange, whole in memory.
public struct HTTPExchangeRequest: Sendable, Hashable {
    /// A request body and how it travels.
    public struct Body: Sendable, Hashable {
        /// The body before any content coding.
        public var bytes: [UInt8]
        /// `.zstd` asks the adapter to compress and to add `content-encoding: zstd`. Default `.identity`.
        public var coding: Coding

        /// The content codings an adapter must know (RFC 9110, 8.4.1; zstd: RFC 8878).
        public enum Coding: Sendable, Hashable { case identity, zstd }

        public init(bytes: [UInt8], coding: Coding = .identity) {
            self.bytes = bytes
            self.coding = coding
        }
    }

    public var method: HTTPRequest.Method
    /// An absolute `https` URL, or `http` to a loopback host; adapters refuse everything else.
    public var url: URL
    /// Sent as given. The adapter adds `host`, `content-length`, and `content-encoding` where the body asks for it, and
    /// nothing else: no user agent, no accept of its own.
    public var headerFields: HTTPFields
    public var body: Body?
    /// Deadlines for this exchange only; `nil` (the default) takes those of the adapter's ``ChappieNetworkPolicy``.
    public var deadlines: ChappieDeadlines?

    public init(
        method: HTTPRequest.Method = .get, url: URL, headerFields: HTTPFields = [:], body: Body? = nil,
        deadlines: ChappieDeadlines? = nil
    ) {
        self.method = method
        self.url = url
        self.headerFields = headerFields
        self.body = body
        self.deadlines = deadlines
    }
}
