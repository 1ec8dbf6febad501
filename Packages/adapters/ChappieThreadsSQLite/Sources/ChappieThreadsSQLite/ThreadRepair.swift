@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) public import ChappieRuntime
import ChappieSQLite

/// The readable parts of a damaged thread.
public struct ChappieSalvagedThread: Sendable, Hashable {
    /// The thread's id.
    public let id: String
    /// The intact records, in order. Positions may be missing between them.
    public let records: [ChappieThreadRecord]
    /// The positions whose records are lost.
    public let lost: [Int]
    /// Whether records may be missing at the end, because the length of the thread is unknown.
    public let isEndUnknown: Bool
}

/// The threads whose entries can be read, and the problems with the others.
public struct ChappieReadableThreads: Sendable {
    /// The threads, in no particular order.
    public internal(set) var threads: [ChappieThreadSummary] = []
    /// The damage. Each problem names its thread if it is known.
    public internal(set) var problems: [ChappieThreadStoreError] = []
}

extension ThreadDatabase {
    // MARK: A new key

    /// Seals a few rows again that have another key than the current one, including their words. This method first
    /// opens each row, so that damage is found and not sealed again.
    ///
    /// - Parameter start: The id to begin at. It is 0 for the first call.
    /// - Returns: The id at which to continue, or `nil` when all records have the current key.
    func reseal(from start: Int, _ protection: ThreadProtection) throws(StoreError) -> Int? {
        let key = protection.currentKey
        return try change(protection) { () throws(StoreError) in
            var state = try state(protection)
            let old = try database.rows(
                "SELECT \(Entry.columns) FROM threads WHERE key <> ? LIMIT 256", .integer(key), read: Self.entry)
            let tags = ThreadProtection.RowTags(protection)
            for entry in old {
                let summary = try seal(checkedSummary(in: entry, protection), count: entry.count, key, protection)
                let new = Entry(number: entry.number, id: entry.id, count: entry.count, key: key, summary: summary)
                try database.run(
                    "UPDATE threads SET key = ?, summary = ? WHERE number = ?", .integer(key), .bytes(summary),
                    .integer(entry.number))
                state.sum &-= try tag(of: entry, tags)
                state.sum &+= try tag(of: new, tags)
            }
            // In the transaction in which they append, other processes read which key to seal with.
            if state.key != key || !old.isEmpty {
                state.key = key
                try setState(state, protection)
            }
            guard old.isEmpty else { return start }
            let next = try database.rows(
                "SELECT id, length(body) FROM records WHERE id >= ? AND key <> ? ORDER BY id LIMIT 256",
                .integer(start), .integer(key), read: { (id: $0.integer(0), size: $0.integer(1)) })
            // A damaged tree may lead back. The old key then stays.
            guard next.allSatisfy({ $0.id >= start }) else {
                throw .damaged(thread: nil, "the records are out of order")
            }
            var room = 8 << 20
            for (id, size) in next {
                room -= size
                try reseal(id, key, protection)
                if room < 0 { return id &+ 1 }
            }
            return next.last.map { $0.id &+ 1 }
        }
    }

    private func reseal(_ id: Int, _ key: Int, _ protection: ThreadProtection) throws(StoreError) {
        guard let entry = try entry(numbered: id >> 32), let record = try record(id, of: entry.id, protection) else {
            throw .damaged(thread: nil, "there is a record without its thread")
        }
        let row = try sealed(record, record.body.serializedBytes(), into: id, of: entry.id, key, protection)
        try database.run("DELETE FROM records WHERE id = ?", .integer(id))
        try insert(row)
    }

    // MARK: The index

    /// Empties the search index, and accepts the present threads if each is intact.
    func clearIndex(_ protection: ThreadProtection) throws(StoreError) {
        try change(protection) { () throws(StoreError) in
            var state = try state(protection)
            try database.run("DROP TABLE IF EXISTS record_words")
            try database.run(Self.wordsTable)
            try unlessDamaged { () throws(StoreError) in
                let entries = try entries()
                for entry in entries { _ = try checkedSummary(in: entry, protection) }
                state.threads = entries.count
                state.sum = try sum(of: entries, protection)
            }
            try setState(state, protection)
        }
    }

    /// Writes a few records' words into the index. Damaged records are left out.
    ///
    /// - Parameter start: The id to begin at. It is 0 for the first call.
    /// - Returns: The id at which to continue, or `nil` at the end.
    func fillIndex(from start: Int, _ protection: ThreadProtection) throws(StoreError) -> Int? {
        return try database.transaction { () throws(StoreError) in
            _ = try state(protection)
            let next = try database.rows(
                "SELECT id, length(body) FROM records WHERE id >= ? ORDER BY id LIMIT 256", .integer(start),
                read: { (id: $0.integer(0), size: $0.integer(1)) }
            )
            // A damaged tree may lead back, and the steps would never end.
            .filter { $0.id >= start }
            var room = 8 << 20
            for (id, size) in next {
                room -= size
                try unlessDamaged { () throws(StoreError) in
                    if let entry = try entry(numbered: id >> 32) { try renewWords(of: id, in: entry, protection) }
                }
                if room < 0 { return id &+ 1 }
            }
            return next.last.map { $0.id &+ 1 }
        }
    }

