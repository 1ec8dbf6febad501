public import ChappieAuth
@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) public import ChappieCore

// These functions manage threads with a store and a clock, and need no client. No function here waits for a turn.
extension ChappieThreadStore {
    /// Returns the threads, with the latest change at the top. A date in the future counts as the oldest.
    ///
    /// - Parameter includeArchived: Whether archived threads are included. Default `false`.
    public func threads(
        includeArchived: Bool = false
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadSummary] {
        try await summaries().latestFirst(includeArchived: includeArchived)
    }

    /// Returns the thread with all its records.
    ///
    /// - Throws: ``ChappieThreadStoreError/notFound(thread:)`` if the thread is missing.
    public func thread(_ id: String) async throws(ChappieThreadStoreError) -> ChappieThread {
        try ChappieThread(id: id, records: try await records(of: id, from: 0))
    }

    /// Returns the last `count` turns of a thread for display. Only the end of a long thread is read.
    ///
    /// - Throws: ``ChappieThreadStoreError/notFound(thread:)`` if the thread is missing.
    @_spi(ChappieInternals) public func thread(
        _ id: String, last count: Int
    ) async throws(ChappieThreadStoreError) -> ChappieThread {
        guard let summary = try await summary(of: id) else { throw .notFound(thread: id) }
        // Most turns have two to eight records.
        var length = count.multipliedReportingOverflow(by: 8).partialValue
        while length > 0, length < summary.recordCount {
            let records = try await records(of: id, from: summary.recordCount - length)
            let end = ChappieThread(endOf: summary, records: records)
            if end.turns.count > count { return end.last(count) }
            length = length.multipliedReportingOverflow(by: 8).partialValue
        }
        return try await thread(id).last(count)
    }

    /// Gives a thread a title. An empty title removes it.
    ///
    /// ```swift
    /// try await store.rename(id, to: "Big animals")      // also while a turn of this thread, or of another, runs
    /// ```
    /// - Parameters:
    ///   - id: The id of the thread.
    ///   - title: The title, as one line.
    ///   - clock: The clock for the date of the record.
    /// - Throws: ``ChappieThreadStoreError/notFound(thread:)`` if the thread is missing.
    public func rename(
        _ id: String, to title: String, clock: any ChappieClock = SystemClock()
    ) async throws(ChappieThreadStoreError) {
        try await add(.renamed, ["title": .string(title)], to: id, clock)
    }

    /// Hides a thread from the list. It is kept, and can be found, opened and unarchived. See ``rename(_:to:clock:)``.
    public func archive(_ id: String, clock: any ChappieClock = SystemClock()) async throws(ChappieThreadStoreError) {
        try await add(.archived, to: id, clock)
    }

    /// Puts an archived thread back into the list. See ``rename(_:to:clock:)``.
    public func unarchive(_ id: String, clock: any ChappieClock = SystemClock()) async throws(ChappieThreadStoreError) {
        try await add(.unarchived, to: id, clock)
    }

    /// Copies a thread up to the end of a turn into a new one.
    ///
    /// - Parameters:
    ///   - id: The id of the thread.
    ///   - turn: The turn's number, counted from 1. `nil`, the default, means all turns. An open turn is left out.
    ///   - clock: The clock for the copy's date.
    ///   - entropy: The source of randomness for the copy's id.
    /// - Returns: The copy, which is kept.
    /// - Throws: ``ChappieThreadStoreError``, or ``ChappieRuntimeError/noSuchTurn(_:of:)``.
    public func fork(
        _ id: String, at turn: Int? = nil, clock: any ChappieClock = SystemClock(),
        entropy: any Entropy = SystemEntropy()
    ) async throws -> ChappieThread {
        let now = clock.now
        let copy = try await thread(id).forked(at: turn, id: UUIDv7.make(now: now, entropy: entropy), now: now)
        try await `import`(copy)
        return copy
    }

    /// Stores an exported thread. A thread without records is ignored.
    ///
    /// - Throws: ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if the store has a thread with its id.
    public func `import`(_ thread: ChappieThread) async throws(ChappieThreadStoreError) {
        guard !thread.records.isEmpty else { return }
        try await append(thread.records, to: thread.summary, at: 0)
    }

