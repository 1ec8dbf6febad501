import ChappieAuth
import Synchronization

/// One call between the task that awaits it and whoever works on it: the first end counts.
final class PendingCall<Output: Sendable>: Sendable {
    typealias Outcome = Result<Output, CredentialStoreError>

    private struct State {
        var continuation: CheckedContinuation<Outcome, Never>?
        var outcome: Outcome?
    }

    private let state = Mutex(State())

    /// Whether nobody waits for the outcome any more.
    var isOver: Bool { state.withLock { $0.outcome != nil } }

    /// Starts the work and waits for its outcome.
    ///
    /// - Throws: what ``finish(_:)`` is given; `failed` at once when the task is cancelled.
    func outcome(of start: () -> Void) async throws(CredentialStoreError) -> Output {
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let outcome = state.withLock { state in
                    if state.outcome == nil { state.continuation = continuation }
                    return state.outcome
                }
                if let outcome { continuation.resume(returning: outcome) } else { start() }
            }
        } onCancel: {
            finish(.failure(.cancelled))
        }
        return try result.get()
    }

    /// Ends the call; does nothing after the first time.
    func finish(_ outcome: Outcome) {
        let continuation = state.withLock { state -> CheckedContinuation<Outcome, Never>? in
            guard state.outcome == nil else { return nil }
            state.outcome = outcome
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume(returning: outcome)
    }
}

extension CredentialStoreError {
    static let cancelled = CredentialStoreError.failed("the call was cancelled")
}
