public import ChappieCore

/// Lets one process at a time change a slot's credential.
///
/// A refresh token works once: if two processes refresh at the same time, the sign-in is lost. The holder of the lock
/// reads the store again, and only then asks the server.
///
/// The lock belongs to the place of the credential: every process that can reach the stored credential must be able to
/// reach its lock. A ``SharedCredentialStore`` brings its own.
///
/// A complete fake:
/// ```swift
/// struct NoLock: CredentialLock {
///     func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
/// }
/// ```
public protocol CredentialLock: Sendable {
    /// Waits until this process has the lock of `slot`, `limit` at most. If its holder dies, the lock must become free.
    ///
    /// - Throws: ``CredentialStoreError/busy(_:)`` past `limit`; ``CredentialStoreError/failed(_:)`` if no lock is
    ///   possible here.
    func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold
}

extension ChappieClock {
    /// Asks every few milliseconds whether a lock has become this process's, `limit` after `start` for the last time.
    ///
    /// A loop can be interrupted at any time, which a wait in the system can't.
    ///
    /// - Parameter start: In ``ChappieClock/elapsed`` time.
    /// - Throws: ``CredentialStoreError/busy(_:)``; ``CredentialStoreError/cancelled``; the errors of `isTaken`.
    @_spi(ChappieInternals)
    public func waitForLock(
        _ limit: Duration, since start: Duration, _ isTaken: () async throws(CredentialStoreError) -> Bool
    ) async throws(CredentialStoreError) {
        var pause = Duration.milliseconds(5)
        while try await !isTaken() {
            guard elapsed < start + limit else { throw .busy(limit) }
            do {
                try await sleep(for: pause)
            } catch {
                throw .cancelled
            }
            pause = min(pause * 2, .milliseconds(50))
        }
    }
}

/// A lock that is held until this object is released.
public final class CredentialLockHold: Sendable {
    private let body: @Sendable () -> Void

    /// - Parameter body: Releases the lock; called once.
    public init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    deinit { body() }
}

/// Locks nothing and keeps no notes: for stores that no other process can see.
public struct NoCredentialLock: CredentialLock, CredentialNotes {
    /// Creates the lock.
    public init() {}

    /// Returns at once.
    public func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
}
