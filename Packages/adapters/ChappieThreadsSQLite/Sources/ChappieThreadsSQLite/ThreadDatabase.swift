@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
@_spi(ChappieInternals) import ChappieSQLite

/// The database of a thread store. Synchronous, for one thread at a time.
///
/// Form 2 of the file (`user_version`):
/// - `store`: one row. `key` names the key that new records are sealed with, `state` holds how many threads there are, how
///   often they were changed, and the sum of the tags of their rows.
/// - `threads`: a row for each. `count` is the number of its records, `summary` the sealed summary, which belongs to
///   this count.
/// - `records`: `id` is the thread's number · 2³² + the position: records of a thread are neighbours.
/// - `record_words`: the sealed words of records, with the ids of these.
///
/// Not encrypted are ids of threads, positions, kinds, dates and sizes.
///
/// Beside the file is a note of its last change: a database that lost its end is behind it.
///
/// Form 1 had the digests of words in `search` (FTS5), and the number of threads alone in `state`.
final class ThreadDatabase {
    /// The facts about a database that a store needs before it can use it.
    struct Facts: Sendable, Hashable {
        /// Names the database, at random; its key is stored under this name.
        let id: String
        let isSealed: Bool
    }

    let facts: Facts
    let database: Database
    private let folder: ThreadFolder
    /// The state that the transaction under way has written.
    private var changed: State?

    /// "CHPT".
    private static let application = 0x4348_5054
    private static let form = 2
    /// The form of this file; an older one until ``upgrade(_:)``.
    private var form: Int

