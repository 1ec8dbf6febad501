/// How the program reaches the network: one policy for OAuth, HTTP and WebSocket alike.
///
/// TLS is 1.2 or newer, as ``minimumTLS`` says, and verified against the system's trust; plain `http` goes to loopback
/// hosts only. Neither can be switched off.
public struct ChappieNetworkPolicy: Sendable, Hashable {
    /// Which proxy to use.
    public enum Proxy: Sendable, Hashable {
        /// `HTTPS_PROXY`, `HTTP_PROXY` (lower-case spelling only for the latter), `ALL_PROXY` and `NO_PROXY`, as curl
        /// reads them.
        case environment
        /// No proxy, whatever the environment says.
        case none
        /// This proxy (`http://user:password@host:port`, `socks5h://host:port`) for every host but those in
        /// `excluding` (curl's NO_PROXY syntax).
        case url(String, excluding: String = "")
    }

    /// A version of TLS.
    public enum TLSVersion: String, Sendable, Hashable, CaseIterable {
        /// RFC 5246.
        case tls12 = "1.2"
        /// RFC 8446.
        case tls13 = "1.3"
    }

    /// Default: `.environment`.
    public var proxy: Proxy
    /// A PEM file of certificate authorities to trust beside the system's. Default `nil`. A file that can't be read or
    /// holds no certificate is an error that names it, before anything is sent.
    public var extraCAFile: String?
    /// The oldest version of TLS to speak, with the server and with a proxy that is reached over https. Default 1.2. A
    /// peer that has none so new is refused before anything is sent.
    public var minimumTLS: TLSVersion
    public var deadlines: ChappieDeadlines

    public init(
        proxy: Proxy = .environment, extraCAFile: String? = nil, minimumTLS: TLSVersion = .tls12,
        deadlines: ChappieDeadlines = .default
    ) {
        self.proxy = proxy
        self.extraCAFile = extraCAFile
        self.minimumTLS = minimumTLS
        self.deadlines = deadlines
    }

    public static let `default` = ChappieNetworkPolicy()
}
