import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
public import ChappieRuntime
import ChappieSQLite
import Synchronization

// Keys, checks and salvage of a file thread store, and the support for its backups.

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
    /// - Throws: The error that prevents reading, or `damaged` if even the list of threads cannot be read.
    public func verify() async throws(ChappieThreadStoreError) -> [ChappieThreadStoreError] {
        guard let facts = try await opened() else { return [] }
        return try await perform(facts) { database, protection throws(StoreError) in
            try database.problems(protection)
        }
    }

    /// Rebuilds the search index after ``verify()`` found it damaged, without data that cannot be read. The work is
    /// done in small steps between which other processes can work. If each thread is intact by itself, but some are
    /// missing or are older than they were, this method accepts the present threads.
    public func rebuildIndex() async throws(ChappieThreadStoreError) {
        guard let facts = try await opened() else { return }
        try await perform(facts) { database, protection throws(StoreError) in try database.clearIndex(protection) }
        var next: Int? = 0
        while let start = next {
            guard !Task.isCancelled else { throw .cancelled }
            next = try await perform(facts) { database, protection throws(StoreError) in
                try database.fillIndex(from: start, protection)
            }
        }
    }

    /// Repairs the store.
    public func repair() async throws(ChappieThreadStoreError) -> ChappieThreadRepair {
        try await rebuildIndex()
        let found = try await readableThreads()
        return ChappieThreadRepair(threads: found.threads.count, problems: [], damagedFile: nil)
    }

    /// Returns the ids of the threads that can be read at least in part, even if ``summaries()`` cannot list them.
    public func salvageableThreads() async throws(ChappieThreadStoreError) -> [String] {
        try await salvaging { database, _ in database.salvageableThreads() } ?? []
    }

    /// Returns the readable parts of a damaged thread. Delete the thread afterwards, and accept the others with
    /// ``rebuildIndex()``. While the thread's entry is damaged, an older state of another thread is not noticed.
    public func salvage(_ thread: String) async throws(ChappieThreadStoreError) -> ChappieSalvagedThread {
        let salvaged = try await salvaging { database, protection throws(StoreError) in
            try database.salvage(thread, protection)
        }
        guard let salvaged else { throw .notFound(thread: thread) }
        return salvaged
    }

    /// Runs `work` with a separate connection that also opens a file that was cut. Returns `nil` if the folder has no
    /// store.
    private func salvaging<Output: Sendable>(
        _ work: @escaping @Sendable (ThreadDatabase, ThreadProtection) throws(StoreError) -> Output
    ) async throws(StoreError) -> Output? {
        let folder = try folder.get()
        let facts = try await onDisk { _ throws(StoreError) in try ThreadDatabase.salvaging(folder)?.facts }
        guard let facts else { return nil }
        try checkPolicy(facts)
        let protection = facts.isSealed ? try await protection(facts, isLatest: true) : .plain
        return try await onDisk { _ throws(StoreError) in
            guard let database = try ThreadDatabase.salvaging(folder) else { return nil }
            return try work(database, protection)
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

    /// Stores the key of this store again if it is missing or is another one, and a backup of this same store has it.
    func takeBackKey(_ id: String, _ backup: some CredentialStore) async throws(StoreError) {
        guard let facts = try await opened(), facts.isSealed, facts.id == id else { return }
        do throws(StoreError) {
            return try await check(keys(of: id).load(), of: facts)
        } catch {
            guard case .wrongKey = error else { throw error }
        }
        let sealers = try await ThreadKeys(of: id, in: backup, owner: nil).load()
        do throws(StoreError) {
            // The backup may be older than the key.
            try await check(sealers, of: facts)
        } catch {
            guard case .wrongKey = error else { throw error }
            return
        }
        try await keys(of: id).save(sealers)
        keptKeys.withLock { $0 = nil }
    }

    /// Checks that these are the store's keys.
    ///
    /// - Throws: `wrongKey` if they are not.
    private func check(_ sealers: [RecordSealer], of facts: ThreadDatabase.Facts) async throws(StoreError) {
        let protection = ThreadProtection(sealers: sealers, isLatest: true)
        _ = try await perform(facts, protection) { database, protection throws(StoreError) in
            try database.state(protection)
        }
    }
}

/// The result of a repair.
public struct ChappieThreadRepair: Sendable {
    /// The number of threads that were kept.
    public var threads: Int
    /// The losses, by thread.
    public var problems: [ChappieThreadStoreError]
    /// The place of the damaged file, or `nil` if nothing was lost.
    public var damagedFile: String?
}
