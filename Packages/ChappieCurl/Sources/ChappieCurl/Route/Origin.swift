public import ChappieCore
public import FoundationEssentials

/// Scheme, host and port of a URL that may be used (RFC 6454, section 4).
///
/// For a WebSocket, `ws` and `wss` stand for `http` and `https` (RFC 6455, section 3): the same ports, the same rules.
public struct Origin: Sendable, Hashable {
    /// How the wire is secured, whatever is spoken on it.
    public enum Scheme: String, Sendable { case http, https }

    /// What is spoken there, which decides how the scheme may be written.
    public enum Application: Sendable { case http, webSocket }

    public let scheme: Scheme
    /// In lower case; an IPv6 address in brackets.
    public let host: String
    public let port: Int

    /// - Throws: ``ChappieTransportError`` with code `.invalidURL` or `.insecureURL`.
    public init(_ url: URL, for application: Application = .http) throws(ChappieTransportError) {
        guard let host = url.host(percentEncoded: true)?.lowercased(), !host.isEmpty else {
            throw Self.refusal(.invalidURL, "", "the address names no host")
        }
        guard let scheme = url.scheme?.lowercased() else {
            throw Self.refusal(.invalidURL, "", "the address has no scheme; it must begin with https://")
        }
        guard let scheme = application.scheme(scheme) else {
            throw Self.refusal(.invalidURL, host, "the scheme of the address is \(application.refusedSchemes)")
        }
        guard Self.isUsable(host) else {
            throw Self.refusal(.invalidURL, "", "the host in the address holds characters that no host name has")
        }
        guard url.user == nil, url.password == nil else {
            throw Self.refusal(.invalidURL, host, "the address holds a user name or password")
        }
        let port = url.port ?? scheme.defaultPort
        guard (1...65535).contains(port) else {
            throw Self.refusal(.invalidURL, host, "the port in the address is not between 1 and 65535")
        }
        guard scheme == .https || LoopbackHost.contains(host) else {
            throw Self.refusal(.insecureURL, host, application.insecurity)
        }
        self.scheme = scheme
        self.host = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
        self.port = port
    }

    /// Host, and port where it is not the scheme's own: how errors name the peer.
    public var label: String { port == scheme.defaultPort ? host : "\(host):\(port)" }

    /// `scheme://host:port`, the port always written out.
    public var prefix: String { "\(scheme.rawValue)://\(host):\(port)" }

    /// Letters, digits, `-._`, an address in brackets, and escapes of non-ASCII bytes (an internationalised name). An
    /// escaped ASCII character could mean one thing here and another to the code that connects.
    private static func isUsable(_ host: String) -> Bool {
        var rest = host.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): continue
            case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): continue
            case UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "]"): continue
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst(), UInt8(ascii: "8")...UInt8(ascii: "f") ~= high,
                    rest.popFirst() != nil
                else { return false }
            default: return false
            }
        }
        return true
    }

    private static func refusal(
        _ code: ChappieTransportError.Code, _ host: String, _ reason: String
    ) -> ChappieTransportError {
        ChappieTransportError(code, stage: .configuration, host: host, reason: reason)
    }
}

extension Origin.Application {
    fileprivate func scheme(_ name: String) -> Origin.Scheme? {
        switch (self, name) {
        case (.webSocket, "ws"): .http
        case (.webSocket, "wss"): .https
        default: Origin.Scheme(rawValue: name)
        }
    }

    fileprivate var refusedSchemes: String {
        self == .http ? "neither https nor http" : "none of wss, https, ws and http"
    }

    fileprivate var insecurity: String {
        self == .http
            ? "plain http is only for this machine; use https" : "plain ws is only for this machine; use wss"
    }
}

extension Origin.Scheme {
    var defaultPort: Int { self == .https ? 443 : 80 }
}
