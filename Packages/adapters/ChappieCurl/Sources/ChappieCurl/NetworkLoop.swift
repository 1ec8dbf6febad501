import CCurl
@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// A thread for any number of transfers and connections.
///
/// The thread starts with the first member and ends when the loop is stopped or released. In between it sleeps until a
/// socket, a deadline or another thread wakes it. A member that needs the loop holds a strong reference to it, so that
/// the loop exists as long as its last member.
@_spi(ChappieInternals) public final class NetworkLoop: Sendable {
    /// The state that the thread shares with others. It doesn't retain the loop.
    private final class Mailbox: Sendable {
        struct Content {
            /// The sockets, or `nil` until the thread starts.
            var watch: EpollSet?
            var pending = LoopWorker.PendingWork()
            var isStopping = false
            /// Whether the bell has been rung. One ring is enough until the thread has collected its work.
            var isRung = false

            mutating func ring() {
                if !isRung { watch?.ring() }
                isRung = true
            }
        }

        let content = Mutex(Content())

        /// Returns the work that was queued since the last round, or `nil` if the thread must end.
        func collect() -> LoopWorker.PendingWork? {
            content.withLock { content in
                content.isRung = false
                if content.isStopping { return nil }
                defer { content.pending = LoopWorker.PendingWork() }
                return content.pending
            }
        }
    }

    private let mailbox = Mailbox()

    /// Creates a loop. It starts no thread yet.
    public init() {}

    deinit { stop() }

    /// Adds `member` to the loop's thread, which starts with the first member.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.unavailable` if the loop has been stopped or can't start.
    public func add(_ member: any NetworkMember) throws(ChappieTransportError) {
        let problem: ChappieTransportError? = mailbox.content.withLock { content in
            if content.isStopping { return .shutDown() }
            if content.watch == nil {
                guard CurlGlobal.isReady else { return .unavailable("libcurl does not start") }
                guard let watch = EpollSet() else {
                    return .tooManyFiles(OpenFileLimit(reachedBy: ccurl_missing_descriptors()))
                }
                guard startThread({ [mailbox] in Self.run(on: watch, with: mailbox) }) else {
                    return .noThread
                }
                content.watch = watch
            }
            content.pending.newcomers.append(member)
            content.ring()
            return nil
        }
        if let problem { throw problem }
    }

    /// Requests a visit to `member`, from any thread. Does nothing if the member isn't on the loop.
    public func wake(_ member: any NetworkMember) {
        mailbox.content.withLock { content in
            content.pending.woken.insert(ObjectIdentifier(member))
            content.ring()
        }
    }

    /// Removes every member and ends the thread. Returns without waiting for that. May be called more than once.
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
            defer { content.pending = LoopWorker.PendingWork() }
            return content.pending.newcomers
        }
        worker.end()
        for member in stranded { member.loopStopped() }
    }
}
