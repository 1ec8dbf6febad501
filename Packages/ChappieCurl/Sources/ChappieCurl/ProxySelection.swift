@_spi(ChappieInternals) import ChappieCore

/// Which proxy a request to one origin goes through, as far as it can be said without the exclusion list, which curl
/// applies.
enum ProxySelection: Sendable, Hashable {
    case direct
    /// - Parameters:
    ///   - url: as curl takes it, credentials and all: not for showing.
    ///   - excluding: the hosts that are reached directly, in curl's NO_PROXY syntax.
    ///   - host: the proxy's host, for errors and comparisons.
    ///   - port: the proxy's port.
    case via(url: String, excluding: String, host: String, port: Int)

    /// The variables that ``ChappieNetworkPolicy/Proxy/environment`` reads.
    static let variables = [
        "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
    ]

    /// Reads the policy for `origin`. Lower case wins over upper case, an empty variable counts as unset, and
    /// `HTTP_PROXY` is ignored: a web server sets it from a request header (CGI's `HTTP_` prefix).
    ///
    /// A plain `http` request goes to loopback only, so it is sent through a proxy only where that, too, is on loopback:
    /// otherwise it would travel in the clear after all.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.proxyFailed`, stage `.configuration`, when the setting makes no
    ///   sense. The message doesn't repeat it: it may hold a password.
    init(
        _ proxy: ChappieNetworkPolicy.Proxy, for origin: Origin, environment: [String: String]
    ) throws(ChappieTransportError) {
        func variable(_ names: String...) -> String? {
            names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
        }
        let setting: String?
        let excluding: String
        let source: String
        switch proxy {
        case .none:
            self = .direct
            return
        case .url(let url, let exclusions):
            setting = url
            excluding = exclusions
            source = "the proxy setting"
        case .environment:
            switch origin.scheme {
            case .http: setting = variable("http_proxy", "all_proxy", "ALL_PROXY")
            case .https: setting = variable("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
            }
            excluding = variable("no_proxy", "NO_PROXY") ?? ""
            source = "the proxy in the environment"
        }
        guard let setting else {
            self = .direct
            return
        }
        guard let (host, port) = Self.endpoint(of: setting) else {
            throw ChappieTransportError(
                .proxyFailed, stage: .configuration, host: origin.label,
                reason: "\(source) is not an address like http://host:port or socks5h://host:port")
        }
        if origin.scheme == .http, !Origin.isLoopback(host: host) {
            self = .direct
        } else {
            self = .via(url: setting, excluding: excluding, host: host, port: port)
        }
    }

    /// Host and port of a proxy URL; `nil` for a scheme that curl has no proxy for, or without a host.
    private static func endpoint(of setting: String) -> (host: String, port: Int)? {
        var rest = Substring(setting)
        var defaultPort = 1080
        if let separator = setting.firstRange(of: "://") {
            switch setting[..<separator.lowerBound].lowercased() {
            case "http", "socks4", "socks4a", "socks5", "socks5h": break
            case "https": defaultPort = 443
            default: return nil
            }
            rest = setting[separator.upperBound...]
        }
        rest = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        if let at = rest.lastIndex(of: "@") { rest = rest[rest.index(after: at)...] }

        let host: Substring
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else { return nil }
            host = rest[rest.index(after: rest.startIndex)..<end]
            rest = rest[rest.index(after: end)...]
        } else {
            host = rest.prefix { $0 != ":" }
            rest = rest[host.endIndex...]
        }
        guard !host.isEmpty, host.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else { return nil }
        if rest.isEmpty { return (String(host), defaultPort) }
        guard rest.hasPrefix(":"), let port = Int(rest.dropFirst()), (1...65535).contains(port) else { return nil }
        return (String(host), port)
    }
}
