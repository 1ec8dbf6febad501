/// The proxy for requests to one origin.
@_spi(ChappieInternals) public struct ProxySelection: Sendable, Hashable {
    /// The setting, with its credentials and a scheme that curl knows. It must not be shown.
    public let url: String
    /// The scheme: `http`, `https`, `socks4`, `socks4a`, `socks5` or `socks5h`.
    public let scheme: String
    /// The name or address of the proxy.
    public let host: String
    /// The port of the proxy.
    public let port: Int

    /// The proxy as `host:port`.
    public var label: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The variables from which ``ChappieNetworkPolicy/Proxy/environment`` is read.
    public static let variables = [
        "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
    ]

    private static let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]

    /// Reads the policy for `origin`, or returns `nil` for no proxy. Lower case wins over upper case, an empty variable
    /// counts as unset, and `HTTP_PROXY` is ignored, because a web server sets it from a request header (CGI's `HTTP_`
    /// prefix).
    ///
    /// `socks://` counts as `socks5h://`, because GNOME's proxy settings write the former and mean the latter.
    ///
    /// A plain `http` request is sent only to loopback. It is sent through a proxy only if the proxy is also on
    /// loopback. Otherwise it would leave this machine in plain text.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.proxyFailed`, stage `.configuration`, if the setting is invalid.
    ///   For an excluded host, an invalid setting does not matter. The message names the variable and the scheme, and
    ///   doesn't repeat the setting, which may contain a password.
    public init?(
        _ proxy: ChappieNetworkPolicy.Proxy, for origin: Origin, environment: [String: String]
    ) throws(ChappieTransportError) {
        func variable(_ names: String...) -> (name: String, value: String)? {
            names.lazy.map { ($0, environment[$0]?.trimmed ?? "") }.first { !$1.isEmpty }
        }
        let (setting, exclusions, source): (String, String, String)
        switch proxy {
        case .none: return nil
        case .url(let url, excluding: let hosts):
            setting = url.trimmed
            exclusions = hosts
            source = "the proxy setting"
        case .environment:
            let ofScheme =
                origin.scheme == .http ? variable("http_proxy") : variable("https_proxy", "HTTPS_PROXY")
            guard let found = ofScheme ?? variable("all_proxy", "ALL_PROXY") else { return nil }
            setting = found.value
            exclusions = variable("no_proxy", "NO_PROXY")?.value ?? ""
            source = "the proxy in \(found.name)"
        }
        if ProxyExclusions(exclusions).contain(origin.host) { return nil }
        func refusal(_ problem: String) -> ChappieTransportError {
            ChappieTransportError(
                .proxyFailed, stage: .configuration, host: origin.label, reason: "\(source) \(problem)")
        }
        let start = setting.firstRange(of: "://")
        let given = start.map { setting[..<$0.lowerBound].lowercased() } ?? "http"
        let scheme = given == "socks" ? "socks5h" : given
        guard Self.schemes.contains(scheme) else {
            // A text without the form of a scheme may contain a password.
            let isShown =
                given.count < 20 && given.utf8.allSatisfy { $0.isASCIIAlphanumeric || "+-.".utf8.contains($0) }
            throw refusal(
                "has \(isShown ? "the scheme \(given)" : "an unknown scheme"), and not one of "
                    + Self.schemes.joined(separator: ", "))
        }
        guard let (host, port) = Self.endpoint(of: setting, scheme) else {
            throw refusal("is not an address like http://host:port or socks5h://host:port")
        }
        if origin.scheme == .http, !Origin.isLoopback(host: host) { return nil }
        url = given == "socks" ? scheme + setting.dropFirst(given.count) : setting
        self.scheme = scheme
        self.host = host
        self.port = port
    }

    /// The user name and the password in the setting, or `nil` if it has none.
    public var credentials: (user: String, password: String)? {
        let parts = URLComponents(string: "http://\(Self.authority(of: url))")
        guard let parts, let user = parts.user else { return nil }
        return (user, parts.password ?? "")
    }

    private static func authority(of setting: String) -> Substring {
        let start = setting.firstRange(of: "://")?.upperBound ?? setting.startIndex
        return setting[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    }

    /// Returns the host and the port of a proxy URL, or `nil` for a URL without a host.
    private static func endpoint(of setting: String, _ scheme: String) -> (host: String, port: Int)? {
        // A password may contain an @, which no other part can, so the last @ ends it.
        guard let place = authority(of: setting).split(separator: "@", omittingEmptySubsequences: false).last,
            let url = URL(string: "http://\(place)"), let host = url.host(), !host.isEmpty
        else { return nil }
        let port = url.port ?? (scheme == "https" ? 443 : 1080)
        return (1...65535).contains(port) ? (host, port) : nil
    }
}

/// The hosts that are reached without a proxy, in the form of curl's NO_PROXY. They are names, which include all names
/// below them, addresses, and networks (`10.0.0.0/8`). A single `*` means every host.
struct ProxyExclusions {
    private let entries: [Substring]
    private let isEverything: Bool

    init(_ text: String) {
        isEverything = text.trimmed == "*"
        entries = text.split { $0 == "," || $0.isWhitespace }
    }

    /// Returns whether `host` is one of them. An IPv6 address may have brackets.
    func contain(_ host: String) -> Bool {
        isEverything || entries.contains { Self.entry($0, contains: host) }
    }

    private static func entry(_ entry: Substring, contains host: String) -> Bool {
        if let address = Self.address(host[...]) {
            let parts = entry.split(separator: "/", maxSplits: 1)
            guard let network = parts.first.flatMap({ Self.address($0) }), network.count == address.count else {
                return false
            }
            let every = address.count * 8
            guard let bits = parts.count == 1 ? every : Int(parts[1]), (0...every).contains(bits) else { return false }
            return (0..<bits).allSatisfy { bit in (network[bit / 8] ^ address[bit / 8]) & (0x80 >> (bit % 8)) == 0 }
        }
        func labels(_ name: Substring) -> [Substring] { name.lowercased()[...].split(separator: ".") }
        let wanted = labels(entry)
        return !wanted.isEmpty && labels(host[...]).suffix(wanted.count) == wanted[...]
    }

    /// Returns the 4 or 16 bytes of an address, or `nil` for a name.
    private static func address(_ text: Substring) -> [UInt8]? {
        let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
        let text = isBracketed ? text.dropFirst().dropLast() : text
        guard text.contains(":") else { return dotted(text) }
        // One `::` replaces the missing groups, and the end may be an IPv4 address (RFC 4291, 2.2).
        let halves = text.split(separator: "::", maxSplits: 1, omittingEmptySubsequences: false)
        var groups: [[UInt8]] = []
        for half in halves {
            var bytes: [UInt8] = []
            for group in half.split(separator: ":", omittingEmptySubsequences: half.isEmpty) {
                if let end = dotted(group) {
                    bytes += end
                } else if group.count <= 4, let value = UInt16(group, radix: 16) {
                    bytes += [UInt8(value >> 8), UInt8(value & 0xFF)]
                } else {
                    return nil
                }
            }
            groups.append(bytes)
        }
        let missing = 16 - groups.reduce(0) { $0 + $1.count }
        guard halves.count == 2 ? missing > 0 : missing == 0 else { return nil }
        return groups[0] + (halves.count == 2 ? Array(repeating: 0, count: missing) + groups[1] : [])
    }

    private static func dotted(_ text: Substring) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        let octets = parts.compactMap { UInt8($0) }
        return parts.count == 4 && octets.count == 4 ? octets : nil
    }
}
