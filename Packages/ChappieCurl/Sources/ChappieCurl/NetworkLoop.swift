@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// The clock of loops and deadlines: never set back, and running on while the machine sleeps.
@_spi(ChappieInternals) public enum LoopClock {
    private static let start = ContinuousClock.now

    /// Nanoseconds since some moment in this process: whole numbers, since deadlines are looked at several times for each
    /// packet.
    public static var now: Int { (ContinuousClock.now - start).nanoseconds }
}

extension Duration {
    /// At most some 290 years.
    @_spi(ChappieInternals) public var nanoseconds: Int {
        let (seconds, attoseconds) = components
        let (whole, overflow) = Int(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow, abs(whole) < .max / 2 else { return seconds < 0 ? .min / 2 : .max / 2 }
        return whole + Int(attoseconds / 1_000_000_000)
    }
}

/// A member of a ``NetworkLoop``: one easy handle and its owner. It is an HTTP transfer that curl
/// performs (see ``NetworkTransfer``), or a connection that curl only opens (resolving, proxy, TLS) and that its owner
/// then reads and writes through ``EasyHandle/receive(into:)`` and ``EasyHandle/send(_:)``.
///
/// The loop calls all of these on its own thread, never two at once. It visits a member only when there is a reason to:
/// curl has worked on it, its socket is ready, another thread woke it, or its moment has come. Thousands that are idle
/// cost nothing.
@_spi(ChappieInternals) public protocol NetworkMember: AnyObject, Sendable {
    /// Whether curl only opens the connection.
    var isConnection: Bool { get }

    /// Sets up the fresh handle. Answering `false` gives it back unused; the member has told its own side why.
    func joined(_ handle: EasyHandle) -> Bool

    /// There may be something to do.
    func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict

    /// The transfer has ended, or the connection could not be opened. The handle goes after this.
    func ended(_ handle: EasyHandle, with result: CurlResult)

    /// The loop has stopped; the handle (if there ever was one) is gone.
    func loopStopped()
}

/// The loop's knowledge at a visit of a member.
@_spi(ChappieInternals) public struct LoopVisit {
    /// Whether a connection stands, TLS and tunnel included. Before that there is nothing to read or write.
    public let isConnected: Bool
    /// Reading from the connection may give something.
    public let isReadable: Bool
    /// The loop's clock.
    public let now: Int
    /// Room to read into, 64 KiB that all connections of a loop share: what it holds is gone after the visit.
    public let buffer: UnsafeMutableRawBufferPointer
}

/// Small pieces that follow each other closely: servers send each event in a packet of its own, and the number of reads, and
/// of tasks that are roused, decides what they cost. In a burst the socket is left alone for a while, so that many pieces are
/// one read. The times are in nanoseconds.
@_spi(ChappieInternals) public enum Burst {
    /// How long the socket is left alone.
    public static let rest = 2_000_000
    /// Pieces that come no further apart than this are a burst; twice as long as the rest, since timers are late.
    public static let gap = 4_000_000
    /// A read of this much says that the peer fills the line; it is not made to wait.
    public static let bulkBytes = 64 << 10
}

/// A member's fate after a visit.
@_spi(ChappieInternals) public enum LoopVerdict: Sendable {
    /// It stays. A connection wants a visit when its socket is ready for what is named; each member no later than `until`
    /// (`nil`: only then). While a connection wants neither, it doesn't hear of the socket's end either. A transfer can't
    /// keep curl from reading, but it can let the loop rest: see ``Burst``.
    case stay(reads: Bool = false, writes: Bool = false, until: Int?, rests: Bool = false)
    /// It goes: an unfinished transfer is cut off, a connection closed.
    case leave
}

/// One thread for any number of transfers and connections.
///
/// The thread starts with the first member and ends when the loop is stopped or let go; in between it sleeps until a
/// socket, a deadline or another thread wakes it. Members that need the loop while they are on it hold it strongly, so
/// that it lives as long as the last of them.
@_spi(ChappieInternals) public final class NetworkLoop: Sendable {
    /// The work that other threads have for the loop's.
    struct Mail {
        var newcomers: [any NetworkMember] = []
        var woken: Set<ObjectIdentifier> = []
    }

    /// All that the thread shares with others; it doesn't hold on to the loop.
    private final class Mailbox: Sendable {
        struct Content {
            /// `nil` while there is no thread.
            var watch: SocketWatch?
            var mail = Mail()
            var isStopping = false
            /// Ringing once is enough until the thread has looked.
            var isRung = false

            mutating func ring() {
                if !isRung { watch?.ring() }
                isRung = true
            }
        }

        let content = Mutex(Content())

        /// The work that has come in since the last round; `nil` when it is time to go.
        func collect() -> Mail? {
            content.withLock { content in
                content.isRung = false
                if content.isStopping { return nil }
                defer { content.mail = Mail() }
                return content.mail
            }
        }
    }

    private let mailbox = Mailbox()

    /// No thread yet.
    public init() {}

    deinit { stop() }

    /// Hands `member` to the loop's thread, starting it if this is the first.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.unavailable` when the loop has been stopped or can't start.
    public func add(_ member: any NetworkMember) throws(ChappieTransportError) {
        let problem: String? = mailbox.content.withLock { content in
            if content.isStopping { return "the connection pool has been shut down" }
            if content.watch == nil {
                guard CurlGlobal.isReady, let watch = SocketWatch() else { return "libcurl does not start" }
                guard startThread({ [mailbox] in Self.run(on: watch, with: mailbox) }) else {
                    return "the system has no thread left"
                }
                content.watch = watch
            }
            content.mail.newcomers.append(member)
            content.ring()
            return nil
        }
        if let problem { throw .unavailable(problem) }
    }

    /// Asks for a visit to `member`, from any thread. Nothing happens when it isn't on the loop.
    public func wake(_ member: any NetworkMember) {
        mailbox.content.withLock { content in
            content.mail.woken.insert(ObjectIdentifier(member))
            content.ring()
        }
    }

    /// Sends every member away and ends the thread; returns without waiting for that. More than once is fine.
    public func stop() {
        mailbox.content.withLock { content in
            content.isStopping = true
            content.ring()
        }
    }

    /// The thread's whole life.
    private static func run(on watch: SocketWatch, with mailbox: Mailbox) {
        let worker = LoopWorker(watch: watch)
        while let mail = mailbox.collect() { worker.work(with: mail) }
        let stranded = mailbox.content.withLock { content in
            defer { content.mail = Mail() }
            return content.mail.newcomers
        }
        worker.end()
        for member in stranded { member.loopStopped() }
    }
}

extension ChappieTransportError {
    /// The adapter itself can't work, whatever the peer does.
    @_spi(ChappieInternals) public static func unavailable(_ reason: String, host: String = "") -> ChappieTransportError
    {
        ChappieTransportError(.unavailable, stage: .configuration, host: host, reason: reason)
    }
}
