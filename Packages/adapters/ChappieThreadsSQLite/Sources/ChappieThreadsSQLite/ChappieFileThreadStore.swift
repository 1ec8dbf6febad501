public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
public import ChappieRuntime
import Dispatch
import FoundationEssentials
import Synchronization

/// Keeps threads in a file of this machine: an SQLite database, encrypted unless plain text is asked for.
///
/// Several processes may use one folder at once, from several machines if its file system is a network's and keeps
/// locks: there SQLite's rollback journal takes the place of its log, and an append takes longer. After
/// ``append(_:to:at:)`` has returned, its records survive a crash and a power cut. An append costs the same however
/// long the thread is. Deleted records are overwritten in the database, as are their words; its log is cut, not
/// overwritten.
///
/// **Encrypted** are every record, title and preview, with AES-256-GCM, bound to their thread, position and kind, so
/// that records that were exchanged, moved or cut off by hand are noticed (`damaged`), as are a thread that was put
/// back to an earlier state and a deleted thread that came back, when the threads are listed or verified. The words for
/// searches are encrypted as well. Not encrypted are the threads' ids, and the positions, kinds, dates and sizes of
/// records. A file that lost its last changes is noticed by `threads.last` beside it; an old copy of the whole folder
/// is not noticed.
///
/// The key is kept by a `CredentialStore`: the keyring, as a rule. Without it the threads are gone.
///
/// **It refuses** (`unsafeFile`) a folder or file that belongs to another user, that others may read or write, or that is a
/// symbolic link.
public final class ChappieFileThreadStore: ChappieThreadStore {
    /// The folder; `nil` before the store has a place, and without a home directory.
    public var directory: String? { try? folder.get().path }
    /// How the files are protected.
    public let storagePolicy: ChappieFileThreadStoreStoragePolicy
    /// How much may be stored.
    public let limits: ChappieFileThreadStoreLimits

    /// The folder, and the owner if the folder follows from one.
    private struct Place {
        let folder: Result<ThreadFolder, StoreError>
        let owner: ThreadsOwner?
        /// Whether the program chose the folder or the owner, and not its first runtime.
        let isNamed: Bool

        init(directory: String, on fileSystem: ThreadFileSystem? = nil) {
            owner = nil
            isNamed = true
            folder = Result { () throws(StoreError) in try ThreadFolder(directory, on: fileSystem) }
        }

        init(of slot: CredentialSlot, isNamed: Bool = true, hasFormerKeys: Bool = false) {
            let owner = Result { () throws(StoreError) in try ThreadsOwner(slot, hasFormerKeys: hasFormerKeys) }
            self.owner = try? owner.get()
            self.isNamed = isNamed
            folder = Result { () throws(StoreError) in
                try ThreadFolder(owner.get().directory(in: ProcessInfo.processInfo.environment))
            }
        }

        init(failure: StoreError) {
            owner = nil
            isNamed = false
            folder = .failure(failure)
        }
    }

    private let place: Mutex<Place?>
    private var folder: Result<ThreadFolder, StoreError> {
        let words = "this store has no place yet: make a runtime with it first, or name a directory or an owner"
        return place.withLock { $0?.folder } ?? .failure(.unavailable(words))
    }
    private let keyStore: any CredentialStore
    private let queue = DispatchQueue(label: "chappie.threads")
    /// Used on the queue alone.
    private let database = Mutex<ThreadDatabase?>(nil)
    /// The keys, once read; never with `.complete`.
    private let keptKeys = Mutex<[RecordSealer]?>(nil)
    /// With `.complete` alone.
    private let openTurns = Mutex(KeysOfOpenTurns())

    /// Touches nothing yet: the first call that needs the folder or the key reports a problem with it.
    ///
    /// - Parameters:
    ///   - directory: An absolute path, made for this user alone at the first append. Default: a folder of the app and the
    ///     user whose client makes the runtime, see ``init(owner:storagePolicy:limits:keys:)``. Before there is a
    ///     runtime, every call throws `unavailable`.
    ///   - storagePolicy: Encryption and backups.
    ///   - limits: How much may be stored. Default 512 MiB.
    ///   - keys: Keeps the key: of a named directory in a slot of the service `com.chappie.sdk`, otherwise of the
    ///     owner's service. The slot's account begins with `threads-`. Not asked with `fileProtection: .none`.
    public convenience init(
        directory: String? = nil, storagePolicy: ChappieFileThreadStoreStoragePolicy = .init(),
        limits: ChappieFileThreadStoreLimits = .init(), keys: any CredentialStore
    ) {
        self.init(directory: directory, on: nil, storagePolicy: storagePolicy, limits: limits, keys: keys)
    }

