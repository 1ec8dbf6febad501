import Synchronization

/// A result that many tasks can wait for.
///
/// A cancelled waiter stops waiting with `CancellationError`. The work continues for the others.
@_spi(ChappieInternals) public final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case pending([Int: CheckedContinuation<Value, any Error>], nextID: Int)
        case fulfilled(Result<Value, any Error>)
    }

    private let state = Mutex(State.pending([:], nextID: 0))

    /// Creates a promise without a result.
    public init() {}

    /// Whether there is a result.
    public var isFulfilled: Bool {
        state.withLock { state in
            if case .fulfilled = state { true } else { false }
        }
    }

    /// Gives `result` to all current and later waiters. Only the first call counts.
    public func fulfil(_ result: Result<Value, any Error>) {
        let waiters = state.withLock { state -> [CheckedContinuation<Value, any Error>] in
            guard case .pending(let waiters, _) = state else { return [] }
            state = .fulfilled(result)
            return waiters.sorted { $0.key < $1.key }.map(\.value)
        }
        for waiter in waiters { waiter.resume(with: result) }
    }

    /// Waits for the result and returns it.
    ///
    /// - Throws: The error of the work, or `CancellationError` as soon as the waiting task is cancelled.
    public func value() async throws -> Value {
        let id = state.withLock { state in
            guard case .pending(let waiters, let id) = state else { return 0 }
            state = .pending(waiters, nextID: id + 1)
            return id
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { wait($0, as: id) }
        } onCancel: {
            leave(id)
        }
    }

    private func wait(_ continuation: CheckedContinuation<Value, any Error>, as id: Int) {
        // The task is marked as cancelled before `leave` runs, and both functions use the state under the lock. So no
        // cancellation is missed.
        let result = state.withLock { state -> Result<Value, any Error>? in
            switch state {
            case .fulfilled(let result): return result
            case .pending where Task.isCancelled: return .failure(CancellationError())
            case .pending(var waiters, let nextID):
                waiters[id] = continuation
                state = .pending(waiters, nextID: nextID)
                return nil
            }
        }
        if let result { continuation.resume(with: result) }
    }

    private func leave(_ id: Int) {
        let waiter = state.withLock { state -> CheckedContinuation<Value, any Error>? in
            guard case .pending(var waiters, let nextID) = state else { return nil }
            defer { state = .pending(waiters, nextID: nextID) }
            return waiters.removeValue(forKey: id)
        }
        waiter?.resume(throwing: CancellationError())
    }
}
