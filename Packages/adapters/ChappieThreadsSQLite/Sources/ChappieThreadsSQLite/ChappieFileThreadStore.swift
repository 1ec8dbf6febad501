public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
public import ChappieRuntime
import Dispatch
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

    let place: Mutex<ThreadPlace?>
    var folder: Result<ThreadFolder, StoreError> {
        let words = "this store has no location yet; create a runtime with it, or pass a directory or an owner"
        return place.withLock { $0?.folder } ?? .failure(.unavailable(words))
    }
    let keyStore: any CredentialStore
    let queue = DispatchQueue(label: "chappie.threads")
    /// Used on the queue alone.
    let database = Mutex<ThreadDatabase?>(nil)
    /// The keys, once read; never with `.complete`.
    let keptKeys = Mutex<[RecordSealer]?>(nil)
    /// With `.complete` alone.
    let openTurns = Mutex(KeysOfOpenTurns())

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
        self.init(directory.map { ThreadPlace(directory: $0, on: fileSystem) }, storagePolicy, limits, keys)
    }

    /// Threads of one user of one app, also without a runtime.
    ///
    /// The folder is `$XDG_STATE_HOME/chappie/threads/SERVICE/DIGEST` (without that variable: `~/.local/state/chappie/…`);
    /// the digest is the whole slot's. No other app and no other user of the app has it. On Apple's platforms it is
    /// `PROGRAM/Chappie/threads/SERVICE/DIGEST` in Application Support.
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
        self.init(ThreadPlace(of: owner), storagePolicy, limits, keys)
    }

    private init(
        _ place: ThreadPlace?, _ storagePolicy: ChappieFileThreadStoreStoragePolicy,
        _ limits: ChappieFileThreadStoreLimits,
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
            place = ThreadPlace(of: owner, isNamed: false)
            return true
        }
        guard !isPlaced else { return self }
        let words = "this store has the threads of another user: make a store for each client"
        return ChappieFileThreadStore(ThreadPlace(failure: .unavailable(words)), storagePolicy, limits, keyStore)
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
        try await write(records, to: thread, at: position, expecting: position)
    }

    public func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) async throws(ChappieThreadStoreError) {
        try await write(records, to: thread, at: 0, expecting: count)
    }

    /// Writes records from `position` on; those from there to the `expected` end are replaced.
    private func write(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int, expecting end: Int
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
                        try database.write(
                            records, to: thread, at: position, expecting: end, limit: limits.maximumBytes, protection)
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

    /// The hits that can be read, see ``readableHits(_:)``.
    ///
    /// - Throws: `damaged` if there are none and something could not be read.
    public func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        let found = try await readableHits(query)
        if found.hits.isEmpty, let problem = found.problems.first { throw problem }
        return found.hits
    }

    /// The threads in which all words of the query occur, best first, and the damage that was met: the words may occur in
    /// what could not be read.
    public func readableHits(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> ChappieReadableHits {
        guard let facts = try await opened() else { return ChappieReadableHits() }
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
}
