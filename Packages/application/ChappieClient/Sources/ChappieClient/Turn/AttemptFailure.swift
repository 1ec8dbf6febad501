@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The end of an attempt without a complete response, with everything that the next step depends on.
struct AttemptFailure: Error {
    enum Kind: Equatable {
        /// Nothing more can be tried.
        case final
        /// The connection broke, the stream ended too soon, or the server failed (5xx, or a failed response). The same
        /// request may succeed.
        case broken
        /// The WebSocket opened, but no byte came back. This network blocks WebSockets.
        case blocked
        /// No byte of an answer came in time over HTTP. The connection may have been dead.
        case unanswered
        /// The host, its port or its proxy can't be reached.
        case unreachable
        /// The host's name does not resolve. Shortly after a start or a resume, there may be no network yet.
        case unresolved
        /// The service's edge does not reach the service. One retry after some seconds may succeed.
        case outage
        /// The host answers, but does not open a WebSocket, or closes it because of the first message.
        case upgradeFailed
        /// A kept connection turned out to be dead before it delivered anything, or the backend has lost its
        /// conversation. Sending the complete request on a new connection helps.
        case stale
        /// There were too many requests, or a usage limit was reached. `resetsIn` is in seconds, if the server gives a
        /// time.
        case rateLimited(resetsIn: TimeInterval?)
        /// The model has no capacity at present.
        case overloaded
        /// A message is larger than one side accepts over WebSocket.
        case messageTooLarge
        /// Encrypted items of the conversation can't be read. The request may succeed without them.
        case unreadableReasoning

        /// Whether the failure is a limit of requests.
        var isRateLimit: Bool { if case .rateLimited = self { true } else { false } }
    }

    var kind: Kind
    /// The error for the caller when nothing more is tried.
    let error: any Error
    /// The pause that the server requests, in seconds.
    let retryAfter: TimeInterval?

    init(_ kind: Kind, _ error: ChappieClientError, retryAfter: TimeInterval? = nil) {
        self.kind = kind
        self.error = error
        self.retryAfter = retryAfter
    }

    /// Whether the shown part of the answer is valid, and only its rest is missing.
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
        return error.parameter == nil
            && ["zstd", "compress", "content-encoding", "decod", "json"].contains(where: words.contains)
    }

    /// The failure when it occurs in a handshake. An error that does not depend on the request counts against
    /// WebSocket.
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
    /// Returns the client's error for an error of a lower layer. `CancellationError` and errors of other origin are
    /// returned unchanged.
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
        // This is a failure of this machine, not of the sign-in.
        case ChappieAuthError.secureRandomFailed: error
        case let error as ChappieAuthError: renewalFailed(error)
        default: error
        }
    }
}
