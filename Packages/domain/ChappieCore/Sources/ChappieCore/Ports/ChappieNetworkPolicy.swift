/// The way in which the program reaches the network. The same policy applies to OAuth, HTTP and WebSocket.
///
/// TLS is 1.2 or newer (see ``minimumTLS``), and verified against the system's trust. Plain `http` is sent only to
/// loopback hosts. Neither can be switched off.
public struct ChappieNetworkPolicy: Sendable, Hashable, Codable {
    /// The choice of a proxy.
    public enum Proxy: Sendable, Hashable, Codable {
        /// `HTTPS_PROXY`, `HTTP_PROXY` (the latter only in lower case), `ALL_PROXY` and `NO_PROXY`, with the same rules
        /// as in curl, except that `socks://` means `socks5h://`.
        case environment
        /// No proxy, whatever the environment contains.
        case none
        /// This proxy (`http://user:password@host:port`, `socks5h://host:port`) for every host except the hosts in
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

    /// The choice of a proxy. Default `.environment`.
    public var proxy: Proxy
    /// A PEM file of certificate authorities to trust in addition to the system's. Default `nil`. If the file can't be
    /// read or contains no usable certificate, requests fail before they are sent, with an error that names it. On
    /// Linux the variables `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the system's authorities, as they do in OpenSSL.
    public var extraCAFile: String?
    /// The oldest version of TLS that is allowed with the server, and with a proxy that is reached over https. Default
    /// 1.2. If a peer supports only older versions, requests fail before they are sent.
    public var minimumTLS: TLSVersion
    /// The time limits of the stages.
    public var deadlines: ChappieDeadlines

    /// Creates a policy with the given properties.
    public init(
        proxy: Proxy = .environment, extraCAFile: String? = nil, minimumTLS: TLSVersion = .tls12,
        deadlines: ChappieDeadlines = .default
    ) {
        self.proxy = proxy
        self.extraCAFile = extraCAFile
        self.minimumTLS = minimumTLS
        self.deadlines = deadlines
    }

    /// The policy with the environment's proxy, the system's trust and the default deadlines.
    public static let `default` = ChappieNetworkPolicy()
}

/// The time limits of the stages of an exchange. They don't limit an entire stream.
///
/// Over a WebSocket, ``upgrade`` limits the answer to the handshake, and ``liveness`` limits the silence of the
/// connection, whether messages are due or not. A model's answer may take as long as the peer answers pings, but at
/// most an hour.
///
/// Over HTTP, each of these stages of a model's answer may take the longest of ``responseHead``, ``firstByte`` and
/// ``idle``. At the efforts `high`, `xhigh` and `max`, it may take two, three or four times as long. Any byte is a sign
/// of life.
public struct ChappieDeadlines: Sendable, Hashable, Codable {
    /// The time for resolving, connecting, and the TLS and proxy handshakes together. Default 15 s.
    public var connect: Duration
    /// The time from the end of the request to the complete response head. Default 60 s.
    public var responseHead: Duration
    /// The time from the head to the first byte of the body. Default 120 s.
    public var firstByte: Duration
    /// The time between two reads of a body that has begun. Default 300 s, the stream idle time-out of the Codex CLI.
    public var idle: Duration
    /// The time from the opening handshake of a WebSocket to its answer, which needs no model. Default 15 s.
    public var upgrade: Duration
    /// The longest silence of a WebSocket. After half of it a ping is sent (RFC 6455, 5.5.2), so that a living peer is
    /// never silent for that long. A peer that stays silent counts as gone. Default 60 s.
    public var liveness: Duration

    /// Creates deadlines. Values below one millisecond become one millisecond.
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

    /// The defaults of all properties.
    public static let `default` = ChappieDeadlines()
}
