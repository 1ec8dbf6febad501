import CSecret
@_spi(ChappieInternals) import ChappieAuth
import Synchronization

/// A worker that makes the blocking calls over one message bus, one after the other, on one thread outside Swift's
/// pool.
final class BusWorker: Sendable {
    private static let workers = Mutex<[String: BusWorker]>([:])

    private let address: String
    private let worker = StoreWorker(label: "chappie.bus")
    // The connection that the last call left, and the context in which it was made. They need no Mutex, because only
    // the worker's jobs access them, and the worker runs one job at a time.
    nonisolated(unsafe) private var kept: KeyringConnection?
    nonisolated(unsafe) private var context: ThreadContext?

    /// Creates a worker.
    ///
    /// - Parameter address: The D-Bus address of the bus.
    init(address: String) { self.address = address }

    /// Returns the worker of the bus at `address`. All callers share it, so that no other call runs between a save and
    /// the search that checks it.
    static func worker(for address: String) -> BusWorker {
        workers.withLock { workers in
            let worker = workers[address] ?? BusWorker(address: address)
            workers[address] = worker
            return worker
        }
    }

    /// Runs `work` in turn, and cancels it at the deadline or when the task is cancelled.
    ///
    /// - Throws: The errors of `work`, with each ``LibraryError`` translated by its meaning, `absent` if libsecret is
    ///   missing, `timedOut`, and `failed` if the task is cancelled.
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

    /// Runs `work` after all waiting calls. No caller waits for it.
    func enqueue(_ work: @escaping @Sendable () -> Void) { worker.enqueue(work) }

    /// Runs `work` in a session with the keyring service. Uses the connection that an earlier call left, or a new one,
    /// and leaves the connection for the next call if `work` succeeds. A failure that may be due to the session is
    /// reported only if it happens again in another session, so `work` must allow repetition.
    func inSession<Output: Sendable>(
        _ limits: KeyringLimits, _ work: @escaping @Sendable (KeyringSession) throws -> Output
    ) async throws(CredentialStoreError) -> Output {
        try await perform(within: limits.work) { [self] call, cancellation in
            func run(on connection: KeyringConnection) throws -> Output {
                let output = try work(KeyringSession(connection, limits, call, cancellation))
                kept = connection
                return output
            }
            let earlier = kept
            kept = nil
            if let connection = earlier, g_dbus_connection_is_closed(connection.bus.pointer) == 0 {
                do {
                    return try run(on: connection)
                } catch {
                    // The service may have restarted since then, and have lost the session.
                    let reason = CredentialStoreError(error, deadline: limits.work)
                    let hasGone = if case .absent = reason { true } else { false }
                    guard hasGone || reason.mayBeOfTheSession, !cancellation.isCancelled else { throw error }
                }
            }
            do {
                return try run(on: KeyringConnection(address: address, cancellation))
            } catch {
                // KWallet accepts no key that begins with a zero byte, and misreads data that is encrypted with one.
                // One of 128 sessions has such a key.
                let reason = CredentialStoreError(error, deadline: limits.work)
                guard reason.mayBeOfTheSession, !cancellation.isCancelled else { throw error }
                return try run(on: KeyringConnection(address: address, cancellation))
            }
        }
    }
}

extension CredentialStoreError {
    /// Whether the keys of one session with the keyring service may be the reason.
    fileprivate var mayBeOfTheSession: Bool {
        switch self {
        case .corrupt, .notVerified, .failed: true
        default: false
        }
    }

    /// Creates the error of a job, in the form for its caller.
    fileprivate init(_ error: any Error, deadline: Duration) {
        self =
            switch error {
            case let fault as LibraryError: fault.meaning(deadline: deadline)
            case let error as CredentialStoreError: error
            default: .failed("\(error)")
            }
    }
}
