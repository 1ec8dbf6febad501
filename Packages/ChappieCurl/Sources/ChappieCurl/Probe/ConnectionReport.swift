public import ChappieCore

/// What one attempt at a connection found out, stage by stage.
public struct ConnectionReport: Sendable, Hashable {
    /// A certificate of the chain that the server has shown, as its own words say.
    public struct Certificate: Sendable, Hashable {
        public var subject: String
        public var issuer: String
        /// As OpenSSL writes it: `Nov 20 12:00:00 2027 GMT`.
        public var expires: String
    }

    /// `host:port` of the proxy in between; `nil` for none. What the exclusion list spares is known to curl alone.
    public var proxy: String?
    /// The address that was reached: the proxy's, where there is one.
    public var address: String?
    /// From the start until the name was resolved, the connection stood, TLS was through; `nil` where it did not come to
    /// that.
    public var nameLookup: Duration?
    public var connect: Duration?
    public var tls: Duration?
    /// The server's own certificate first; empty without TLS, and where it was not trusted.
    public var certificates: [Certificate] = []
    /// Why there is no connection; `nil` when there is one.
    public var error: ChappieTransportError?
}
