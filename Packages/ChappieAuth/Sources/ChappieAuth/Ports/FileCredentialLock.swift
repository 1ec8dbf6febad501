public import ChappieCore
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// ``CredentialLock`` by flock(2) on an empty file, one for each slot. The system lets go of it when the holder dies,
/// however it dies.
///
/// The files stay: removing one would let two processes each lock their own. They hold nothing, and their names are
/// digests.
public struct FileCredentialLock: CredentialLock {
    private let directory: String?
    private let clock: any ChappieClock

    /// - Parameters:
    ///   - directory: the same for all processes that share the credential, and for them alone. Default
    ///     `$XDG_STATE_HOME/chappie/locks`, `~/.local/state/chappie/locks` without that variable: it must not depend on
    ///     how the person has logged in, as the run-time directory does.
    ///   - clock: for the waiting.
    public init(directory: String? = nil, clock: any ChappieClock = SystemClock()) {
        self.directory = directory ?? Self.defaultDirectory
        self.clock = clock
    }

    public func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        let descriptor = try lockFile(of: slot)
        let deadline = clock.elapsed + limit
        var pause = Duration.milliseconds(5)
        // Asking again and again can be given up at any moment, which a waiting flock can't.
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let reason = errno
            guard reason == EWOULDBLOCK || reason == EINTR else {
                close(descriptor)
                throw .failed("the lock can't be taken: \(String(cString: strerror(reason)))")
            }
            guard clock.elapsed < deadline else {
                close(descriptor)
                throw .busy(limit)
            }
            do { try await clock.sleep(for: pause) } catch {
                close(descriptor)
                throw .failed("the call was cancelled")
            }
            pause = min(pause * 2, .milliseconds(50))
        }
        return CredentialLockHold { close(descriptor) }
    }

    private func lockFile(of slot: CredentialSlot) throws(CredentialStoreError) -> CInt {
        guard let directory, directory.hasPrefix("/") else {
            throw .failed("there is no home directory for its lock file")
        }
        var path = ""
        for part in directory.split(separator: "/") {
            path += "/" + part
            mkdir(path, 0o700)
        }
        path += "/" + Self.name(of: slot)
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw .failed("its lock file \(path) can't be opened: \(String(cString: strerror(errno)))")
        }
        return descriptor
    }

    /// FNV-1a of what names the slot. Two slots with one digest would share a lock, which does no harm.
    private static func name(of slot: CredentialSlot) -> String {
        var digest: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in ([slot.service, slot.account, slot.accessGroup ?? ""] + (slot.issuer.map { [$0] } ?? [])).joined(
            separator: "\0"
        ).utf8 {
            digest = (digest ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        let text = String(digest, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text + ".lock"
    }

    private static var defaultDirectory: String? {
        let environment = ProcessInfo.processInfo.environment
        if let state = environment["XDG_STATE_HOME"], state.hasPrefix("/") { return state + "/chappie/locks" }
        return environment["HOME"].flatMap { $0.isEmpty ? nil : $0 + "/.local/state/chappie/locks" }
    }
}
