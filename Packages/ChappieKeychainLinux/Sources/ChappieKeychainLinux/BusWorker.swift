import CSecret
@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import Synchronization

/// The blocking calls over one message bus, one after the other, on one thread outside of Swift's pool.
final class BusWorker: Sendable {
    private static let workers = Mutex<[String: BusWorker]>([:])

    private let address: String
    private let keepTime: Duration
    private let clock: any ChappieClock
    private let worker: StoreWorker
    // A kept connection and the context it was made in. Not behind a Mutex, because they belong to the worker: its jobs
    // alone touch them, and it runs one at a time.
    nonisolated(unsafe) private var kept: KeyringConnection?
    nonisolated(unsafe) private var context: ThreadContext?

    /// - Parameters:
    ///   - address: The D-Bus address of the bus.
    ///   - keepTime: How long a connection stays for later calls, from when it was made. Default 2 minutes.
    init(address: String, keepTime: Duration = .seconds(120), clock: any ChappieClock = SystemClock()) {
        self.address = address
        self.keepTime = keepTime
        self.clock = clock
        worker = StoreWorker(label: "chappie.bus", clock: clock)
    }

    /// The worker of the bus at `address`; always the same one, so that a save and the look-up that checks it stay
    /// together.
    static func worker(for address: String) -> BusWorker {
        workers.withLock { workers in
            let worker = workers[address] ?? BusWorker(address: address)
            workers[address] = worker
            return worker
        }
    }

    /// Runs `work` when its turn comes, and cancels it at the deadline or with the task.
    ///
    /// - Throws: The errors of `work`, a ``LibraryFault`` as what it means; `absent` when libsecret is missing;
    ///   `timedOut`; `failed` when the task is cancelled.
    func perform<Output: Sendable>(
        within deadline: Duration, _ work: @escaping @Sendable (StoreCall, Cancellation) throws -> Output
    ) async throws(CredentialStoreError) -> Output {
        try await worker.perform(within: deadline) { [self] call throws(CredentialStoreError) in
            try SecretLibrary.require()
            let context = context ?? ThreadContext()
            self.context = context
            let cancellation = Cancellation(of: context)
            call.onEnd { cancellation.cancel() }
            do {
                return try context.run { try work(call, cancellation) }
            } catch {
                throw CredentialStoreError(error, deadline: deadline)
            }
        }
    }

    /// Runs `work` in a session with the keyring service: on the connection that an earlier call has left, or on a new
    /// one, which is left for the next call when all went well.
    func inSession<Output: Sendable>(
        _ limits: KeyringLimits, _ work: @escaping @Sendable (KeyringSession) throws -> Output
    ) async throws(CredentialStoreError) -> Output {
        try await perform(within: limits.work) { [self] call, cancellation in
            func run(on connection: KeyringConnection) throws -> Output {
                let output = try work(KeyringSession(connection, limits, call, cancellation))
                kept = connection
                return output
            }
            if let connection = takeKept() {
                do { return try run(on: connection) } catch {
                    // The service may have been started anew since, and have forgotten the session.
                    switch CredentialStoreError(error, deadline: limits.work) {
                    case .absent, .corrupt, .failed: if cancellation.isCancelled { throw error }
                    default: throw error
                    }
                }
            }
            let connection = try KeyringConnection(address: address, madeAt: clock.elapsed, cancellation)
            letGoInTime()
            return try run(on: connection)
        }
    }

    /// The kept connection, if it is worth trying; only a call can tell what has become of the service meanwhile.
    private func takeKept() -> KeyringConnection? {
        defer { kept = nil }
        return kept.flatMap { connection in
            let isOpen = g_dbus_connection_is_closed(connection.bus.pointer) == 0
            return isOpen && clock.elapsed - connection.madeAt < keepTime ? connection : nil
        }
    }

    /// Closes the connection when its time is over, also when no call comes any more.
    private func letGoInTime() {
        Task.detached { [self] in
            try? await clock.sleep(for: keepTime)
            worker.enqueue { [self] in context?.run { kept = takeKept() } }
        }
    }
}

extension CredentialStoreError {
    /// What an error of a job means to its caller.
    fileprivate init(_ error: any Error, deadline: Duration) {
        self =
            switch error {
            case let fault as LibraryFault: fault.meaning(deadline: deadline)
            case let error as CredentialStoreError: error
            default: .failed("\(error)")
            }
    }
}
