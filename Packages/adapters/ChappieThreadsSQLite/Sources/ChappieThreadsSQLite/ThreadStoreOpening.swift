import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
import ChappieRuntime
import Dispatch
import Synchronization

// This extension finds or makes the database and the key of a file thread store, and runs work with them.

extension ChappieFileThreadStore {
    /// Opens the store and returns its facts, or `nil` if the folder has no store.
    func opened() async throws(StoreError) -> ThreadDatabase.Facts? {
        let folder = try folder.get()
        return try await onDisk { [self] database throws(StoreError) in
            // Writes to a file that no longer has a name would be lost.
            if database?.hasMoved ?? false { database = nil }
            if let database {
                try checkPolicy(database.facts)
            } else if let found = try ThreadDatabase.opened(in: folder) {
                try checkPolicy(found.facts)
                // A failure to write the tag, such as a full disk, must not prevent reading threads.
                try? folder.follow(storagePolicy)
                database = found
            }
            return database?.facts
        }
    }

    func openedOrMade() async throws(StoreError) -> ThreadDatabase.Facts {
        if let facts = try await opened() { return facts }
        let (folder, policy) = (try folder.get(), storagePolicy)
        let new = ThreadDatabase.Facts(
            id: UUID().uuidString.lowercased(), isSealed: policy.fileProtection != .none)
        let keys = keys(of: new.id)
        var protection = ThreadProtection.plain
        if new.isSealed {
            // A folder that can't be used must not leave a key behind.
            let there = try await onDisk { database throws(StoreError) in
                database = try folder.preparing(by: policy) {
                    file throws(StoreError) in try ThreadDatabase(file, in: folder, on: folder.fileSystem())
                }
                return database?.facts
            }
            if let there {
                try checkPolicy(there)
                return there
            }
            // The key is stored before anything is sealed with it.
            protection = ThreadProtection(sealers: [try ThreadKeys.newSealer()], isLatest: true)
            try await keys.save(protection.sealers)
        }
        let facts: ThreadDatabase.Facts
        do throws(StoreError) {
            facts = try await onDisk { [protection] database throws(StoreError) in
                let made = try folder.preparing(by: policy) {
                    file throws(StoreError) in
                    try ThreadDatabase.make(new, in: file, folder, protection: protection)
                }
                database = made
                return made.facts
            }
        } catch {
            // The key stays if something may be sealed with it.
            let isUsed = try? await onDisk { _ throws(StoreError) in
                try ThreadDatabase.opened(in: folder)?.facts == new
            }
            if new.isSealed, isUsed == false { await keys.delete() }
            throw error
        }
        // Another process was faster and uses its own key.
        if new.isSealed, facts != new { await keys.delete() }
        try checkPolicy(facts)
        return facts
    }

    /// Checks that the files are protected as the policy requires. They never have less protection.
    func checkPolicy(_ facts: ThreadDatabase.Facts) throws(StoreError) {
        let path = try folder.get().path
        switch (facts.isSealed, storagePolicy.fileProtection) {
        case (true, .none):
            throw .locked("\(path) is encrypted, and plain text was asked for (fileProtection .none)")
        case (false, .complete), (false, .completeUntilFirstUserAuthentication):
            throw .unsafeFile(
                "\(path) holds threads as plain text, and encryption was asked for",
                remedy: "Export them, delete the folder and import them again; or ask for fileProtection .none.")
        default: return
        }
    }

    func keys(of database: String) -> ThreadKeys {
        ThreadKeys(of: database, in: keyStore, owner: place.withLock { $0?.owner })
    }

    // MARK: Performing

    /// Runs `work`, which only reads. If the file is damaged, `work` gets a copy of everything that can be read.
    ///
    /// - Parameters:
    ///   - thread: The thread that the work concerns, if it concerns only one.
    ///   - nothing: The result if there is no store.
    func read<Output: Sendable>(
        _ thread: String? = nil, or nothing: Output,
        _ work: @escaping @Sendable (ThreadDatabase, ThreadProtection) throws(StoreError) -> Output
    ) async throws(StoreError) -> Output {
        do throws(StoreError) {
            guard let facts = try await opened() else { return nothing }
            return try await perform(facts, in: thread, work)
        } catch {
            guard case .damaged = error, let facts = try await factsOfDamaged() else { throw error }
            let protection = facts.isSealed ? try await protection(facts, isLatest: true) : .plain
            return try await onDisk { [self] opened throws(StoreError) in
                // Closing another descriptor of the file would release the locks of a connection.
                opened = nil
                return try copy.withLock { copy throws(StoreError) in
                    let folder = try folder.get()
                    if copy?.stamp != folder.stamp {
                        copy = nil
                        guard let found = try DamagedDatabase(in: folder) else { throw error }
                        let database = try Database("")
                        let damage = error == ThreadDatabase.unreadableLog ? nil : error
                        copy = (
                            folder.stamp,
                            try found.copy(into: database, on: .shared, isRepair: false, damage: damage, protection)
                        )
                    }
                    guard let database = copy?.database else { throw error }
                    return try work(database, protection)
                }
            }
        }
    }