    /// Stores an imported thread, or brings the stored thread with the same id up to date. Another program may have
    /// continued the thread since it was imported.
    ///
    /// Only what was asked and answered is compared. A title that was given here stays, and so does an archived thread.
    /// A turn that was running at the earlier import is replaced by the complete one. An older copy of a thread changes
    /// nothing.
    ///
    /// If the thread was continued here and in the other program, the imported thread keeps the id, and the stored one
    /// is kept as a copy with the title "… (continued here)".
    ///
    /// - Parameters:
    ///   - thread: The imported thread.
    ///   - clock: The clock for the id and the title of a copy.
    ///   - entropy: The source of randomness for the id of a copy.
    /// - Throws: ``ChappieThreadStoreError``. In that case the stored thread stays unchanged. The error is
    ///   ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if another process writes to the thread at the
    ///   same time.
    @discardableResult
    public func update(
        _ thread: ChappieThread, clock: any ChappieClock = SystemClock(), entropy: any Entropy = SystemEntropy()
    ) async throws(ChappieThreadStoreError) -> ChappieThreadUpdate {
        // A store searches everywhere for a thread that it doesn't find, but reports at once that it has one.
        do throws(ChappieThreadStoreError) {
            try await `import`(thread)
            return .added
        } catch {
            guard case .conflict = error else { throw error }
        }
        let change = ThreadChange(from: try await self.thread(thread.id), to: thread)
        switch change.update {
        case .continued where !change.added.isEmpty:
            guard let summary = ChappieThreadSummary(id: thread.id, records: change.old.records + change.added) else {
                return .unchanged
            }
            try await append(change.added, to: summary, at: change.old.records.count)
        case .continued, .changed: try await replace(with: change)
        case .copied:
            let id = UUIDv7.make(now: clock.now, entropy: entropy)
            let title: ChappieJSON = .string("\(change.old.summary.name) (continued here)")
            let record = ChappieThreadRecord(
                position: change.old.records.count, kind: .renamed, date: change.old.summary.updatedAt,
                body: ["title": title])
            try await `import`(try ChappieThread(id: id, records: change.old.records + [record]))
            try await replace(with: change)
        default: break
        }
        return change.update
    }

    private func replace(with change: ThreadChange) async throws(ChappieThreadStoreError) {
        let thread = try ChappieThread(id: change.old.id, records: change.combined)
        try await replace(thread.records, of: thread.summary, expecting: change.old.records.count)
    }

    /// Adds a record at the end of the thread, even if another writer moves that end.
    func add(
        _ kind: ChappieThreadRecord.Kind, _ body: ChappieJSON = [:], to id: String, _ clock: any ChappieClock
    ) async throws(ChappieThreadStoreError) {
        while true {
            guard var summary = try await summary(of: id) else { throw .notFound(thread: id) }
            let position = summary.recordCount
            let record = ChappieThreadRecord(position: position, kind: kind, date: clock.now, body: body)
            summary.add(record)
            do throws(ChappieThreadStoreError) {
                return try await append([record], to: summary, at: position)
            } catch {
                // Another writer was faster. The next attempt begins at the thread's new end.
                guard case .conflict(_, _, let end) = error, end != position, !Task.isCancelled else { throw error }
            }
        }
    }
}

/// The difference between a stored thread and the same thread in another file.
private struct ThreadChange {
    let old: ChappieThread
    private let new: ChappieThread
    let update: ChappieThreadUpdate
    /// The records to add at the end. If there are none, a thread that has changed is replaced.
    let added: [ChappieThreadRecord]

    init(from old: ChappieThread, to new: ChappieThread) {
        self.old = old
        self.new = new
        (update, added) = Self.compare(old, new)
    }

    private static func compare(
        _ old: ChappieThread, _ new: ChappieThread
    ) -> (ChappieThreadUpdate, added: [ChappieThreadRecord]) {
        let same = zip(old.records, new.records).prefix { $0.kind == $1.kind && $0.body == $1.body }.count
        if same == old.records.count, same < new.records.count { return (.continued, Array(new.records[same...])) }
        let equal = zip(old.turns, new.turns).prefix { $0.items == $1.items }.count
        let (known, date) = (old.importDate ?? .distantPast, new.importDate ?? .distantFuture)
        let hasLess = new.turns.count < old.importedTurnCount
        let isOlder = date < known || date == known && hasLess
        let isCompacted = new.compactionSummaries.count > old.compactionSummaries.count
        if isOlder { return (.unchanged, []) }
        // In a newer thread, turns are missing if they were taken back.
        if same == new.records.count || hasAll(of: new, in: old, equal), !hasLess, !isCompacted {
            let state = newState(old, new)
            return state.isEmpty ? (.unchanged, []) : (.continued, state)
        }
        if hasAll(of: old, in: new, equal) { return (.continued, []) }
        return (old.records.contains { $0.isSaid && !$0.isImported } ? .copied : .changed, [])
    }

