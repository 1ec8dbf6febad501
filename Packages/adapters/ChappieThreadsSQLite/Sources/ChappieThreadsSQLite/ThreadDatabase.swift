@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
@_spi(ChappieInternals) import ChappieSQLite

/// The database of a thread store. Synchronous, for one thread at a time.
///
/// Form 1 of the file (`user_version`):
/// - `store`: one row. `key` names the key that new records are sealed with, `state` holds how many threads there are.
/// - `threads`: a row for each. `count` is the number of its records, `summary` the sealed summary, which belongs to
///   this count.
/// - `records`: `id` is the thread's number · 2³² + the position: records of a thread are neighbours.
/// - `search`: FTS5, with the ids of the records.
///
/// Not encrypted are ids of threads, positions, kinds, dates, sizes, and with encryption the digests of words: they
/// show which records share words, but not the words.
final class ThreadDatabase {
    /// The facts about a database that a store needs before it can use it.
    struct Facts: Sendable, Hashable {
        /// Names the database, at random; its key is stored under this name.
        let id: String
        let isSealed: Bool
    }

    let facts: Facts
    let database: Database

    /// "CHPT".
    private static let application = 0x4348_5054
    private static let form = 1

    static let searchTable = "CREATE VIRTUAL TABLE search USING fts5(words, beginnings, tokenize = 'ascii')"
    private static let tables = [
        """
        CREATE TABLE records
        (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, date INTEGER NOT NULL, key INTEGER NOT NULL, body BLOB NOT NULL)
        """,
        searchTable,
        "CREATE TABLE store (id TEXT NOT NULL, key INTEGER NOT NULL, state BLOB NOT NULL)",
        """
        CREATE TABLE threads
        (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, count INTEGER NOT NULL, key INTEGER NOT NULL,
        summary BLOB NOT NULL)
        """,
    ]

    // MARK: Opening

    /// The store in this database; `nil` when nothing is in it yet.
    ///
    /// - Throws: `tooNew`, `damaged`. Nothing has been written then.
    init?(_ database: Database, on fileSystem: ThreadFileSystem) throws(StoreError) {
        // Until its journal is known, no memory may be shared for a log.
        if fileSystem == .shared { try database.run("PRAGMA locking_mode = EXCLUSIVE") }
        // At once: another process may be making the store.
        let (application, form, isEmpty, schema) = try database.snapshot { () throws(StoreError) in
            // Tables and indices of other tools change nothing; triggers and views would.
            let schema = try database.rows(
                """
                SELECT sql FROM sqlite_schema WHERE type IN ('trigger', 'view')
                OR type = 'table' AND name IN ('records', 'search', 'store', 'threads') ORDER BY name
                """,
                read: { $0.text(0) })
            return (
                try database.integer("PRAGMA application_id"), try database.integer("PRAGMA user_version"),
                try database.integer("SELECT count(*) FROM sqlite_schema") == 0, schema
            )
        }
        if application == 0, form == 0, isEmpty { return nil }
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
        try Self.chooseJournal(of: database, on: fileSystem)
        for setting in [
            "temp_store = MEMORY", "secure_delete = ON", "trusted_schema = OFF",
            "cell_size_check = ON", "journal_size_limit = 16777216",
        ] {
            try database.run("PRAGMA \(setting)")
        }
    }

    /// A write-ahead log on a disk of this machine, a rollback journal where the log can't work. A log that an earlier
    /// version, or another machine's own disk, has begun is ended first.
    private static func chooseJournal(of database: Database, on fileSystem: ThreadFileSystem) throws(StoreError) {
        var journal = try database.text("PRAGMA journal_mode")
        if fileSystem == .shared {
            if journal == "wal" { journal = try database.text("PRAGMA journal_mode = DELETE") }
            guard journal == "delete" else {
                throw .unavailable(
                    "their folder is on a network, and the journal of the database can't be changed to one that works there"
                )
            }
            try database.run("PRAGMA locking_mode = NORMAL")
            // The next statement lets other processes in.
            _ = try database.integer("SELECT count(*) FROM store")
        }
        try database.run("PRAGMA synchronous = \(journal == "wal" ? "FULL" : "EXTRA")")
    }