    /// The same on a file system that is not asked for its kind.
    @_spi(ChappieInternals) public convenience init(
        directory: String?, on fileSystem: ThreadFileSystem?,
        storagePolicy: ChappieFileThreadStoreStoragePolicy = .init(), limits: ChappieFileThreadStoreLimits = .init(),
        keys: any CredentialStore
    ) {
        self.init(directory.map { Place(directory: $0, on: fileSystem) }, storagePolicy, limits, keys)
    }

    /// Threads of one user of one app, also without a runtime.
    ///
    /// The folder is `$XDG_STATE_HOME/chappie/threads/SERVICE/DIGEST` (without that variable: `~/.local/state/chappie/…`);
    /// the digest is one of the whole slot. No other app and no other user of the app has it.
    ///
    /// - Parameters:
    ///   - owner: The slot of the user's credential (`ChappieConfiguration.credentialSlot`).
    ///   - storagePolicy: Encryption and backups.
    ///   - limits: How much may be stored. Default 512 MiB.
    ///   - keys: Keeps the key, in a slot of the owner's service.
    public convenience init(
        owner: CredentialSlot, storagePolicy: ChappieFileThreadStoreStoragePolicy = .init(),
        limits: ChappieFileThreadStoreLimits = .init(), keys: any CredentialStore
    ) {
        self.init(Place(of: owner), storagePolicy, limits, keys)
    }

    private init(
        _ place: Place?, _ storagePolicy: ChappieFileThreadStoreStoragePolicy, _ limits: ChappieFileThreadStoreLimits,
        _ keys: any CredentialStore
    ) {
        self.storagePolicy = storagePolicy
        self.limits = limits
        keyStore = keys
        self.place = Mutex(place)
    }

    /// This store, in the folder of `owner` if neither a folder nor an owner was named. It stays there: for another owner,
    /// the result is a store whose calls throw `unavailable`, so that no user sees another's threads.
    public func placed(for owner: CredentialSlot) -> any ChappieThreadStore {
        let isPlaced = place.withLock { place in
            if let place { return place.isNamed || place.owner?.slot == owner }
            place = Place(of: owner, isNamed: false)
            return true
        }
        guard !isPlaced else { return self }
        let words = "this store has the threads of another user: make a store for each client"
        return ChappieFileThreadStore(Place(failure: .unavailable(words)), storagePolicy, limits, keyStore)
    }

    /// A store of the program that once kept its threads in `former`, a folder that it shared with other programs. It
    /// moves them to the owner's place, see ``FormerPlace``; its key is taken over when it is first read.
    ///
    /// - Returns: the store, which uses `former` as long as another process does, and the outcome.
    @_spi(ChappieInternals) public static func adopting(
        _ former: String, owner: CredentialSlot, storagePolicy: ChappieFileThreadStoreStoragePolicy,
        limits: ChappieFileThreadStoreLimits, keys: any CredentialStore
    ) -> (store: ChappieFileThreadStore, outcome: FormerPlace.Outcome) {
        var place = Place(of: owner, hasFormerKeys: true)
        let outcome =
            if case .success(let folder) = place.folder {
                FormerPlace.move(former, to: folder)
            } else {
                FormerPlace.Outcome.nothing
            }
        if case .stays = outcome { place = Place(directory: former) }
        return (ChappieFileThreadStore(place, storagePolicy, limits, keys), outcome)
    }

    /// Opens the database, or makes it and its key, so that a program can say early that nothing will be kept.
    ///
    /// - Throws: ``ChappieThreadStoreError``, as the first append would.
    public func prepare() async throws(ChappieThreadStoreError) {
        let facts = try await openedOrMade()
        _ = try await perform(facts) { database, protection throws(StoreError) in try database.state(protection) }
    }

    public func summaries() async throws(ChappieThreadStoreError) -> [ChappieThreadSummary] {
        guard let facts = try await opened() else { return [] }
        return try await perform(facts) { database, protection throws(StoreError) in
            try database.summaries(protection)
        }
    }

    /// The threads whose entries are whole, although others are damaged; ``summaries()`` throws then.
    public func readableThreads() async throws(ChappieThreadStoreError) -> ChappieReadableThreads {
        guard let facts = try await opened() else { return ChappieReadableThreads() }
        return try await perform(facts) { database, protection throws(StoreError) in
            try database.readableSummaries(protection)
        }
    }

