public import ChappieCore

/// A lock that lets only one process at a time change a slot's credential.
///
/// A refresh token works once. If two processes refresh at the same time, the sign-in is lost. The holder of the lock
/// first reads the store again, and then asks the server.
///
/// The lock belongs to the place where the credential is stored. Every process that can reach the stored credential
/// must be able to reach its lock. A ``SharedCredentialStore`` has its own lock.
///
/// A complete fake:
/// ```swift
/// struct NoLock: CredentialLock {
///     func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
/// }
/// ```
public protocol CredentialLock: Sendable {
    /// Waits until this process has the lock of `slot`, for at most `limit`. If the holder dies, the lock must become
    /// free.
    ///
    /// - Throws: ``CredentialStoreError/busy(_:)`` after `limit`, or ``CredentialStoreError/failed(_:)`` if no lock is
    ///   possible here.
    func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold
}

extension ChappieClock {
    /// Waits until this process has a lock. Calls `isTaken` again after pauses that grow from 5 milliseconds to
    /// `longestPause`, for the last time at `limit` after `start`.
    ///
    /// A loop can be interrupted at any time, unlike a wait in the system.
    ///
    /// - Parameter start: The start of the wait, in ``ChappieClock/elapsed`` time.
    /// - Throws: ``CredentialStoreError/busy(_:)``, ``CredentialStoreError/cancelled``, and the errors of `isTaken`.
    @_spi(ChappieInternals)
    public func waitForLock(
        _ limit: Duration, since start: Duration, pausingAtMost longestPause: Duration = .milliseconds(50),
        _ isTaken: () async throws(CredentialStoreError) -> Bool
    ) async throws(CredentialStoreError) {
        var pause = Duration.milliseconds(5)
        while try await !isTaken() {
            guard elapsed < start + limit else { throw .busy(limit) }
            do {
                try await sleep(for: pause)
            } catch {
                throw .cancelled
            }
            pause = min(pause * 2, longestPause)
        }
    }
}

/// A lock that is held until this object is released.
public final class CredentialLockHold: Sendable {
    private let body: @Sendable () -> Void

    /// - Parameter body: Releases the lock. It is called once.
    public init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    deinit { body() }
}

/// A lock that locks nothing and keeps no notes, for stores that no other process can see.
public struct NoCredentialLock: CredentialLock, CredentialNotes {
    /// Creates the lock.
    public init() {}

    /// Whether ``changeMark(for:)`` only reads memory. It does, because there are no marks.
    public var readsMarksFromMemory: Bool { true }

    /// Returns immediately.
    public func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
}