    /// The store in `folder`, for salvage: a file that is shorter than its header says is opened all the same.
    convenience init?(salvaging folder: ThreadFolder) throws(StoreError) {
        guard let file = try folder.existing() else { return nil }
        try file.run("PRAGMA writable_schema = ON")
        try file.run("PRAGMA query_only = ON")
        if try folder.fileSystem() == .shared { try file.run("PRAGMA locking_mode = EXCLUSIVE") }
        // The journal stays as it is.
        try self.init(file, on: .local)
    }

    /// Makes an empty store, in one step, unless there is one.
    static func make(
        _ facts: Facts, in database: Database, on fileSystem: ThreadFileSystem, protection: ThreadProtection
    ) throws(StoreError) -> ThreadDatabase {
        if let there = try ThreadDatabase(database, on: fileSystem) { return there }
        try database.run("PRAGMA auto_vacuum = INCREMENTAL")
        // A file system that has no memory to share for the log keeps the rollback journal.
        if fileSystem == .local { try database.run("PRAGMA journal_mode = WAL") }
        try database.run("PRAGMA synchronous = EXTRA")
        let state = try protection.seal(
            bytes(of: 0), with: protection.currentKey, for: .store(database: facts.id))
        try database.transaction { () throws(StoreError) in
            try database.run("PRAGMA application_id = \(application)")
            try database.run("PRAGMA user_version = \(form)")
            for table in tables { try database.run(table) }
            try database.run(
                "INSERT INTO store VALUES (?, ?, ?)", .text(facts.id), .integer(protection.currentKey), .bytes(state))
        }
        guard let made = try ThreadDatabase(database, on: fileSystem) else {
            throw .unavailable("the database was removed while it was being made")
        }
        return made
    }

    private static func bytes(of number: Int) -> [UInt8] { withUnsafeBytes(of: number.littleEndian, Array.init) }

    /// The key that new records are sealed with, and the number of threads, checked.
    func state(_ protection: ThreadProtection) throws(StoreError) -> (key: Int, threads: Int) {
        let rows = try database.rows("SELECT key, state FROM store", read: { ($0.integer(0), $0.bytes(1)) })
        guard let (key, sealed) = rows.first else { throw .damaged(thread: nil, "the entry of the store is missing") }
        guard protection.knows(key) else {
            throw .wrongKey("they were encrypted with another key than the stored one")
        }
        guard let state = try protection.open(sealed, with: key, for: .store(database: facts.id)), state.count == 8
        else { throw .damaged(thread: nil, "the entry of the store was changed") }
        return (key, state.reversed().reduce(0) { $0 << 8 | Int($1) })
    }

    func setState(_ threads: Int, _ protection: ThreadProtection, key: Int) throws(StoreError) {
        let state = try protection.seal(Self.bytes(of: threads), with: key, for: .store(database: facts.id))
        try database.run("UPDATE store SET key = ?, state = ?", .integer(key), .bytes(state))
    }

    // MARK: Threads

    /// A row of `threads`.
    struct Entry {
        static let columns = "number, id, count, key, summary"

        let number: Int
        var id: String
        let count: Int
        let key: Int
        let summary: [UInt8]

        init(_ row: SQLiteRow) {
            number = row.integer(0)
            id = row.text(1)
            count = row.integer(2)
            key = row.integer(3)
            summary = row.bytes(4)
        }

        /// The ids of its records.
        var first: Int { number << 32 }
        var last: Int { first | 0xFFFF_FFFF }
    }

    /// The entry that the index finds under this id. Its caller checks it against the id, because the row's own id may
    /// be damaged.
    func entry(of thread: String) throws(StoreError) -> Entry? {
        var entry = try database.rows(
            "SELECT \(Entry.columns) FROM threads WHERE id = ?", .text(thread), read: Entry.init
        ).first
        entry?.id = thread
        return entry
    }

    func entry(numbered number: Int) throws(StoreError) -> Entry? {
        try database.rows(
            "SELECT \(Entry.columns) FROM threads WHERE number = ?", .integer(number), read: Entry.init
        ).first
    }

    func entries() throws(StoreError) -> [Entry] {
        try database.rows("SELECT \(Entry.columns) FROM threads NOT INDEXED", read: Entry.init)
    }

