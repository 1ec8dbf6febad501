@_spi(ChappieInternals) package import ChappieCore
import Dispatch
import Synchronization

/// A small number of connections that many tasks share. If none is free, a task waits. The tasks get connections in the
/// order of their calls.
final class PostgresPool: Sendable {
    private struct State {
        /// The idle workers. The one at the end was used most recently.
        var idle: [(worker: PostgresWorker, since: ContinuousClock.Instant)]
        /// The tasks that wait for a worker. The first one has waited longest.
        var waiters: [(promise: Promise<PostgresWorker>, since: ContinuousClock.Instant)] = []
        /// Whether a task waits to close connections.
        var isSweeping = false
        /// Whether the pool accepts no more work.
        var isClosed = false
        /// The tasks that wait until all work has ended.
        var closers: [Promise<Void>] = []
    }

    /// The connections and the tasks that use them, at one moment.
    struct Load {
        let open: Int
        let inUse: Int
        let waiting: Int
        let longestWait: Duration?
    }

    /// All workers, which open a connection when it is needed.
    let workers: [PostgresWorker]
    private let state: Mutex<State>
    private let idleTimeout: Duration
    private let observer: (any ChappieObserver)?

    init(of count: Int, idleTimeout: Duration, observer: (any ChappieObserver)? = nil, _ make: () -> PostgresWorker) {
        self.idleTimeout = idleTimeout
        self.observer = observer
        workers = (0..<max(count, 1)).map { _ in make() }
        state = Mutex(State(idle: workers.map { ($0, .now) }))
    }

    /// Takes a worker from the pool. The caller must return it with ``give(_:)``.
    ///
    /// - Throws: `refused` after ``close()``, and `cancelled` if the task is cancelled while it waits.
    func take() async throws(PostgresFailure) -> PostgresWorker {
        let promise = Promise<PostgresWorker>()
        let (idle, isClosed) = state.withLock { state -> (PostgresWorker?, Bool) in
            guard !state.isClosed else { return (nil, true) }
            // The worker that finished most recently most likely still has its connection.
            let idle = state.idle.popLast()?.worker
            if idle == nil { state.waiters.append((promise, .now)) }
            return (idle, false)
        }
        guard !isClosed else { throw .refused(.closed) }
        if let idle {
            observer?.happened(.postgresPoolAwaited(.zero))
            observer?.happened(.postgresConnections(.used, change: 1))
            return idle
        }
        let start = ContinuousClock.now
        do {
            let worker = try await promise.value()
            observer?.happened(.postgresPoolAwaited(.now - start))
            observer?.happened(.postgresConnections(.used, change: 1))
            return worker
        } catch {
            let wasWaiting = state.withLock { state in
                let count = state.waiters.count
                state.waiters.removeAll { $0.promise === promise }
                return state.waiters.count < count
            }
            // If this task was given a worker at the same moment, the next task gets the worker.
            if !wasWaiting { Task { if let worker = try? await promise.value() { self.putBack(worker) } } }
            throw .cancelled
        }
    }

    /// Returns a worker to the pool, after it was taken.
    func give(_ worker: PostgresWorker) {
        observer?.happened(.postgresConnections(.used, change: -1))
        putBack(worker)
    }

    private func putBack(_ worker: PostgresWorker) {
        let (waiter, closers) = state.withLock { state -> (Promise<PostgresWorker>?, [Promise<Void>]) in
            guard state.waiters.isEmpty else { return (state.waiters.removeFirst().promise, []) }
            state.idle.append((worker, .now))
            return (nil, state.idle.count == workers.count ? state.closers : [])
        }
        if let waiter { waiter.fulfil(.success(worker)) } else { sweepLater() }
        for closer in closers { closer.fulfil(.success(())) }
    }

    /// Refuses further calls, waits for those that run or wait, and closes the connections.
    func close() async {
        let end = Promise<Void>()
        let isIdle = state.withLock { state in
            state.isClosed = true
            if state.idle.count < workers.count { state.closers.append(end) }
            return state.idle.count == workers.count
        }
        if !isIdle { await uncancelled { try? await end.value() } }
        for worker in workers { await worker.close() }
    }

    /// Returns the load at this moment.
    func load(now: ContinuousClock.Instant) -> Load {
        state.withLock { state in
            Load(
                open: workers.count(where: \.isConnected), inUse: workers.count - state.idle.count,
                waiting: state.waiters.count, longestWait: state.waiters.first.map { now - $0.since })
        }
    }

    /// Closes connections when they have been idle long enough. One task does this for all connections, and ends when
    /// no connection is left.
    private func sweepLater() {
        let isNeeded = state.withLock { state in
            defer { state.isSweeping = true }
            return !state.isSweeping
        }
        guard isNeeded else { return }
        Task { [weak self, idleTimeout] in
            var pause: Duration? = idleTimeout
            while let rest = pause {
                try? await Task.sleep(for: rest)
                pause = await self?.closeIdle(now: .now)
            }
        }
    }

    /// Closes the connections that have been idle long enough.
    ///
    /// - Returns: The time until the next connection is due, or `nil` if there is none.
    private func closeIdle(now: ContinuousClock.Instant) async -> Duration? {
        // If a call takes one of these workers in the meantime, it opens the connection again.
        for (worker, since) in state.withLock(\.idle) where now - since >= idleTimeout { await worker.close() }
        return state.withLock { state in
            let next = state.idle.filter(\.worker.isConnected).map { $0.since + idleTimeout - now }.min()
            state.isSweeping = next != nil
            return next.map { max($0, .milliseconds(1)) }
        }
    }
}

