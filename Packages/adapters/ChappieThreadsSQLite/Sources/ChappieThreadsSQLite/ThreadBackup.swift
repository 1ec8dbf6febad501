public import ChappieAuth
import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) public import ChappieRuntime
import ChappieSQLite
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

// A backup is one file. It contains the database at one moment, and the key under a passphrase in a separate table.
extension ChappieFileThreadStore {
    /// Writes all threads and their key into one file that only this user can access, while other processes continue.
    /// The file is read completely before it replaces an existing file. If the threads are damaged, the existing file
    /// stays. If the store is on the file system of a network, other processes can read in the meantime, but not write.
    ///
    /// The key is sealed with scrypt and AES-256-GCM. Without the passphrase, the file reveals as much as the store's
    /// own file without the keyring. With `fileProtection: .none` the file has no key and is plain text.
    ///
    /// - Parameters:
    ///   - path: The file. If it is a symbolic link, its target is replaced.
    ///   - passphrase: 1 byte or more. Restoring needs it.
    /// - Throws: ``ChappieThreadStoreError``. The case is `unavailable` if nothing is stored yet, `damaged` if the
    ///   threads are damaged, and `unsafeFile` if the path is a device, a pipe, a folder or in the store's folder.
    public func backup(to path: String, passphrase: Secret) async throws(ChappieThreadStoreError) {
        let path = try folder.get().target(of: path)
        var tries = 3
        while true {
            let key = try await keyOfBackup()
            let lock = try folder.get().holdCopies(for: path)
            defer { withExtendedLifetime(lock) {} }
            let draft = "\(path).\(UUID().uuidString.lowercased()).draft"
            do throws(StoreError) {
                return try await copyDatabase(to: draft, key, path, passphrase)
            } catch {
                for end in ThreadFolder.endsOfDrafts { unlink(draft.dropLast(6) + end) }
                // Another process may have changed the key since it was read.
                tries -= 1
                guard case .wrongKey = error, tries > 0 else { throw error }
            }
        }
    }

    private func copyDatabase(
        to draft: String, _ key: KeyOfBackup, _ path: String, _ passphrase: Secret
    ) async throws(StoreError) {
        let folder = try folder.get()
        try await withDatabase { database throws(StoreError) in
            try ThreadFolder.makeFile(draft)
            var sealed: [UInt8] = []
            if let secret = key.secret {
                sealed = try Self.sealing { () throws(CredentialStoreError) in
                    try PassphraseSeal(for: Self.purpose(key.id), in: path).seal(secret, under: passphrase)
                }
            }
            try Self.write(database, key.protection, sealed, to: draft)
            try Self.verify(draft, key.protection, in: folder)
            try moveDurably(draft, to: path)
        }
    }

    /// Reads a complete copy.
    ///
    /// - Throws: `damaged` if anything in it can't be read.
    private static func verify(
        _ copy: String, _ protection: ThreadProtection, in folder: ThreadFolder
    ) throws(StoreError) {
        guard let database = try ThreadDatabase(Database(copy), in: folder, on: .shared) else {
            throw .damaged(thread: nil, "the copy is empty")
        }
        // A repair makes the index for searches new.
        if let problem = try database.problems(protection, words: false).first { throw problem }
    }

    private static func write(
        _ database: Database, _ protection: ThreadProtection, _ key: [UInt8], to path: String
    ) throws(StoreError) {
        let copy = try Database(path)
        try database.copy(into: copy)
        guard protection.knows(try copy.integer("SELECT key FROM store")) else {
            throw .wrongKey("they are encrypted with another key than the stored one")
        }
        // The copy is one file without a separate log.
        try copy.run("PRAGMA locking_mode = EXCLUSIVE")
        guard try copy.text("PRAGMA journal_mode = DELETE") == "delete" else {
            throw .unavailable("the copy has a log")
        }
        try copy.run("PRAGMA synchronous = EXTRA")
        try copy.transaction { () throws(StoreError) in
            // The file may itself be a copy of a backup.
            try copy.run("DROP TABLE IF EXISTS backup")
            try copy.run("CREATE TABLE backup (version INTEGER NOT NULL, key BLOB NOT NULL)")
            try copy.run("INSERT INTO backup VALUES (1, ?)", .bytes(key))
        }
    }

    /// Adds the threads of a backup to this store. A thread that is already present gets the records that it lacks. If
    /// both were continued, it stays unchanged. A damaged thread is left out.
    ///
    /// If this store's key is gone and the backup has it, this method first stores the key again. If this store can't be
    /// opened, or its key is lost, its file is moved aside and a new store begins. What can be read of a damaged file is
    /// kept, as ``repair()`` does.
    ///
    /// An interrupted call loses nothing, and the next call finishes its work.
    ///
    /// - Throws: `locked` for another passphrase or if the credential store does not answer, `badBackup` if the file is
    ///   not a backup, `tooNew` if a newer version wrote it, `unsafeFile` if this store is encrypted and the backup is
    ///   plain text, which opens with any passphrase, or `unavailable` if the task is cancelled.
    public func restore(from path: String, passphrase: Secret) async throws(ChappieThreadStoreError)
        -> ChappieRestoredThreads
    {
        var restored = ChappieRestoredThreads()
        try await restore(from: path, passphrase: passphrase, noting: &restored)
        return restored
    }

