@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSQLite

// The facts about all threads. They reveal an old row, a revived thread and a database without its last changes.

extension ThreadDatabase {
    /// The facts about all threads. An old row in one place does not match them.
    struct State {
        /// The key that new records are sealed with.
        var key: Int
        /// The number of threads.
        var threads = 0
        /// The number of changes to threads.
        var changes = 0
        /// The sum of the tags of their rows.
        var sum = SIMD4<UInt64>.zero

        init(key: Int) { self.key = key }

        init?(_ bytes: [UInt8], key: Int) {
            self.key = key
            func number(at start: Int) -> Int { bytes[start..<start + 8].reversed().reduce(0) { $0 << 8 | Int($1) } }
            guard bytes.count == 48 else { return nil }
            threads = number(at: 0)
            changes = number(at: 8)
            sum = SIMD4(littleEndian: bytes[16...])
            // A backup may come from anyone.
            guard threads >= 0, changes >= 0 else { return nil }
        }

        var bytes: [UInt8] {
            [threads, changes].flatMap { withUnsafeBytes(of: $0.littleEndian, Array.init) } + sum.littleEndianBytes
        }
    }

    /// Returns the checked state.
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
            let state = State(bytes, key: key)
        else { throw .damaged(thread: nil, "the entry of the store was changed") }
        return state
    }

    func setState(_ state: State, _ protection: ThreadProtection) throws(StoreError) {
        var state = state
        state.changes &+= 1
        let sealed = try protection.seal(state.bytes, with: state.key, for: .store(database: facts.id))
        try database.run("UPDATE store SET key = ?, state = ?", .integer(state.key), .bytes(sealed))
        changed = state
    }

    /// Runs a transaction that may change the state. The change is noted after it is stored.
    func change<Output>(
        _ protection: ThreadProtection, _ body: () throws(StoreError) -> Output
    ) throws(StoreError) -> Output {
        changed = nil
        let output = try database.transaction(body)
        if let changed {
            let note = withUnsafeBytes(of: changed.changes.littleEndian, Array.init)
            // The database has stored the change, so the caller gets no error if the note fails.
            let sealed = try? protection.seal(note, with: changed.key, for: .note(database: facts.id))
            if let sealed { folder.noteChange(sealed) }
        }
        return output
    }

    /// Returns the number of the last change that was noted, or 0 without a note of this database. Call this method
    /// before a transaction begins, because later changes may be noted in the meantime.
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

    /// Returns the tag of a row of `threads`, which is its part of the sum.
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

    static func check(_ count: Int, against state: State) throws(StoreError) {
        guard count == state.threads else {
            throw .damaged(thread: nil, "\(count) threads are there, but \(state.threads) were stored")
        }
    }

    /// Checks the complete list of entries against the state.
    func check(_ entries: [Entry], against state: State, _ protection: ThreadProtection) throws(StoreError) {
        try Self.check(entries.count, against: state)
        guard try state.sum == sum(of: entries, protection) else {
            throw .damaged(
                thread: nil,
                """
                one is older than it was, or was deleted and is back, although each is whole by itself, or this is not known \
                because a damaged one was deleted; restore a backup, or accept them as they are by a repair
                """)
        }
    }
}
