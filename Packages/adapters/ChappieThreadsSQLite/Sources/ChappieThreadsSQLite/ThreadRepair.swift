@_spi(ChappieInternals) import ChappieCore
public import ChappieRuntime
@_spi(ChappieInternals) import ChappieSQLite

/// The readable parts of a damaged thread.
public struct ChappieSalvagedThread: Sendable, Hashable {
    /// The thread's id.
    public let id: String
    /// The records that are whole, in order; positions may be missing between them.
    public let records: [ChappieThreadRecord]
    /// The positions whose records are lost.
    public let lost: [Int]
    /// Whether records may be missing at the end, because it is not known how long the thread was.
    public let isEndUnknown: Bool
}

/// The threads whose entries can be read, and what is wrong with the others.
public struct ChappieReadableThreads: Sendable {
    /// The threads, in no particular order.
    public internal(set) var threads: [ChappieThreadSummary] = []
    /// The damage; each problem names its thread if it is known.
    public internal(set) var problems: [ChappieThreadStoreError] = []
}

extension ThreadDatabase {
    // MARK: A new key

    /// Seals a few rows again that have another key than the current one, words included. Each row is opened first, so
    /// that damage is found and not sealed again.
    ///
    /// - Parameter start: The id to begin at; 0 at first.
    /// - Returns: The id at which to continue; `nil` when all records have the current key.
    func reseal(from start: Int, _ protection: ThreadProtection) throws(StoreError) -> Int? {
        let key = protection.currentKey
        return try database.transaction { () throws(StoreError) in
            let state = try state(protection)
            // Other processes read which key to seal with in the transaction in which they append.
            if state.key != key { try setState(state.threads, protection, key: key) }
            let old = try database.rows(
                "SELECT \(Entry.columns) FROM threads WHERE key <> ? LIMIT 256", .integer(key), read: Entry.init)
            for entry in old {
                let summary = try checkedSummary(in: entry, protection)
                try database.run(
                    "UPDATE threads SET key = ?, summary = ? WHERE number = ?", .integer(key),
                    .bytes(try seal(summary, count: entry.count, key, protection)), .integer(entry.number))
            }
            guard old.isEmpty else { return start }
            let next = try database.rows(
                "SELECT id, length(body) FROM records WHERE id >= ? AND key <> ? ORDER BY id LIMIT 256",
                .integer(start), .integer(key), read: { (id: $0.integer(0), size: $0.integer(1)) })
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
        try database.run("DELETE FROM records WHERE id = ?", .integer(id))
        try database.run("DELETE FROM search WHERE rowid = ?", .integer(id))
        try insert(record, record.body.serializedBytes(), into: id, of: entry.id, key, protection)
    }

    /// Writes the index for searches from the records.
    func rebuildIndex(_ protection: ThreadProtection) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            _ = try state(protection)
            try database.run("DROP TABLE search")
            try database.run(Self.searchTable)
            for entry in try entries() {
                _ = try checkedSummary(in: entry, protection)
                for position in 0..<entry.count {
                    let id = entry.first | position
                    guard let text = try record(id, of: entry.id, protection)?.searchableText else { continue }
                    // Not always the current one: a rotation may be under way.
                    let key = try database.integer("SELECT key FROM records WHERE id = ?", .integer(id))
                    try index(text, as: id, key, protection)
                }
            }
        }
    }

    /// Removes the entries that FTS5 has only marked as deleted.
    func tidyIndex() throws(StoreError) {
        try database.run("INSERT INTO search (search) VALUES ('optimize')")
        try? database.run("PRAGMA incremental_vacuum")
        try? database.run("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    // MARK: Damage

    /// Everything that is wrong.
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
        try note { () throws(StoreError) in
            try database.run("INSERT INTO search (search) VALUES ('integrity-check')")
        }
        var entries: [Entry] = []
        try note { () throws(StoreError) in
            entries = try self.entries()
            let expected = try state(protection).threads
            guard entries.count == expected else { throw Self.missingThreads(entries.count, of: expected) }
        }
        for entry in entries {
            try note { () throws(StoreError) in
                for record in try records(of: entry.id, from: 0, protection) {
                    guard let text = record.searchableText else { continue }
                    let id = SQLiteValue.integer(entry.first | record.position)
                    let found = try database.rows(
                        "SELECT words FROM search WHERE rowid = ?", id, read: { $0.text(0) })
                    let key = try database.integer("SELECT key FROM records WHERE id = ?", id)
                    guard try found == [protection.terms(of: text, with: key).words] else {
                        throw .damaged(thread: entry.id, "a search would not find its record \(record.position)")
                    }
                }
            }
        }
        return problems
    }

    /// The ids of all threads that can be reached.
    func salvageableThreads() -> [String] {
        reachable("SELECT number, id FROM threads NOT INDEXED ORDER BY number") { $0.text(1) }.map(\.value)
    }

    /// The readable parts of a thread, each record read by itself.
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
        let isEndKnown = (try? summary(in: entry, as: thread, protection)) != nil
        let ids =
            isEndKnown
            ? (0..<entry.count).map { entry.first | $0 }
            : reachable("SELECT id FROM records WHERE id BETWEEN \(entry.first) AND \(entry.last) ORDER BY id") { _ in
                ()
            }
            .map(\.key)
        let records = ids.compactMap { id in try? record(id, of: thread, protection) }
        let end = isEndKnown ? entry.count : (records.last?.position ?? -1) + 1
        let lost = Set(0..<end).subtracting(records.map(\.position)).sorted()
        return ChappieSalvagedThread(id: thread, records: records, lost: lost, isEndUnknown: !isEndKnown)
    }

    func reachableEntries() -> [Entry] {
        reachable("SELECT \(Entry.columns) FROM threads NOT INDEXED ORDER BY number", read: Entry.init).map(\.value)
    }

    /// The rows of a statement, by the number in their first column. If a row in the middle can't be read, the result
    /// has the rows on both sides of it.
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
