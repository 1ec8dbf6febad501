@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// A member of a ``NetworkLoop``: one easy handle and its owner. Either curl performs it as an HTTP transfer (see
/// ``NetworkTransfer``), or curl only opens a connection (resolving, proxy, TLS), which the owner then reads and writes
/// through ``EasyHandle/receive(into:)`` and ``EasyHandle/send(_:)``.
///
/// The loop calls these methods on its own thread, never two at once. It visits a member only for a reason: curl has
/// worked on it, its socket is ready, another thread woke it, or its deadline has come. Thousands of idle members cost
/// nothing.
@_spi(ChappieInternals) public protocol NetworkMember: AnyObject, Sendable {
    /// Whether curl only opens the connection.
    var isConnection: Bool { get }

    /// Sets up the fresh handle. If the answer is `false`, the handle is destroyed unused; the member has informed its
    /// own side.
    func joined(_ handle: EasyHandle) -> Bool

    /// Called when the member may have work to do.
    func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict

    /// The transfer has ended, or the connection could not be opened. The handle is destroyed after this call.
    func ended(_ handle: EasyHandle, with result: CurlResult)

    /// The loop has stopped. The handle, if there ever was one, is destroyed.
    func loopStopped()
}

/// The state of the loop at a visit of a member.
@_spi(ChappieInternals) public struct LoopVisit {
    /// Whether a connection is open, including TLS and the tunnel. Before that it can't be read or written.
    public let isConnected: Bool
    /// Whether a read from the connection may return something.
    public let isReadable: Bool
    /// The loop's clock.
    public let now: Int
    /// A buffer of 64 KiB that all connections of a loop share. Its content is lost after the visit.
    public let buffer: UnsafeMutableRawBufferPointer
}

/// One thread for any number of transfers and connections.
///
/// The thread starts with the first member and ends when the loop is stopped or released. In between it sleeps until a
/// socket, a deadline or another thread wakes it. A member that needs the loop holds it strongly, so that the loop
/// lives as long as its last member.
@_spi(ChappieInternals) public final class NetworkLoop: Sendable {
    /// The work that other threads have queued for the loop's thread.
    struct PendingWork {
        var newcomers: [any NetworkMember] = []
        var woken: Set<ObjectIdentifier> = []
    }

    /// All state that the thread shares with others. It doesn't retain the loop.
    private final class Mailbox: Sendable {
        struct Content {
            /// `nil` until the thread starts.
            var watch: EpollSet?
            var pending = PendingWork()
            var isStopping = false
            /// One ring is enough until the thread has looked.
            var isRung = false

            mutating func ring() {
                if !isRung { watch?.ring() }
                isRung = true
            }
        }

        let content = Mutex(Content())

        /// The work that was queued since the last round; `nil` if the thread must end.
        func collect() -> PendingWork? {
            content.withLock { content in
                content.isRung = false
                if content.isStopping { return nil }
                defer { content.pending = PendingWork() }
                return content.pending
            }
        }
    }

    private let mailbox = Mailbox()

    /// Starts no thread yet.
    public init() {}

    deinit { stop() }

    /// Hands `member` to the loop's thread, which starts with the first member.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.unavailable` if the loop has been stopped or can't start.
    public func add(_ member: any NetworkMember) throws(ChappieTransportError) {
        let problem: String? = mailbox.content.withLock { content in
            if content.isStopping { return "the connection pool has been shut down" }
            if content.watch == nil {
                guard CurlGlobal.isReady, let watch = EpollSet() else { return "libcurl does not start" }
                guard startThread({ [mailbox] in Self.run(on: watch, with: mailbox) }) else {
                    return "the system has no thread left"
                }
                content.watch = watch
            }
            content.pending.newcomers.append(member)
            content.ring()
            return nil
        }
        if let problem { throw .unavailable(problem) }
    }

    /// Asks for a visit to `member`, from any thread. Does nothing if the member isn't on the loop.
    public func wake(_ member: any NetworkMember) {
        mailbox.content.withLock { content in
            content.pending.woken.insert(ObjectIdentifier(member))
            content.ring()
        }
    }

    /// Removes every member and ends the thread; returns without waiting for that. May be called more than once.
    public func stop() {
        mailbox.content.withLock { content in
            content.isStopping = true
            content.ring()
        }
    }

    /// Runs the thread from its start to its end.
    private static func run(on watch: EpollSet, with mailbox: Mailbox) {
        let worker = LoopWorker(watch: watch)
        while let pending = mailbox.collect() { worker.work(with: pending) }
        let stranded = mailbox.content.withLock { content in
            defer { content.pending = PendingWork() }
            return content.pending.newcomers
        }
        worker.end()
        for member in stranded { member.loopStopped() }
    }
}
