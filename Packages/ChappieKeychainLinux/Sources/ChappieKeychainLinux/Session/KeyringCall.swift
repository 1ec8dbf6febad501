import ChappieAuth
import Synchronization

/// One keyring call between the task that awaits it and the thread that works on it: the first end counts.
final class KeyringCall<Output: Sendable>: Sendable {
    typealias Outcome = Result<Output, CredentialStoreError>

    private struct State {
        var continuation: CheckedContinuation<Outcome, Never>?
        var cancellation: Cancellation?
        var timer: Task<Void, Never>?
        var outcome: Outcome?
    }

    private let state = Mutex(State())

    /// Resumes `continuation` with the outcome, at once when there is one already.
    func await(_ continuation: CheckedContinuation<Outcome, Never>) {
        let outcome = state.withLock { state in
            if state.outcome == nil { state.continuation = continuation }
            return state.outcome
        }
        if let outcome { continuation.resume(returning: outcome) }
    }

    /// Gives the call `limit` from now on, in place of what was left of its time.
    func allow(_ limit: Duration) {
        let timer = Task.detached {
            // A sleep that was cut short means that the call is over, or was given another limit.
            guard (try? await Task.sleep(for: limit, clock: .continuous)) != nil else { return }
            self.finish(.failure(.timedOut(limit)))
        }
        let superseded = state.withLock { state in
            guard state.outcome == nil else { return timer as Task<Void, Never>? }
            defer { state.timer = timer }
            return state.timer
        }
        superseded?.cancel()
    }

    /// Works, unless the call is over before its turn came. On the lane's thread only.
    func run(_ work: (KeyringTurn) throws(CredentialStoreError) -> Output) {
        do throws(CredentialStoreError) {
            try SecretLibrary.require()
            let cancellation = Cancellation()
            guard begin(cancellation) else { return }
            finish(.success(try work(KeyringTurn(cancellation: cancellation) { self.allow($0) })))
        } catch {
            finish(.failure(error))
        }
    }

    /// Ends the call with `outcome`, and the work with it; does nothing after the first time.
    func finish(_ outcome: Outcome) {
        let ended = state.withLock { state in
            guard state.outcome == nil else { return nil as State? }
            let ended = state
            state = State(outcome: outcome)
            return ended
        }
        guard let ended else { return }
        ended.timer?.cancel()
        // Outside of the lock: cancelling runs the library's own handlers.
        ended.cancellation?.cancel()
        ended.continuation?.resume(returning: outcome)
    }

    private func begin(_ cancellation: Cancellation) -> Bool {
        state.withLock { state in
            guard state.outcome == nil else { return false }
            state.cancellation = cancellation
            return true
        }
    }
}
