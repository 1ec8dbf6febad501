@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSQLite

// The records of a thread: reading, appending, deleting.

extension ThreadDatabase {
    func records(
        of thread: String, from position: Int, _ protection: ThreadProtection
    ) throws(StoreError) -> [ChappieThreadRecord] {
        try database.snapshot { () throws(StoreError) in
            try currentKey(protection)
            if let loss = losses[thread] { throw loss }
            return try concerning(thread) { () throws(StoreError) in
                try recordsInside(thread, from: position, protection).records
            }
        }
    }

    /// Returns the records that can be read. In a copy, a thread with a loss is first written again without it.
    func readableRecords(
        of thread: String, _ protection: ThreadProtection
    ) throws(StoreError) -> (records: [ChappieThreadRecord], loss: StoreError?) {
        do throws(StoreError) {
            return (try records(of: thread, from: 0, protection), nil)
        } catch {
            guard case .damaged = error, isCopy, let entry = try entry(of: thread) else { throw error }
            let known = losses[thread]
            let loss = known == nil ? try rebuild(entry.number, [thread], protection) : known
            guard try self.entry(of: thread) != nil else { throw error }
            return (try recordsInside(thread, from: 0, protection).records, loss)
        }
    }

    /// Returns the records within a transaction, with the thread's entry.
    func recordsInside(
        _ thread: String, from position: Int, _ protection: ThreadProtection
    ) throws(StoreError) -> (entry: Entry, records: [ChappieThreadRecord]) {
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
        return (entry, records)
    }

    /// Returns the record with this id, or `nil` if it is missing.
    func record(_ id: Int, of thread: String, _ protection: ThreadProtection) throws(StoreError) -> ChappieThreadRecord?
    {
        try database.rows("SELECT id, kind, date, key, body FROM records WHERE id = ?", .integer(id)) {
            row throws(StoreError) in try record(at: id & 0xFFFF_FFFF, of: thread, in: row, protection)
        }.first
    }

    /// Returns the record in a row of `id, kind, date, key, body`.
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

    /// Writes records from `position` on. They replace the records from there to the thread's `expected` end.
    func write(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int, expecting expected: Int,
        limit: Int, _ protection: ThreadProtection
    ) throws(StoreError) {
        // A conflict must cost neither the slow work nor space.
        let place = try database.snapshot { () throws(StoreError) in
            let key = try currentKey(protection)
            try check(thread.id, expecting: expected, protection)
            return (key: key, number: try number(for: thread.id))
        }
        // The slow work is done before other processes have to wait.
        var bodies: [[UInt8]] = []
        for record in records { bodies.append(try record.storedBody()) }
        for date in [thread.createdAt, thread.updatedAt] { _ = try Self.milliseconds(of: date) }
        let size = bodies.reduce(0) { $0 + $1.count }
        guard size <= limit else { throw .full(bytes: size, limit: limit) }
        var rows = try sealed(records, bodies, into: place.number, of: thread.id, place.key, protection)
        try change { () throws(StoreError) in
            let key = try currentKey(protection)
            try check(thread.id, expecting: expected, protection)
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
            if position < expected { try deleteRecords(from: entry.first | position, to: entry.last) }
            for row in rows { try insert(row) }
            let bytes = try bytesUsed()
            guard bytes <= limit else { throw .full(bytes: bytes, limit: limit) }
        }
    }

    private func check(
        _ thread: String, expecting expected: Int, _ protection: ThreadProtection
    ) throws(StoreError) {
        let known = try entry(of: thread)
        if let known { _ = try checkedSummary(in: known, protection) }
        let count = known?.count ?? 0
        guard count == expected else { throw .conflict(thread: thread, expected: expected, actual: count) }
    }

    func deleteRecords(from first: Int, to last: Int) throws(StoreError) {
        try database.run("DELETE FROM record_words WHERE id BETWEEN ? AND ?", .integer(first), .integer(last))
        try database.run("DELETE FROM records WHERE id BETWEEN ? AND ?", .integer(first), .integer(last))
    }

    /// Returns the thread's number, or the next free number for a new thread.
    private func number(for thread: String) throws(StoreError) -> Int {
        if let known = try entry(of: thread) { return known.number }
        return try database.integer("SELECT coalesce(max(number), 0) + 1 FROM threads")
    }

