@_spi(ChappieInternals) import ChappieClient
import ChappieCore

// These functions manage threads. Functions that need no client are in the store (ThreadManagement.swift).
extension ChappieRuntime {
    /// Returns the threads, with the latest change at the top.
    public func listThreads(includeArchived: Bool = false) async throws -> [ChappieThreadSummary] {
        try await store.threads(includeArchived: includeArchived)
    }

    /// Directs the next turns to a kept thread, with its model.
    ///
    /// - Throws: ``ChappieThreadStoreError``.
    @discardableResult
    public func openThread(_ id: String) async throws -> ChappieThread {
        try await queue.alone { use(try await store.thread(id)) }
    }

    /// Directs the next turns to the thread with this id, which begins with its first turn if the store has none.
    func continueThread(_ id: String) async throws {
        guard currentThread?.id != id else { return }
        try await queue.alone {
            do {
                use(try await store.thread(id))
            } catch ChappieThreadStoreError.notFound {
                use(ChappieThread(id: id, createdAt: clock.now))
            }
        }
    }

    /// Directs the next turns to a new thread, which is kept from its first turn on.
    ///
    /// - Returns: The thread's id.
    @discardableResult
    public func newThread() async throws -> String {
        try await queue.alone { newThreadHere().id }
    }

    /// Gives a kept thread a title. An empty title removes it. The function does not wait for a turn, and a tool's
    /// handler may call it.
    public func renameThread(_ id: String, to title: String) async throws {
        try await change(id, .renamed, ["title": .string(title)])
    }

    /// Hides a thread from the list. The thread is kept, and can be found, opened and unarchived. The function does not
    /// wait for a turn.
    public func archiveThread(_ id: String) async throws { try await change(id, .archived) }

    /// Puts an archived thread back into the list. The function does not wait for a turn.
    public func unarchiveThread(_ id: String) async throws { try await change(id, .unarchived) }

    /// Removes a thread permanently. A missing thread is not an error. If the open thread is removed, the next turn
    /// begins a new one.
    ///
    /// The open thread is removed after the turns that were requested earlier, so a handler of the runtime's tools
    /// would wait for itself. Any other thread is removed at once.
    public func deleteThread(_ id: String) async throws {
        guard currentThread?.id == id else { return try await store.delete(id) }
        try await queue.alone {
            try await store.delete(id)
            if currentThread?.id == id { newThreadHere() }
        }
    }

    /// Copies a thread up to the end of a turn into a new one, and opens the copy, after the turns that were requested
    /// earlier. The store's `fork` only copies the thread, and does so at once.
    ///
    /// - Parameters:
    ///   - id: The id of the thread.
    ///   - turn: The turn's number, counted from 1. `nil`, the default, means all turns.
    /// - Throws: ``ChappieThreadStoreError``, or ``ChappieRuntimeError/noSuchTurn(_:of:)``.
    @discardableResult
    public func forkThread(_ id: String, at turn: Int? = nil) async throws -> ChappieThread {
        try await queue.alone { use(try await store.fork(id, at: turn, clock: clock, entropy: entropy)) }
    }

    /// Stores an exported thread.
    ///
    /// - Throws: ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if the store has a thread with its id.
    public func importThread(_ thread: ChappieThread) async throws { try await store.import(thread) }

    /// Returns the threads in which all words of the query occur, with the best one at the top.
    public func search(_ query: ChappieThreadQuery) async throws -> [ChappieThreadHit] { try await store.search(query) }

    private func change(_ id: String, _ kind: ChappieThreadRecord.Kind, _ body: ChappieJSON = [:]) async throws {
        // The open thread's records are counted here, and a turn may be adding some.
        if try await append([(kind, body)], to: id, anywhere: true) { return }
        try await store.add(kind, body, to: id, clock)
    }
}
