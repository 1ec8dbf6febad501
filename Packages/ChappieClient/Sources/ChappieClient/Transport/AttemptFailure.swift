import ChappieCore

/// How an attempt ended without a whole response, as far as it matters for what comes next.
enum AttemptFailure: Sendable {
    /// Nothing more is to be tried.
    case final(any Error)
    /// The connection broke, or the stream ended too soon.
    case broken(ChappieClientError)
    /// This way nothing comes of it, though the connection stood: a deadline for events has passed, or a message was over
    /// the limit, which is smaller here than over HTTP.
    case silent(ChappieClientError)
    /// There is no way to the host: its name, its port, its proxy.
    case unreachable(ChappieClientError)
    /// The host answers, but no WebSocket comes of it.
    case upgradeFailed(ChappieClientError)
    /// A kept connection turned out to be dead before it brought anything.
    case stale(ChappieClientError)
    /// The backend has lost the thread of the connection; the whole request on a new one mends it.
    case conversationLost(ChappieClientError)
    /// Too many requests; `retryAfter` as the server wrote it.
    case rateLimited(ChappieClientError, retryAfter: String?)
    /// The server's own trouble (5xx); `retryAfter` as the server wrote it.
    case troubled(ChappieClientError, retryAfter: String?)
    /// The message is larger than the backend takes over WebSocket; nothing was sent.
    case messageTooLarge(bytes: Int, limit: Int)

    /// What an error of the transport means for an attempt over `kind`.
    init(_ error: any Error, over kind: ChappieTransportEvent.Kind) {
        if let divergence = error as? ReplayDivergence {
            self = .final(ChappieClientError.streamingTransportReplayDiverged(divergence.deliveredText))
            return
        }
        guard let transport = error as? ChappieTransportError else {
            self = .final(error)
            return
        }
        let error = ChappieClientError.transportFailed(transport)
        let isUpgrade = kind == .webSocket && transport.stage == .responseHead
        switch transport.code {
        case .proxyFailed, .unknownHost, .connectFailed: self = .unreachable(error)
        case .timedOut where transport.stage == .connect || transport.stage == .tls: self = .unreachable(error)
        case .timedOut where transport.stage == .liveness: self = .broken(error)
        case .timedOut: self = isUpgrade ? .upgradeFailed(error) : .silent(error)
        case .connectionLost: self = isUpgrade ? .upgradeFailed(error) : .broken(error)
        case .protocolViolation where isUpgrade: self = .upgradeFailed(error)
        case .protocolViolation where transport.stage == .responseBody || transport.stage == .message:
            self = .broken(error)
        case .bodyTooLarge where transport.stage == .message: self = .silent(error)
        case .invalidURL, .insecureURL, .invalidCAFile, .certificateRejected, .tlsFailed, .protocolViolation,
            .redirectRefused, .bodyTooLarge, .unavailable:
            self = .final(error)
        @unknown default: self = .final(error)
        }
    }

    /// What a refusal of the backend means.
    init(_ verdict: ErrorMapping.Verdict, retryAfter: String?) {
        switch verdict {
        case .final(let error): self = .final(error)
        case .rateLimited(let error): self = .rateLimited(error, retryAfter: retryAfter)
        case .troubled(let error): self = .troubled(error, retryAfter: retryAfter)
        case .conversationLost(let error): self = .conversationLost(error)
        }
    }
}
