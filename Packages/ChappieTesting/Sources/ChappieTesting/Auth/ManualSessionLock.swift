public import ChappieAuth
import Synchronization

/// ``SessionLock`` whose state is what a test has set last.
public final class ManualSessionLock: SessionLock {
    private let answer: Mutex<Result<SessionLockState, CredentialStoreError>>

    /// A session that is locked, or not.
    public init(_ state: SessionLockState = .unlocked) { answer = Mutex(.success(state)) }

    /// Every question from now on is answered with `state`.
    public func set(_ state: SessionLockState) { answer.withLock { $0 = .success(state) } }

    /// Every question from now on fails with `error`.
    public func fail(with error: CredentialStoreError) { answer.withLock { $0 = .failure(error) } }

    public func state() async throws(CredentialStoreError) -> SessionLockState { try answer.withLock { $0 }.get() }
}
