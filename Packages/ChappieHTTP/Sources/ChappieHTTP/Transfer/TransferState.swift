import ChappieCore

/// How far one exchange has come, and by when it must come further.
///
/// Times are readings of one clock that the caller passes in.
struct TransferState {
    enum Phase: Equatable {
        /// Resolving, connecting, the proxy's and the TLS handshake. Next: sending, awaitingHead, ended.
        case connecting
        /// Part of the request body has yet to go out. Next: awaitingHead, awaitingBody (a server may answer early), ended.
        case sending
        /// The request is out. Next: awaitingBody, ended.
        case awaitingHead
        /// The head is here, no byte of the body. Next: receiving, ended.
        case awaitingBody
        /// Next: paused, ended.
        case receiving
        /// The reader is slower than the network: nobody waits for the server. Next: receiving, ended.
        case paused
        case ended
    }

    private(set) var phase = Phase.connecting
    private let deadlines: ChappieDeadlines
    private var lastProgress: Duration

    init(deadlines: ChappieDeadlines, startedAt now: Duration) {
        self.deadlines = deadlines
        lastProgress = now
    }

    /// The connection stands and the request is about to go out.
    ///
    /// - Returns: `false` when it did so before: the first attempt may have reached the server, and an adapter does not
    ///   repeat a request on its own.
    mutating func connected(hasBody: Bool, at now: Duration) -> Bool {
        guard phase == .connecting else { return false }
        move(to: hasBody ? .sending : .awaitingHead, at: now)
        return true
    }

    /// A piece of the request body was handed to the connection.
    mutating func sentBody(isWhole: Bool, at now: Duration) {
        guard phase == .sending else { return }
        move(to: isWhole ? .awaitingHead : .sending, at: now)
    }

    /// The final head is whole.
    mutating func receivedHead(at now: Duration) {
        guard phase != .ended else { return }
        move(to: .awaitingBody, at: now)
    }

    mutating func receivedBody(at now: Duration) {
        guard phase != .ended else { return }
        move(to: .receiving, at: now)
    }

    /// The buffer is full and curl was told to wait.
    mutating func paused() {
        guard phase != .ended else { return }
        phase = .paused
    }

    /// The reader has caught up.
    mutating func resumed(at now: Duration) {
        guard phase == .paused else { return }
        move(to: .receiving, at: now)
    }

    mutating func ended() { phase = .ended }

    /// The moment by which something must have happened; `nil` while nothing has to.
    var deadline: Duration? { allowance.map { lastProgress + $0 } }

    var stage: ChappieTransportError.Stage { phase.stage }

    /// The deadline that has passed by `now`, if one has.
    func expired(at now: Duration) -> (phase: Phase, allowance: Duration)? {
        guard let allowance, now >= lastProgress + allowance else { return nil }
        return (phase, allowance)
    }

    private var allowance: Duration? {
        switch phase {
        case .connecting: deadlines.connect
        // A server that stops reading is as silent as one that stops sending.
        case .sending: deadlines.idle
        case .awaitingHead: deadlines.responseHead
        case .awaitingBody: deadlines.firstByte
        case .receiving: deadlines.idle
        case .paused, .ended: nil
        }
    }

    private mutating func move(to phase: Phase, at now: Duration) {
        self.phase = phase
        lastProgress = now
    }
}

extension TransferState.Phase {
    /// How errors call it.
    var stage: ChappieTransportError.Stage {
        switch self {
        case .connecting: .connect
        case .sending: .request
        case .awaitingHead: .responseHead
        case .awaitingBody: .firstByte
        case .receiving, .paused, .ended: .responseBody
        }
    }
}
