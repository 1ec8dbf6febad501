public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
public import ChappieRuntime
import Dispatch
import Synchronization

/// A store that keeps threads in a file of this machine. The file is an SQLite database, which is encrypted unless
/// plain text is requested.
///
/// Several processes may use one folder at the same time. They may run on several machines if the folder is on the file
/// system of a network that supports locks. On such a file system, SQLite's rollback journal replaces its log, and an
/// append takes longer. After ``append(_:to:at:)`` has returned, its records survive a crash and a power cut. The cost
/// of an append does not depend on the length of the thread. Deleted records and their words are overwritten in the
/// database. The log is cut, not overwritten.
///
/// **Encrypted** are every record, title and preview, with AES-256-GCM. They are bound to their thread, position and
/// kind, so that records that were exchanged, moved or cut off by hand are noticed (`damaged`). An older copy of a
/// thread or of the file that was put back is not noticed. The words for searches are also encrypted. The threads' ids,
/// and the positions, kinds, dates and sizes of records are not encrypted.
///
/// **Damage** of the file affects only the threads whose data it destroyed. The others can still be read and exported.
/// ``repair()`` writes a new file from everything that can be read.
///
/// A `CredentialStore` keeps the key, usually in the keyring. Without the key the threads are lost.
///
/// **The store refuses** (`unsafeFile`) a folder or file that belongs to another user, that others may read or write,
/// or that is a symbolic link.
public final class ChappieFileThreadStore: ChappieThreadStore {
    /// The folder, or `nil` before the store has a place and if there is no home directory.
    public var directory: String? { try? folder.get().path }
    /// The policy for the protection of the files.
    public let storagePolicy: ChappieFileThreadStoreStoragePolicy
    /// The limits for the stored data.
    public let limits: ChappieFileThreadStoreLimits

    let place: Mutex<ThreadPlace?>
    var folder: Result<ThreadFolder, StoreError> {
        let words = "this store has no location yet; create a runtime with it, or pass a directory or an owner"
        return place.withLock { $0?.folder } ?? .failure(.unavailable(words))
    }
    let keyStore: any CredentialStore
    let queue = DispatchQueue(label: "chappie.threads")
    /// The open database, which is used only on the queue.
    let database = Mutex<ThreadDatabase?>(nil)
    /// A copy of what can be read of a damaged database, and the state of the file that it was made from.
    let copy = Mutex<(stamp: [Int], database: ThreadDatabase)?>(nil)
    /// The keys after they have been read. They are never kept with `.complete`.
    let keptKeys = Mutex<[RecordSealer]?>(nil)
    /// The keys of threads with a running turn, only with `.complete`.
    let openTurns = Mutex(KeysOfOpenTurns())

    /// Creates a store without touching the folder or the key. The first call that needs them reports a problem with
    /// them.
    ///
    /// - Parameters:
    ///   - directory: An absolute path of a folder, which is made for only this user at the first append. Default: a
    ///     folder of the app and the user whose client makes the runtime, see
    ///     ``init(owner:storagePolicy:limits:keys:)``. Before there is a runtime, every call throws `unavailable`.
    ///   - storagePolicy: Encryption and backups.
    ///   - limits: The limits for the stored data. Default 512 MiB.
    ///   - keys: Keeps the key. The key of a named directory is in a slot of the service `com.chappie.sdk`. Any other
    ///     key is in a slot of the owner's service. The slot's account begins with `threads-`. This credential store is
    ///     not used with `fileProtection: .none`.
    public convenience init(
        directory: String? = nil, storagePolicy: ChappieFileThreadStoreStoragePolicy = .init(),
        limits: ChappieFileThreadStoreLimits = .init(), keys: any CredentialStore
    ) {
        self.init(directory: directory, on: nil, storagePolicy: storagePolicy, limits: limits, keys: keys)
    }

    /// Creates a store on a file system of a given kind, so that the system is not asked for the kind.
    @_spi(ChappieInternals) public convenience init(
        directory: String?, on fileSystem: ThreadFileSystem?,
        storagePolicy: ChappieFileThreadStoreStoragePolicy = .init(), limits: ChappieFileThreadStoreLimits = .init(),
        keys: any CredentialStore
    ) {
        self.init(directory.map { ThreadPlace(directory: $0, on: fileSystem) }, storagePolicy, limits, keys)
    }

