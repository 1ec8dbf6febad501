/// Knows whether the person has locked the login session that this program runs in (the lock screen).
///
/// A complete fake:
/// ```swift
/// struct Unlocked: SessionLock {
///     func state() -> SessionLockState { .unlocked }
/// }
/// ```
public protocol SessionLock: Sendable {
    /// The lock's state now; not remembered, since it changes at any moment.
    ///
    /// - Throws: ``CredentialStoreError`` when there is a login session and its state can't be learnt, which is as good
    ///   as locked: `timedOut` past the adapter's own deadline, `denied`, `failed`. That there is no session is *not* an
    ///   error: ``SessionLockState/noSession(_:)``.
    func state() async throws(CredentialStoreError) -> SessionLockState
}

/// What is known about the lock of a login session.
public enum SessionLockState: Sendable, Hashable {
    /// The lock screen is up.
    case locked
    /// The person is at the session, or could be.
    case unlocked
    /// There is nothing that could be locked (a container, a service, a system without a login manager); why, as the
    /// middle of a sentence.
    case noSession(String)
}