    /// `nil` if the entry differs from the entry that was written for the thread `id`.
    func summary(
        in entry: Entry, as id: String, _ protection: ThreadProtection
    ) throws(StoreError) -> ChappieThreadSummary? {
        let context = ThreadProtection.Context.summary(database: facts.id, thread: id, count: entry.count)
        guard (0...0xFFFF_FFFF).contains(entry.count),
            let bytes = try protection.open(entry.summary, with: entry.key, for: context)
        else { return nil }
        return ChappieThreadSummary(id: id, stored: bytes)
    }

    func checkedSummary(
        in entry: Entry, _ protection: ThreadProtection
    ) throws(StoreError) -> ChappieThreadSummary {
        guard let summary = try summary(in: entry, as: entry.id, protection) else {
            throw .damaged(thread: entry.id, "its entry was changed, or belongs to another thread or length")
        }
        return summary
    }

    func seal(
        _ summary: ChappieThreadSummary, count: Int, _ key: Int, _ protection: ThreadProtection
    ) throws(StoreError) -> [UInt8] {
        try protection.seal(
            summary.storedBytes, with: key, for: .summary(database: facts.id, thread: summary.id, count: count))
    }

    func summaries(_ protection: ThreadProtection) throws(StoreError) -> [ChappieThreadSummary] {
        try database.snapshot { () throws(StoreError) in
            let expected = try state(protection).threads
            var summaries: [ChappieThreadSummary] = []
            for entry in try entries() { summaries.append(try checkedSummary(in: entry, protection)) }
            guard summaries.count == expected else { throw Self.missingThreads(summaries.count, of: expected) }
            return summaries
        }
    }

    /// The summaries of the threads whose entries are whole, and the damage of the others.
    func readableSummaries(_ protection: ThreadProtection) throws(StoreError) -> ChappieReadableThreads {
        try database.snapshot { () throws(StoreError) in
            var found = ChappieReadableThreads()
            var expected: Int?
            do throws(StoreError) {
                expected = try state(protection).threads
            } catch {
                guard case .damaged = error else { throw error }
                found.problems.append(error)
            }
            let entries = reachableEntries()
            for entry in entries {
                do throws(StoreError) {
                    found.threads.append(try checkedSummary(in: entry, protection))
                } catch {
                    guard case .damaged = error else { throw error }
                    found.problems.append(error)
                }
            }
            if let expected, entries.count != expected {
                found.problems.append(Self.missingThreads(entries.count, of: expected))
            }
            return found
        }
    }

    func summary(of thread: String, _ protection: ThreadProtection) throws(StoreError) -> ChappieThreadSummary? {
        try database.snapshot { () throws(StoreError) in
            _ = try state(protection)
            guard let entry = try entry(of: thread) else {
                try searchForLost(thread, protection)
                return nil
            }
            return try checkedSummary(in: entry, protection)
        }
    }

    /// Called if a thread is not found: damage to its id or to the index of ids must not look like its absence.
    private func searchForLost(_ thread: String, _ protection: ThreadProtection) throws(StoreError) {
        let (entries, expected) = (try entries(), try state(protection).threads)
        guard entries.count == expected else { throw Self.missingThreads(entries.count, of: expected) }
        for entry in entries where try summary(in: entry, as: entry.id, protection) == nil {
            guard try summary(in: entry, as: thread, protection) == nil else {
                throw .damaged(thread: thread, "its entry has the name of another thread")
            }
        }
        guard !entries.contains(where: { $0.id == thread }) else {
            throw .damaged(thread: thread, "the index of threads does not lead to it")
        }
    }

    static func missingThreads(_ count: Int, of expected: Int) -> StoreError {
        .damaged(thread: nil, "\(count) threads are there, but \(expected) were stored")
    }

    // MARK: Records

