@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) public import ChappieRuntime
import ChappieSQLite

/// The result of ``ChappieFileThreadStore/repair()``.
public struct ChappieThreadRepair: Sendable, Hashable {
    /// The number of threads in the store.
    public var threads: Int
    /// The losses. Each names its thread if it is known.
    public var problems: [ChappieThreadStoreError]
    /// The path of the damaged file, which was moved aside, or `nil` if nothing was lost.
    public var damagedFile: String?

    /// Creates a result with the given properties.
    public init(threads: Int = 0, problems: [ChappieThreadStoreError] = [], damagedFile: String? = nil) {
        self.threads = threads
        self.problems = problems
        self.damagedFile = damagedFile
    }
}

/// A thread with the records that can be read.
public struct ChappieReadableThread: Sendable {
    /// The thread. A damaged thread has only its other records.
    public internal(set) var thread: ChappieThread
    /// The loss, or `nil` if the thread is complete.
    public internal(set) var problem: ChappieThreadStoreError?
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
        return try change { () throws(StoreError) in
            try currentKey(protection)
            let old = try database.rows(
                "SELECT \(Entry.columns) FROM threads WHERE key <> ? LIMIT 256", .integer(key), read: Self.entry)
            for entry in old {
                let summary = try seal(checkedSummary(in: entry, protection), count: entry.count, key, protection)
                try database.run(
                    "UPDATE threads SET key = ?, summary = ? WHERE number = ?", .integer(key), .bytes(summary),
                    .integer(entry.number))
            }
            // In the transaction in which they append, other processes read which key to seal with.
            try database.run("UPDATE store SET key = ? WHERE key <> ?", .integer(key), .integer(key))
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

    // MARK: Damage

    /// Returns all problems.
    ///
    /// - Parameter words: Whether the words for searches are compared with the text.
    func problems(_ protection: ThreadProtection, words: Bool = true) throws(StoreError) -> [StoreError] {
        var problems: [StoreError] = []
        try database.each("PRAGMA integrity_check(20)") { row in
            let word = row.text(0)
            if word != "ok" { problems.append(.damaged(thread: nil, "SQLite says: \(word)")) }
            return true
        }
        let listed = try readableSummaries(protection)
        problems += listed.problems
        for thread in listed.threads {
            do throws(StoreError) {
                // Other processes continue to work. Each thread is examined in one state, and it may be deleted before
                // that.
                try database.snapshot { () throws(StoreError) in try check(thread.id, words: words, protection) }
            } catch .notFound {
                continue
            } catch {
                guard case .damaged = error else { throw error }
                problems.append(error)
            }
        }
        return problems
    }

    /// Reads a thread within a transaction, and checks that a search finds it.
    func check(_ thread: String, words: Bool = true, _ protection: ThreadProtection) throws(StoreError) {
        try concerning(thread) { () throws(StoreError) in
            let (entry, records) = try recordsInside(thread, from: 0, protection)
            let takenBack = words ? records.positionsTakenBack : []
            for record in records where words && !takenBack.contains(record.position) {
                guard let text = record.searchableText else { continue }
                let id = entry.first | record.position
                let found = try database.rows(
                    "SELECT key, body FROM record_words WHERE id = ?", .integer(id),
                    read: { (key: $0.integer(0), body: $0.bytes(1)) }
                ).first
                let known = try found.flatMap { found throws(StoreError) in
                    try protection.open(found.body, with: found.key, for: .words(database: facts.id, record: id))
                }
                guard known == Self.words(of: text) else {
                    throw .damaged(thread: thread, "a search would not find its record \(record.position)")
                }
            }
        }
    }

    /// Writes a thread again from the records that can be read, and notes what was lost.
    ///
    /// - Parameter ids: The ids that it may have.
    /// - Returns: The loss, or `nil` if nothing was lost.
    @discardableResult
    func rebuild(_ number: Int, _ ids: [String], _ protection: ThreadProtection) throws(StoreError) -> StoreError? {
        let entry = try entry(numbered: number)
        let rows = try database.rows(
            "SELECT id FROM records WHERE id BETWEEN ? AND ? ORDER BY id", .integer(number << 32),
            .integer(number << 32 | 0xFFFF_FFFF), read: { $0.integer(0) })
        var id = ids.first ?? ""
        var records: [ChappieThreadRecord] = []
        for candidate in ids where records.isEmpty {
            id = candidate
            for row in rows {
                do throws(StoreError) {
                    if let record = try record(row, of: id, protection) { records.append(record) }
                } catch {
                    guard case .damaged = error else { throw error }
                }
            }
        }
        let count = try entry.flatMap { entry throws(StoreError) in
            try summary(in: entry, as: id, protection) == nil ? nil : entry.count
        }
        try change { () throws(StoreError) in
            try deleteRecords(from: number << 32, to: number << 32 | 0xFFFF_FFFF)
            try database.run("DELETE FROM threads WHERE number = ?", .integer(number))
        }
        guard !records.isEmpty else {
            losses[id] = .damaged(thread: id, "nothing of it can be read")
            return losses[id]
        }
        let thread = try ChappieThread(id: id, records: records.renumbered)
        try write(thread.records, to: thread.summary, at: 0, expecting: 0, limit: .max, protection)
        let lost = (count ?? records.map(\.position).max().map { $0 + 1 } ?? 0) - records.count
        if count != nil, lost <= 0 { return nil }
        let end = count == nil ? "; its end may be missing" : ""
        losses[id] = .damaged(thread: id, "\(lost) of its \(lost + records.count) records are lost\(end)")
        return losses[id]
    }
}
