@_spi(ChappieInternals) public import ChappieCore

/// The route to a host: its origin, the proxy, and the conditions for a secure connection.
@_spi(ChappieInternals) public struct CurlRoute: Sendable, Hashable {
    /// The host at the end of the route.
    public let origin: Origin
    /// The proxy, or `nil` if none is used.
    var proxy: ProxySelection?
    /// The certificate authorities, or `nil` for the system's, in the location that curl was built with.
    var trust: TrustAnchors?
    /// The name of the setting that could add an authority.
    var extraCAFileName = "the extra CA file"
    var minimumTLS = ChappieNetworkPolicy.TLSVersion.tls12

    /// Whether this route has no proxy.
    public var isDirect: Bool { proxy == nil }
}
