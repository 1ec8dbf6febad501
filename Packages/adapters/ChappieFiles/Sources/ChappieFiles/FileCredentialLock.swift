@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A ``CredentialLock`` that uses flock(2) on one file for each slot. The system releases the lock when its holder
/// dies. The type also implements ``CredentialNotes``. The lock file contains the mark of the last change, and a second
/// file contains the note.
///
/// The files are never removed, since otherwise two processes could each lock a different file. Their names are
/// digests.
public struct FileCredentialLock: CredentialLock, CredentialNotes {
    private let directory: String?
    private static let maximumNote = 64 << 10
    private static let markLength = 16
    /// The worker for the files, since a home folder on a network may not answer.
    private static let worker = StoreWorker(label: "chappie.credential-locks")
    private static let fileDeadline = Duration.seconds(10)
    private let clock: any ChappieClock

    /// Creates a lock.
    ///
    /// - Parameters:
    ///   - directory: The folder of the files. It must be the same for all processes that share the credential, however
    ///     the user has logged in, and different for all others. It is made if it is missing. `nil`, for a user without
    ///     a home directory, makes ``acquire(_:within:)`` fail.
    ///   - clock: The clock for pauses between attempts.
    public init(directory: String?, clock: any ChappieClock = SystemClock()) {
        self.directory = directory
        self.clock = clock
    }

    /// Acquires the lock. Tries every few milliseconds, so that the caller can stop waiting.
    ///
    /// - Throws: ``CredentialStoreError/busy(_:)``, ``CredentialStoreError/failed(_:)``.
    public func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        let start = clock.elapsed
        let file = try await Self.worker.perform(within: Self.fileDeadline) { _ throws(CredentialStoreError) in
            try lockFile(of: slot)
        }
        try await clock.waitForLock(limit, since: start) { () throws(CredentialStoreError) in try await locks(file) }
        // Closing the file releases the lock.
        return CredentialLockHold { withExtendedLifetime(file) {} }
    }

    /// Tries to lock the file. Returns whether this succeeded.
    private func locks(_ file: Descriptor) async throws(CredentialStoreError) -> Bool {
        try await Self.worker.perform(within: Self.fileDeadline) { _ throws(CredentialStoreError) in
            do {
                return try file.lockIfFree()
            } catch {
                // Without a lock, two programs would use up one refresh token, which ends the sign-in.
                throw .unusableFolder(
                    "the file system of \(directory ?? "") has no locks: \(error)",
                    remedy: "Set XDG_DATA_HOME and XDG_STATE_HOME to folders on a file system that has locks.")
            }
        }
    }

    /// Stores the note in a file next to the lock file. The file is replaced in one step.
    public func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {
        guard let path = try? path(of: slot, "signed-out") else { return }
        if let note { try? PrivateFile.replace(path, with: note) } else { PrivateFile.remove(path) }
    }

    /// Reads the note that ``setNote(_:for:)`` wrote.
    public func note(for slot: CredentialSlot) -> [UInt8]? {
        guard let path = try? path(of: slot, "signed-out") else { return nil }
        let note = try? WholeFile.contents(of: path, limit: Self.maximumNote)
        return note?.isEmpty == false ? note : nil
    }

    /// Writes a new mark to the lock file.
    public func announceChange(of slot: CredentialSlot) -> [UInt8]? {
        guard let file = try? lockFile(of: slot) else { return nil }
        // The mark has a constant length, so that no reader sees only a part of it.
        let mark = (0..<Self.markLength).map { _ in UInt8.random(in: .min ... .max) }
        return pwrite(file.number, mark, mark.count, 0) == mark.count ? mark : nil
    }

    /// Reads the mark in the lock file.
    public func changeMark(for slot: CredentialSlot) -> [UInt8]? {
        guard let path = try? path(of: slot, "lock"), let file = try? Descriptor(path, .readOnly, .noFollow),
            let mark = try? file.read(atMost: Self.markLength)
        else { return nil }
        return mark.count == Self.markLength ? mark : nil
    }

    private func path(of slot: CredentialSlot, _ suffix: String) throws(CredentialStoreError) -> String {
        guard let directory, directory.hasPrefix("/") else {
            throw CredentialStoreError(.homeless, for: "its lock file")
        }
        return "\(directory)/\(slot.digest).\(suffix)"
    }

    private func lockFile(of slot: CredentialSlot) throws(CredentialStoreError) -> Descriptor {
        let path = try path(of: slot, "lock")
        if let refusal = PathOwner.refusal(of: path) { throw .unsafeFile(refusal.reason, remedy: refusal.remedy) }
        PrivateFile.makeFolder(of: path)
        do {
            return try Descriptor(path, .readWrite, [.create, .noFollow])
        } catch {
            let words = "its lock file \(path) can't be opened: \(error.words)"
            if let remedy = PathOwner.remedy(for: path) { throw .unusableFolder(words, remedy: remedy) }
            throw .failed(words)
        }
    }
}

extension FileCredentialLock {
    /// Creates the lock in the folder that all programs of this user share: `$XDG_STATE_HOME/chappie/locks`, or
    /// `~/.local/state/chappie/locks` if that variable is not set. On Apple's platforms the folder is the program's
    /// own.
    ///
    /// - Parameter variable: A closure that looks up a variable of the process.
    public static func userDefault(_ variable: (String) -> String?) -> FileCredentialLock {
        inFolder(UserFolders.ofPlatform(variable))
    }

    #if canImport(Security)
        /// Creates the notes of the programs of an app group, in the group's folder. Never lock these files: the system
        /// ends an app that it suspends while the app holds a lock in a shared folder.
        ///
        /// - Throws: ``CredentialStoreError/noSharedFolder(_:)`` if this program can't use the folder.
        @_spi(ChappieInternals)
        public static func notes(inAppGroup group: String) throws(CredentialStoreError) -> any CredentialNotes {
            inFolder(try UserFolders(on: .current, appGroup: group))
        }
    #endif

    private static func inFolder(_ folders: UserFolders) -> FileCredentialLock {
        #if canImport(Security)
            if let locks = folders.locks {
                PrivateFile.makeFolder(of: locks + "/")
                // A renewal in the background needs the lock. A note from a restored backup could end a later sign-in.
                FolderCare.apply(.completeUntilFirstUserAuthentication, isExcludedFromBackup: true, to: locks)
            }
        #endif
        return FileCredentialLock(directory: folders.locks)
    }
}