    /// Creates a store for the threads of one user of one app, which also works without a runtime.
    ///
    /// The folder is `$XDG_STATE_HOME/chappie/threads/SERVICE/DIGEST` (without that variable:
    /// `~/.local/state/chappie/…`). The digest covers the complete slot. No other app and no other user of the app has
    /// this folder. On Apple's platforms it is `PROGRAM/Chappie/threads/SERVICE/DIGEST` in Application Support.
    ///
    /// - Parameters:
    ///   - owner: The slot of the user's credential (`ChappieConfiguration.credentialSlot`).
    ///   - storagePolicy: Encryption and backups.
    ///   - limits: The limits for the stored data. Default 512 MiB.
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

    /// Returns this store, in the folder of `owner` if neither a folder nor an owner was named. The store then stays in
    /// this folder. For another owner, the result is a store whose calls throw `unavailable`, so that no user sees
    /// another user's threads.
    public var kind: ChappieThreadStoreKind { .file }

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

    /// Opens the database, or makes it and its key, so that a program can report early that nothing will be stored.
    ///
    /// - Throws: ``ChappieThreadStoreError``, as the first append would.
    public func prepare() async throws(ChappieThreadStoreError) {
        let facts = try await openedOrMade()
        _ = try await perform(facts) { database, protection throws(StoreError) in try database.currentKey(protection) }
    }

    /// Closes the database until the next call. In the meantime this process has no lock on it, so that another program
    /// can repair or replace it.
    public func close() async {
        try? await onDisk { [self] database throws(StoreError) in
            database = nil
            copy.withLock { $0 = nil }
        }
    }

    public func summaries() async throws(ChappieThreadStoreError) -> [ChappieThreadSummary] {
        try await read(or: []) { database, protection throws(StoreError) in try database.summaries(protection) }
    }

    /// Returns the threads whose entries are intact, even if others are damaged. In this case ``summaries()`` throws.
    public func readableThreads() async throws(ChappieThreadStoreError) -> ChappieReadableThreads {
        try await read(or: ChappieReadableThreads()) { database, protection throws(StoreError) in
            try database.readableSummaries(protection)
        }
    }

    public func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        try await read(thread, or: nil) { database, protection throws(StoreError) in
            try database.summary(of: thread, protection)
        }
    }

    public func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        let records = try await read(thread, or: nil) { database, protection throws(StoreError) in
            try database.records(of: thread, from: position, protection)
        }
        guard let records else { throw .notFound(thread: thread) }
        return records
    }

    /// Returns what can be read of a thread. If it is damaged, the result has the other records, and the loss.
    ///
    /// - Throws: `notFound`, or `damaged` if nothing of the thread can be read.
    public func readableThread(_ id: String) async throws(ChappieThreadStoreError) -> ChappieReadableThread {
        let found = try await read(id, or: nil) { database, protection throws(StoreError) in
            let (records, loss) = try database.readableRecords(of: id, protection)
            return ChappieReadableThread(thread: try ChappieThread(id: id, records: records), problem: loss)
        }
        guard let found else { throw .notFound(thread: id) }
        return found
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

    /// Writes records from `position` on. They replace the records from there to the end that is expected.
    private func write(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int, expecting end: Int
    ) async throws(ChappieThreadStoreError) {
        precondition(
            !records.isEmpty && position >= 0 && position + records.count < 1 << 31
                && records.map(\.position) == Array(position..<position + records.count),
            "Records that are appended follow one another from the given position on.")
        do throws(StoreError) {
            let facts = try await openedOrMade()
            // An answer must not be lost because another process is slow.
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
            // The caller tries again if the thread has grown in the meantime. Any other error ends the turn.
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

    /// Returns the hits that can be read. See ``readableHits(_:)``.
    ///
    /// - Throws: `damaged` if there are no hits and something could not be read.
    public func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        let found = try await readableHits(query)
        if found.hits.isEmpty, let problem = found.problems.first { throw problem }
        return found.hits
    }

    /// Returns the threads in which all words of the query occur, best first, and the damage that was found. The words
    /// may also occur in data that could not be read.
    public func readableHits(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> ChappieReadableHits {
        try await read(or: ChappieReadableHits()) { database, protection throws(StoreError) in
            try database.search(query, protection)
        }
    }

    /// Returns the amount of stored data. This method needs no key.
    public func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage {
        guard let facts = try await opened() else {
            return ChappieThreadStoreUsage(bytes: 0, limit: limits.maximumBytes, threads: 0, records: 0)
        }
        return try await perform(facts, .plain) { [limits] database, _ throws(StoreError) in
            try database.usage(limit: limits.maximumBytes)
        }
    }
}
