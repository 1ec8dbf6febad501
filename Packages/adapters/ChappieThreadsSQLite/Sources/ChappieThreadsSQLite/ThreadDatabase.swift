@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import ChappieSQLite

/// The database of a thread store. It is synchronous, and only one thread uses it at a time.
///
/// Form 1 of the file (`user_version`):
/// - `store`: one row. `key` names the key that new records are sealed with.
/// - `threads`: one row for each thread. `count` is the number of its records. `summary` is the sealed summary, which
///   belongs to this count.
/// - `records`: `id` is the thread's number · 2³² + the position, so that the records of a thread are neighbours.
/// - `record_words`: the sealed words of records, with the ids of these records.
///
/// The ids of threads, positions, kinds, dates and sizes are not encrypted.
final class ThreadDatabase {
    /// The facts about a database that a store needs before it can use it.
    struct Facts: Sendable, Hashable {
        /// The random name of the database. Its key is stored under this name.
        let id: String
        let isSealed: Bool
    }

    let facts: Facts
    let database: Database
    let folder: ThreadFolder
    /// Whether this is a copy of a damaged database, which has only what can be read.
    let isCopy: Bool
    /// The damage because of which this copy was made, or `nil`.
    let damage: StoreError?
    /// The losses of threads of this copy, by the ids of the threads.
    var losses: [String: StoreError] = [:]

    /// "CHPT".
    private static let application = 0x4348_5054
    static let form = 1
    /// Whether other processes wait while this database is open.
    private(set) var isAlone = false

    static let wordsTable =
        "CREATE TABLE record_words (id INTEGER PRIMARY KEY, key INTEGER NOT NULL, body BLOB NOT NULL)"
    /// The statements that create the tables, in the order of the tables' names.
    private static let tables = [
        wordsTable,
        """
        CREATE TABLE records
        (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, date INTEGER NOT NULL, key INTEGER NOT NULL, body BLOB NOT NULL)
        """,
        "CREATE TABLE store (id TEXT NOT NULL, key INTEGER NOT NULL)",
        """
        CREATE TABLE threads
        (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, count INTEGER NOT NULL, key INTEGER NOT NULL,
        summary BLOB NOT NULL)
        """,
    ]

    // MARK: Opening

    /// Opens the store in this database. Returns `nil` if the database is still empty.
    ///
    /// - Throws: `tooNew` or `damaged`. In these cases nothing has been written.
    init?(
        _ database: Database, in folder: ThreadFolder, on fileSystem: ThreadFileSystem
    ) throws(StoreError) {
        // Until the journal is known, no memory may be shared for a log.
        if fileSystem == .shared { try database.run("PRAGMA locking_mode = EXCLUSIVE") }
        // One snapshot reads all values, because another process may be making the store.
        let (application, form, isEmpty, schema) = try database.snapshot { () throws(StoreError) in
            // Tables and indices of other tools have no effect. Triggers and views would have one.
            let schema = try database.rows(
                """
                SELECT sql FROM sqlite_schema WHERE type IN ('trigger', 'view')
                OR type = 'table' AND name IN ('record_words', 'records', 'store', 'threads') ORDER BY name
                """,
                read: { $0.text(0) })
            return (
                try database.integer("PRAGMA application_id"), try database.integer("PRAGMA user_version"),
                try database.integer("SELECT count(*) FROM sqlite_schema") == 0, schema
            )
        }
        if application == 0, form == 0, isEmpty {
            guard folder.knownDatabase() == nil else { throw folder.lost("is empty") }
            return nil
        }
        guard application == Self.application else {
            throw .damaged(thread: nil, "the file is not a database of threads")
        }
        guard form <= Self.form else { throw .tooNew(found: form, known: Self.form) }
        guard form == Self.form, schema == Self.tables else {
            throw .damaged(thread: nil, "the tables have another form than this program gave them")
        }
        let stores = try database.rows("SELECT id, key FROM store", read: { ($0.text(0), $0.integer(1)) })
        guard let store = stores.first, stores.count == 1 else {
            throw .damaged(thread: nil, "the entry of the store is missing")
        }
        facts = Facts(id: store.0, isSealed: store.1 != ThreadProtection.plainKey)
        self.database = database
        self.folder = folder
        isCopy = false
        damage = nil
        try Self.chooseJournal(of: database, on: fileSystem)
        for setting in [
            "temp_store = MEMORY", "secure_delete = ON", "trusted_schema = OFF",
            "cell_size_check = ON", "journal_size_limit = 16777216",
        ] {
            try database.run("PRAGMA \(setting)")
        }
    }

    /// Uses a copy that has the tables.
    init(copy database: Database, of facts: Facts, in folder: ThreadFolder, damage: StoreError?) {
        self.facts = facts
        self.database = database
        self.folder = folder
        self.damage = damage
        isCopy = true
    }

    /// The first damage of this copy.
    var firstProblem: StoreError? { damage ?? losses.values.first }

    /// Chooses a write-ahead log on a disk of this machine, or a rollback journal if the log cannot work. This method
    /// first ends a log that an earlier version, or another machine's own disk, has begun.
    private static func chooseJournal(of database: Database, on fileSystem: ThreadFileSystem) throws(StoreError) {
        var journal = try database.text("PRAGMA journal_mode")
        if fileSystem == .shared {
            if journal == "wal" { journal = try database.text("PRAGMA journal_mode = DELETE") }
            guard journal == "delete" else {
                throw .unavailable(
                    "their folder is on a network, and the database can't change to a journal that works there"
                )
            }
            try database.run("PRAGMA locking_mode = NORMAL")
            // The next statement lets other processes in.
            _ = try database.integer("SELECT count(*) FROM store")
        }
        try database.run("PRAGMA synchronous = \(journal == "wal" ? "FULL" : "EXTRA")")
    }

