import ChappieAuth
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Runs the blocking keyring calls of one bus, one after the other, on a thread of its own.
///
/// Not on Swift's pool, which has as many threads as there are cores and must never block. The thread starts with the
/// first call and ends when there is nothing left to do.
final class KeyringLane: Sendable {
    typealias Job = @Sendable () -> Void

    private struct State {
        var jobs: [Job] = []
        var isRunning = false
    }

    private static let lanes = Mutex<[String: KeyringLane]>([:])

    private let state = Mutex(State())
    private let keepTime: Duration
    // What the last call has left for the next one, and the context it was made in. Not behind a Mutex, because they belong
    // to the lane's thread: jobs alone touch them, one at a time, and a later thread begins only after an earlier one has
    // said, under the lock of `state`, that it has ended.
    nonisolated(unsafe) private var kept: KeyringConnection?
    nonisolated(unsafe) private var context: ThreadContext?

    /// - Parameter keepTime: How long a connection stays for later calls, from when it was made. Default 2 minutes.
    init(keepTime: Duration = .seconds(120)) { self.keepTime = keepTime }

    /// The lane of the bus at `address`; always the same one, so that a save and what it reads back stay together.
    static func lane(for address: String) -> KeyringLane {
        lanes.withLock { lanes in
            if let lane = lanes[address] { return lane }
            let lane = KeyringLane()
            lanes[address] = lane
            return lane
        }
    }

    /// Runs `work` when its turn comes, and gives it up at the deadline or when the task is cancelled.
    ///
    /// The deadline counts from now, so that waiting for the turn is part of it; the work may ask for another one.
    ///
    /// - Throws: what `work` throws; `timedOut`; `failed` when the task is cancelled.
    func perform<Output: Sendable>(
        within deadline: Duration,
        _ work: @escaping @Sendable (KeyringTurn) throws(CredentialStoreError) -> Output
    ) async throws(CredentialStoreError) -> Output {
        let call = KeyringCall<Output>()
        call.allow(deadline)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                call.await(continuation)
                enqueue {
                    call.run { turn throws(CredentialStoreError) in
                        try self.inContext { () throws(CredentialStoreError) in try work(turn) }
                    }
                }
            }
        } onCancel: {
            call.finish(.failure(.failed("the call was cancelled")))
        }
        return try result.get()
    }

    /// Runs `work` on the connection that an earlier call has left, or on a new one, and leaves it for the next call when
    /// all went well. On the lane's thread only.
    func onConnection<Output>(
        to address: String, _ limits: KeyringLimits, _ turn: KeyringTurn,
        _ work: (SecretServiceSession) throws(CredentialStoreError) -> Output
    ) throws(CredentialStoreError) -> Output {
        if let session = takeKept().map({ SecretServiceSession($0, limits: limits, turn: turn) }) {
            do throws(CredentialStoreError) { return try leave(session, after: work) } catch {
                // The service may have been started anew since, and have forgotten the session.
                guard error.mayBeOfTheConnection, !turn.cancellation.isCancelled else { throw error }
            }
        }
        let session = try SecretServiceSession(address: address, limits: limits, turn: turn)
        letGoInTime()
        return try leave(session, after: work)
    }

    private func leave<Output>(
        _ session: SecretServiceSession, after work: (SecretServiceSession) throws(CredentialStoreError) -> Output
    ) throws(CredentialStoreError) -> Output {
        let output = try work(session)
        kept = session.shared
        return output
    }

    private func takeKept() -> KeyringConnection? {
        defer { kept = nil }
        return kept.flatMap { $0.isUsable(for: keepTime) ? $0 : nil }
    }

    /// Lets go of the connection when its time is over, also when no call comes any more.
    private func letGoInTime() {
        Task.detached { [self] in
            try? await Task.sleep(for: keepTime, clock: .continuous)
            enqueue { [self] in inContext { kept = takeKept() } }
        }
    }

    /// Runs a job under the lane's one context, to which the signals of a connection go that stays between two calls.
    private func inContext<Output, Failure>(_ job: () throws(Failure) -> Output) throws(Failure) -> Output {
        // Not made with the lane: that may come before the library is there.
        let context = context ?? ThreadContext()
        self.context = context
        return try context.run(job)
    }

    private func enqueue(_ job: @escaping Job) {
        let mustStart = state.withLock { state in
            state.jobs.append(job)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart { startThread() }
    }

    private func startThread() {
        let lane = Unmanaged.passRetained(self)
        #if canImport(Darwin)
            var thread: pthread_t?
        #else
            var thread = pthread_t()
        #endif
        let status = pthread_create(&thread, nil, keyringLaneMain, lane.toOpaque())
        guard status != 0 else { return }
        // No thread to be had: the calls stay in the queue for the next one that finds a thread, or time out.
        lane.release()
        state.withLock { $0.isRunning = false }
    }

    fileprivate func drain() {
        while let job = next() { job() }
    }

    private func next() -> Job? {
        state.withLock { state in
            guard state.jobs.isEmpty else { return state.jobs.removeFirst() }
            state.isRunning = false
            return nil
        }
    }
}

extension CredentialStoreError {
    fileprivate var mayBeOfTheConnection: Bool {
        switch self {
        case .absent, .corrupt, .failed: true
        default: false
        }
    }
}

/// The thread's body; a C function, which can't carry a context of its own.
private func keyringLaneMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    pthread_detach(pthread_self())
    Unmanaged<KeyringLane>.fromOpaque(argument).takeRetainedValue().drain()
    return nil
}
