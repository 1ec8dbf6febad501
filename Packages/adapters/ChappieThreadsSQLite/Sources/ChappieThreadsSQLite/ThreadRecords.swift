@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSQLite

// The records of a thread: reading, appending, deleting.

extension ThreadDatabase {
    func records(
        of thread: String, from position: Int, _ protection: ThreadProtection
    ) throws(StoreError) -> [ChappieThreadRecord] {
        try database.snapshot { () throws(StoreError) in
            try recordsInside(thread, from: position, protection).records
        }
    }

    /// Returns the records within a transaction, with the thread's entry.
    func recordsInside(
        _ thread: String, from position: Int, _ protection: ThreadProtection
    ) throws(StoreError) -> (entry: Entry, records: [ChappieThreadRecord]) {
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
            let key = try state(protection).key
            let known = try entry(of: thread.id)
            if let known { _ = try checkedSummary(in: known, protection) }
            try Self.check(known?.count ?? 0, of: thread.id, expecting: expected)
            return (key: key, number: try number(for: thread.id))
        }
        // The slow work is done before other processes have to wait.
        var bodies: [[UInt8]] = []
        for record in records { bodies.append(try record.storedBody()) }
        for date in [thread.createdAt, thread.updatedAt] { _ = try Self.milliseconds(of: date) }
        let size = bodies.reduce(0) { $0 + $1.count }
        guard size <= limit else { throw .full(bytes: size, limit: limit) }
        var rows = try sealed(records, bodies, into: place.number, of: thread.id, place.key, protection)
        let lastChange = try lastChange(protection)
        try change(protection) { () throws(StoreError) in
            var state = try state(protection)
            try Self.check(state, against: lastChange)
            let key = state.key
            let known = try entry(of: thread.id)
            if let known { _ = try checkedSummary(in: known, protection) }
            try Self.check(known?.count ?? 0, of: thread.id, expecting: expected)
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
            let tags = ThreadProtection.RowTags(protection)
            if let known { state.sum &-= try tag(of: known, tags) } else { state.threads &+= 1 }
            state.sum &+= try tag(of: entry, tags)
            try setState(state, protection)
            let bytes = try bytesUsed()
            guard bytes <= limit else { throw .full(bytes: bytes, limit: limit) }
        }
    }

    private static func check(_ count: Int, of thread: String, expecting expected: Int) throws(StoreError) {
        guard count == expected else { throw .conflict(thread: thread, expected: expected, actual: count) }
    }

    private func deleteRecords(from first: Int, to last: Int) throws(StoreError) {
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

    func delete(_ thread: String, _ protection: ThreadProtection) throws(StoreError) {
        let isGone = try change(protection) { () throws(StoreError) in
            var state = try state(protection)
            guard let entry = try entryToDelete(thread) else {
                try searchForLost(thread, protection)
                return false
            }
            // A damaged index must not cause the deletion of another thread that is intact.
            if let own = try self.entry(numbered: entry.number), own.id != thread,
                try summary(in: own, as: own.id, protection) != nil
            {
                throw .damaged(thread: thread, "its place is another thread's")
            }
            try deleteRecords(from: entry.first, to: entry.last)
            try database.run("DELETE FROM threads WHERE number = ?", .integer(entry.number))
            state.threads &-= 1
            // If the row was damaged after it was written, the sum no longer matches. Otherwise another row that was
            // put back to an earlier state would not be noticed.
            state.sum &-= try tag(of: entry, ThreadProtection.RowTags(protection))
            try setState(state, protection)
            return true
        }
        if isGone { giveRoomBack() }
        // A copy also contains the thread.
        folder.removeAbandonedCopies()
    }

    /// Returns the entry of the thread, even if the index of ids lacks the id in its row.
    private func entryToDelete(_ thread: String) throws(StoreError) -> Entry? {
        if let entry = try entry(of: thread) { return entry }
        guard try entries().contains(where: { $0.id == thread }) else { return nil }
        try database.run("REINDEX threads")
        return try entry(of: thread)
    }
}
