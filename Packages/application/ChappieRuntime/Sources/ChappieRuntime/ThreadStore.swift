public import ChappieAuth
public import ChappieCore

/// A store that keeps threads, for example on this machine, on a server or in memory.
///
/// A store must implement only four requirements. The rest have defaults that use these. After ``append(_:to:at:)`` has
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

    /// Returns a thread's records from `position` on, in order. There are none if `position` is the thread's end or
    /// beyond it.
    ///
    /// - Throws: ``ChappieThreadStoreError/notFound(thread:)`` if the thread is missing.
    func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord]

    /// Adds `records` at the end of a thread, all of them or none, and keeps `thread` as its summary. A new thread
    /// begins at position 0. The function returns when the records are kept permanently.
    ///
    /// - Parameters:
    ///   - records: The records, whose positions continue from `position`. Never empty.
    ///   - thread: The summary after these records.
    ///   - position: The expected end of the thread.
    /// - Throws: ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if the thread has another end, because
    ///   another process was faster. In that case nothing is added. The same applies to every other error, with one
    ///   exception. If a server no longer answers, ``ChappieThreadStoreError/unavailable(_:)`` reports that the outcome
    ///   is unknown.
    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError)

    /// Removes a thread. A missing thread is not an error.
    func delete(_ thread: String) async throws(ChappieThreadStoreError)

    /// Replaces all records of a thread and its summary in one step. If the call fails, the thread is unchanged.
    ///
    /// - Parameters:
    ///   - records: The records, whose positions begin at 0. Never empty.
    ///   - thread: The summary after these records.
    ///   - count: The expected number of records in the thread.
    /// - Throws: ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if the thread has another number of
    ///   records. Default: always ``ChappieThreadStoreError/unavailable(_:)``.
    func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) async throws(ChappieThreadStoreError)

    /// Returns the summary of one thread, or `nil` if the thread is missing. The default searches ``summaries()``.
    func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary?

    /// Returns the threads in which all words of the query occur, with the best one at the top. Records that
    /// were taken back are not searched. The default reads everything.
    func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit]

    /// Returns how much the store contains. The default counts it, and has no limit.
    func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage

    /// The kind of the store, for metrics. The default is ``ChappieThreadStoreKind/other``.
    nonisolated var kind: ChappieThreadStoreKind { get }

    /// Returns the store that a runtime uses for the client of this owner. A store whose place depends on the owner
    /// returns the store at that place. A store that wraps another one passes the call on. The default returns this
    /// store.
    ///
    /// - Parameter owner: The slot of the client's credential.
    func placed(for owner: CredentialSlot) -> any ChappieThreadStore
}

/// A search in threads.
public struct ChappieThreadQuery: Sendable, Hashable, Codable {
    /// The words that must occur in one record, in any order. Words between quotation marks (`"`) must occur in the
    /// given order. Case and accents don't matter. The last word may be the beginning of a word, unless it is between
    /// quotation marks.
    public var text: String
    /// The time from which records are searched. Default: all records.
    public var since: Date?
    /// The model that a thread's last turn must have used. Default: any model.
    public var model: String?
    /// The maximum number of hits, one for each thread. Default 20.
    public var limit: Int
    /// Whether archived threads are searched. Default `true`, because users often look for a thread that they have
    /// archived.
    public var includesArchived: Bool

    /// Creates a query with the given properties.
    public init(
        _ text: String, since: Date? = nil, model: String? = nil, limit: Int = 20, includesArchived: Bool = true
    ) {
        self.text = text
        self.since = since
        self.model = model
        self.limit = max(limit, 0)
        self.includesArchived = includesArchived
    }

    /// Returns whether a record of the thread may be a hit.
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
    /// The time when that record was written.
    public var date: Date
    /// The record's text around the first hit, as one line of at most 160 characters.
    public var excerpt: String

    /// Creates a hit with the given properties.
    public init(thread: ChappieThreadSummary, position: Int, date: Date, excerpt: String) {
        self.thread = thread
        self.position = position
        self.date = date
        self.excerpt = excerpt
    }

    /// Creates a hit for a record in which the words occur.
    @_spi(ChappieInternals) public init(
        _ record: ChappieThreadRecord, of thread: ChappieThreadSummary, _ words: ChappieThreadWords
    ) {
        self.init(
            thread: thread, position: record.position, date: record.date,
            excerpt: words.excerpt(of: record.searchableText ?? ""))
    }
}

/// The amount of data in a store.
public struct ChappieThreadStoreUsage: Sendable, Hashable, Codable {
    /// The size, in bytes.
    public var bytes: Int
    /// The maximum size, in bytes, or `nil` if there is no limit.
    public var limit: Int?
    /// The number of threads, including archived ones.
    public var threads: Int
    /// The number of records.
    public var records: Int

    /// Creates a usage with the given properties.
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
    public nonisolated var kind: ChappieThreadStoreKind { .other }

    public func placed(for owner: CredentialSlot) -> any ChappieThreadStore { self }

    /// Throws ``ChappieThreadStoreError/unavailable(_:)``, and changes nothing.
    public func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) async throws(ChappieThreadStoreError) {
        throw .unavailable("this store can't replace the thread \(thread.id)")
    }

    /// Searches all summaries for the thread.
    public func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        try await summaries().first { $0.id == thread }
    }

    /// Searches every record of every thread, beginning with the newest thread.
    public func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        let words = ChappieThreadWords(query: query.text)
        var hits: [ChappieThreadHit] = []
        for thread in try await summaries().sorted(by: { $0.updatedAt > $1.updatedAt })
        where hits.count < query.limit && query.concerns(thread) {
            let records = try await records(of: thread.id, from: 0)
            let hidden = records.positionsTakenBack
            let found = records.last { record in
                record.date >= query.since ?? record.date && !hidden.contains(record.position)
                    && words.occur(in: record.searchableText ?? "")
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
