/// An exchange that ended without a complete response: where it broke, with whom, and why.
///
/// Never holds a header, a body, a query or the user part of a URL.
public struct ChappieTransportError: Error, Sendable, Hashable {
    /// The kind of failure.
    public enum Code: String, Sendable, Hashable, Codable {
        /// The URL can't be used: no host, an unknown scheme.
        case invalidURL
        /// Plain `http` to a host that is not loopback.
        case insecureURL
        /// The extra CA file is missing, unreadable, or holds no certificate.
        case invalidCAFile
        /// The proxy setting can't be used, or the proxy refused (wrong credentials, CONNECT denied).
        case proxyFailed
        /// The name doesn't resolve.
        case unknownHost
        /// Nothing listens there, or the network is unreachable.
        case connectFailed
        /// The certificate is not trusted, expired, or for another host.
        case certificateRejected
        /// The TLS handshake failed for another reason (version, alert).
        case tlsFailed
        /// A deadline passed; ``ChappieTransportError/stage`` says which.
        case timedOut
        /// The connection broke, or closed before the response was whole.
        case connectionLost
        /// The peer does not speak HTTP, or broke its rules.
        case protocolViolation
        /// A redirect led to another origin, or there were too many.
        case redirectRefused
        /// A body that had to fit into memory did not.
        case bodyTooLarge
        /// The adapter could not start or has been shut down.
        case unavailable
    }

    /// How far the exchange had come.
    public enum Stage: String, Sendable, Hashable, Codable {
        /// Before anything was sent, or while connecting.
        case configuration, connect, tls
        /// While an HTTP exchange ran.
        case request, responseHead, firstByte, responseBody
        /// Waiting for the next message of a WebSocket.
        case message
        /// A WebSocket's peer was silent, pings included.
        case liveness
    }

    /// The kind of failure.
    public let code: Code
    /// How far the exchange had come.
    public let stage: Stage
    /// Host and, where it is not the scheme's own, port; empty when there was none to name.
    public let host: String
    /// One clause in plain words, without a final stop.
    public let reason: String

    /// An error with the given properties.
    public init(_ code: Code, stage: Stage, host: String, reason: String) {
        self.code = code
        self.stage = stage
        self.host = host
        self.reason = reason
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
        switch code {
        case .invalidURL, .insecureURL: "Check the configured address; only https is allowed, except to this machine."
        case .invalidCAFile: "Point the extra CA file at a readable PEM file, or unset it."
        case .proxyFailed: "Check the proxy address and its credentials, or unset the proxy variables."
        case .unknownHost, .connectFailed: "Check the network connection and the address."
        case .certificateRejected:
            "If your network inspects TLS, add its certificate authority as the extra CA file; otherwise do not go on."
        case .tlsFailed: "The server must speak TLS 1.2 or newer, or 1.3 where the settings ask for that."
        case .timedOut, .connectionLost: "Try again; if it keeps happening, check the network and any proxy."
        case .protocolViolation, .redirectRefused, .bodyTooLarge: "Check that the address is the right service."
        case .unavailable: "Create a new client."
        }
    }
}

extension ChappieTransportError.Stage {
    /// What went on, and the word before the host it went on with.
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
