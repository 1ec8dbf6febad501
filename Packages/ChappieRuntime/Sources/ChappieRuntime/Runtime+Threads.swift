@_spi(ChappieInternals) import ChappieCore

// Looking after threads, between turns.
extension ChappieRuntime {
    /// The threads, the one that was written last first.
    public func listThreads(includeArchived: Bool = false) async throws -> [ChappieThreadSummary] {
        try await store.summaries().filter { includeArchived || !$0.isArchived }.sorted {
            ($0.updatedAt, $0.id) > ($1.updatedAt, $1.id)
        }
    }

    /// Has the next turns go to a thread that is kept, with its model.
    ///
    /// - Throws: ``ChappieThreadStoreError``.
    @discardableResult
    public func openThread(_ id: String) async throws -> ChappieThread {
        try await queue.alone { use(try ChappieThread(id: id, records: try await store.records(of: id, from: 0))) }
    }

    /// Has the next turns go to a new thread, which is kept from its first turn on.
    ///
    /// - Returns: its id.
    @discardableResult
    public func newThread() async throws -> String {
        try await queue.alone { newThreadHere().id }
    }

    /// Gives a thread that is kept a title; an empty one takes it away.
    public func renameThread(_ id: String, to title: String) async throws {
        try await change(id, .renamed, ["title": .string(title)])
    }

    /// Takes a thread out of the list. It stays as it is, and can be found, opened and taken back.
    public func archiveThread(_ id: String) async throws { try await change(id, .archived) }

    /// Takes a thread back into the list.
    public func unarchiveThread(_ id: String) async throws { try await change(id, .unarchived) }

    /// Removes a thread for good; one that is not there is no error. When it is the open one, the next turn begins a new one.
    public func deleteThread(_ id: String) async throws {
        try await queue.alone {
            try await store.delete(id)
            if currentThread?.id == id { newThreadHere() }
        }
    }

    /// Copies a thread up to the end of a turn into a new one, and opens that.
    ///
    /// - Parameters:
    ///   - id: The thread.
    ///   - turn: the turn's number, counted from 1; `nil`, the default, means all.
    /// - Throws: ``ChappieThreadStoreError``; ``ChappieRuntimeError/noSuchTurn(_:of:)``.
    @discardableResult
    public func forkThread(_ id: String, at turn: Int? = nil) async throws -> ChappieThread {
        try await queue.alone {
            let original = try ChappieThread(id: id, records: try await store.records(of: id, from: 0))
            let fork = try original.forked(at: turn, id: makeID(), now: clock.now)
            try await store.append(fork.records, to: fork.summary, at: 0)
            return use(fork)
        }
    }

    /// Keeps a thread that was exported.
    ///
    /// - Throws: ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` when a thread of its id is there.
    public func importThread(_ thread: ChappieThread) async throws {
        guard !thread.records.isEmpty else { return }
        try await store.append(thread.records, to: thread.summary, at: 0)
    }

    /// The threads in which all words of the query occur, best first.
    public func search(_ query: ChappieThreadQuery) async throws -> [ChappieThreadHit] { try await store.search(query) }

    private func change(_ id: String, _ kind: ChappieThreadRecord.Kind, _ body: ChappieJSON = [:]) async throws {
        try await queue.alone {
            if currentThread?.id == id, currentThread?.records.isEmpty == false { return try await add(kind, body) }
            while true {
                guard var summary = try await store.summary(of: id) else {
                    throw ChappieThreadStoreError.notFound(thread: id)
                }
                let position = summary.recordCount
                let record = ChappieThreadRecord(position: position, kind: kind, date: clock.now, body: body)
                summary.add(record)
                do { return try await store.append([record], to: summary, at: position) } catch {
                    guard case .conflict(_, _, let end) = error as? ChappieThreadStoreError, end != position else {
                        throw error
                    }
                    try Task.checkCancellation()
                }
            }
        }
    }
}