/// A connection of a pool, and the thread on which its calls block. The threads of Swift's tasks never wait for the
/// server.
package final class PostgresWorker: Sendable {
    private let queue = DispatchQueue(label: "chappie.postgres")
    /// The connection. It is `nil` before the first use, after a failure, and after a time without use. It is used on
    /// the queue, and locked for the duration of a call.
    private let connection = Mutex<PostgresConnection?>(nil)
    private let hasConnection = Atomic(false)
    private let observer: (any ChappieObserver)?
    private let open: @Sendable (PostgresInterruption) throws(PostgresFailure) -> PostgresConnection

    package init(
        observer: (any ChappieObserver)? = nil,
        open: @escaping @Sendable (PostgresInterruption) throws(PostgresFailure) -> PostgresConnection
    ) {
        self.observer = observer
        self.open = open
    }

    /// Whether there is a connection.
    var isConnected: Bool { hasConnection.load(ordering: .relaxed) }

    /// Closes the connection. The next call opens another one.
    func close() async {
        await queue.run {
            self.connection.withLock { $0 = nil }
            self.becomesConnected(false)
        }
    }

    private func becomesConnected(_ isConnected: Bool) {
        guard hasConnection.exchange(isConnected, ordering: .relaxed) != isConnected else { return }
        observer?.happened(.postgresConnections(.open, change: isConnected ? 1 : -1))
    }

    /// Runs `work` with the connection, or with a new one if there is none. Drops the connection if the work fails.
    ///
    /// - Parameter isInterruptible: Whether a cancellation of the task ends the work.
    package func run<Value: Sendable>(
        isInterruptible: Bool = true,
        _ work: @escaping @Sendable (PostgresConnection) throws(PostgresFailure) -> Value
    ) async throws(PostgresFailure) -> Value {
        let interruption = PostgresInterruption()
        let result = await withTaskCancellationHandler {
            await queue.run { self.result(of: work, interruption) }
        } onCancel: {
            if isInterruptible { interruption.cancel() }
        }
        return try result.get()
    }

    private func result<Value: Sendable>(
        of work: @Sendable (PostgresConnection) throws(PostgresFailure) -> Value, _ interruption: PostgresInterruption
    ) -> Result<Value, PostgresFailure> {
        connection.withLock { kept in
            defer { becomesConnected(kept != nil) }
            do throws(PostgresFailure) {
                let connection = if let kept { kept } else { try open(interruption) }
                becomesConnected(true)
                kept = nil
                connection.interruption = interruption
                do throws(PostgresFailure) {
                    let value = try work(connection)
                    kept = connection
                    return .success(value)
                } catch {
                    if case .answer = error { kept = connection }
                    return .failure(error)
                }
            } catch {
                return .failure(error)
            }
        }
    }
}

/// The rules that decide whether failed work is tried again, and when. They have no clock. The caller passes the times.
struct PostgresRetries {
    /// The times for which the database tries to connect, and for which it asks for the outcome of a COMMIT.
    let reconnecting: Duration
    let findingOut: Duration
    /// The time at which the call began.
    let began: ContinuousClock.Instant

    /// Whether an earlier attempt may have been committed.
    private(set) var isUncertain = false
    /// Whether the tables must first be created or changed.
    private(set) var wantsMigration = false
    /// Whether the tables may be created or changed. It is `false` after that was tried.
    private var mayMigrate: Bool
    private var collisions = 0
    private var pauses = 0
    /// The time at which the attempts end. It is set at the first failure.
    private var deadline: ContinuousClock.Instant?

    init(reconnecting: Duration, findingOut: Duration, began: ContinuousClock.Instant, migrates: Bool = true) {
        self.reconnecting = reconnecting
        self.findingOut = findingOut
        self.began = began
        mayMigrate = migrates
    }

    mutating func migrated() {
        wantsMigration = false
        mayMigrate = false
    }

    /// Returns the time to wait before the next attempt, or `nil` if there must be no further attempt.
    ///
    /// - Parameter jitter: A number between 0 and 1, which prevents two colliding transactions from colliding again.
    mutating func pause(
        after failure: PostgresFailure, now: ContinuousClock.Instant, jitter: Double
    ) -> Duration? {
        switch failure {
        case .answer, .refused, .late, .cancelled: return nil
        case .outdated:
            guard mayMigrate, !wantsMigration else { return nil }
            wantsMigration = true
            return .zero
        case .contended:
            collisions += 1
            return collisions <= 8 ? .milliseconds(5 << collisions) * jitter : nil
        case .unreachable: return backoff(now, until: deadline ?? began + reconnecting)
        case .lost: return backoff(now, until: deadline ?? now + reconnecting)
        case .uncertain:
            if !isUncertain { deadline = nil }
            isUncertain = true
            return backoff(now, until: deadline ?? now + findingOut)
        }
    }

    private mutating func backoff(_ now: ContinuousClock.Instant, until end: ContinuousClock.Instant) -> Duration? {
        deadline = end
        guard now < end else { return nil }
        pauses += 1
        return min(.milliseconds(10 << min(pauses, 7)), .seconds(1))
    }
}
