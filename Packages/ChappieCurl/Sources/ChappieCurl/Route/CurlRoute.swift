public import ChappieCore
public import FoundationEssentials

/// How to get to a host: where it is, through which proxy, and what counts as secure there.
public struct CurlRoute: Sendable, Hashable {
    public let origin: Origin
    public let proxy: ProxySelection
    public let trust: TrustAnchors
    public let minimumTLS: ChappieNetworkPolicy.TLSVersion

    public init(
        origin: Origin, proxy: ProxySelection = .direct, trust: TrustAnchors = .system,
        minimumTLS: ChappieNetworkPolicy.TLSVersion = .tls12
    ) {
        self.origin = origin
        self.proxy = proxy
        self.trust = trust
        self.minimumTLS = minimumTLS
    }

    /// Reads `policy` for the origin of `url`.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration`: the URL or the proxy setting can't be used.
    public init(
        to url: URL, for application: Origin.Application, policy: ChappieNetworkPolicy, surroundings: Surroundings
    ) throws(ChappieTransportError) {
        let origin = try Origin(url, for: application)
        self.init(
            origin: origin,
            proxy: try ProxySelection(policy.proxy, for: origin, environment: surroundings.environment),
            trust: surroundings.trust, minimumTLS: policy.minimumTLS)
    }

    /// The URL as curl gets it: put together from the checked parts, so that curl reads the same host that was checked.
    /// No fragment.
    public func target(of url: URL) -> String { origin.prefix + Self.originForm(of: url) }

    /// Path and query, as a request line has them (RFC 9112, 3.2.1).
    public static func originForm(of url: URL) -> String {
        let path = url.path(percentEncoded: true)
        let query = url.query(percentEncoded: true).map { "?" + $0 } ?? ""
        return (path.hasPrefix("/") ? path : "/" + path) + query
    }
}
