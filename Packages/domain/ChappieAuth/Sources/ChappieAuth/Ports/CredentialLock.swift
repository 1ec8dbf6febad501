@_spi(ChappieInternals) public import ChappieCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Lets one process at a time change a slot's credential.
///
/// A refresh token works once: if two processes refresh at the same time, the sign-in is lost. The holder of the lock
/// reads the store again, and only then asks the server.
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

    /// Keeps a few bytes beside the lock, which are durable when this returns: a sign-out that the store has not
    /// carried out yet. `nil` removes them. Default: does nothing. If it fails, the sign-out is lost when the process
    /// ends.
    func setNote(_ note: [UInt8]?, for slot: CredentialSlot)

    /// The bytes that ``setNote(_:for:)`` kept, by this process or an earlier one. Default: `nil`.
    func note(for slot: CredentialSlot) -> [UInt8]?
}

extension CredentialLock {
    /// Does nothing.
    public func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {}

    /// Returns `nil`.
    public func note(for slot: CredentialSlot) -> [UInt8]? { nil }
}

/// A lock that is held until this object is released.
public final class CredentialLockHold: Sendable {
    private let body: @Sendable () -> Void

    /// - Parameter body: Releases the lock; called once.
    public init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    deinit { body() }
}

/// Locks nothing: for stores that no other process can see.
public struct NoCredentialLock: CredentialLock {
    /// Makes the lock.
    public init() {}

    /// Returns at once.
    public func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
}

/// ``CredentialLock`` by flock(2) on an empty file, one for each slot: the system releases the lock when its holder
/// dies.
///
/// The files are never removed: otherwise two processes could each lock a file of their own. Their names are digests.
public struct FileCredentialLock: CredentialLock {
    private let directory: String?
    private static let maximumNote = 64 << 10
    private let clock: any ChappieClock

    /// - Parameters:
    ///   - directory: The same for all processes that share the credential, and for no others, however the user has
    ///     logged in. It is made if it is missing. `nil`, for a user without a home directory, makes
    ///     ``acquire(_:within:)`` fail.
    ///   - clock: For pauses between attempts.
    public init(directory: String?, clock: any ChappieClock = SystemClock()) {
        self.directory = directory
        self.clock = clock
    }

    /// Asks for the lock every few milliseconds, so that the caller can stop waiting.
    ///
    /// - Throws: ``CredentialStoreError/busy(_:)``, ``CredentialStoreError/failed(_:)``.
    public func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        let descriptor = try lockFile(of: slot)
        // The file is closed however this ends.
        let hold = CredentialLockHold { close(descriptor) }
        let deadline = clock.elapsed + limit
        var pause = Duration.milliseconds(5)
        // A loop can be interrupted at any time, which a waiting flock can't.
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let reason = errno
            guard reason == EWOULDBLOCK || reason == EINTR else {
                throw .failed("the lock can't be taken: \(String(cString: strerror(reason)))")
            }
            guard clock.elapsed < deadline else { throw .busy(limit) }
            do {
                try await clock.sleep(for: pause)
            } catch {
                throw .cancelled
            }
            pause = min(pause * 2, .milliseconds(50))
        }
        return hold
    }

    /// Keeps the note in a file beside the lock file, and replaces it as a whole.
    public func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {
        guard let path = try? path(of: slot, "signed-out") else { return }
        guard let note else {
            unlink(path)
            return
        }
        makeFolder(of: path)
        let new = path + ".new"
        let descriptor = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let isWritten = note.withUnsafeBytes { writeAll($0, to: descriptor) == 0 } && fsync(descriptor) == 0
        if isWritten { rename(new, path) } else { unlink(new) }
    }

    /// Reads the file that ``setNote(_:for:)`` wrote.
    public func note(for slot: CredentialSlot) -> [UInt8]? {
        guard let path = try? path(of: slot, "signed-out") else { return nil }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var note = [UInt8](repeating: 0, count: Self.maximumNote)
        let count = note.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
        return count > 0 ? Array(note.prefix(count)) : nil
    }

    private func path(of slot: CredentialSlot, _ suffix: String) throws(CredentialStoreError) -> String {
        guard let directory, directory.hasPrefix("/") else {
            throw .failed("there is no home directory for its lock file")
        }
        return "\(directory)/\(Self.name(of: slot)).\(suffix)"
    }

    private func makeFolder(of path: String) {
        var folder = ""
        for part in path.split(separator: "/").dropLast() {
            folder += "/" + part
            mkdir(folder, 0o700)
        }
    }

    private func lockFile(of slot: CredentialSlot) throws(CredentialStoreError) -> CInt {
        let path = try path(of: slot, "lock")
        makeFolder(of: path)
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw .failed("its lock file \(path) can't be opened: \(String(cString: strerror(errno)))")
        }
        return descriptor
    }

    /// A digest of the slot's names. If two slots have the same digest they share a lock, which does no harm.
    private static func name(of slot: CredentialSlot) -> String {
        FNV1a.hexadecimal([slot.service, slot.account, slot.accessGroup ?? ""] + [slot.issuer].compactMap(\.self))
    }
}
