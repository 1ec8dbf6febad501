@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
import ChappiePostgres
import Synchronization

/// The ``CredentialNotes`` in the rows of the table, and the marks of the slots that this process uses.
///
/// One query in each interval asks for the rows that have changed, so that a request needs no query. If the database
/// can't be reached, the marks do not change, and requests continue with the tokens in memory.
final class RowNotes: CredentialNotes {
    private static let purpose = "chappie sign-out 1"
    /// The time for which a mark is kept for a slot that nobody asks for.
    private static let idleTime = Duration.seconds(600)
    /// The time for which a call waits for the database.
    private static let patience = Duration.seconds(10)

    private struct Entry {
        var mark: [UInt8]
        /// The mark of this process's own change, which it has not announced yet.
        var own: [UInt8]?
        var lastUse: Duration
    }

    private struct State {
        var entries: [CredentialSlot: Entry] = [:]
        var isWatching = false
    }

    private let rows: CredentialRows
    private let keys: ChappieSealingKeys
    private let interval: Duration
    private let clock: any ChappieClock
    private let state = Mutex(State())

    init(
        _ rows: CredentialRows, _ keys: ChappieSealingKeys, every interval: Duration, clock: any ChappieClock
    ) {
        self.rows = rows
        self.keys = keys
        self.interval = interval
        self.clock = clock
    }

    // MARK: Notes

    func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {
        let sealed = note.flatMap { try? keys.seal(Secret($0), for: slot, as: Self.purpose) }
        guard note == nil || sealed != nil else { return }
        let statement = rows.schema.setNote(sealed, keys.currentID, of: slot)
        _ = waitFor { [rows] in try await rows.change { _ in statement } }
    }

    func note(for slot: CredentialSlot) -> [UInt8]? {
        let found = waitFor { [rows] in
            try await rows.perform { connection, _ throws(PostgresFailure) in
                let row = try rows.schema.read([rows.schema.note(of: slot)], on: connection)[2]
                return row.rows.isEmpty ? nil : (row.bytes(0, 0), row.integer(0, 1))
            }
        }
        guard let (sealed, keyID) = found.flatMap(\.self) else { return nil }
        return try? keys.open(sealed, sealedBy: keyID, for: slot, as: Self.purpose).withBytes(Array.init)
    }

    // MARK: Marks

    /// Records the mark that a change by this process has made. The next announcement returns it.
    func changed(_ slot: CredentialSlot, to mark: [UInt8]) {
        state.withLock { $0.entries[slot, default: Entry(mark: mark, lastUse: clock.elapsed)].own = mark }
        watch()
    }

    func announceChange(of slot: CredentialSlot) -> [UInt8]? {
        let own = state.withLock { state -> [UInt8]? in
            guard let own = state.entries[slot]?.own else { return nil }
            state.entries[slot] = Entry(mark: own, lastUse: clock.elapsed)
            return own
        }
        if let own { return own }
        let changed = waitFor { [rows] in try await rows.change { _ in rows.schema.announce(slot) } }
        guard let mark = changed.flatMap(\.self)?.mark else { return nil }
        keep(mark, of: slot)
        return mark
    }

    func changeMark(for slot: CredentialSlot) -> [UInt8]? {
        let kept = state.withLock { state -> [UInt8]? in
            state.entries[slot]?.lastUse = clock.elapsed
            return state.entries[slot]?.mark
        }
        if let kept { return kept }
        let read = waitFor { [rows] in
            try await rows.perform { connection, _ throws(PostgresFailure) in
                let row = try rows.schema.read([rows.schema.mark(of: slot)], on: connection)[2]
                return row.rows.isEmpty ? Array("0.0".utf8) : row.mark(0, 0)
            }
        }
        if let read { keep(read, of: slot) }
        return read
    }

    private func keep(_ mark: [UInt8], of slot: CredentialSlot) {
        state.withLock { $0.entries[slot] = Entry(mark: mark, lastUse: clock.elapsed) }
        watch()
    }

    // MARK: Watching

    /// Begins to ask for changes, unless this has begun. It ends when no slot has been used for a while.
    private func watch() {
        let begins = state.withLock { state in
            defer { state.isWatching = true }
            return !state.isWatching
        }
        guard begins else { return }
        Task.detached { [weak self, interval, clock] in
            var since: Int?
            while let notes = self, notes.isNeeded() {
                since = await notes.look(since)
                try? await clock.sleep(for: interval)
            }
        }
    }

    /// Drops the marks that nobody has asked for, and returns whether there are others.
    private func isNeeded() -> Bool {
        let now = clock.elapsed
        return state.withLock { state in
            state.entries = state.entries.filter { now - $0.value.lastUse < Self.idleTime }
            state.isWatching = !state.entries.isEmpty
            return state.isWatching
        }
    }

    /// Reads the changes since a time of the server's clock, in microseconds, or of the last minute.
    ///
    /// - Returns: The time to begin at next. It is `since` if the database can't be reached.
    private func look(_ since: Int?) async -> Int? {
        let schema = rows.schema
        let found = try? await rows.perform { connection, _ throws(PostgresFailure) in
            let results = try schema.read([schema.now, schema.changes(since: since)], on: connection)
            let changes = results[3]
            return (results[2].integer(0, 0), changes.rows.map { (changes.slot($0), changes.mark($0, 4)) })
        }
        state.withLock { state in
            for (slot, mark) in found?.1 ?? [] { state.entries[slot]?.mark = mark }
            // Without a time to begin at, a later look could miss a change.
            if found == nil, since == nil { state.entries.removeAll() }
        }
        return found?.0 ?? since
    }

    /// Waits for work with the database, and returns its result, or `nil` if it fails or takes too long. The caller is on
    /// a thread that may block.
    private func waitFor<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) -> Value? {
        let result = Mutex<Value?>(nil)
        _ = blocking(within: Self.patience) {
            let value = try? await work()
            result.withLock { $0 = value }
        }
        return result.withLock(\.self)
    }
}
