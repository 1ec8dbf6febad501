/// Scheme, host and port of a URL that may be used (RFC 6454, section 4).
///
/// `ws` and `wss` count as `http` and `https` (RFC 6455, section 3): the same ports, the same rules.
@_spi(ChappieInternals) public struct Origin: Hashable, Sendable, CustomStringConvertible {
    /// How the wire is secured, whatever is spoken on it.
    public enum Scheme: String, Sendable {
        /// Plain text.
        case http
        /// TLS.
        case https

        /// The port where the URL names none.
        public var defaultPort: Int { self == .https ? 443 : 80 }
    }

    /// How the wire is secured.
    public let scheme: Scheme
    /// In lower case; an IPv6 address in brackets.
    public let host: String
    /// Between 1 and 65535.
    public let port: Int

    /// - Returns: `nil` for another scheme, a missing host, a host with characters that no host name has, a user name or
    ///   password, or a port out of range.
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

    /// Whether the host is this machine by name.
    public var isLoopback: Bool { Self.isLoopback(host: host) }

    /// Host, and port where it is not the scheme's own: how errors name the peer.
    public var label: String { port == scheme.defaultPort ? host : "\(host):\(port)" }

    /// `https://host`, with the port where it is not the scheme's own.
    public var description: String { "\(scheme.rawValue)://\(label)" }

    /// Whether `host` never leaves this machine: `localhost`, 127.0.0.0/8 in dotted decimal (RFC 1122, section 3.2.1.3),
    /// and `::1`, with or without brackets.
    ///
    /// Nothing is resolved, and no shorthand counts (`127.1`, `0x7f.0.0.1`): another reader might see another address.
    public static func isLoopback(host: String) -> Bool {
        if ["localhost", "::1", "[::1]"].contains(host.lowercased()) { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        // An octet is spelled one way only.
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0).map(String.init) == String($0) }
    }

    /// Letters, digits, `-._`, an address in brackets, and escapes of non-ASCII bytes (an internationalised name).
    ///
    /// An escaped ASCII character could mean one thing here and another to the code that connects.
    public static func isUsable(host: String) -> Bool {
        var rest = host.utf8[...]
        while let byte = rest.popFirst() {
            switch Unicode.Scalar(byte) {
            case "a"..."z", "A"..."Z", "0"..."9", "-", ".", "_", ":", "[", "]": continue
            case "%":
                guard let high = rest.popFirst(), "89ABCDEFabcdef".utf8.contains(high), rest.popFirst() != nil
                else { return false }
            default: return false
            }
        }
        return !host.isEmpty
    }
}
