import HTTPTypes

/// The error of an exchange that ended without a complete response, with the stage, the host and the reason.
///
/// It never contains a header, a body, a query or the user part of a URL.
public struct ChappieTransportError: Error, Sendable, Hashable {
    /// The kind of failure.
    public enum Code: String, Sendable, Hashable, Codable {
        /// The URL can't be used, for example because it has no host or an unknown scheme.
        case invalidURL
        /// The URL is plain `http` to a host that is not loopback.
        case insecureURL
        /// The extra CA file is missing, unreadable, or contains no certificate.
        case invalidCAFile
        /// The proxy setting can't be used, or the proxy refused (wrong credentials, CONNECT denied).
        case proxyFailed
        /// The host name doesn't resolve.
        case unknownHost
        /// No server listens there, or the network is unreachable.
        case connectFailed
        /// The certificate is not trusted, expired, or for another host.
        case certificateRejected
        /// The TLS handshake failed for another reason (version, alert).
        case tlsFailed
        /// A deadline passed. ``ChappieTransportError/stage`` names it.
        case timedOut
        /// The connection broke, or closed before the response was complete.
        case connectionLost
        /// The peer does not speak HTTP, or broke its rules.
        case protocolViolation
        /// A redirect led to another origin, or too many redirects followed each other.
        case redirectRefused
        /// A body that must fit into memory was too large.
        case bodyTooLarge
        /// The adapter could not start or has been shut down.
        case unavailable
    }

    /// The stage that the exchange had reached.
    public enum Stage: String, Sendable, Hashable, Codable {
        /// Before the request was sent, or while connecting.
        case configuration, connect, tls
        /// During an HTTP exchange.
        case request, responseHead, firstByte, responseBody
        /// While waiting for the next message of a WebSocket.
        case message
        /// While the peer of a WebSocket was silent, even after a ping.
        case liveness
    }

    /// The kind of failure.
    public let code: Code
    /// The stage that the exchange had reached.
    public let stage: Stage
    /// The host, with the port if it is not the scheme's default. Empty if no host is known.
    public let host: String
    /// The reason as one plain clause, without a full stop.
    public let reason: String
    /// The user's next step, if the adapter knows more than the code specifies.
    private let advice: String?

    /// Creates an error with the given properties.
    public init(_ code: Code, stage: Stage, host: String, reason: String) {
        self.init(code, stage: stage, host: host, reason: reason, advice: nil)
    }

    /// Creates an error whose advice replaces that of its code. The advice is a sentence with a full stop.
    @_spi(ChappieInternals) public init(_ code: Code, stage: Stage, host: String, reason: String, advice: String?) {
        self.code = code
        self.stage = stage
        self.host = host
        self.reason = reason
        self.advice = advice
    }
}

extension ChappieTransportError: ChappieError {
    public var errorDescription: String? {
        let place =
            host.isEmpty ? stage.phrase.activity : "\(stage.phrase.activity) \(stage.phrase.preposition) \(host)"
        return code == .timedOut ? "Timed out \(place): \(reason)." : "Failed \(place): \(reason)."
    }

    /// Advice for the user.
    public var recoverySuggestion: String? {
        if let advice { return advice }
        return switch code {
        case .invalidURL, .insecureURL: "Check the configured address; only https is allowed, except to this machine."
        case .invalidCAFile: "Point the extra CA file at a readable PEM file, or unset it."
        case .proxyFailed: "Check the proxy address and its credentials, or unset the proxy variables."
        case .unknownHost, .connectFailed: "Check the network connection and the address."
        case .certificateRejected:
            "If your network inspects TLS, add its certificate authority as the extra CA file; otherwise stop here."
        case .tlsFailed: "The server must speak TLS 1.2 or newer, or 1.3 if the settings require it."
        case .timedOut, .connectionLost: "Try again; if it keeps happening, check the network and any proxy."
        case .protocolViolation, .redirectRefused, .bodyTooLarge: "Check that the address is the right service."
        case .unavailable: "Try again; report it if it happens again."
        }
    }
}

