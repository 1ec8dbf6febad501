@_spi(ChappieInternals) public import ChappieCore
public import FoundationEssentials

/// How to get to a host: where it is, through which proxy, and what counts as secure there.
@_spi(ChappieInternals) public struct CurlRoute: Sendable, Hashable {
    /// The protocol spoken there, which decides how the scheme may be written.
    public enum Application: Sendable {
        /// `https`, or `http` on this machine.
        case http
        /// Also `wss` and `ws`.
        case webSocket
    }

    /// The certificate authorities and the proxy variables of this machine, read once.
    struct Environment: Sendable {
        /// Nothing but ``ProxySelection/variables``, and those only where the policy asks for them.
        var variables: [String: String]
        var trust: TrustAnchors

        /// Looks at the process's environment and reads the extra CA file.
        ///
        /// - Throws: ``ChappieTransportError`` with code `.invalidCAFile`, naming the file.
        init(for policy: ChappieNetworkPolicy) throws(ChappieTransportError) {
            let all = policy.proxy == .environment ? ProcessInfo.processInfo.environment : [:]
            variables = all.filter { ProxySelection.variables.contains($0.key) }
            trust = try TrustAnchors(extraFile: policy.extraCAFile)
        }
    }

    /// The host that is spoken to in the end.
    public let origin: Origin
    let proxy: ProxySelection
    let trust: TrustAnchors
    let minimumTLS: ChappieNetworkPolicy.TLSVersion

    init(
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
    init(
        to url: URL, for application: Application, policy: ChappieNetworkPolicy, environment: Environment
    ) throws(ChappieTransportError) {
        let origin = try Self.origin(of: url, for: application)
        self.init(
            origin: origin, proxy: try ProxySelection(policy.proxy, for: origin, environment: environment.variables),
            trust: environment.trust, minimumTLS: policy.minimumTLS)
    }

    /// Whether there is no proxy for this route, whatever its exclusion list says.
    public var isDirect: Bool { proxy == .direct }

    /// The URL as curl gets it: put together from the checked parts, so that curl reads the same host that was checked.
    /// No fragment; for `nil` no path either.
    public func target(of url: URL?) -> String {
        "\(origin.scheme.rawValue)://\(origin.host):\(origin.port)" + (url.map(Self.originForm) ?? "/")
    }

    /// Path and query, as a request line has them (RFC 9112, 3.2.1).
    public static func originForm(of url: URL) -> String {
        let path = url.path(percentEncoded: true)
        let query = url.query(percentEncoded: true).map { "?" + $0 } ?? ""
        return (path.hasPrefix("/") ? path : "/" + path) + query
    }

    /// The origin of an address that may be used: TLS, or a host on this machine.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.invalidURL` or `.insecureURL`.
    public static func origin(
        of url: URL, for application: Application
    ) throws(ChappieTransportError) -> Origin {
        let host = url.host(percentEncoded: true)?.lowercased() ?? ""
        let isUsable = Origin.isUsable(host: host)
        func refusal(_ code: ChappieTransportError.Code, _ reason: String) -> ChappieTransportError {
            ChappieTransportError(code, stage: .configuration, host: isUsable ? host : "", reason: reason)
        }
        let schemes: Set = application == .http ? ["https", "http"] : ["https", "http", "wss", "ws"]
        guard !host.isEmpty else { throw refusal(.invalidURL, "the address names no host") }
        guard let scheme = url.scheme?.lowercased() else {
            throw refusal(.invalidURL, "the address has no scheme; it must begin with https://")
        }
        guard schemes.contains(scheme) else {
            throw refusal(
                .invalidURL,
                "the scheme of the address is "
                    + (application == .http ? "neither https nor http" : "none of wss, https, ws and http"))
        }
        guard isUsable else {
            throw refusal(.invalidURL, "the host in the address holds characters that no host name has")
        }
        guard url.user == nil, url.password == nil else {
            throw refusal(.invalidURL, "the address holds a user name or password")
        }
        guard let origin = Origin(url) else {
            throw refusal(.invalidURL, "the port in the address is not between 1 and 65535")
        }
        guard origin.scheme == .https || origin.isLoopback else {
            let scheme = application == .http ? "http" : "ws"
            throw refusal(.insecureURL, "plain \(scheme) is only for this machine; use \(scheme)s")
        }
        return origin
    }
}
