@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The end of an attempt without a whole response, as far as the next step depends on it.
struct AttemptFailure: Error {
    enum Kind: Equatable {
        /// Nothing more is to be tried.
        case final
        /// The connection broke, the stream ended too soon, or the server failed (5xx, or a response that failed): the
        /// same request may succeed.
        case broken
        /// The WebSocket opened, and then no byte came back: this network passes none.
        case blocked
        /// No byte of an answer came in time over HTTP: the connection may have been dead.
        case unanswered
        /// The host can't be reached: its port, its proxy.
        case unreachable
        /// The host's name does not resolve. Shortly after a start or a resume there may be no network yet.
        case unresolved
        /// The service's edge does not reach the service: once more after some seconds.
        case outage
        /// The host answers, but opens no WebSocket, or closes it because of the first message.
        case upgradeFailed
        /// A kept connection turned out to be dead before it brought anything, or the backend has lost its
        /// conversation: sending the whole request on a new connection helps.
        case stale
        /// Too many requests, or a usage limit. `resetsIn` is in seconds, if the server says when.
        case rateLimited(resetsIn: TimeInterval?)
        /// The model has no capacity at present.
        case overloaded
        /// A message is larger than one side takes over WebSocket.
        case messageTooLarge
        /// Encrypted items of the conversation can't be read: the request without them may succeed.
        case unreadableReasoning

        /// Whether it is a limit of requests.
        var isRateLimit: Bool { if case .rateLimited = self { true } else { false } }
    }

    var kind: Kind
    /// The caller's error when nothing more is tried.
    let error: any Error
    /// The pause that the server asks for, in seconds.
    let retryAfter: TimeInterval?

    init(_ kind: Kind, _ error: ChappieClientError, retryAfter: TimeInterval? = nil) {
        self.kind = kind
        self.error = error
        self.retryAfter = retryAfter
    }

    /// Whether the part of the answer that was shown is good, and only its rest is missing.
    var leavesAnswer: Bool {
        switch kind {
        case .broken, .blocked, .unanswered, .unreachable, .unresolved, .outage, .upgradeFailed, .stale, .rateLimited,
            .overloaded:
            return true
        case .messageTooLarge, .unreadableReasoning: return false
        case .final:
            switch error {
            case ChappieClientError.streamingTransportReplayDiverged, ChappieClientError.transportFailed: return true
            default: return false
            }
        }
    }

    /// Classifies an error of a lower layer for an attempt over `transport`.
    init(_ error: any Error, over transport: ChappieTransportEvent.Kind) {
        let failure = error as? AttemptFailure
        let transportError = error as? ChappieTransportError
        kind = failure?.kind ?? transportError.map { Self.kind(of: $0, over: transport) } ?? .final
        self.error = ChappieClientError.wrapping(error)
        retryAfter = failure?.retryAfter
    }

    private static func kind(of error: ChappieTransportError, over transport: ChappieTransportEvent.Kind) -> Kind {
        let isUpgrade = transport == .webSocket && error.stage == .responseHead
        switch error.code {
        case .unknownHost: return .unresolved
        case .proxyFailed, .connectFailed: return .unreachable
        case .timedOut where error.stage == .connect || error.stage == .tls: return .unreachable
        case .timedOut where isUpgrade, .connectionLost where isUpgrade, .protocolViolation where isUpgrade:
            return .upgradeFailed
        case .timedOut where transport == .webSocket && error.stage == .firstByte: return .blocked
        case .timedOut where error.stage == .liveness: return .broken
        case .timedOut where error.stage == .responseHead || error.stage == .firstByte: return .unanswered
        case .connectionLost: return .broken
        case .protocolViolation where error.stage == .responseBody || error.stage == .message: return .broken
        case .bodyTooLarge where error.stage == .message: return .messageTooLarge
        default: return .final
        }
    }

    /// Whether the request may succeed without compression. A server that does not know the coding answers 415 (RFC
    /// 9110, 15.5.16 with 12.5.3). Gateways fail at the body, or can't parse it.
    var mayBeAboutCompression: Bool {
        guard kind == .final || kind == .broken, case ChappieClientError.httpError(let status, let body) = error else {
            return false
        }
        guard status == 400 else { return status == 415 || status == 502 }
        let error = ChappieResponseError(body: (try? ChappieJSON(parsing: body)) ?? .null)
        let words = body.lowercased()
        return error.raw["param"]?.string == nil
            && ["zstd", "compress", "content-encoding", "decod", "json"].contains(where: words.contains)
    }

    /// The failure as a handshake's: an error that does not depend on the request counts against WebSocket.
    var ofUpgrade: AttemptFailure {
        guard kind == .final || kind == .broken || kind == .outage else { return self }
        switch error {
        case ChappieClientError.httpError, ChappieClientError.blockedByGateway, ChappieClientError.gatewayAnswered:
            break
        default: return self
        }
        var failure = self
        failure.kind = .upgradeFailed
        return failure
    }
}

extension ChappieClientError {
    /// Returns the client's error for an error of a lower layer. `CancellationError` and errors of other origin stay as
    /// they are.
    static func wrapping(_ error: any Error) -> any Error {
        switch error {
        case let error as AttemptFailure: error.error
        case let error as UnreadableCompaction: error.refusal.error
        case let error as ChappieTransportError: transportFailed(error)
        case let error as CredentialStoreError: credentialStoreFailed(error)
        case ChappieAuthError.missingCredential: missingCredential
        case ChappieAuthError.missingRefreshToken: missingRefreshToken
        case ChappieAuthError.missingAccountID: missingAccountID
        case ChappieAuthError.reauthenticationRequired(let reason): reauthenticationRequired(reason)
        case ChappieAuthError.credentialStoreUnavailable(let error): credentialStoreFailed(error)
        case ChappieAuthError.planUseNotGranted: planRefused(ChappiePlanRefusal(reason: .notGranted))
        case let refusal as RegionRefusal: planRefused(ChappiePlanRefusal(refusal))
        // This is this machine's failure, and not the sign-in's.
        case ChappieAuthError.secureRandomFailed: error
        case let error as ChappieAuthError: renewalFailed(error)
        default: error
        }
    }
}