    /// A row of `records`, the words for `record_words` if it has text, and the ids of records whose words it removes.
    struct SealedRecord {
        let id: Int
        let kind: String
        let date: Int
        let key: Int
        let body: [UInt8]
        let words: [UInt8]?
        let takenBack: [Int]
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
            body: try protection.seal(body, with: key, for: context), words: words,
            takenBack: record.positionsTakenBack.map { id - record.position + $0 })
    }

    func insert(_ row: SealedRecord) throws(StoreError) {
        try database.run(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?)", .integer(row.id), .text(row.kind), .integer(row.date),
            .integer(row.key), .bytes(row.body))
        if let words = row.words { try insertWords(words, of: row.id, row.key) }
        try deleteWords(of: row.takenBack)
    }

    /// Returns the date as milliseconds.
    ///
    /// - Throws: `unavailable` for a date that would change when it is stored.
    private static func milliseconds(of date: Date) throws(StoreError) -> Int {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
        guard milliseconds.magnitude <= 0x1p53 else { throw .unavailable("a date is beyond what can be stored") }
        return Int(milliseconds)
    }

    // MARK: Deleting

    func delete(_ thread: String, _ protection: ThreadProtection) throws(StoreError) {
        let isGone: Bool
        do throws(StoreError) {
            isGone = try change { () throws(StoreError) in
                try currentKey(protection)
                return try concerning(thread) { () throws(StoreError) in try deleteRows(of: thread, protection) }
            }
            if isGone { giveRoomBack() }
        } catch {
            guard case .unavailable = error, folder.releaseReserve() else { throw error }
            // The disk may be full. Deleting also needs some room.
            try deleteWithLittleRoom(thread, protection)
        }
        folder.makeReserve()
        // A copy also contains the thread.
        folder.removeAbandonedCopies()
    }

    /// Deletes the rows of a thread that can be reached. Returns `false` if there is no such thread.
    private func deleteRows(of thread: String, _ protection: ThreadProtection) throws(StoreError) -> Bool {
        guard let entry = try entryToDelete(thread, protection) else { return false }
        do throws(StoreError) {
            try deleteRecords(from: entry.first, to: entry.last)
        } catch {
            guard case .damaged = error else { throw error }
            for id in entry.first..<entry.first + max(entry.count, 0) { try? deleteRecords(from: id, to: id) }
        }
        try database.run("DELETE FROM threads WHERE number = ?", .integer(entry.number))
        return true
    }

    /// Returns the entry of the thread, even if the index of ids lacks the id in its row.
    private func entryToDelete(_ thread: String, _ protection: ThreadProtection) throws(StoreError) -> Entry? {
        var found = try entry(of: thread)
        if found == nil, try entries().contains(where: { $0.id == thread }) {
            try database.run("REINDEX threads")
            found = try entry(of: thread)
        }
        guard let found else {
            try searchForLost(thread, protection)
            return nil
        }
        // A damaged index must not cause the deletion of another thread that is intact.
        if let own = try entry(numbered: found.number), own.id != thread,
            try summary(in: own, as: own.id, protection) != nil
        {
            throw .damaged(thread: thread, "its place is another thread's")
        }
        return found
    }

    /// Deletes a thread with the room that the reserve had. If one transaction needs more, it is deleted in small ones.
    /// After an interruption, a part of the thread is left, which can be deleted.
    private func deleteWithLittleRoom(_ thread: String, _ protection: ThreadProtection) throws(StoreError) {
        // The content of free pages stays until the file gets shorter. To overwrite it would need room in the log.
        try database.run("PRAGMA secure_delete = FAST")
        defer { try? database.run("PRAGMA secure_delete = ON") }
        do throws(StoreError) {
            try change { () throws(StoreError) in _ = try deleteRows(of: thread, protection) }
        } catch {
            guard case .unavailable = error, let entry = try entry(of: thread) else { throw error }
            var last = entry.first + entry.count - 1
            while last >= entry.first {
                let first = max(last - 7, entry.first)
                try change { () throws(StoreError) in
                    try currentKey(protection)
                    try deleteRecords(from: first, to: last)
                }
                try? database.run("PRAGMA wal_checkpoint(TRUNCATE)")
                last = first - 1
            }
            try change { () throws(StoreError) in _ = try deleteRows(of: thread, protection) }
        }
        // While the disk is full, the file may keep free pages, which the next threads get.
        while let free = try? database.integer("PRAGMA freelist_count"), free > 0 {
            guard (try? database.run("PRAGMA incremental_vacuum(4)")) != nil else { break }
            try? database.run("PRAGMA wal_checkpoint(TRUNCATE)")
        }
    }
}
