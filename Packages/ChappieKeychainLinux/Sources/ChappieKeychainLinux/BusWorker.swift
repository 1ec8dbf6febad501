import CSecret
@_spi(ChappieInternals) import ChappieAuth
import Synchronization

/// The blocking calls over one message bus, one after the other, on one thread outside of Swift's pool.
final class BusWorker: Sendable {
    private static let workers = Mutex<[String: BusWorker]>([:])

    private let address: String
    private let worker = StoreWorker(label: "chappie.bus")
    // A kept connection and the context it was made in. Not behind a Mutex, because they belong to the worker: its jobs
    // alone touch them, and it runs one at a time.
    nonisolated(unsafe) private var kept: KeyringConnection?
    nonisolated(unsafe) private var context: ThreadContext?

    /// - Parameter address: The D-Bus address of the bus.
    init(address: String) { self.address = address }

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
            let earlier = kept
            kept = nil
            if let connection = earlier, g_dbus_connection_is_closed(connection.bus.pointer) == 0 {
                do { return try run(on: connection) } catch {
                    // The service may have been started anew since, and have forgotten the session.
                    switch CredentialStoreError(error, deadline: limits.work) {
                    case .absent, .corrupt, .failed: if cancellation.isCancelled { throw error }
                    default: throw error
                    }
                }
            }
            return try run(on: KeyringConnection(address: address, cancellation))
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
