@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSQLite

// The list of threads. Each thread has a row with its sealed summary.

extension ThreadDatabase {
    /// A row of `threads`.
    struct Entry {
        static let columns = "number, id, count, key, summary"

        let number: Int
        var id: String
        let count: Int
        let key: Int
        let summary: [UInt8]

        /// The bounds of the ids of its records.
        var first: Int { number << 32 }
        var last: Int { first | 0xFFFF_FFFF }
    }

    static func entry(in row: SQLiteRow) -> Entry {
        Entry(
            number: row.integer(0), id: row.text(1), count: row.integer(2), key: row.integer(3), summary: row.bytes(4))
    }

    /// Returns the entry that the index finds under this id. The caller checks the entry against the id, because the
    /// row's own id may be damaged.
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

    /// Returns the summary, or `nil` if the entry differs from the entry that was written for the thread `id`.
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
            try currentKey(protection)
            if let firstProblem { throw firstProblem }
            var summaries: [ChappieThreadSummary] = []
            for entry in try entries() { summaries.append(try checkedSummary(in: entry, protection)) }
            return summaries
        }
    }

    /// Returns the summaries of the threads whose entries are intact, and the damage of the other entries.
    func readableSummaries(_ protection: ThreadProtection) throws(StoreError) -> ChappieReadableThreads {
        try database.snapshot { () throws(StoreError) in
            try currentKey(protection)
            var found = ChappieReadableThreads()
            if let damage { found.problems = [damage] }
            found.problems += losses.values
            for entry in try entries() {
                do throws(StoreError) {
                    found.threads.append(try checkedSummary(in: entry, protection))
                } catch {
                    guard case .damaged = error else { throw error }
                    found.problems.append(error)
                }
            }
            return found
        }
    }

    func summary(of thread: String, _ protection: ThreadProtection) throws(StoreError) -> ChappieThreadSummary? {
        try database.snapshot { () throws(StoreError) in
            try currentKey(protection)
            if let loss = losses[thread] { throw loss }
            return try concerning(thread) { () throws(StoreError) in
                guard let entry = try entry(of: thread) else {
                    try searchForLost(thread, protection)
                    return nil
                }
                return try checkedSummary(in: entry, protection)
            }
        }
    }

    /// Throws if a thread was not found because of damage. Damage to its id or to the index of ids must not look like
    /// its absence.
    func searchForLost(_ thread: String, _ protection: ThreadProtection) throws(StoreError) {
        if let damage { throw damage }
        for entry in try entries() {
            guard entry.id != thread else {
                throw .damaged(thread: thread, "the index of threads does not lead to it")
            }
            guard try summary(in: entry, as: entry.id, protection) == nil else { continue }
            guard try summary(in: entry, as: thread, protection) == nil else {
                throw .damaged(thread: thread, "its entry has the name of another thread")
            }
        }
    }
}

extension ChappieThreadSummary {
    /// The summary as JSON, without the id.
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