    /// Restores a backup as ``restore(from:passphrase:)`` does. If it ends early, `restored` has the results until
    /// then.
    @_spi(ChappieInternals) public func restore(
        from path: String, passphrase: Secret, noting restored: inout ChappieRestoredThreads
    ) async throws(ChappieThreadStoreError) {
        let place = try self.folder.get()
        try place.make()
        let lock = place.holdCopies()
        defer { withExtendedLifetime(lock) {} }
        let folder = try place.forRestoring()
        defer { try? FileManager.default.removeItem(atPath: folder.path) }
        let (id, secret) = try await onOwnQueue { () throws(StoreError) in
            try Self.unpack(path, into: folder, passphrase)
        }
        guard secret != nil || storagePolicy.fileProtection == .none else {
            throw .unsafeFile(
                "\(path) holds threads as plain text, and encryption was asked for",
                remedy: "Restore it with fileProtection .none into another folder, export its threads and import them.")
        }
        let keys = BackupKeys(secret: secret)
        let backup = ChappieFileThreadStore(
            directory: folder.path,
            storagePolicy: .init(fileProtection: secret == nil ? .none : .completeUntilFirstUserAuthentication),
            limits: .init(maximumBytes: .max), keys: keys)
        let found = try await backup.readableThreads()
        restored.damagedFile = try await prepareForRestoring(id, keys)
        restored.problems = found.problems
        for thread in found.threads {
            guard !Task.isCancelled else { throw .cancelled }
            guard ChappieThread.canHaveID(thread.id) else {
                restored.problems.append(.damaged(thread: nil, "one of them has an id that no thread can have"))
                continue
            }
            do throws(StoreError) {
                let update = try await update(try await backup.thread(thread.id))
                restored.threads[update, default: []].append(thread.id)
            } catch {
                guard error.concernsOneThread else { throw error }
                restored.problems.append(error)
            }
        }
    }

    /// Copies the backup and opens its key. The secret is `nil` for plain text.
    private static func unpack(
        _ path: String, into folder: ThreadFolder, _ passphrase: Secret
    ) throws(StoreError) -> (id: String, secret: Secret?) {
        try folder.make()
        var id: String
        var backup: (version: Int, key: [UInt8])?
        do throws(StoreError) {
            let file = try Database(reading: path)
            backup = try file.rows("SELECT version, key FROM backup", read: { ($0.integer(0), $0.bytes(1)) }).first
            id = try file.text("SELECT id FROM store")
            try file.copy(into: Database(folder.makeDatabaseFile()))
        } catch .damaged {
            // The copy is damaged as well, and its store reads what can be read.
            try folder.copyDatabase(from: path)
            let damaged = try DamagedDatabase(in: folder)
            id = damaged?.facts.id ?? ""
            backup = damaged?.keyOfBackup()
        }
        guard let backup else { throw .badBackup("\(path) is not a backup of threads, or it is damaged") }
        guard backup.version == 1 else { throw .tooNew(found: backup.version, known: 1) }
        guard !backup.key.isEmpty else { return (id, nil) }
        let secret = try sealing { () throws(CredentialStoreError) in
            try PassphraseSeal(for: purpose(id), in: path).open(backup.key, under: passphrase)
        }
        return (id, secret)
    }

    private static func purpose(_ id: String) -> CredentialSlot {
        CredentialSlot(service: "com.chappie.threads.backup", account: id)
    }

    private static func sealing<Output>(
        _ body: () throws(CredentialStoreError) -> Output
    ) throws(StoreError) -> Output {
        do throws(CredentialStoreError) {
            return try body()
        } catch .wrongPassphrase(let name) {
            throw .locked("this is not the passphrase of \(name)")
        } catch .corrupt(let words) {
            throw .badBackup(words)
        } catch .tooNew(_, let found, let known) {
            throw .tooNew(found: found, known: known)
        } catch {
            throw .unavailable(error.errorDescription ?? "the crypto library failed")
        }
    }
}

/// Renames a file so that its new name is on the disk afterwards.
private func moveDurably(_ draft: String, to path: String) throws(StoreError) {
    guard rename(draft, path) == 0 else { throw .system("\(path) can't be written") }
    PrivateFile.makeNameDurable(path)
}

/// The result of ``ChappieFileThreadStore/restore(from:passphrase:)``.
public struct ChappieRestoredThreads: Sendable, Hashable {
    /// The ids of the threads, by the outcome of their restoration.
    public var threads: [ChappieThreadUpdate: [String]] = [:]
    /// The problems with the threads of the backup that could not be read.
    public var problems: [ChappieThreadStoreError]
    /// The path of this store's former file, which could not be used and was moved aside, or `nil`.
    public var damagedFile: String?

    /// Creates a result with the given properties.
    public init(threads: [ChappieThreadUpdate: [String]] = [:], problems: [ChappieThreadStoreError] = []) {
        self.threads = threads
        self.problems = problems
    }
}

/// A store with the key of a backup while the backup is read.
private struct BackupKeys: CredentialStore {
    let secret: Secret?

    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? { secret }
    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {}
    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) {}
}
