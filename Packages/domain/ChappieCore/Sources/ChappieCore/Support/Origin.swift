/// The scheme, host and port of an allowed URL (RFC 6454, section 4).
///
/// `ws` and `wss` count as `http` and `https` (RFC 6455, section 3). The ports and the rules are the same.
@_spi(ChappieInternals) public struct Origin: Hashable, Sendable, CustomStringConvertible {
    /// The security of the connection, for any protocol on it.
    public enum Scheme: String, Sendable {
        /// Plain text.
        case http
        /// TLS.
        case https

        /// The port of a URL that names none.
        public var defaultPort: Int { self == .https ? 443 : 80 }
    }

    /// The security of the connection.
    public let scheme: Scheme
    /// The host in lower case. An IPv6 address is in brackets.
    public let host: String
    /// The port, between 1 and 65535.
    public let port: Int

    /// Creates the origin of `url`.
    ///
    /// - Returns: `nil` for another scheme, a missing host, a host with characters that host names can't have, a user
    ///   name or password, or a port out of range.
    public init?(_ url: URL) {
        let schemes: [String: Scheme] = ["http": .http, "ws": .http, "https": .https, "wss": .https]
        guard let scheme = schemes[url.scheme?.lowercased() ?? ""],
            let host = url.host(percentEncoded: true)?.lowercased(),
            Self.isUsable(host: host), url.user == nil, url.password == nil
        else { return nil }
        let port = url.port ?? scheme.defaultPort
        guard (1...65535).contains(port) else { return nil }
        self.scheme = scheme
        self.host = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
        self.port = port
    }

    /// Whether the host is a name or an address of this machine.
    public var isLoopback: Bool { Self.isLoopback(host: host) }

    /// The name of the peer in errors. It is the host, with the port if it is not the scheme's default.
    public var label: String { port == scheme.defaultPort ? host : "\(host):\(port)" }

    /// The origin as `https://host`, with the port if it is not the scheme's default.
    public var description: String { "\(scheme.rawValue)://\(label)" }

    /// Returns whether a connection to `host` never leaves this machine. Such hosts are `localhost`, 127.0.0.0/8 in
    /// dotted decimal (RFC 1122, section 3.2.1.3), and `::1`, with or without brackets.
    ///
    /// No name is resolved. Short forms (`127.1`, `0x7f.0.0.1`) do not count, because another parser might read another
    /// address.
    public static func isLoopback(host: String) -> Bool {
        if ["localhost", "::1", "[::1]"].contains(host.lowercased()) { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        // An octet has only one spelling.
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0).map(String.init) == String($0) }
    }

    /// Returns whether `host` has only letters, digits, `-._`, an address in brackets, and escapes of non-ASCII bytes
    /// (an internationalised name).
    ///
    /// Escapes of ASCII characters are refused, because the code that connects could read them differently.
    public static func isUsable(host: String) -> Bool {
        var rest = host.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case _ where byte.isASCIIAlphanumeric || "-._:[]".utf8.contains(byte): continue
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst(), "89ABCDEFabcdef".utf8.contains(high), rest.popFirst() != nil
                else { return false }
            default: return false
            }
        }
        return !host.isEmpty
    }
}

// MARK: Addresses that may be used

@_spi(ChappieInternals) extension Origin {
    /// The protocol of the exchange, which determines the allowed schemes.
    public enum Application: Sendable {
        /// `https`, or `http` on this machine.
        case http
        /// Also `wss` and `ws`.
        case webSocket
    }

    /// Creates the origin of an address that may be used because it has TLS or because its host is this machine.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.invalidURL` or `.insecureURL`.
    public init(of url: URL, for application: Application) throws(ChappieTransportError) {
        let host = url.host(percentEncoded: true)?.lowercased() ?? ""
        let isUsable = Self.isUsable(host: host)
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
        self = origin
    }

    /// Returns the address of `url` for the code that connects, so that this code reads the same host that was checked.
    /// The address has no fragment. For `nil`, the path is `/`.
    public func target(of url: URL?) -> String {
        "\(scheme.rawValue)://\(host):\(port)" + (url.map(Self.originForm) ?? "/")
    }

    /// Returns the path and the query of `url` in the form of a request line (RFC 9112, 3.2.1).
    public static func originForm(of url: URL) -> String {
        let path = url.path(percentEncoded: true)
        let query = url.query(percentEncoded: true).map { "?" + $0 } ?? ""
        return (path.hasPrefix("/") ? path : "/" + path) + query
    }
}