    /// Writes a record's words again with the record's key, because a rotation may be under way.
    func renewWords(of id: Int, in entry: Entry, _ protection: ThreadProtection) throws(StoreError) {
        try unlessDamaged { () throws(StoreError) in
            guard let record = try record(id, of: entry.id, protection) else { return }
            try deleteWords(of: record.positionsTakenBack.map { entry.first | $0 })
            guard let text = record.searchableText else { return }
            let key = try database.integer("SELECT key FROM records WHERE id = ?", .integer(id))
            try insertWords(words(of: text, as: id, key, protection), of: id, key)
        }
    }

    // MARK: Damage

    /// Returns all problems.
    func problems(_ protection: ThreadProtection) throws(StoreError) -> [StoreError] {
        var problems: [StoreError] = []
        func note(_ body: () throws(StoreError) -> Void) throws(StoreError) {
            do throws(StoreError) {
                try body()
            } catch {
                guard case .damaged = error else { throw error }
                problems.append(error)
            }
        }
        try note { () throws(StoreError) in
            let words = try database.rows("PRAGMA integrity_check(20)", read: { $0.text(0) })
            for word in words where word != "ok" { problems.append(.damaged(thread: nil, "SQLite says: \(word)")) }
        }
        let listed = try readableSummaries(protection)
        problems += listed.problems
        for thread in listed.threads {
            try note { () throws(StoreError) in
                // Other processes continue to work. Each thread is examined in one state, and it may be deleted before
                // that.
                try database.snapshot { () throws(StoreError) in
                    do throws(StoreError) {
                        try checkInside(thread.id, protection)
                    } catch .notFound {
                        return
                    }
                }
            }
        }
        return problems
    }

    /// Reads a thread within a transaction, and checks that a search finds it.
    private func checkInside(_ thread: String, _ protection: ThreadProtection) throws(StoreError) {
        let (entry, records) = try recordsInside(thread, from: 0, protection)
        let takenBack = records.positionsTakenBack
        for record in records where !takenBack.contains(record.position) {
            guard let text = record.searchableText else { continue }
            let id = entry.first | record.position
            let found = try database.rows(
                "SELECT key, body FROM record_words WHERE id = ?", .integer(id),
                read: { (key: $0.integer(0), body: $0.bytes(1)) }
            ).first
            let context = ThreadProtection.Context.words(database: facts.id, record: id)
            let known = try found.flatMap { found throws(StoreError) in
                try protection.open(found.body, with: found.key, for: context)
            }
            guard known == ThreadWordList(of: text).bytes else {
                throw .damaged(thread: thread, "a search would not find its record \(record.position)")
            }
        }
    }

    /// Returns the ids of all threads that can be reached.
    func salvageableThreads() -> [String] {
        reachable("SELECT number, id FROM threads NOT INDEXED ORDER BY number") { $0.text(1) }.map(\.value)
    }

    /// Returns the readable parts of a thread. Each record is read separately.
    func salvage(_ thread: String, _ protection: ThreadProtection) throws(StoreError) -> ChappieSalvagedThread {
        do throws(StoreError) {
            _ = try state(protection)
        } catch .wrongKey(let words) {
            throw .wrongKey(words)
        } catch {
            // Other damage does not prevent reading records.
        }
        guard let entry = reachableEntries().first(where: { $0.id == thread }) else {
            throw .notFound(thread: thread)
        }
        let between = "BETWEEN \(entry.first) AND \(entry.last)"
        let reached = reachable("SELECT id FROM records WHERE id \(between) ORDER BY id") { _ in () }.map(\.key)
        // A file may come from anyone and claim more records than any file has.
        let mostLost = 1 << 20
        let isEndKnown =
            (try? summary(in: entry, as: thread, protection)) != nil && entry.count - reached.count < mostLost
        let ids = isEndKnown ? (0..<entry.count).map { entry.first | $0 } : reached
        let records = ids.compactMap { id in try? record(id, of: thread, protection) }
        let end = isEndKnown ? entry.count : (records.last?.position ?? -1) + 1
        let lost =
            end - records.count < mostLost ? Set(0..<end).subtracting(records.map(\.position)).sorted() : []
        return ChappieSalvagedThread(id: thread, records: records, lost: lost, isEndUnknown: !isEndKnown)
    }

    func reachableEntries() -> [Entry] {
        reachable("SELECT \(Entry.columns) FROM threads NOT INDEXED ORDER BY number", read: Self.entry).map(\.value)
    }

    /// Returns the rows of a statement by the number in their first column. If a row in the middle cannot be read, the
    /// result contains the rows on both sides of it.
    private func reachable<Output>(
        _ statement: String, read: (SQLiteRow) -> Output
    ) -> [(key: Int, value: Output)] {
        var found: [Int: Output] = [:]
        for order in [" ASC", " DESC"] {
            try? database.each(statement + order) { row in
                found[row.integer(0)] = read(row)
                return true
            }
        }
        return found.sorted { $0.key < $1.key }
    }
}