    static let wordsTable =
        "CREATE TABLE record_words (id INTEGER PRIMARY KEY, key INTEGER NOT NULL, body BLOB NOT NULL)"
    /// By their names.
    private static let tables = [
        wordsTable,
        """
        CREATE TABLE records
        (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, date INTEGER NOT NULL, key INTEGER NOT NULL, body BLOB NOT NULL)
        """,
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
    init?(
        _ database: Database, in folder: ThreadFolder, on fileSystem: ThreadFileSystem
    ) throws(StoreError) {
        // Until its journal is known, no memory may be shared for a log.
        if fileSystem == .shared { try database.run("PRAGMA locking_mode = EXCLUSIVE") }
        // At once: another process may be making the store.
        let (application, form, isEmpty, schema) = try database.snapshot { () throws(StoreError) in
            // Tables and indices of other tools change nothing; triggers and views would.
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
            guard folder.lastChange().isEmpty else {
                throw .damaged(
                    thread: nil,
                    "the database is empty, although it had threads; restore it from a backup, or delete the folder")
            }
            return nil
        }
        guard application == Self.application else {
            throw .damaged(thread: nil, "the file is not a database of threads")
        }
        guard form <= Self.form else { throw .tooNew(found: form, known: Self.form) }
        // The words came with form 2.
        guard form == Self.form ? schema == Self.tables : form == 1 && schema == Array(Self.tables.dropFirst()) else {
            throw .damaged(thread: nil, "the tables have another form than this program gave them")
        }
        let stores = try database.rows("SELECT id, key FROM store", read: { ($0.text(0), $0.integer(1)) })
        guard let store = stores.first, stores.count == 1 else {
            throw .damaged(thread: nil, "the entry of the store is missing")
        }
        facts = Facts(id: store.0, isSealed: store.1 != ThreadProtection.plainKey)
        self.database = database
        self.folder = folder
        self.form = form
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

    /// Whether the file was removed from its folder, or replaced there.
    var hasMoved: Bool { database.hasMoved }

    /// The store in `folder`, for salvage: a file that is shorter than its header says is opened all the same.
    convenience init?(salvaging folder: ThreadFolder) throws(StoreError) {
        guard let file = try folder.existing() else { return nil }
        try file.run("PRAGMA writable_schema = ON")
        try file.run("PRAGMA query_only = ON")
        if try folder.fileSystem() == .shared { try file.run("PRAGMA locking_mode = EXCLUSIVE") }
        // The journal stays as it is.
        try self.init(file, in: folder, on: .local)
    }

    /// The facts about the store in `folder`, also on a disk that is too full for the index of a log. Other processes wait.
    static func facts(aloneIn folder: ThreadFolder) throws(StoreError) -> Facts? {
        guard let file = try folder.existing() else { return nil }
        try file.run("PRAGMA locking_mode = EXCLUSIVE")
        return try ThreadDatabase(file, in: folder, on: .local)?.facts
    }

    /// Makes an empty store, in one step, unless there is one.
    static func make(
        _ facts: Facts, in database: Database, _ folder: ThreadFolder, protection: ThreadProtection
    ) throws(StoreError) -> ThreadDatabase {
        let fileSystem = try folder.fileSystem()
        if let there = try ThreadDatabase(database, in: folder, on: fileSystem) { return there }
        try database.run("PRAGMA auto_vacuum = INCREMENTAL")
        // A file system that has no memory to share for the log keeps the rollback journal.
        if fileSystem == .local { try database.run("PRAGMA journal_mode = WAL") }
        try database.run("PRAGMA synchronous = EXTRA")
        let state = try protection.seal(
            State(key: protection.currentKey).bytes(form: form), with: protection.currentKey,
            for: .store(database: facts.id))
        try database.transaction { () throws(StoreError) in
            try database.run("PRAGMA application_id = \(application)")
            try database.run("PRAGMA user_version = \(form)")
            for table in tables { try database.run(table) }
            try database.run(
                "INSERT INTO store VALUES (?, ?, ?)", .text(facts.id), .integer(protection.currentKey), .bytes(state))
        }
        guard let made = try ThreadDatabase(database, in: folder, on: fileSystem) else {
            throw .unavailable("the database was removed while it was being made")
        }
        return made
    }

    // MARK: State

    /// The facts about all threads, which an old row in one place doesn't fit.
    struct State {
        /// The key that new records are sealed with.
        var key: Int
        /// How many threads there are.
        var threads = 0
        /// How often threads were changed.
        var changes = 0
        /// The sum of the tags of their rows.
        var sum = SIMD4<UInt64>.zero

        init(key: Int) { self.key = key }

        init?(_ bytes: [UInt8], key: Int, form: Int) {
            self.key = key
            func number(at start: Int) -> Int { bytes[start..<start + 8].reversed().reduce(0) { $0 << 8 | Int($1) } }
            guard bytes.count == (form == 1 ? 8 : 48) else { return nil }
            threads = number(at: 0)
            guard form > 1 else { return }
            changes = number(at: 8)
            sum = SIMD4(littleEndian: bytes[16...])
        }

        func bytes(form: Int) -> [UInt8] {
            let bytes = [threads, changes].flatMap { withUnsafeBytes(of: $0.littleEndian, Array.init) }
            return form == 1 ? Array(bytes.prefix(8)) : bytes + sum.littleEndianBytes
        }
    }

    /// The state, checked.
    func state(_ protection: ThreadProtection) throws(StoreError) -> State {
        // A newer program may have changed the form since this one opened the file.
        let form = try database.integer("PRAGMA user_version")
        guard form <= Self.form else { throw .tooNew(found: form, known: Self.form) }
        let rows = try database.rows("SELECT key, state FROM store", read: { ($0.integer(0), $0.bytes(1)) })
        guard let (key, sealed) = rows.first else { throw .damaged(thread: nil, "the entry of the store is missing") }
        guard protection.knows(key) else {
            throw .wrongKey("they were encrypted with another key than the stored one")
        }
        guard let bytes = try protection.open(sealed, with: key, for: .store(database: facts.id)),
            let state = State(bytes, key: key, form: form)
        else { throw .damaged(thread: nil, "the entry of the store was changed") }
        return state
    }

    func setState(_ state: State, _ protection: ThreadProtection) throws(StoreError) {
        var state = state
        state.changes &+= 1
        let sealed = try protection.seal(state.bytes(form: form), with: state.key, for: .store(database: facts.id))
        try database.run("UPDATE store SET key = ?, state = ?", .integer(state.key), .bytes(sealed))
        changed = state
    }

    /// A transaction that may change the state, which is noted once it is kept.
    func change<Output>(
        _ protection: ThreadProtection, _ body: () throws(StoreError) -> Output
    ) throws(StoreError) -> Output {
        changed = nil
        let output = try database.transaction(body)
        if let changed {
            let note = withUnsafeBytes(of: changed.changes.littleEndian, Array.init)
            // What was kept is no error any more.
            let sealed = try? protection.seal(note, with: changed.key, for: .note(database: facts.id))
            if let sealed { folder.noteChange(sealed) }
        }
        return output
    }

    /// The number of the last change that was noted; 0 without a note of this database. Asked for before a transaction
    /// begins: later changes may be noted meanwhile.
    func lastChange(_ protection: ThreadProtection) throws(StoreError) -> Int {
        let note = folder.lastChange()
        for key in protection.keys {
            if let bytes = try protection.open(note, with: key, for: .note(database: facts.id)), bytes.count == 8 {
                return bytes.reversed().reduce(0) { $0 << 8 | Int($1) }
            }
        }
        return 0
    }

    static func check(_ state: State, against lastChange: Int) throws(StoreError) {
        guard state.changes >= lastChange else {
            throw .damaged(
                thread: nil,
                """
                the last changes are missing (\(lastChange - state.changes) of \(lastChange)), because the log was damaged or an \
                older copy is in the place of the database; restore a backup, or accept what is there by a repair
                """)
        }
    }

    /// The tag of a row of `threads`: its part of the sum.
    func tag(of entry: Entry, _ tags: ThreadProtection.RowTags) throws(StoreError) -> SIMD4<UInt64> {
        try tags.tag(
            of: entry.summary, for: .summary(database: facts.id, thread: entry.id, count: entry.count), entry.key)
    }

    func sum(of entries: [Entry], _ protection: ThreadProtection) throws(StoreError) -> SIMD4<UInt64> {
        let tags = ThreadProtection.RowTags(protection)
        var sum = SIMD4<UInt64>.zero
        for entry in entries { sum &+= try tag(of: entry, tags) }
        return sum
    }

    private static func check(_ count: Int, against state: State) throws(StoreError) {
        guard count == state.threads else {
            throw .damaged(thread: nil, "\(count) threads are there, but \(state.threads) were stored")
        }
    }

    /// Checks the entries, which are all of them, against the state.
    func check(_ entries: [Entry], against state: State, _ protection: ThreadProtection) throws(StoreError) {
        try Self.check(entries.count, against: state)
        guard form > 1 else { return }
        guard try state.sum == sum(of: entries, protection) else {
            throw .damaged(
                thread: nil,
                """
                one is older than it was, or was deleted and is back, although each is whole by itself; restore a backup, or \
                accept them as they are by a repair
                """)
        }
    }

    // MARK: Older forms

    /// Gives a file of an older form the present one, in one step, after which older programs refuse it. A thread that is
    /// damaged stays as it is.
    func upgrade(_ protection: ThreadProtection) throws(StoreError) {
        guard form < Self.form else { return }
        // A state that is damaged is named by what needs it.
        try unlessDamaged { () throws(StoreError) in
            try database.transaction { () throws(StoreError) in try upgradeInside(protection) }
            form = Self.form
            giveRoomBack()
        }
    }

    private func upgradeInside(_ protection: ThreadProtection) throws(StoreError) {
        // Another process may have been faster.
        guard try database.integer("PRAGMA user_version") == 1 else { return }
        var state = try state(protection)
        try database.run(Self.wordsTable)
        let entries = reachableEntries()
        state.sum = try sum(of: entries, protection)
        for entry in entries {
            try unlessDamaged { () throws(StoreError) in
                _ = try checkedSummary(in: entry, protection)
                for position in 0..<entry.count { try renewWords(of: entry.first | position, in: entry, protection) }
            }
        }
        // A table that is damaged may refuse to go; nothing reads it again.
        try unlessDamaged { () throws(StoreError) in try database.run("DROP TABLE search") }
        let sealed = try protection.seal(
            state.bytes(form: Self.form), with: state.key, for: .store(database: facts.id))
        try database.run("UPDATE store SET state = ?", .bytes(sealed))
        try database.run("PRAGMA user_version = \(Self.form)")
    }

    /// Runs `body`, of which damage is no failure.
    func unlessDamaged(_ body: () throws(StoreError) -> Void) throws(StoreError) {
        do throws(StoreError) {
            try body()
        } catch {
            guard case .damaged = error else { throw error }
        }
    }

    /// The room of what was deleted goes back to the disk, and it leaves the log as well; another process may be in the way.
    func giveRoomBack() {
        try? database.run("PRAGMA incremental_vacuum")
        try? database.run("PRAGMA wal_checkpoint(TRUNCATE)")
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

        /// The ids of its records.
        var first: Int { number << 32 }
        var last: Int { first | 0xFFFF_FFFF }
    }

    static func entry(in row: SQLiteRow) -> Entry {
        Entry(
            number: row.integer(0), id: row.text(1), count: row.integer(2), key: row.integer(3), summary: row.bytes(4))
    }

    /// The entry that the index finds under this id. Its caller checks it against the id, because the row's own id may
    /// be damaged.
    func entry(of thread: String) throws(StoreError) -> Entry? {
        var entry = try database.rows(
            "SELECT \(Entry.columns) FROM threads WHERE id = ?", .text(thread), read: Self.entry
        ).first
        entry?.id = thread
        return entry
    }

    func entry(numbered number: Int) throws(StoreError) -> Entry? {
        try database.rows(
            "SELECT \(Entry.columns) FROM threads WHERE number = ?", .integer(number), read: Self.entry
        ).first
    }

    func entries() throws(StoreError) -> [Entry] {
        try database.rows("SELECT \(Entry.columns) FROM threads NOT INDEXED", read: Self.entry)
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
        let lastChange = try lastChange(protection)
        return try database.snapshot { () throws(StoreError) in
            let state = try state(protection)
            try Self.check(state, against: lastChange)
            let entries = try entries()
            var summaries: [ChappieThreadSummary] = []
            for entry in entries { summaries.append(try checkedSummary(in: entry, protection)) }
            try check(entries, against: state, protection)
            return summaries
        }
    }

    /// The summaries of the threads whose entries are whole, and the damage of the others.
    func readableSummaries(_ protection: ThreadProtection) throws(StoreError) -> ChappieReadableThreads {
        let lastChange = try lastChange(protection)
        return try database.snapshot { () throws(StoreError) in
            var found = ChappieReadableThreads()
            var known: State?
            do throws(StoreError) {
                let state = try state(protection)
                known = state
                try Self.check(state, against: lastChange)
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
            // A row that is damaged does not fit the sum, and is named already.
            if let known, found.problems.isEmpty || entries.count != known.threads {
                do throws(StoreError) {
                    try check(entries, against: known, protection)
                } catch {
                    found.problems.append(error)
                }
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
        let entries = try entries()
        // The sum would let damage of another thread count as this one's.
        try Self.check(entries.count, against: state(protection))
        for entry in entries where try summary(in: entry, as: entry.id, protection) == nil {
            guard try summary(in: entry, as: thread, protection) == nil else {
                throw .damaged(thread: thread, "its entry has the name of another thread")
            }
        }
        guard !entries.contains(where: { $0.id == thread }) else {
            throw .damaged(thread: thread, "the index of threads does not lead to it")
        }
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
        let place = try database.snapshot { () throws(StoreError) in
            (key: try state(protection).key, number: try number(for: thread.id))
        }
        var rows = try sealed(records, bodies, into: place.number, of: thread.id, place.key, protection)
        let lastChange = try lastChange(protection)
        try change(protection) { () throws(StoreError) in
            var state = try state(protection)
            try Self.check(state, against: lastChange)
            let key = state.key
            let known = try entry(of: thread.id)
            if let known { _ = try checkedSummary(in: known, protection) }
            let actual = known?.count ?? 0
            guard actual == position else { throw .conflict(thread: thread.id, expected: position, actual: actual) }
            // Another process may have begun a thread, or changed the key, since then.
            let number = try number(for: thread.id)
            if key != place.key || number != place.number {
                rows = try sealed(records, bodies, into: number, of: thread.id, key, protection)
            }
            let count = position + records.count
            let entry = Entry(
                number: number, id: thread.id, count: count, key: key,
                summary: try seal(thread, count: count, key, protection))
            try database.run(
                """
                INSERT INTO threads VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (number) DO UPDATE SET count = excluded.count, key = excluded.key, summary = excluded.summary
                """,
                .integer(number), .text(thread.id), .integer(count), .integer(key), .bytes(entry.summary))
            for row in rows { try insert(row) }
            let tags = ThreadProtection.RowTags(protection)
            if let known { state.sum &-= try tag(of: known, tags) } else { state.threads &+= 1 }
            state.sum &+= try tag(of: entry, tags)
            try setState(state, protection)
            let bytes = try bytesUsed()
            guard bytes <= limit else { throw .full(bytes: bytes, limit: limit) }
        }
    }

    /// The number of a thread, or the one that it would get.
    private func number(for thread: String) throws(StoreError) -> Int {
        if let known = try entry(of: thread) { return known.number }
        return try database.integer("SELECT coalesce(max(number), 0) + 1 FROM threads")
    }

    /// A row of `records`, and the words for `record_words` if it has text.
    struct SealedRecord {
        let id: Int
        let kind: String
        let date: Int
        let key: Int
        let body: [UInt8]
        let words: [UInt8]?
    }

    private func sealed(
        _ records: [ChappieThreadRecord], _ bodies: [[UInt8]], into number: Int, of thread: String, _ key: Int,
        _ protection: ThreadProtection
    ) throws(StoreError) -> [SealedRecord] {
        var rows: [SealedRecord] = []
        for (record, body) in zip(records, bodies) {
            let id = number << 32 | record.position
            rows.append(try sealed(record, body, into: id, of: thread, key, protection))
        }
        return rows
    }

    func sealed(
        _ record: ChappieThreadRecord, _ body: [UInt8], into id: Int, of thread: String, _ key: Int,
        _ protection: ThreadProtection
    ) throws(StoreError) -> SealedRecord {
        let date = try Self.milliseconds(of: record.date)
        let context = ThreadProtection.Context.record(
            database: facts.id, thread: thread, position: record.position, kind: record.kind.rawValue, date: date)
        var words: [UInt8]?
        if let text = record.searchableText { words = try self.words(of: text, as: id, key, protection) }
        return SealedRecord(
            id: id, kind: record.kind.rawValue, date: date, key: key,
            body: try protection.seal(body, with: key, for: context), words: words)
    }

    func insert(_ row: SealedRecord) throws(StoreError) {
        try database.run(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?)", .integer(row.id), .text(row.kind), .integer(row.date),
            .integer(row.key), .bytes(row.body))
        if let words = row.words { try insertWords(words, of: row.id, row.key) }
    }

    /// - Throws: `unavailable` for a date that would come back changed.
    private static func milliseconds(of date: Date) throws(StoreError) -> Int {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
        guard milliseconds.magnitude <= 0x1p53 else { throw .unavailable("a date is beyond what can be stored") }
        return Int(milliseconds)
    }

    func delete(_ thread: String, _ protection: ThreadProtection) throws(StoreError) {
        let isGone = try change(protection) { () throws(StoreError) in
            var state = try state(protection)
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
            let isWhole = try summary(in: entry, as: thread, protection) != nil
            try database.run("DELETE FROM record_words WHERE id BETWEEN ? AND ?", ids.0, ids.1)
            try database.run("DELETE FROM records WHERE id BETWEEN ? AND ?", ids.0, ids.1)
            try database.run("DELETE FROM threads WHERE number = ?", .integer(entry.number))
            state.threads &-= 1
            // The part that a damaged row had in the sum is not known.
            if isWhole {
                state.sum &-= try tag(of: entry, ThreadProtection.RowTags(protection))
            } else {
                state.sum = try sum(of: entries(), protection)
            }
            try setState(state, protection)
            return true
        }
        if isGone { giveRoomBack() }
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