    /// Returns the facts about a database that SQLite cannot read, or `nil` if nothing of it can be read.
    func factsOfDamaged() async throws(StoreError) -> ThreadDatabase.Facts? {
        let folder = try folder.get()
        let facts = try await onDisk { opened throws(StoreError) in
            opened = nil
            return try DamagedDatabase(in: folder)?.facts
        }
        if let facts { try checkPolicy(facts) }
        return facts
    }

    /// Runs `work` with the database and the keys.
    ///
    /// - Parameter thread: the thread that the work concerns, if it concerns only one.
    func perform<Output: Sendable>(
        _ facts: ThreadDatabase.Facts, in thread: String? = nil,
        _ work: @escaping @Sendable (ThreadDatabase, ThreadProtection) throws(StoreError) -> Output
    ) async throws(StoreError) -> Output {
        guard facts.isSealed else { return try await perform(facts, .plain, work) }
        do throws(StoreError) {
            return try await perform(facts, protection(facts, in: thread, isLatest: false), work)
        } catch .wrongKey {
            // Another process may have changed the key since it was read.
            return try await perform(facts, protection(facts, isLatest: true), work)
        }
    }

    func perform<Output: Sendable>(
        _ facts: ThreadDatabase.Facts, _ protection: ThreadProtection,
        _ work: @escaping @Sendable (ThreadDatabase, ThreadProtection) throws(StoreError) -> Output
    ) async throws(StoreError) -> Output {
        let folder = try folder.get()
        return try await onDisk { opened throws(StoreError) in
            // Another call may have closed it.
            if opened == nil { opened = try ThreadDatabase.opened(in: folder) }
            guard let database = opened, database.facts == facts else {
                throw .unavailable("their folder was removed or replaced")
            }
            defer { if database.isAlone { opened = nil } }
            return try work(database, protection)
        }
    }

    func protection(
        _ facts: ThreadDatabase.Facts, in thread: String? = nil, isLatest: Bool
    ) async throws(StoreError) -> ThreadProtection {
        let isKept = storagePolicy.fileProtection == .completeUntilFirstUserAuthentication
        if !isLatest {
            if let sealers = keptKeys.withLock({ $0 }) { return ThreadProtection(sealers: sealers) }
            if let thread, let sealers = openTurns.withLock({ $0.sealers(for: thread) }) {
                return ThreadProtection(sealers: sealers)
            }
        }
        let sealers = try await keys(of: facts.id).load()
        if isKept { keptKeys.withLock { $0 = sealers } }
        return ThreadProtection(sealers: sealers, isLatest: isLatest)
    }

    /// The longest time for which an unfinished turn holds the key.
    private static let longestTurn = DispatchTimeInterval.seconds(86_400)

    /// Holds the keys while a turn is under way, so that its answer is stored even if the screen is locked in the
    /// meantime.
    func holdKeys(_ sealers: [RecordSealer], for records: [ChappieThreadRecord], of thread: String) {
        guard storagePolicy.fileProtection == .complete else { return }
        for turn in openTurns.withLock({ $0.follow(records, of: thread, sealers) }) {
            queue.asyncAfter(deadline: .now() + Self.longestTurn) { [weak self] in
                self?.openTurns.withLock { $0.close([turn], in: thread) }
            }
        }
    }

    /// Runs `work` outside the threads of Swift's tasks, because SQLite blocks. A cancelled call continues, because its
    /// caller has to know whether something was stored.
    func onDisk<Output: Sendable>(
        _ work: @escaping @Sendable (inout ThreadDatabase?) throws(StoreError) -> Output
    ) async throws(StoreError) -> Output {
        try await queue.run { [self] () throws(StoreError) in
            try database.withLock { database throws(StoreError) in try work(&database) }
        }
    }
}
