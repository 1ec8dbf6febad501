/// Lets one process at a time change a slot's credential.
///
/// A refresh token works once: two processes that refresh at the same time lose the sign-in. Whoever holds the lock reads
/// the store again, and only then asks the server.
///
/// A complete fake:
/// ```swift
/// struct NoLock: CredentialLock {
///     func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
/// }
/// ```
public protocol CredentialLock: Sendable {
    /// Waits until the lock of `slot` is this process's, `limit` at most. It must be free again when its holder dies.
    ///
    /// - Throws: ``CredentialStoreError/busy(_:)`` past `limit`; ``CredentialStoreError/failed(_:)`` when there can be no
    ///   lock at all.
    func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold
}

/// A lock that is held until it is released or let go of.
public final class CredentialLockHold: Sendable {
    private let body: @Sendable () -> Void

    /// - Parameter body: gives the lock back; called once.
    public init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    deinit { body() }
}

/// No lock: for stores that no other process can see.
public struct NoCredentialLock: CredentialLock {
    public init() {}

    public func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
}