    func records(
        of thread: String, from position: Int, _ protection: ThreadProtection
    ) throws(StoreError) -> [ChappieThreadRecord] {
        try database.snapshot { () throws(StoreError) in
            _ = try state(protection)
            guard let entry = try entry(of: thread) else {
                try searchForLost(thread, protection)
                throw .notFound(thread: thread)
            }
            _ = try checkedSummary(in: entry, protection)
            let start = min(max(position, 0), entry.count)
            var records: [ChappieThreadRecord] = []
            try database.each(
                "SELECT id, kind, date, key, body FROM records WHERE id BETWEEN ? AND ? ORDER BY id",
                [.integer(entry.first | start), .integer(entry.last)]
            ) { row throws(StoreError) in
                let next = start + records.count
                guard next < entry.count, row.integer(0) == entry.first | next else {
                    throw .damaged(thread: thread, "its record \(next) is missing")
                }
                records.append(try record(at: next, of: thread, in: row, protection))
                return true
            }
            guard start + records.count == entry.count else {
                throw .damaged(
                    thread: thread, "it has \(start + records.count) records, but \(entry.count) were stored")
            }
            return records
        }
    }

    /// The record with this id; `nil` when it is missing.
    func record(_ id: Int, of thread: String, _ protection: ThreadProtection) throws(StoreError) -> ChappieThreadRecord?
    {
        try database.rows("SELECT id, kind, date, key, body FROM records WHERE id = ?", .integer(id)) {
            row throws(StoreError) in try record(at: id & 0xFFFF_FFFF, of: thread, in: row, protection)
        }.first
    }

