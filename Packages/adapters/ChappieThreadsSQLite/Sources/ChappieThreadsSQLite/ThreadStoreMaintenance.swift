import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
public import ChappieRuntime
import ChappieSQLite
import Synchronization

// Keys, checks and repairs of a file thread store, and the support for its backups.

extension ChappieFileThreadStore {
    /// Gives the threads a new key. This method first stores the new key, then seals everything with it in small steps,
    /// and then removes the old key. Other processes can work between the steps. After an interruption, the next call
    /// finishes the rotation. Plain text stays unchanged.
    ///
    /// - Throws: `damaged` if something cannot be opened with the old key, which then stays, or `busy` while another
    ///   process does the same.
    public func rotateKey() async throws(ChappieThreadStoreError) {
        guard let facts = try await opened(), facts.isSealed else { return }
        let keys = keys(of: facts.id)
        try await folder.get().changingKeys { () async throws(StoreError) in
            var sealers = try await keys.load()
            if sealers.count == 1 {
                sealers.insert(try ThreadKeys.newSealer(), at: 0)
                try await keys.save(sealers)
            }
            let protection = ThreadProtection(sealers: sealers, isLatest: true)
            var next: Int? = 0
            while let start = next {
                guard !Task.isCancelled else { throw .cancelled }
                next = try await perform(facts, protection) { database, protection throws(StoreError) in
                    try database.reseal(from: start, protection)
                }
            }
            try await perform(facts, protection) { database, _ throws(StoreError) in database.giveRoomBack() }
            try await keys.save([sealers[0]])
            keptKeys.withLock { $0 = nil }
        }
    }

    /// Reads everything and checks the search index. Returns the problems, or an empty array if there are none.
    ///
    /// - Throws: The error that prevents reading, or `damaged` if nothing can be read.
    public func verify() async throws(ChappieThreadStoreError) -> [ChappieThreadStoreError] {
        try await read(or: []) { database, protection throws(StoreError) in try database.problems(protection) }
    }

    /// Writes a new database from everything that can be read, if ``verify()`` finds a problem. A thread that has lost
    /// records keeps the others. If something is lost, the damaged file is moved aside. Other processes can't write in
    /// the meantime.
    ///
    /// - Throws: The error that prevents reading, for example `locked`, or `busy` while another process changes the key.
    ///   In that case nothing has changed.
    public func repair() async throws(ChappieThreadStoreError) -> ChappieThreadRepair {
        let damage: StoreError
        do throws(StoreError) {
            guard let problem = try await verify().first else {
                return ChappieThreadRepair(threads: try await usage().threads)
            }
            damage = problem
        } catch {
            guard case .damaged = error else { throw error }
            damage = error
        }
        let folder = try folder.get()
        let lock = folder.holdCopies()
        defer { withExtendedLifetime(lock) {} }
        return try await folder.changingKeys { () async throws(StoreError) in
            guard let facts = try await factsOfDamaged() else {
                return ChappieThreadRepair(problems: [damage], damagedFile: try await startAnew())
            }
            let protection = facts.isSealed ? try await protection(facts, isLatest: true) : .plain
            return try await onDisk { database throws(StoreError) in
                // Nobody writes until the new file is in place. A file that SQLite can't open has no writers.
                database = try? ThreadDatabase.opened(in: folder)
                // The log is emptied first, so that a crash between the removal of the log and the renaming loses nothing.
                try? database?.database.run("PRAGMA wal_checkpoint(TRUNCATE)")
                try? database?.database.run("BEGIN IMMEDIATE")
                defer { database = nil }
                let new = try folder.forRestoring()
                defer { try? FileManager.default.removeItem(atPath: new.path) }
                try new.make()
                guard let damaged = try DamagedDatabase(in: folder) else { throw damage }
                // Closing its descriptor would release the lock.
                defer { withExtendedLifetime(damaged) {} }
                let file = try new.makeDatabaseFile()
                let (threads, losses) = try Self.copy(damaged, to: file, on: folder.fileSystem(), protection)
                let aside = try folder.replaceDatabase(with: file, keepsOld: !losses.isEmpty)
                folder.note(facts.id)
                return ChappieThreadRepair(threads: threads, problems: losses, damagedFile: aside)
            }
        }
    }

