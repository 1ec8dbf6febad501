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

    /// Stores an imported thread, or adds its new records to the stored thread with the same id. Another program may
    /// have continued the thread since it was imported.
    ///
    /// The thread in the store stays unchanged if it was continued here. A turn that was running at the earlier import
    /// is replaced by the complete one.
    ///
    /// - Throws: ``ChappieThreadStoreError``. In that case the stored thread stays unchanged. The error is
    ///   ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if another process writes to the thread at the
    ///   same time.
    @discardableResult
    public func update(_ thread: ChappieThread) async throws(ChappieThreadStoreError) -> ChappieThreadUpdate {
        // A store searches everywhere for a thread that it doesn't find, but reports at once that it has one.
        do throws(ChappieThreadStoreError) {
            try await `import`(thread)
            return .added
        } catch {
            guard case .conflict = error else { throw error }
        }
        let old = try await records(of: thread.id, from: 0)
        let same = zip(old, thread.records).prefix { $0.kind == $1.kind && $0.body == $1.body }.count
        guard same < thread.records.count else { return .unchanged }
        if same == old.count {
            try await append(Array(thread.records[same...]), to: thread.summary, at: same)
            return .continued
        }
        guard same == old.count - 1, thread.records[same].continues(old[same]) else { return .diverged }
        try await replace(thread.records, of: thread.summary, expecting: old.count)
        return .continued
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

extension ChappieThreadRecord {
    /// Returns whether this is the end of the same turn, with the same items and perhaps more.
    fileprivate func continues(_ earlier: ChappieThreadRecord) -> Bool {
        let ends: Set<Kind> = [.turnFinished, .turnInterrupted, .turnFailed]
        guard ends.contains(kind), ends.contains(earlier.kind), turnID == earlier.turnID else { return false }
        return (body["items"]?.array ?? []).starts(with: earlier.body["items"]?.array ?? [])
    }
}

/// The result of ``ChappieThreadStore/update(_:)``.
public enum ChappieThreadUpdate: String, Sendable, Hashable, Codable {
    /// There was no thread with this id.
    case added
    /// The stored thread has grown.
    case continued
    /// There was nothing new.
    case unchanged
    /// Each thread has something that the other one lacks. The stored thread is unchanged.
    case diverged
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
