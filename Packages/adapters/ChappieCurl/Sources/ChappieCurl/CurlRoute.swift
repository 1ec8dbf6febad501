@_spi(ChappieInternals) public import ChappieCore
public import FoundationEssentials

/// The route to a host: its origin, the proxy, and the conditions for a secure connection.
@_spi(ChappieInternals) public struct CurlRoute: Sendable, Hashable {
    /// The protocol of the exchange, which decides which schemes are allowed.
    public enum Application: Sendable {
        /// `https`, or `http` on this machine.
        case http
        /// Also `wss` and `ws`.
        case webSocket
    }

    /// The host at the end of the route.
    public let origin: Origin
    /// `nil` if no proxy is used.
    var proxy: ProxySelection?
    /// `nil` for the system's authorities, in the place that curl was built with.
    var trust: TrustAnchors?
    var minimumTLS = ChappieNetworkPolicy.TLSVersion.tls12

    /// Whether this route has no proxy, whatever an exclusion list contains.
    public var isDirect: Bool { proxy == nil }

    /// The URL for curl. It is built from the checked parts, so that curl reads the same host that was checked. It has
    /// no fragment, and for `nil` no path either.
    public func target(of url: URL?) -> String {
        "\(origin.scheme.rawValue)://\(origin.host):\(origin.port)" + (url.map(Self.originForm) ?? "/")
    }

    /// Path and query in the form of a request line (RFC 9112, 3.2.1).
    public static func originForm(of url: URL) -> String {
        let path = url.path(percentEncoded: true)
        let query = url.query(percentEncoded: true).map { "?" + $0 } ?? ""
        return (path.hasPrefix("/") ? path : "/" + path) + query
    }

    /// The origin of an address that may be used: it has TLS, or its host is this machine.
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
        let (schemes, others) =
            switch application {
            case .http: (["https", "http"], "neither https nor http")
            case .webSocket: (["https", "http", "wss", "ws"], "none of wss, https, ws and http")
            }
        guard !host.isEmpty else { throw refusal(.invalidURL, "the address has no host") }
        guard let scheme = url.scheme?.lowercased() else {
            throw refusal(.invalidURL, "the address has no scheme; it must begin with https://")
        }
        guard schemes.contains(scheme) else { throw refusal(.invalidURL, "the scheme of the address is \(others)") }
        guard isUsable else {
            throw refusal(.invalidURL, "the host in the address contains characters that a host name can't have")
        }
        guard url.user == nil, url.password == nil else {
            throw refusal(.invalidURL, "the address holds a user name or password")
        }
        guard let origin = Origin(url) else {
            throw refusal(.invalidURL, "the port in the address is not between 1 and 65535")
        }
        guard origin.scheme == .https || origin.isLoopback else {
            let plain = application == .http ? "http" : "ws"
            throw refusal(.insecureURL, "plain \(plain) is only for this machine; use \(plain)s")
        }
        return origin
    }
}

/// The proxy for requests to one origin. curl decides which hosts are excluded.
struct ProxySelection: Sendable, Hashable {
    /// The setting for curl, with its credentials: must not be shown.
    let url: String
    /// The hosts that are reached directly, in curl's NO_PROXY syntax.
    let excluding: String
    let host: String
    let port: Int

    /// `host:port`.
    var label: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The variables from which ``ChappieNetworkPolicy/Proxy/environment`` is read.
    static let variables = [
        "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
    ]

    /// Reads the policy for `origin`; `nil` for no proxy. Lower case wins over upper case, an empty variable counts as
    /// unset, and `HTTP_PROXY` is ignored: a web server sets it from a request header (CGI's `HTTP_` prefix).
    ///
    /// A plain `http` request goes to loopback only. It is sent through a proxy only if the proxy is on loopback, too;
    /// otherwise it would leave this machine in the clear.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.proxyFailed`, stage `.configuration`, if the setting is invalid.
    ///   The message doesn't repeat the setting, which may hold a password.
    init?(
        _ proxy: ChappieNetworkPolicy.Proxy, for origin: Origin, environment: [String: String]
    ) throws(ChappieTransportError) {
        func variable(_ names: String...) -> String? {
            names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
        }
        let (setting, source): (String?, String)
        switch proxy {
        case .none: return nil
        case .url(let url, let exclusions):
            setting = url
            excluding = exclusions
            source = "the proxy setting"
        case .environment:
            let ofScheme =
                origin.scheme == .http ? variable("http_proxy") : variable("https_proxy", "HTTPS_PROXY")
            setting = ofScheme ?? variable("all_proxy", "ALL_PROXY")
            excluding = variable("no_proxy", "NO_PROXY") ?? ""
            source = "the proxy in the environment"
        }
        guard let setting else { return nil }
        guard let (host, port) = Self.endpoint(of: setting) else {
            throw ChappieTransportError(
                .proxyFailed, stage: .configuration, host: origin.label,
                reason: "\(source) is not an address like http://host:port or socks5h://host:port")
        }
        if origin.scheme == .http, !Origin.isLoopback(host: host) { return nil }
        url = setting
        self.host = host
        self.port = port
    }

    /// Host and port of a proxy URL; `nil` for a URL without a host, or with a scheme that curl has no proxy for.
    private static func endpoint(of setting: String) -> (host: String, port: Int)? {
        let separator = setting.firstRange(of: "://")
        let scheme = separator.map { setting[..<$0.lowerBound].lowercased() } ?? "http"
        guard ["http", "https", "socks4", "socks4a", "socks5", "socks5h"].contains(scheme) else { return nil }
        let rest = separator.map { setting[$0.upperBound...] } ?? setting[...]
        // A password may hold an @, which no other part can: the last @ ends it.
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let place = authority.split(separator: "@", omittingEmptySubsequences: false).last,
            let url = URL(string: "http://\(place)"), let host = url.host(), !host.isEmpty
        else { return nil }
        let port = url.port ?? (scheme == "https" ? 443 : 1080)
        return (1...65535).contains(port) ? (host, port) : nil
    }
}