    /// The record in a row of `id, kind, date, key, body`.
    private func record(
        at position: Int, of thread: String, in row: SQLiteRow, _ protection: ThreadProtection
    ) throws(StoreError) -> ChappieThreadRecord {
        let (kind, date) = (row.text(1), row.integer(2))
        let context = ThreadProtection.Context.record(
            database: facts.id, thread: thread, position: position, kind: kind, date: date)
        guard let bytes = try protection.open(row.bytes(4), with: row.integer(3), for: context),
            let body = try? ChappieJSON(parsing: bytes)
        else { throw .damaged(thread: thread, "its record \(position) was changed, or belongs to another place") }
        return ChappieThreadRecord(
            position: position, kind: .init(rawValue: kind), date: Date(timeIntervalSince1970: Double(date) / 1000),
            body: body)
    }

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int, limit: Int,
        _ protection: ThreadProtection
    ) throws(StoreError) {
        // The slow work is done before other processes have to wait.
        var bodies: [[UInt8]] = []
        for record in records { bodies.append(try record.storedBody()) }
        for date in [thread.createdAt, thread.updatedAt] { _ = try Self.milliseconds(of: date) }
        let size = bodies.reduce(0) { $0 + $1.count }
        guard size <= limit else { throw .full(bytes: size, limit: limit) }
        try database.transaction { () throws(StoreError) in
            let (key, threads) = try state(protection)
            let known = try entry(of: thread.id)
            if let known { _ = try checkedSummary(in: known, protection) }
            let actual = known?.count ?? 0
            guard actual == position else { throw .conflict(thread: thread.id, expected: position, actual: actual) }
            let number =
                if let known { known.number } else {
                    try database.integer("SELECT coalesce(max(number), 0) + 1 FROM threads")
                }
            let count = position + records.count
            let summary = try seal(thread, count: count, key, protection)
            try database.run(
                """
                INSERT INTO threads VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (number) DO UPDATE SET count = excluded.count, key = excluded.key, summary = excluded.summary
                """,
                .integer(number), .text(thread.id), .integer(count), .integer(key), .bytes(summary))
            for (record, body) in zip(records, bodies) {
                try insert(record, body, into: number << 32 | record.position, of: thread.id, key, protection)
            }
            if known == nil { try setState(threads &+ 1, protection, key: key) }
            let bytes = try bytesUsed()
            guard bytes <= limit else { throw .full(bytes: bytes, limit: limit) }
        }
    }

    func insert(
        _ record: ChappieThreadRecord, _ body: [UInt8], into id: Int, of thread: String, _ key: Int,
        _ protection: ThreadProtection
    ) throws(StoreError) {
        let date = try Self.milliseconds(of: record.date)
        let context = ThreadProtection.Context.record(
            database: facts.id, thread: thread, position: record.position, kind: record.kind.rawValue, date: date)
        try database.run(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?)", .integer(id), .text(record.kind.rawValue), .integer(date),
            .integer(key), .bytes(try protection.seal(body, with: key, for: context)))
        guard let text = record.searchableText else { return }
        try index(text, as: id, key, protection)
    }

    /// - Throws: `unavailable` for a date that would come back changed.
    private static func milliseconds(of date: Date) throws(StoreError) -> Int {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
        guard milliseconds.magnitude <= 0x1p53 else { throw .unavailable("a date is beyond what can be stored") }
        return Int(milliseconds)
    }

    func delete(_ thread: String, _ protection: ThreadProtection) throws(StoreError) {
        let isGone = try database.transaction { () throws(StoreError) in
            let (key, threads) = try state(protection)
            guard let entry = try entryToDelete(thread) else {
                try searchForLost(thread, protection)
                return false
            }
            // A damaged index must not cost another thread, which is whole, its life.
            if let own = try self.entry(numbered: entry.number), own.id != thread,
                try summary(in: own, as: own.id, protection) != nil
            {
                throw .damaged(thread: thread, "its place is another thread's")
            }
            let ids = (SQLiteValue.integer(entry.first), SQLiteValue.integer(entry.last))
            try database.run("DELETE FROM search WHERE rowid BETWEEN ? AND ?", ids.0, ids.1)
            // FTS5 only marks entries as deleted; they go when it merges its parts. At most 8 MiB of that at once.
            try database.run("INSERT INTO search (search, rank) VALUES ('merge', -2000)")
            try database.run("DELETE FROM records WHERE id BETWEEN ? AND ?", ids.0, ids.1)
            try database.run("DELETE FROM threads WHERE number = ?", .integer(entry.number))
            try setState(threads &- 1, protection, key: key)
            return true
        }
        guard isGone else { return }
        // The room goes back to the disk, and what was deleted leaves the log as well; another process may be in the way.
        try? database.run("PRAGMA incremental_vacuum")
        try? database.run("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// The entry of the thread, also if its row has an id that the index of ids does not have.
    private func entryToDelete(_ thread: String) throws(StoreError) -> Entry? {
        if let entry = try entry(of: thread) { return entry }
        guard try entries().contains(where: { $0.id == thread }) else { return nil }
        try database.run("REINDEX threads")
        return try entry(of: thread)
    }

    // MARK: Size

    func usage(limit: Int) throws(StoreError) -> ChappieThreadStoreUsage {
        try database.snapshot { () throws(StoreError) in
            ChappieThreadStoreUsage(
                bytes: try bytesUsed(), limit: limit, threads: try database.integer("SELECT count(*) FROM threads"),
                records: try database.integer("SELECT coalesce(sum(count), 0) FROM threads"))
        }
    }

    /// The pages of the database that hold something: the log, which is small and soon empty again, does not count.
    private func bytesUsed() throws(StoreError) -> Int {
        // FTS5 keeps what is new in memory until a savepoint makes it write.
        try database.run("SAVEPOINT written")
        try database.run("RELEASE written")
        let pages = try database.integer("PRAGMA page_count") - database.integer("PRAGMA freelist_count")
        return pages * (try database.integer("PRAGMA page_size"))
    }
}

extension ChappieThreadSummary {
    /// As JSON, without the id.
    fileprivate var storedBytes: [UInt8] {
        let json: ChappieJSON = [
            "title": title.map { .string($0) } ?? .null, "preview": .string(preview), "model": .string(model),
            "created": .double(createdAt.timeIntervalSinceReferenceDate),
            "updated": .double(updatedAt.timeIntervalSinceReferenceDate), "archived": .bool(isArchived),
            "turns": .integer(turnCount), "records": .integer(recordCount),
        ]
        return json.serializedBytes()
    }

    fileprivate init?(id: String, stored bytes: [UInt8]) {
        guard let json = try? ChappieJSON(parsing: bytes), let preview = json["preview"]?.string,
            let model = json["model"]?.string, let created = json["created"]?.double,
            let updated = json["updated"]?.double, let isArchived = json["archived"]?.bool,
            let turns = json["turns"]?.int, let records = json["records"]?.int
        else { return nil }
        self.init(
            id: id, title: json["title"]?.string, preview: preview, model: model,
            createdAt: Date(timeIntervalSinceReferenceDate: created),
            updatedAt: Date(timeIntervalSinceReferenceDate: updated), isArchived: isArchived, turnCount: turns,
            recordCount: records)
    }
}
