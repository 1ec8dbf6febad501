/// The proxy for requests to one origin. The adapter decides which hosts are excluded.
@_spi(ChappieInternals) public struct ProxySelection: Sendable, Hashable {
    /// The setting, with its credentials: must not be shown.
    public let url: String
    /// The hosts that are reached directly, in curl's NO_PROXY syntax.
    public let excluding: String
    /// `http`, `https`, `socks4`, `socks4a`, `socks5` or `socks5h`.
    public let scheme: String
    /// The name or address of the proxy.
    public let host: String
    /// The port of the proxy.
    public let port: Int

    /// `host:port`.
    public var label: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The variables from which ``ChappieNetworkPolicy/Proxy/environment`` is read.
    public static let variables = [
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
    public init?(
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
        guard let (scheme, host, port) = Self.endpoint(of: setting) else {
            throw ChappieTransportError(
                .proxyFailed, stage: .configuration, host: origin.label,
                reason: "\(source) is not an address like http://host:port or socks5h://host:port")
        }
        if origin.scheme == .http, !Origin.isLoopback(host: host) { return nil }
        url = setting
        self.scheme = scheme
        self.host = host
        self.port = port
    }

    /// The user name and the password in the setting; `nil` if it has none.
    public var credentials: (user: String, password: String)? {
        let parts = URLComponents(string: "http://\(Self.authority(of: url))")
        guard let parts, let user = parts.user else { return nil }
        return (user, parts.password ?? "")
    }

    private static func authority(of setting: String) -> Substring {
        let start = setting.firstRange(of: "://")?.upperBound ?? setting.startIndex
        return setting[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    }

    /// Scheme, host and port of a proxy URL; `nil` for a URL without a host, or with a scheme that curl has no proxy for.
    private static func endpoint(of setting: String) -> (scheme: String, host: String, port: Int)? {
        let separator = setting.firstRange(of: "://")
        let scheme = separator.map { setting[..<$0.lowerBound].lowercased() } ?? "http"
        guard ["http", "https", "socks4", "socks4a", "socks5", "socks5h"].contains(scheme) else { return nil }
        // A password may hold an @, which no other part can: the last @ ends it.
        guard let place = authority(of: setting).split(separator: "@", omittingEmptySubsequences: false).last,
            let url = URL(string: "http://\(place)"), let host = url.host(), !host.isEmpty
        else { return nil }
        let port = url.port ?? (scheme == "https" ? 443 : 1080)
        return (1...65535).contains(port) ? (scheme, host, port) : nil
    }
}