    /// Copies what can be read to a file, which is complete and closed afterwards.
    private static func copy(
        _ damaged: DamagedDatabase, to path: String, on fileSystem: ThreadFileSystem, _ protection: ThreadProtection
    ) throws(StoreError) -> (threads: Int, losses: [StoreError]) {
        let file = try Database(path, modeOf: path)
        let copy = try damaged.copy(into: file, on: fileSystem, isRepair: true, protection)
        return (try file.integer("SELECT count(*) FROM threads"), Array(copy.losses.values))
    }

    /// Moves a database that can't be used aside, so that the next append makes a new one. Returns its new path, or `nil`
    /// if there was no file.
    func startAnew() async throws(StoreError) -> String? {
        let folder = try folder.get()
        keptKeys.withLock { $0 = nil }
        return try await onDisk { database throws(StoreError) in
            database = nil
            let aside = try folder.replaceDatabase(with: nil, keepsOld: true)
            folder.note(nil)
            return aside
        }
    }

    // MARK: Backups

    /// The key that a backup gets.
    struct KeyOfBackup: Sendable {
        /// The store's id.
        let id: String
        /// The keys in their stored form, or `nil` for plain text.
        let secret: Secret?
        let protection: ThreadProtection
    }

    func keyOfBackup() async throws(StoreError) -> KeyOfBackup {
        guard let facts = try await opened() else { throw .unavailable("there are none yet") }
        guard facts.isSealed else { return KeyOfBackup(id: facts.id, secret: nil, protection: .plain) }
        let keys = keys(of: facts.id)
        let secret = try await keys.secret()
        let protection = ThreadProtection(sealers: try await keys.sealers(in: secret), isLatest: true)
        return KeyOfBackup(id: facts.id, secret: secret, protection: protection)
    }

    /// Runs `work` with the open database. This needs no key.
    func withDatabase(_ work: @escaping @Sendable (Database) throws(StoreError) -> Void) async throws(StoreError) {
        try await onDisk { database throws(StoreError) in
            // Another call may have found that the folder is gone.
            guard let database else { throw .unavailable("their folder was removed or replaced") }
            try work(database.database)
        }
    }

    func onOwnQueue<Output: Sendable>(
        _ work: @escaping @Sendable () throws(StoreError) -> Output
    ) async throws(StoreError) -> Output {
        try await onDisk { _ throws(StoreError) in try work() }
    }

    /// Makes sure that threads can be added to this store, which may be damaged or have lost its key.
    ///
    /// - Parameters:
    ///   - id: The id of the database in a backup.
    ///   - backup: The keys of the backup. They are stored again if this store has lost the same key.
    /// - Returns: The path of a file that could not be used and was moved aside, or `nil`.
    /// - Throws: The error that prevents reading. A key is lost only if the credential store answers and has no key.
    func prepareForRestoring(_ id: String, _ backup: some CredentialStore) async throws(StoreError) -> String? {
        do throws(StoreError) {
            guard let facts = try await opened() else { return nil }
            guard facts.isSealed else { return nil }
            let lostKey: StoreError
            do throws(StoreError) {
                return try await check(keys(of: facts.id).load(), of: facts)
            } catch {
                guard case .wrongKey = error else { throw error }
                lostKey = error
            }
            if facts.id == id {
                do throws(StoreError) {
                    let sealers = try await ThreadKeys(of: id, in: backup, owner: nil).load()
                    // The backup may be older than the key.
                    _ = try await check(sealers, of: facts)
                    try await keys(of: id).save(sealers)
                    keptKeys.withLock { $0 = nil }
                    return nil
                } catch {
                    guard case .wrongKey = error else { throw error }
                }
            }
            guard try await keys(of: facts.id).isMissing() else { throw lostKey }
            return try await startAnew()
        } catch {
            guard case .damaged = error else { throw error }
            return try await repair().damagedFile
        }
    }

    /// Checks that these are the store's keys.
    ///
    /// - Returns: `nil`, because nothing had to be moved aside.
    /// - Throws: `wrongKey` if they are not.
    private func check(_ sealers: [RecordSealer], of facts: ThreadDatabase.Facts) async throws(StoreError) -> String? {
        let protection = ThreadProtection(sealers: sealers, isLatest: true)
        return try await perform(facts, protection) { database, protection throws(StoreError) in
            try database.currentKey(protection)
            return nil
        }
    }
}
