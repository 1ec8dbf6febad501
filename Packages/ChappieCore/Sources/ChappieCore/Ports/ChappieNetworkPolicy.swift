/// How the program reaches the network: one policy for OAuth, HTTP and WebSocket alike.
///
/// TLS is 1.2 or newer, as ``minimumTLS`` says, and verified against the system's trust; plain `http` goes to loopback
/// hosts only. Neither can be switched off.
public struct ChappieNetworkPolicy: Sendable, Hashable, Codable {
    /// Which proxy to use.
    public enum Proxy: Sendable, Hashable, Codable {
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
    public enum TLSVersion: String, Sendable, Hashable, Codable, CaseIterable {
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
    /// How long each stage may take.
    public var deadlines: ChappieDeadlines

    /// A policy with the given properties.
    public init(
        proxy: Proxy = .environment, extraCAFile: String? = nil, minimumTLS: TLSVersion = .tls12,
        deadlines: ChappieDeadlines = .default
    ) {
        self.proxy = proxy
        self.extraCAFile = extraCAFile
        self.minimumTLS = minimumTLS
        self.deadlines = deadlines
    }

    /// The environment's proxy, the system's trust, the default deadlines.
    public static let `default` = ChappieNetworkPolicy()
}

/// How long each stage of an exchange may take. None of them bounds a stream as a whole.
///
/// Over a WebSocket, ``upgrade`` bounds the answer to the handshake, ``firstByte`` the first message after a request and
/// ``idle`` each further one; ``liveness`` alone speaks of the connection, whether messages are due or not.
public struct ChappieDeadlines: Sendable, Hashable, Codable {
    /// Resolving, connecting, and the TLS and proxy handshakes together. Default 15 s.
    public var connect: Duration
    /// From the request sent to the complete response head. Default 60 s.
    public var responseHead: Duration
    /// From the head to the first byte of the body. Default 120 s.
    public var firstByte: Duration
    /// Between two reads of a body that has begun. Default 300 s, as the Codex CLI's stream idle time-out.
    public var idle: Duration
    /// From the opening handshake of a WebSocket to its answer, which no model has to think about. Default 15 s.
    public var upgrade: Duration
    /// How long a WebSocket may be silent altogether. Half-way a ping goes out (RFC 6455, 5.5.2), so that a living peer is
    /// never silent that long; one that is has gone. Default 60 s.
    public var liveness: Duration

    /// Values below one millisecond become one millisecond.
    public init(
        connect: Duration = .seconds(15), responseHead: Duration = .seconds(60), firstByte: Duration = .seconds(120),
        idle: Duration = .seconds(300), upgrade: Duration = .seconds(15), liveness: Duration = .seconds(60)
    ) {
        self.connect = max(connect, .milliseconds(1))
        self.responseHead = max(responseHead, .milliseconds(1))
        self.firstByte = max(firstByte, .milliseconds(1))
        self.idle = max(idle, .milliseconds(1))
        self.upgrade = max(upgrade, .milliseconds(1))
        self.liveness = max(liveness, .milliseconds(1))
    }

    /// The defaults that the properties name.
    public static let `default` = ChappieDeadlines()
}