extension ChappieTransportError.Stage {
    /// The activity of the stage, and the preposition before the host.
    fileprivate var phrase: (activity: String, preposition: String) {
        switch self {
        case .configuration: ("preparing a request", "to")
        case .connect: ("connecting", "to")
        case .tls: ("securing the connection", "to")
        case .request: ("sending the request", "to")
        case .responseHead: ("waiting for an answer", "from")
        case .firstByte: ("waiting for the first byte", "from")
        case .responseBody: ("reading the answer", "from")
        case .message: ("waiting for the next message", "from")
        case .liveness: ("waiting for a sign of life", "from")
        }
    }
}

// MARK: Reports of adapters

@_spi(ChappieInternals) extension ChappieTransportError {
    /// Returns the error for an adapter that can't work, whatever the peer does.
    public static func unavailable(_ reason: String, host: String = "") -> ChappieTransportError {
        ChappieTransportError(.unavailable, stage: .configuration, host: host, reason: reason)
    }

    /// Returns the error for an adapter that has been shut down.
    public static func shutDown(host: String = "") -> ChappieTransportError {
        ChappieTransportError(
            .unavailable, stage: .configuration, host: host, reason: "the connection pool has been shut down",
            advice: "Create a new client.")
    }

    /// The error for a system that does not allow this process another thread.
    public static var noThread: ChappieTransportError {
        ChappieTransportError(
            .unavailable, stage: .configuration, host: "",
            reason: "the system allows no more threads (ulimit -u, or the container's pids limit)",
            advice: "Raise the limit, or end other programs.")
    }

    /// Returns the error for a deadline that has passed.
    ///
    /// - Parameter allowance: The duration that the stage was given, or `nil` if the system applied a separate limit.
    public static func timedOut(
        at stage: Stage, host: String, after allowance: Duration? = nil
    ) -> ChappieTransportError {
        let missing =
            switch stage {
            case .configuration, .connect: "no connection"
            case .tls: "no TLS handshake"
            case .request: "it accepted no more of the request"
            case .responseHead: "no response head"
            case .firstByte: "no byte of the body"
            case .responseBody: "nothing more"
            case .message: "no message"
            case .liveness: "not even an answer to a ping"
            }
        let limit = allowance.map { " within \($0.words)" } ?? " in time"
        return ChappieTransportError(.timedOut, stage: stage, host: host, reason: missing + limit)
    }

    /// Returns the error for a connection that broke or ended too soon.
    public static func lost(at stage: Stage, host: String) -> ChappieTransportError {
        let (stage, what): (Stage, String) =
            switch stage {
            case .configuration, .connect, .tls: (stage, "the connection broke before the request")
            case .request: (.request, "the connection broke before the request was out")
            case .responseHead: (.responseHead, "the connection closed before the answer began")
            case .firstByte, .responseBody: (.responseBody, "the connection closed before the answer was complete")
            case .message, .liveness: (.message, "the connection broke without a close frame")
            }
        return ChappieTransportError(.connectionLost, stage: stage, host: host, reason: what)
    }

    /// Returns the error for a compressed answer to a request without Accept-Encoding, or `nil` if no coding is named.
    ///
    /// Adapters remove no coding, so this explains an answer that can't be read. URLSession keeps the field after it
    /// has decoded the body.
    public static func compressed(_ response: HTTPExchangeResponse, host: String) -> ChappieTransportError? {
        guard let coding = UntrustedText.token(response.headerFields[.contentEncoding], limit: 50), coding != "identity"
        else { return nil }
        return ChappieTransportError(
            .protocolViolation, stage: .responseBody, host: host,
            reason: "the answer is compressed (\(coding)), although no compression was requested",
            advice: "Turn off compression in the proxy or gateway between this machine and the service.")
    }

    /// Returns the error for a server that broke a rule. `rule` is the clause that names it.
    public static func violation(_ rule: String, at stage: Stage, host: String) -> ChappieTransportError {
        ChappieTransportError(
            .protocolViolation, stage: stage == .firstByte ? .responseBody : stage, host: host, reason: rule)
    }
}
