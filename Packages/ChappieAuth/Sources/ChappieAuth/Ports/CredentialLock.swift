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
/// A refresh token works once: two processes that refresh at the same time lose the sign-in. The holder of the lock reads
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

    /// Keeps a few bytes beside the lock, durable when this returns: a sign-out that the store has not carried out yet.
    /// `nil` removes them. Default: does nothing. Where it fails, the sign-out is only as durable as the process.
    func setNote(_ note: [UInt8]?, for slot: CredentialSlot)

    /// The bytes that ``setNote(_:for:)`` kept, by this process or an earlier one. Default: `nil`.
    func note(for slot: CredentialSlot) -> [UInt8]?
}

extension CredentialLock {
    /// Does nothing.
    public func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {}

    /// No note.
    public func note(for slot: CredentialSlot) -> [UInt8]? { nil }
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
    /// No lock.
    public init() {}

    /// Returns at once.
    public func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
}

/// ``CredentialLock`` by flock(2) on an empty file, one for each slot: the system lets go of it when the holder dies.
///
/// The files stay: removing one would let two processes each lock their own. Their names are digests.
public struct FileCredentialLock: CredentialLock {
    private let directory: String?
    private static let maximumNote = 64 << 10
    private let clock: any ChappieClock

    /// - Parameters:
    ///   - directory: the same for all processes that share the credential, and for them alone, however the user has logged
    ///     in; made where it is missing. `nil`, where there is no home directory, makes ``acquire(_:within:)`` fail.
    ///   - clock: for pauses between attempts.
    public init(directory: String?, clock: any ChappieClock = SystemClock()) {
        self.directory = directory
        self.clock = clock
    }

    /// Asks for the lock every few milliseconds, so that the wait can be given up.
    ///
    /// - Throws: ``CredentialStoreError/busy(_:)``, ``CredentialStoreError/failed(_:)``.
    public func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        let descriptor = try lockFile(of: slot)
        // Closes the file however this ends.
        let hold = CredentialLockHold { close(descriptor) }
        let deadline = clock.elapsed + limit
        var pause = Duration.milliseconds(5)
        // Asking again and again can be given up at any moment, which a waiting flock can't.
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let reason = errno
            guard reason == EWOULDBLOCK || reason == EINTR else {
                throw .failed("the lock can't be taken: \(String(cString: strerror(reason)))")
            }
            guard clock.elapsed < deadline else { throw .busy(limit) }
            do { try await clock.sleep(for: pause) } catch { throw .cancelled }
            pause = min(pause * 2, .milliseconds(50))
        }
        return hold
    }

    /// Keeps the note in a file beside the lock's, replaced as a whole.
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

    /// A digest of what names the slot. Two slots with one digest would share a lock, which does no harm.
    private static func name(of slot: CredentialSlot) -> String {
        FNV1a.hexadecimal([slot.service, slot.account, slot.accessGroup ?? ""] + [slot.issuer].compactMap(\.self))
    }
}
