import ChappieCore

/// How far a connection has come, and by when something must happen next.
///
/// Times are readings of one clock that the caller passes in.
struct WebSocketLifetime {
    enum Phase: Hashable {
        /// Resolving, connecting, the proxy's and the TLS handshake. Next: handshaking, ended.
        case connecting
        /// The request for the upgrade is going out, its answer has not come. Next: open, refusedHead, ended.
        case handshaking
        /// Next: closing, lingering, ended.
        case open
        /// Our close frame is out or queued, the peer's has not come. Next: lingering, ended.
        case closing
        /// Both sides are through; what is queued goes out, and the peer is left the time to close the connection first
        /// (RFC 6455, 7.1.1). Next: ended.
        case lingering
        /// The answer was no upgrade; no byte of its body has come. Next: refusedBody, ended.
        case refusedHead
        /// Next: ended.
        case refusedBody
        case ended
    }

    /// What it is time for.
    enum Due: Hashable {
        /// The peer has been silent for half of what it may: ask for a sign of life.
        case ping
        /// It has taken too long.
        case timeOut(ChappieTransportError.Stage, allowance: Duration)
        /// The closing handshake, or the peer's part after it, is no longer waited for.
        case closeOverdue
    }

    /// How long a closing handshake may take, queued messages included.
    static let closeAllowance = Duration.seconds(5)
    /// How long the peer is left to close the connection once the closing handshake is over.
    static let lingerAllowance = Duration.seconds(1)

    private(set) var phase = Phase.connecting
    private let deadlines: ChappieDeadlines
    /// When the phase began, or the last sign of life came within it.
    private var since: Duration
    private var hasPinged = false
    /// The receiver is behind: nothing is read, so nothing can be heard.
    private var isPaused = false

    init(deadlines: ChappieDeadlines, startedAt now: Duration) {
        self.deadlines = deadlines
        since = now
    }

    // MARK: What happens

    mutating func connected(at now: Duration) { move(to: .handshaking, at: now) }
    mutating func opened(at now: Duration) { move(to: .open, at: now) }
    mutating func refused(at now: Duration) { move(to: .refusedHead, at: now) }
    mutating func closed(at now: Duration) { move(to: .closing, at: now) }

    /// Both close frames have come, or what came can't be gone on with.
    mutating func finished(at now: Duration) { move(to: .lingering, at: now) }

    mutating func ended() { phase = .ended }

    /// Bytes have come; or have gone out where the socket had taken no more before, which is a sign of life as well.
    mutating func heard(at now: Duration) {
        switch phase {
        case .open: move(to: .open, at: now)
        case .refusedHead, .refusedBody: move(to: .refusedBody, at: now)
        case .connecting, .handshaking, .closing, .lingering, .ended: break
        }
    }

    mutating func pinged() { hasPinged = true }

    mutating func paused() { isPaused = true }

    mutating func resumed(at now: Duration) {
        isPaused = false
        heard(at: now)
    }

    // MARK: What follows

    /// The moment at which ``due(at:)`` has something to say; `nil` while nothing has to happen.
    var deadline: Duration? { allowance.map { since + $0 } }

    func due(at now: Duration) -> Due? {
        guard let allowance, now >= since + allowance else { return nil }
        switch phase {
        case .connecting: return .timeOut(.connect, allowance: allowance)
        case .handshaking: return .timeOut(.responseHead, allowance: allowance)
        case .open: return hasPinged ? .timeOut(.liveness, allowance: allowance) : .ping
        case .refusedHead: return .timeOut(.firstByte, allowance: allowance)
        case .refusedBody: return .timeOut(.responseBody, allowance: allowance)
        case .closing, .lingering: return .closeOverdue
        case .ended: return nil
        }
    }

    private var allowance: Duration? {
        switch phase {
        case .connecting: deadlines.connect
        case .handshaking: deadlines.upgrade
        case .open: isPaused ? nil : hasPinged ? deadlines.liveness : deadlines.liveness / 2
        case .refusedHead: isPaused ? nil : deadlines.firstByte
        case .refusedBody: isPaused ? nil : deadlines.idle
        case .closing: Self.closeAllowance
        case .lingering: Self.lingerAllowance
        case .ended: nil
        }
    }

    private mutating func move(to phase: Phase, at now: Duration) {
        guard self.phase != .ended else { return }
        self.phase = phase
        since = now
        hasPinged = false
    }
}
