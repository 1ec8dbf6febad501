public import ChappieAuth
public import ChappieCore

/// Keeps threads: on this machine, on a server, in memory.
///
/// Four requirements are enough for a store; the rest have defaults that use these. After ``append(_:to:at:)`` has
/// returned, its records are kept, even if the process crashes.
///
/// A complete store:
/// ```swift
/// actor Table: ChappieThreadStore {
///     private var threads: [String: (summary: ChappieThreadSummary, records: [ChappieThreadRecord])] = [:]
///     func summaries() -> [ChappieThreadSummary] { threads.values.map(\.summary) }
///     func records(of thread: String, from position: Int) throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
///         guard let found = threads[thread] else { throw .notFound(thread: thread) }
///         return Array(found.records.dropFirst(position))
///     }
///     func append(
///         _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
///     ) throws(ChappieThreadStoreError) {
///         let kept = threads[thread.id]?.records ?? []
///         guard kept.count == position else {
///             throw .conflict(thread: thread.id, expected: position, actual: kept.count)
///         }
///         threads[thread.id] = (thread, kept + records)
///     }
///     func delete(_ thread: String) { threads[thread] = nil }
/// }
/// ```
/// `ThreadStoreContract` of the testing product checks the duties of every store.
public protocol ChappieThreadStore: Sendable {
    /// Returns the summaries of all threads, including archived ones, in any order.
    func summaries() async throws(ChappieThreadStoreError) -> [ChappieThreadSummary]

    /// Returns a thread's records from `position` on, in order. None if `position` is the thread's end or beyond it.
    ///
    /// - Throws: ``ChappieThreadStoreError/notFound(thread:)`` if the thread is missing.
    func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord]

    /// Adds `records` at the end of a thread, all of them or none, and keeps `thread` as its summary; a new thread
    /// begins at position 0. Returns once they are kept for good.
    ///
    /// - Parameters:
    ///   - records: their positions follow from `position`. Never empty.
    ///   - thread: the summary after these records.
    ///   - position: the expected end of the thread.
    /// - Throws: ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if the thread has another end, because
    ///   another process was faster. Nothing is added then, as with every other error, with one exception: if a server
    ///   does not answer any more, ``ChappieThreadStoreError/unavailable(_:)`` says that the outcome is unknown.
    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError)

    /// Removes a thread; a missing thread is not an error.
    func delete(_ thread: String) async throws(ChappieThreadStoreError)

    /// Replaces all records of a thread and its summary in one step: if the call fails, the thread is as it was.
    ///
    /// - Parameters:
    ///   - records: their positions follow from 0. Never empty.
    ///   - thread: the summary after these records.
    ///   - count: how many records the thread is expected to have.
    /// - Throws: ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if the thread has another number of
    ///   records. Default: always ``ChappieThreadStoreError/unavailable(_:)``.
    func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) async throws(ChappieThreadStoreError)

    /// Returns the summary of one thread, or `nil` if the thread is missing. Default: looks through ``summaries()``.
    func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary?

    /// Returns the threads in which all words of the query occur, with the best one at the top. Default: reads
    /// everything.
    func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit]

    /// How much the store holds. Default: counts, without a limit.
    func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage

    /// Returns the store that a runtime uses for the client of this owner. A store whose place follows from the owner
    /// gives it here; a store around another one passes the call on. Default: this store.
    ///
    /// - Parameter owner: the slot of the client's credential.
    func placed(for owner: CredentialSlot) -> any ChappieThreadStore
}

/// A search in threads.
public struct ChappieThreadQuery: Sendable, Hashable, Codable {
    /// The words that must occur in one record, in any order; between quotation marks (`"`) in this one. Case and
    /// accents don't matter; the last word may be the beginning of one, unless it is between quotation marks.
    public var text: String
    /// Only records from this moment on. Default: all.
    public var since: Date?
    /// Only threads whose last turn used this model. Default: all.
    public var model: String?
    /// How many hits at most, one for each thread. Default 20.
    public var limit: Int
    /// Default `true`: users often look for a thread that they have archived.
    public var includesArchived: Bool

    /// A query with the given properties.
    public init(
        _ text: String, since: Date? = nil, model: String? = nil, limit: Int = 20, includesArchived: Bool = true
    ) {
        self.text = text
        self.since = since
        self.model = model
        self.limit = max(limit, 0)
        self.includesArchived = includesArchived
    }

    /// Whether a record of the thread may be a hit.
    @_spi(ChappieInternals) public func concerns(_ thread: ChappieThreadSummary) -> Bool {
        (includesArchived || !thread.isArchived) && (model == nil || model == thread.model)
    }
}

/// A thread in which a query was found.
public struct ChappieThreadHit: Sendable, Hashable, Codable {
    /// The thread.
    public var thread: ChappieThreadSummary
    /// The position of the best record.
    public var position: Int
    /// When that record was written.
    public var date: Date
    /// The record's words around the first hit, one line of at most 160 characters.
    public var excerpt: String

    /// A hit with the given properties.
    public init(thread: ChappieThreadSummary, position: Int, date: Date, excerpt: String) {
        self.thread = thread
        self.position = position
        self.date = date
        self.excerpt = excerpt
    }

    /// A record in which the words occur.
    @_spi(ChappieInternals) public init(
        _ record: ChappieThreadRecord, of thread: ChappieThreadSummary, _ words: ChappieThreadWords
    ) {
        self.init(
            thread: thread, position: record.position, date: record.date,
            excerpt: words.excerpt(of: record.searchableText ?? ""))
    }
}

/// How much a store holds.
public struct ChappieThreadStoreUsage: Sendable, Hashable, Codable {
    /// The size, in bytes.
    public var bytes: Int
    /// The most it may hold, in bytes; `nil` without a limit.
    public var limit: Int?
    /// How many threads there are, archived ones included.
    public var threads: Int
    /// How many records there are.
    public var records: Int

    /// A usage with the given properties.
    public init(bytes: Int, limit: Int? = nil, threads: Int, records: Int) {
        self.bytes = bytes
        self.limit = limit
        self.threads = threads
        self.records = records
    }
}

// MARK: Defaults

extension ChappieThreadStore {
    /// Returns this store.
    public func placed(for owner: CredentialSlot) -> any ChappieThreadStore { self }

    /// Changes nothing.
    public func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) async throws(ChappieThreadStoreError) {
        throw .unavailable("this store can't replace the thread \(thread.id)")
    }

    /// Looks through all summaries.
    public func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        try await summaries().first { $0.id == thread }
    }

    /// Reads every record of every thread, beginning with the newest thread.
    public func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        let words = ChappieThreadWords(query: query.text)
        var hits: [ChappieThreadHit] = []
        for thread in try await summaries().sorted(by: { $0.updatedAt > $1.updatedAt })
        where hits.count < query.limit && query.concerns(thread) {
            let found = try await records(of: thread.id, from: 0).last { record in
                record.date >= query.since ?? record.date && words.occur(in: record.searchableText ?? "")
            }
            if let found { hits.append(ChappieThreadHit(found, of: thread, words)) }
        }
        return hits
    }

    /// Counts the bytes of all bodies.
    public func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage {
        var usage = ChappieThreadStoreUsage(bytes: 0, threads: 0, records: 0)
        for thread in try await summaries() {
            let records = try await records(of: thread.id, from: 0)
            usage.threads += 1
            usage.records += records.count
            usage.bytes += records.reduce(0) { $0 + $1.body.serializedBytes().count }
        }
        return usage
    }
}