    /// Whether the file was removed from its folder, or replaced there.
    var hasMoved: Bool { database.hasMoved }

    /// The error for a log on a read-only file system. SQLite can't read it there, but a copy can be made.
    static let unreadableLog = StoreError.damaged(thread: nil, "the log is on a read-only disk")

    /// Opens the store in `folder`. Returns `nil` if there is none.
    ///
    /// If the disk has no room for the index of the log, which other processes would share, the database is opened
    /// exclusively. The index is then in this process's memory. On a read-only file system, the database is opened only
    /// for reading.
    static func opened(in folder: ThreadFolder) throws(StoreError) -> ThreadDatabase? {
        do throws(StoreError) {
            guard let file = try folder.existing() else { return nil }
            let database = try ThreadDatabase(file, in: folder, on: folder.fileSystem())
            guard !file.isReadOnly || folder.isUnwritable else {
                throw .damaged(thread: nil, "its header does not let SQLite write it")
            }
            return database
        } catch {
            guard case .unavailable = error else { throw error }
            if folder.isReadOnly {
                guard folder.hasNoLog else { throw unreadableLog }
                return try folder.existing(isReadOnly: true).flatMap { file throws(StoreError) in
                    try ThreadDatabase(file, in: folder, on: .local)
                }
            }
            let alone = Result { () throws(StoreError) in
                try folder.existing().flatMap { file throws(StoreError) in
                    try file.run("PRAGMA locking_mode = EXCLUSIVE")
                    return try ThreadDatabase(file, in: folder, on: .local)
                }
            }
            guard case .success(let alone) = alone else { throw error }
            alone?.isAlone = true
            return alone
        }
    }

    /// Makes an empty store in one step, unless there already is one.
    static func make(
        _ facts: Facts, in database: Database, _ folder: ThreadFolder, protection: ThreadProtection
    ) throws(StoreError) -> ThreadDatabase {
        let fileSystem = try folder.fileSystem()
        if let there = try ThreadDatabase(database, in: folder, on: fileSystem) { return there }
        try makeTables(facts, key: protection.currentKey, in: database, on: fileSystem)
        guard let made = try ThreadDatabase(database, in: folder, on: fileSystem) else {
            throw .unavailable("the database was removed while it was being made")
        }
        folder.note(facts.id)
        folder.makeReserve()
        return made
    }

    /// Makes the tables in an empty database.
    static func makeTables(
        _ facts: Facts, key: Int, in database: Database, on fileSystem: ThreadFileSystem
    ) throws(StoreError) {
        try database.run("PRAGMA page_size = \(DatabasePages.size)")
        try database.run("PRAGMA auto_vacuum = INCREMENTAL")
        // A file system that has no memory to share for the log keeps the rollback journal.
        if fileSystem == .local { try database.run("PRAGMA journal_mode = WAL") }
        try database.run("PRAGMA synchronous = EXTRA")
        try database.transaction { () throws(StoreError) in
            try database.run("PRAGMA application_id = \(application)")
            try database.run("PRAGMA user_version = \(form)")
            for table in tables { try database.run(table) }
            try database.run("INSERT INTO store VALUES (?, ?)", .text(facts.id), .integer(key))
        }
    }

    // MARK: Changes

    /// Returns the key that new records are sealed with.
    ///
    /// - Throws: `wrongKey` if it is not among these keys, or `tooNew` if a newer program has changed the form since
    ///   this one opened the file.
    @discardableResult
    func currentKey(_ protection: ThreadProtection) throws(StoreError) -> Int {
        let form = try database.integer("PRAGMA user_version")
        guard form <= Self.form else { throw .tooNew(found: form, known: Self.form) }
        guard let key = try database.rows("SELECT key FROM store", read: { $0.integer(0) }).first else {
            throw .damaged(thread: nil, "the entry of the store is missing")
        }
        guard protection.knows(key) else {
            throw .wrongKey("they were encrypted with another key than the stored one")
        }
        return key
    }

    /// Runs a transaction that changes something, unless another process has replaced the file.
    func change<Output>(_ body: () throws(StoreError) -> Output) throws(StoreError) -> Output {
        try database.transaction { () throws(StoreError) in
            guard !hasMoved else { throw .unavailable("their folder was removed or replaced") }
            return try body()
        }
    }

    /// Runs `body`, and attributes damage of the file to this thread.
    func concerning<Output>(
        _ thread: String, _ body: () throws(StoreError) -> Output
    ) throws(StoreError) -> Output {
        do throws(StoreError) {
            return try body()
        } catch .damaged(nil, let words) {
            throw .damaged(thread: thread, words)
        }
    }

    // MARK: Room

    /// Gives the space of deleted data back to the disk, and also removes the data from the log. Another process may
    /// prevent this.
    func giveRoomBack() {
        try? database.run("PRAGMA incremental_vacuum")
        try? database.run("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    func usage(limit: Int) throws(StoreError) -> ChappieThreadStoreUsage {
        try database.snapshot { () throws(StoreError) in
            ChappieThreadStoreUsage(
                bytes: try bytesUsed(), limit: limit, threads: try database.integer("SELECT count(*) FROM threads"),
                records: try database.integer("SELECT coalesce(sum(count), 0) FROM threads"))
        }
    }

    /// Returns the size of the pages that contain data. The log does not count, because it is small and soon empty
    /// again.
    func bytesUsed() throws(StoreError) -> Int {
        let pages = try database.integer("PRAGMA page_count") - database.integer("PRAGMA freelist_count")
        return pages * (try database.integer("PRAGMA page_size"))
    }
}