    public func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        guard let facts = try await opened() else { return nil }
        return try await perform(facts, in: thread) { database, protection throws(StoreError) in
            try database.summary(of: thread, protection)
        }
    }

    public func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        guard let facts = try await opened() else { throw .notFound(thread: thread) }
        return try await perform(facts, in: thread) { database, protection throws(StoreError) in
            try database.records(of: thread, from: position, protection)
        }
    }

    public func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        precondition(
            !records.isEmpty && position >= 0 && position + records.count < 1 << 31
                && records.map(\.position) == Array(position..<position + records.count),
            "Records that are appended follow one another from the given position on.")
        do throws(StoreError) {
            let facts = try await openedOrMade()
            // An answer is not lost because another process is slow.
            var tries = records.contains { Self.ends.contains($0.kind) } ? 6 : 1
            while true {
                do throws(StoreError) {
                    return try await perform(facts, in: thread.id) { [self] database, protection throws(StoreError) in
                        try database.append(records, to: thread, at: position, limit: limits.maximumBytes, protection)
                        holdKeys(protection.sealers, for: records, of: thread.id)
                    }
                } catch .busy(let patience) {
                    tries -= 1
                    guard tries > 0 else { throw .busy(patience) }
                }
            }
        } catch {
            // The caller tries again if the thread has grown meanwhile; any other error ends the turn.
            if case .conflict(_, let expected, let actual) = error, actual > expected { throw error }
            openTurns.withLock { $0.close(records.compactMap(\.turnID), in: thread.id) }
            throw error
        }
    }

    /// The kinds that end a turn, or the call of a tool.
    private static let ends: Set<ChappieThreadRecord.Kind> = [
        .toolFinished, .approvalPending, .turnFinished, .turnFailed, .turnInterrupted,
    ]

    public func delete(_ thread: String) async throws(ChappieThreadStoreError) {
        guard let facts = try await opened() else { return }
        try await perform(facts) { database, protection throws(StoreError) in
            try database.delete(thread, protection)
        }
        openTurns.withLock { $0.close(thread) }
    }

    public func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        guard let facts = try await opened() else { return [] }
        return try await perform(facts) { database, protection throws(StoreError) in
            try database.search(query, protection)
        }
    }

    /// How much is stored; needs no key.
    public func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage {
        guard let facts = try await opened() else {
            return ChappieThreadStoreUsage(bytes: 0, limit: limits.maximumBytes, threads: 0, records: 0)
        }
        return try await perform(facts, .plain) { [limits] database, _ throws(StoreError) in
            try database.usage(limit: limits.maximumBytes)
        }
    }

    // MARK: Care

    /// Gives the threads a new key: it is stored first, then everything is sealed with it, in small steps between which
    /// other processes can work, and the old key is removed last. After an interruption the next call finishes it.
    /// Plain text stays as it is.
    ///
    /// - Throws: `damaged` if something can't be opened with the old key, which then stays; `busy` while another
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
                next = try await perform(facts, protection) { database, protection throws(StoreError) in
                    try database.reseal(from: start, protection)
                }
            }
            try await perform(facts, protection) { database, _ throws(StoreError) in database.giveRoomBack() }
            try await keys.save([sealers[0]])
            keptKeys.withLock { $0 = nil }
        }
    }

    /// Reads everything, and checks the search index. It returns the problems, or an empty array.
    ///
    /// - Throws: The error that prevents reading; `damaged` if even the list of threads can't be read.
    public func verify() async throws(ChappieThreadStoreError) -> [ChappieThreadStoreError] {
        guard let facts = try await opened() else { return [] }
        return try await perform(facts) { database, protection throws(StoreError) in
            try database.problems(protection)
        }
    }

    /// Rebuilds the search index after ``verify()`` found it damaged, in small steps between which other processes can work,
    /// without what can't be read. If each thread is whole by itself, but some are missing or are older than they were, it
    /// accepts the present ones.
    public func rebuildIndex() async throws(ChappieThreadStoreError) {
        guard let facts = try await opened() else { return }
        try await perform(facts) { database, protection throws(StoreError) in try database.clearIndex(protection) }
        var next: Int? = 0
        while let start = next {
            next = try await perform(facts) { database, protection throws(StoreError) in
                try database.fillIndex(from: start, protection)
            }
        }
    }

    /// The ids of the threads that can be read at least in part, even if ``summaries()`` can't list them.
    public func salvageableThreads() async throws(ChappieThreadStoreError) -> [String] {
        try await salvaging { database, _ in database.salvageableThreads() } ?? []
    }

    /// The readable parts of a damaged thread. Deleting the thread afterwards makes the rest of the store whole.
    public func salvage(_ thread: String) async throws(ChappieThreadStoreError) -> ChappieSalvagedThread {
        let salvaged = try await salvaging { database, protection throws(StoreError) in
            try database.salvage(thread, protection)
        }
        guard let salvaged else { throw .notFound(thread: thread) }
        return salvaged
    }

    /// Uses a connection of its own that also opens a file that was cut; `nil` if the folder has no store.
    private func salvaging<Output: Sendable>(
        _ work: @escaping @Sendable (ThreadDatabase, ThreadProtection) throws(StoreError) -> Output
    ) async throws(StoreError) -> Output? {
        let folder = try folder.get()
        let facts = try await onDisk { _ throws(StoreError) in try ThreadDatabase(salvaging: folder)?.facts }
        guard let facts else { return nil }
        try checkPolicy(facts)
        let protection = facts.isSealed ? try await protection(facts, isLatest: true) : .plain
        return try await onDisk { _ throws(StoreError) in
            guard let database = try ThreadDatabase(salvaging: folder) else { return nil }
            return try work(database, protection)
        }
    }

    // MARK: Backups

    /// The store's id and its keys as they are stored; no keys for plain text.
    func keyOfBackup() async throws(StoreError) -> (id: String, secret: Secret?) {
        guard let facts = try await opened() else { throw .unavailable("there are none yet") }
        return (facts.id, facts.isSealed ? try await keys(of: facts.id).secret() : nil)
    }

    /// Runs `work` with the open database, which needs no key.
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

    /// A folder for a copy, in this store's own, where files are for this user alone.
    func folderOfRestoring() throws(StoreError) -> ThreadFolder {
        try ThreadFolder(folder.get().path + "/restoring-\(UUID().uuidString.lowercased())")
    }

    /// Stores the key of this store again if it is gone and a backup of this very store has it.
    func takeBackKey(_ id: String, _ backup: some CredentialStore) async throws(StoreError) {
        guard let facts = try await opened(), facts.isSealed, facts.id == id else { return }
        do throws(StoreError) {
            _ = try await keys(of: id).load()
        } catch .wrongKey {
            try await keys(of: id).save(ThreadKeys(of: id, in: backup, owner: nil).load())
        }
    }

    // MARK: Opening

    /// `nil` if the folder has no store.
    private func opened() async throws(StoreError) -> ThreadDatabase.Facts? {
        let folder = try folder.get()
        return try await onDisk { [self] database throws(StoreError) in
            // A file that has no name any more would lose every write.
            if database?.hasMoved ?? false { database = nil }
            if let database {
                try checkPolicy(database.facts)
            } else if let file = try folder.existing(),
                let found = try ThreadDatabase(file, in: folder, on: folder.fileSystem())
            {
                try checkPolicy(found.facts)
                // A failure to write the tag, such as a full disk, must not prevent reading threads.
                try? folder.exclude(storagePolicy.isExcludedFromBackup)
                database = found
            }
            return database?.facts
        }
    }

    private func openedOrMade() async throws(StoreError) -> ThreadDatabase.Facts {
        if let facts = try await opened() { return facts }
        let (folder, policy) = (try folder.get(), storagePolicy)
        let new = ThreadDatabase.Facts(
            id: UUID().uuidString.lowercased(), isSealed: policy.fileProtection != .none)
        let keys = keys(of: new.id)
        var protection = ThreadProtection.plain
        if new.isSealed {
            // A folder that can't be used must not leave a key behind.
            let there = try await onDisk { database throws(StoreError) in
                database = try folder.preparing(isExcludedFromBackup: policy.isExcludedFromBackup) {
                    file throws(StoreError) in try ThreadDatabase(file, in: folder, on: folder.fileSystem())
                }
                return database?.facts
            }
            if let there {
                try checkPolicy(there)
                return there
            }
            // A key is in its place before anything is sealed with it.
            protection = ThreadProtection(sealers: [try ThreadKeys.newSealer()], isLatest: true)
            try await keys.save(protection.sealers)
        }
        let facts: ThreadDatabase.Facts
        do throws(StoreError) {
            facts = try await onDisk { [protection] database throws(StoreError) in
                let made = try folder.preparing(isExcludedFromBackup: policy.isExcludedFromBackup) {
                    file throws(StoreError) in
                    try ThreadDatabase.make(new, in: file, folder, protection: protection)
                }
                database = made
                return made.facts
            }
        } catch {
            // The key stays if something may be sealed with it.
            let isUsed = try? await onDisk { _ throws(StoreError) in
                try ThreadDatabase.facts(aloneIn: folder) == new
            }
            if new.isSealed, isUsed == false { await keys.delete() }
            throw error
        }
        // Another process was faster, and has a key of its own.
        if new.isSealed, facts != new { await keys.delete() }
        try checkPolicy(facts)
        return facts
    }

    /// Files never have less protection than the policy asks for.
    private func checkPolicy(_ facts: ThreadDatabase.Facts) throws(StoreError) {
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

    private func keys(of database: String) -> ThreadKeys {
        ThreadKeys(of: database, in: keyStore, owner: place.withLock { $0?.owner })
    }

    // MARK: Performing

    /// - Parameter thread: the thread that the work is about, if it is about one alone.
    private func perform<Output: Sendable>(
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

    private func perform<Output: Sendable>(
        _ facts: ThreadDatabase.Facts, _ protection: ThreadProtection,
        _ work: @escaping @Sendable (ThreadDatabase, ThreadProtection) throws(StoreError) -> Output
    ) async throws(StoreError) -> Output {
        try await onDisk { database throws(StoreError) in
            guard let database, database.facts == facts else {
                throw .unavailable("their folder was removed or replaced")
            }
            // Sizes are read without the key.
            if protection.isSealed == facts.isSealed { try database.upgrade(protection) }
            return try work(database, protection)
        }
    }

    private func protection(
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

    /// The longest time for which a turn without an end holds the key.
    private static let longestTurn = DispatchTimeInterval.seconds(86_400)

    /// Holds the keys while a turn is under way, so that its answer is kept although the screen was locked meanwhile.
    private func holdKeys(_ sealers: [RecordSealer], for records: [ChappieThreadRecord], of thread: String) {
        guard storagePolicy.fileProtection == .complete else { return }
        for turn in openTurns.withLock({ $0.follow(records, of: thread, sealers) }) {
            queue.asyncAfter(deadline: .now() + Self.longestTurn) { [weak self] in
                self?.openTurns.withLock { $0.close([turn], in: thread) }
            }
        }
    }

    /// SQLite blocks, so its work is done outside of the threads of Swift's tasks. A call that was cancelled goes on: its
    /// caller has to know whether something was stored.
    private func onDisk<Output: Sendable>(
        _ work: @escaping @Sendable (inout ThreadDatabase?) throws(StoreError) -> Output
    ) async throws(StoreError) -> Output {
        try await queue.run { [self] () throws(StoreError) in
            try database.withLock { database throws(StoreError) in try work(&database) }
        }
    }
}

/// How a file thread store protects what it stores.
public struct ChappieFileThreadStoreStoragePolicy: Sendable, Hashable, Codable {
    /// When the threads can be read.
    public enum FileProtection: String, Sendable, Hashable, Codable {
        /// Encrypted; the key is read for each call and not kept, except while a turn is under way: then it is held for
        /// that turn's thread, until the turn ends, waits for an approval or is a day old, so that an answer is kept
        /// although the screen was locked meanwhile. While the key can't be had, no other thread can be read, and no turn
        /// begins. The default.
        case complete
        /// Encrypted; the key is kept in memory once it has been read.
        case completeUntilFirstUserAuthentication
        /// Plain text, in files that are for their owner alone.
        case none
    }

    /// When the threads can be read. Default `.complete`.
    public var fileProtection: FileProtection
    /// Whether backup programs are asked to leave the folder out. Default `true`. The folder follows the store that opened
    /// it last.
    public var isExcludedFromBackup: Bool

    /// A policy with the given properties.
    public init(fileProtection: FileProtection = .complete, isExcludedFromBackup: Bool = true) {
        self.fileProtection = fileProtection
        self.isExcludedFromBackup = isExcludedFromBackup
    }
}

/// How much a file thread store may hold.
public struct ChappieFileThreadStoreLimits: Sendable, Hashable, Codable {
    /// The most bytes that the database may take, its index included; what deleted threads leave free does not count.
    /// Default 512 MiB. An append beyond it is `full`, and deleting makes room.
    public var maximumBytes: Int

    /// Limits with the given properties.
    public init(maximumBytes: Int = 512 << 20) { self.maximumBytes = maximumBytes }
}
