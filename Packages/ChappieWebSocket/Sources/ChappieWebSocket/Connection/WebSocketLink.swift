import CCurl
import ChappieCore
import ChappieCurl
import HTTPTypes
import Synchronization

/// One connection on an event loop: the shell between curl's socket on one side and its users' tasks on the other.
///
/// All state is under one lock. Each entry point changes it there and wakes whoever waits after letting it go.
final class WebSocketLink: CurlConnectionMember {
    private let route: CurlRoute
    private let connectDeadline: Duration
    private let loop: CurlEventLoop
    private let session: Mutex<WebSocketSession>

    init(
        _ handshake: consuming sending WebSocketHandshake, on route: CurlRoute, deadlines: ChappieDeadlines,
        limits: WebSocketLimits, loop: CurlEventLoop
    ) {
        self.route = route
        connectDeadline = deadlines.connect
        self.loop = loop
        session = Mutex(
            WebSocketSession(
                handshake, host: route.origin.label, deadlines: deadlines, limits: limits, startedAt: LoopClock.now))
    }

    /// Changes the state, then wakes whom that concerns.
    func act<Result>(_ change: (inout WebSocketSession) throws -> sending Result) rethrows -> sending Result {
        let (result, wakeups) = try session.withLock { session in
            let result = try change(&session)
            return (result, session.takeWakeups())
        }
        for wakeup in wakeups { wakeup() }
        return result
    }

    func join() throws(ChappieTransportError) { try loop.add(self) }

    /// Asks the loop for a visit.
    func wake() { loop.wake(self) }

    // MARK: The loop's side

    func joined(_ handle: EasyHandle) -> Bool {
        // It may have been dropped on the way here.
        guard !act({ $0.isOver }) else { return false }
        handle.connectOnly(route, connectDeadline: connectDeadline)
        return true
    }

    func failed(_ handle: EasyHandle, with result: CURLcode) {
        let error = CurlFailure(result, of: handle, at: .connect, on: route).error
        act { session in
            session.failed(error)
            session.tellWaiters(at: nil)
        }
    }

    func visited(_ handle: EasyHandle, _ visit: CurlConnectionVisit) -> CurlConnectionVerdict {
        var hasMore = false
        if visit.isConnected {
            let readsOn = act { session in
                session.connected(at: visit.now)
                return session.takeReadAttempt()
            }
            hasMore = flush(handle)
            if visit.isReadable || readsOn {
                hasMore = read(handle, visit) || hasMore
                // Pongs, and the answer to a close frame.
                hasMore = flush(handle) || hasMore
            }
        }
        return act { session in
            session.tick(at: LoopClock.now) { allowance in
                CurlFailure(CURLE_OPERATION_TIMEDOUT, of: handle, at: .connect, on: route).timeOut(allowance: allowance)
            }
            session.settle(at: LoopClock.now)
            guard !session.isOver else { return .leave }
            // A ping that has only just been queued, for one; or the socket took the answers that reading waited for.
            let hasUnsent = visit.isConnected && session.wantsWrite && !session.outbox.isBlocked
            session.promisedVisit = hasMore || hasUnsent || session.readsOn ? visit.now : session.deadline
            return .stay(reads: session.wantsRead, writes: session.wantsWrite, until: session.promisedVisit)
        }
    }

    func loopStopped() {
        act { session in
            session.failed(.unavailable("the connection pool has been shut down", host: route.origin.label))
            session.tellWaiters(at: nil)
        }
    }

    /// How many pieces are read or written before other connections have their turn.
    private static let piecesPerVisit = 16
    /// What one call of the TLS library is given: one record. It reports nothing before it has sent all that it was given.
    private static let pieceBytes = 16 << 10

    /// Writes what the socket takes.
    ///
    /// - Returns: whether it would have taken more.
    private func flush(_ handle: EasyHandle) -> Bool {
        for _ in 0..<Self.piecesPerVisit {
            let (bytes, offset) = act { session in
                session.outbox.offer()
                return (session.outbox.offered, session.outbox.offset)
            }
            guard offset < bytes.count else { return false }
            let sent = bytes.withUnsafeBytes {
                handle.send(UnsafeRawBufferPointer(rebasing: $0[offset...].prefix(Self.pieceBytes)))
            }
            switch sent {
            case .bytes(let count): act { $0.wrote(count, at: LoopClock.now) }
            case .nothing:
                act { $0.outbox.blocked(at: LoopClock.now) }
                return false
            case .failed:
                act { $0.writingBroke() }
                return false
            }
        }
        return true
    }

    /// Reads what is there and wanted.
    ///
    /// - Returns: whether there may be more.
    private func read(_ handle: EasyHandle, _ visit: CurlConnectionVisit) -> Bool {
        for _ in 0..<Self.piecesPerVisit {
            guard act({ $0.wantsRead }) else {
                act { $0.leftOffReading() }
                return false
            }
            switch handle.receive(into: visit.buffer) {
            case .bytes(let count):
                let bytes = UnsafeRawBufferPointer(rebasing: visit.buffer[..<count])
                act { $0.received(bytes, at: LoopClock.now) }
                if isPlain, count < visit.buffer.count { return false }
            case .nothing:
                act { session in
                    if session.isWriteBroken { session.connectionBroke() }
                }
                return false
            case .end:
                act { $0.connectionEnded(at: LoopClock.now) }
                return false
            case .failed:
                act { $0.connectionBroke() }
                return false
            }
        }
        act { $0.leftOffReading() }
        return true
    }

    /// Whether nothing between us and the socket keeps bytes back, so that a short read has emptied it. TLS gives a record
    /// at a time, and holds others that the socket knows nothing of.
    private var isPlain: Bool { route.origin.scheme == .http && route.proxy == .direct }
}
