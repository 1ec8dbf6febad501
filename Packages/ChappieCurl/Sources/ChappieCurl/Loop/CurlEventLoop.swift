public import ChappieCore
import Synchronization

/// One thread with one curl multi handle, for any number of members.
///
/// The thread starts with the first member and ends when the loop is stopped or let go; in between it sleeps in
/// `curl_multi_poll` until a socket, a deadline or ``wake()`` rouses it. Members that need the loop while they are on it
/// hold it strongly, so that it lives as long as the last of them.
public final class CurlEventLoop: Sendable {
    private let core = Core()

    public init() {}

    deinit { core.stop() }

    /// Hands `member` to the loop's thread, starting it if this is the first.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.unavailable` when the loop has been stopped or can't start.
    public func add(_ member: any CurlLoopMember) throws(ChappieTransportError) {
        try core.post { $0.newTransfers.append(member) }
    }

    /// Hands a connection to the loop's thread, starting it if this is the first.
    ///
    /// - Throws: as ``add(_:)-(CurlLoopMember)``.
    public func add(_ member: any CurlConnectionMember) throws(ChappieTransportError) {
        try core.post { $0.newConnections.append(member) }
    }

    /// Asks for a visit to `member`, from any thread. Nothing happens when it isn't on the loop.
    public func wake(_ member: any CurlConnectionMember) { core.wake(ObjectIdentifier(member)) }

    /// Asks for a round, from any thread.
    public func wake() { core.wake() }

    /// Sends every member away and ends the thread; returns without waiting for that. More than once is fine.
    public func stop() { core.stop() }

    /// The part that the thread holds on to, so that the outer object can be let go while it runs.
    private final class Core: Sendable {
        private let mailbox = Mutex(Mailbox())

        /// Puts something into the mailbox, starting the thread if this is the first.
        func post(_ add: (inout Mail) -> Void) throws(ChappieTransportError) {
            let problem: String? = mailbox.withLock { mailbox in
                switch mailbox.phase {
                case .stopped: return "the connection pool has been shut down"
                case .running: return mailbox.post(add)
                case .new:
                    guard CurlGlobal.isReady, let multi = MultiHandle() else { return "libcurl does not start" }
                    mailbox.phase = .running(multi)
                    guard LoopThread.start({ self.run() }) else {
                        mailbox.phase = .new
                        multi.destroy()
                        return "the system has no thread left"
                    }
                    return mailbox.post(add)
                }
            }
            if let problem { throw .unavailable(problem) }
        }

        func wake(_ member: ObjectIdentifier) {
            mailbox.withLock { mailbox in
                guard case .running = mailbox.phase else { return }
                mailbox.mail.woken.insert(member)
                mailbox.wake()
            }
        }

        func wake() { mailbox.withLock { $0.wake() } }

        func stop() {
            mailbox.withLock { mailbox in
                mailbox.isStopping = true
                if case .new = mailbox.phase { mailbox.phase = .stopped }
                mailbox.wake()
            }
        }

        /// The thread's whole life.
        private func run() {
            guard case .running(let multi) = mailbox.withLock({ $0.phase }) else { return }
            var round = CurlLoopRound(multi: multi)
            while let mail = mailbox.withLock({ $0.collect() }) {
                guard round.run(with: mail) else { break }
            }
            let stranded = mailbox.withLock { mailbox in
                // From here on nobody can reach the multi handle to wake it.
                mailbox.phase = .stopped
                return mailbox.takeMail()
            }
            round.end()
            for member in stranded.newTransfers { member.loopStopped() }
            for member in stranded.newConnections { member.loopStopped() }
        }
    }

    /// What others have for the thread.
    struct Mail {
        var newTransfers: [any CurlLoopMember] = []
        var newConnections: [any CurlConnectionMember] = []
        var woken: Set<ObjectIdentifier> = []
    }

    private struct Mailbox {
        enum Phase {
            /// No thread yet. Next: running, stopped.
            case new
            /// The thread owns the handle; others may only wake it, and only under the mailbox's lock. Next: stopped.
            case running(MultiHandle)
            case stopped
        }

        var phase = Phase.new
        var mail = Mail()
        var isStopping = false
        var isWakePending = false

        mutating func post(_ add: (inout Mail) -> Void) -> String? {
            guard !isStopping else { return "the connection pool has been shut down" }
            add(&mail)
            wake()
            return nil
        }

        /// One wake-up is enough until the thread has looked.
        mutating func wake() {
            guard case .running(let multi) = phase, !isWakePending else { return }
            isWakePending = multi.wake()
        }

        /// What has come in since the last round; `nil` when it is time to go.
        mutating func collect() -> Mail? {
            isWakePending = false
            return isStopping ? nil : takeMail()
        }

        mutating func takeMail() -> Mail {
            defer { mail = Mail() }
            return mail
        }
    }
}

extension ChappieTransportError {
    /// The adapter itself can't work, whatever the peer does.
    public static func unavailable(_ reason: String, host: String = "") -> ChappieTransportError {
        ChappieTransportError(.unavailable, stage: .configuration, host: host, reason: reason)
    }
}