    /// Returns whether the other thread has all turns of a thread, the last one perhaps with more items.
    ///
    /// - Parameter equal: The number of turns from the beginning that are the same in both threads.
    private static func hasAll(of thread: ChappieThread, in other: ChappieThread, _ equal: Int) -> Bool {
        if equal == thread.turns.count { return true }
        guard equal == thread.turns.count - 1, equal < other.turns.count else { return false }
        return other.turns[equal].items.starts(with: thread.turns[equal].items)
    }

    /// Returns records with the other program's new title, and with whether it lists the thread, unless these were set
    /// here.
    private static func newState(_ old: ChappieThread, _ new: ChappieThread) -> [ChappieThreadRecord] {
        func isSetHere(_ kinds: ChappieThreadRecord.Kind...) -> Bool {
            old.records.last { kinds.contains($0.kind) }?.isImported == false
        }
        var changes: [(ChappieThreadRecord.Kind, ChappieJSON)] = []
        if let title = new.summary.title, title != old.summary.title, !isSetHere(.renamed) {
            changes.append((.renamed, ["title": .string(title), "imported": true]))
        }
        if new.summary.isArchived != old.summary.isArchived, !isSetHere(.archived, .unarchived) {
            changes.append((new.summary.isArchived ? .archived : .unarchived, ["imported": true]))
        }
        // These changes do not make the thread the latest one.
        return changes.enumerated().map { index, change in
            ChappieThreadRecord(
                position: old.records.count + index, kind: change.0, date: old.summary.updatedAt, body: change.1)
        }
    }

    /// The records of the new thread, and the titles and the other care that the stored one was given here.
    var combined: [ChappieThreadRecord] {
        let care = old.records.filter { record in
            !record.isSaid && !record.isImported
                && !new.records.contains { $0.kind == record.kind && $0.body == record.body && $0.date == record.date }
        }
        return (new.records + care).enumerated().map { position, record in
            // A title or an archive mark from here does not make the thread older.
            let date = position < new.records.count ? record.date : max(record.date, new.summary.updatedAt)
            return ChappieThreadRecord(position: position, kind: record.kind, date: date, body: record.body)
        }
    }
}

extension ChappieThread {
    /// The date of the latest change in another program, or `nil` if the thread is from this program.
    fileprivate var importDate: Date? {
        let changedAt = records.first?.body["changedAt"]?.double.map { Date(timeIntervalSince1970: $0) }
        let said = records.filter { $0.isImported && $0.isSaid }.map(\.date)
        return (said + [changedAt].compactMap(\.self)).max()
    }

    /// The number of turns that are from another program.
    fileprivate var importedTurnCount: Int {
        let started = records.filter { $0.kind == .turnStarted && !positionsTakenBack.contains($0.position) }
        return started.count(where: \.isImported)
    }
}

extension ChappieThreadRecord {
    /// Whether the record is from another program.
    fileprivate var isImported: Bool { body["imported"]?.bool == true }

    /// Whether the record belongs to the conversation, and not to the care for the thread.
    fileprivate var isSaid: Bool { ![.renamed, .archived, .unarchived, .forked].contains(kind) }
}

/// The result of ``ChappieThreadStore/update(_:clock:entropy:)``.
public enum ChappieThreadUpdate: String, Sendable, Hashable, Codable {
    /// There was no thread with this id.
    case added
    /// The stored thread has grown, or has another title.
    case continued
    /// The stored thread was replaced, because the other program changed earlier messages.
    case changed
    /// The stored thread was replaced, because the other program continued it. What was continued here is kept as a
    /// copy.
    case copied
    /// There was nothing new.
    case unchanged
}

extension [ChappieThreadSummary] {
    /// Returns the threads, with the latest change at the top.
    ///
    /// A clock that was once ahead, or an imported file, must not determine the latest conversation from then on.
    /// Threads with a date in the future are therefore at the end. The clocks of machines with a common store may
    /// differ by a minute.
    @_spi(ChappieInternals) public func latestFirst(includeArchived: Bool) -> [ChappieThreadSummary] {
        let now = SystemClock().now + 60
        func precedes(_ one: ChappieThreadSummary, _ other: ChappieThreadSummary) -> Bool {
            let (isOneAhead, isOtherAhead) = (one.updatedAt > now, other.updatedAt > now)
            guard isOneAhead == isOtherAhead else { return isOtherAhead }
            return (one.updatedAt, one.id) > (other.updatedAt, other.id)
        }
        return filter { includeArchived || !$0.isArchived }.sorted(by: precedes)
    }
}
