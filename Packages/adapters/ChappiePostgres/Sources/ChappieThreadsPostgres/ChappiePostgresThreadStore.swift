@_spi(ChappieInternals) public import ChappieCore
@_exported public import ChappiePostgres
@_spi(ChappieInternals) public import ChappieRuntime

/// A store that keeps threads in a PostgreSQL database, for a service on many machines with many users.
///
/// ```swift
/// let database = try ChappiePostgresDatabase(
///     connectionString: "postgresql://chat@db.example/chat?sslmode=verify-full")
/// let threads = try await database.threads(of: user.id).summaries()
/// ```
/// A store belongs to one tenant, and reads and changes only that tenant's threads. Each statement asks only for them,
/// and row-level security in the database refuses all other rows. Row-level security has no effect for superusers and
/// for roles with BYPASSRLS, so the store refuses these roles. The service decides which tenants exist and which user
/// belongs to which tenant.
///
/// The first use creates the tables in their own schema, with the connection's role. The role needs CREATE on the
/// database, or on the schema if that already exists. An append is one transaction. Of two appends at the same
/// position, one ends with ``ChappieRuntime/ChappieThreadStoreError/conflict(thread:expected:actual:)``. If the
/// connection breaks during COMMIT, the store connects again and determines the outcome, so that records are neither
/// lost nor duplicated.
///
/// A `ChappiePostgresDatabase` opens connections when its stores need them, keeps them while they are used, and
/// replaces them when they break. A thread is read as it was at one moment. A call whose task is cancelled throws
/// ``ChappieRuntime/ChappieThreadStoreError/unavailable(_:)`` and has changed nothing, unless it has sent COMMIT. In
/// that case the call continues to its end. Bodies are returned byte for byte. They are stored unchanged. If that
/// matters, encrypt the disk or redact with `ChappieRedactingThreadStore`. A search has at most 1,000 words, and finds
/// only about the first 100,000 different words of a record. Make backups with a role that has BYPASSRLS, because other
/// roles see at most one tenant.
public final class ChappiePostgresThreadStore: ChappieThreadStore {
    /// The settings of its database.
    public typealias Options = ChappiePostgresDatabase.Options

    private let schema: PostgresSchema
    private let database: ChappiePostgresDatabase

    init(of tenant: String, in database: ChappiePostgresDatabase) throws(ChappieThreadStoreError) {
        guard !tenant.isEmpty, !tenant.utf8.contains(0) else { throw .unavailable("the tenant has no name") }
        schema = database.schema(of: .threads, tenant: tenant)
        self.database = database
    }

    /// PostgreSQL.
    public var kind: ChappieThreadStoreKind { .postgres }

    // MARK: Reading

    public func summaries() async throws(ChappieThreadStoreError) -> [ChappieThreadSummary] {
        try await perform { [schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read([schema.summaries], on: connection)[2]
            var summaries: [ChappieThreadSummary] = []
            for row in found.rows { summaries.append(try found.summary(of: found.text(row, 0), row, 1)) }
            return summaries
        }
    }

    public func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        try await perform { [schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read([schema.summary(of: thread)], on: connection)[2]
            return found.rows.isEmpty ? nil : try found.summary(of: thread, 0, 0)
        }
    }

    public func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        let first = max(position, 0)
        return try await perform { [schema] connection, _ throws(PostgresFailure) in
            // Many records may take longer than a statement may. The limit for the server's silence remains.
            let results = try schema.read(
                [
                    schema.count(of: thread), "SET LOCAL statement_timeout = 0",
                    schema.records(of: thread, from: first),
                ], on: connection)
            let counts = results[2]
            let found = results[4]
            guard !counts.rows.isEmpty else { throw .answer(ChappieThreadStoreError.notFound(thread: thread)) }
            var records: [ChappieThreadRecord] = []
            records.reserveCapacity(found.rows.count)
            for row in found.rows {
                guard found.integer(row, 0) == first + row else {
                    throw .answer(
                        ChappieThreadStoreError.damaged(thread: thread, "its record \(first + row) is missing"))
                }
                records.append(try found.record(of: thread, row, 0))
            }
            let count = counts.integer(0, 0)
            guard records.count == max(count - first, 0) else {
                let words = "it was left with \(count) records, and has \(first + records.count)"
                throw .answer(ChappieThreadStoreError.damaged(thread: thread, words))
            }
            return records
        }
    }

    public func search(
        _ query: ChappieThreadQuery
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        let words = ChappieThreadWords(query: query.text)
        guard let statements = try schema.search(words, for: query) else { return [] }
        return try await perform { [schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read(statements, on: connection)[3]
            var hits: [ChappieThreadHit] = []
            for row in found.rows {
                let thread = found.text(row, 0)
                let record = try found.record(of: thread, row, 2)
                let summary = try found.summary(of: thread, row, 1)
                hits.append(ChappieThreadHit(record, of: summary, words))
            }
            return hits
        }
    }

    public func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage {
        try await perform { [schema, limit = database.options.limit] connection, _ throws(PostgresFailure) in
            let found = try schema.read([schema.usage], on: connection)[2]
            return ChappieThreadStoreUsage(
                bytes: found.integer(0, 2), limit: limit, threads: found.integer(0, 0),
                records: found.integer(0, 1))
        }
    }

    // MARK: Writing

    public func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        try await write(records, to: thread, at: position, expecting: position)
    }

    public func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) async throws(ChappieThreadStoreError) {
        try await write(records, to: thread, at: 0, expecting: count)
    }

    /// Writes records at the thread's end, or replaces all of them.
    private func write(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int, expecting end: Int
    ) async throws(ChappieThreadStoreError) {
        let key = UUID()
        let (writes, bytes) = try schema.writes(of: records, to: thread, at: position, key)
        try await perform { [schema, limit = database.options.limit] connection, isRepeated throws(PostgresFailure) in
            // The first statements read everything, under the lock of the thread's row.
            var looks = [schema.lock(thread.id), schema.count(of: thread.id)]
            // This creates a row to lock. If two calls begin the same thread, one of them waits here for the other.
            if end == 0 { looks.insert(schema.row(for: thread.id), at: 0) }
            if limit != nil { looks.append(schema.usage) }
            var results = try schema.begin(looks, on: connection)
            if end == 0 { results.removeFirst() }
            let row = results.removeFirst()
            let isMissing = results.removeFirst().rows.isEmpty
            // Another process has deleted or replaced the row that a statement found.
            guard !row.rows.isEmpty || end > 0 && isMissing else { throw .contended }
            let actual = row.rows.isEmpty ? 0 : row.integer(0, 0)
            guard actual == end else {
                let own = schema.record(of: thread.id, at: position, by: key)
                let isOwn = isRepeated ? try !connection.run([own], within: schema.patience)[0].rows.isEmpty : false
                try schema.rollBack(on: connection)
                guard !isOwn else { return }
                throw .answer(ChappieThreadStoreError.conflict(thread: thread.id, expected: end, actual: actual))
            }
            let isReplaced = position < end
            let replaced = isReplaced ? row.integer(0, 1) : 0
            if let limit, let held = results.first?.integer(0, 2), held - replaced + bytes > limit {
                try schema.rollBack(on: connection)
                throw .answer(ChappieThreadStoreError.full(bytes: held - replaced + bytes, limit: limit))
            }
            // Records and words are deleted with the row.
            let removal = isReplaced ? [schema.deletion(of: thread.id), schema.row(for: thread.id)] : []
            try schema.commit(removal + writes, on: connection)
        }
    }

    public func delete(_ thread: String) async throws(ChappieThreadStoreError) {
        try await perform { [schema] connection, _ throws(PostgresFailure) in
            _ = try schema.begin([schema.deletion(of: thread)], on: connection)
            try schema.commit([], on: connection)
        }
    }

    // MARK: Attempts

    /// Runs `work` as `ChappiePostgresDatabase.perform(_:_:)` does, and throws the errors of a thread store.
    private func perform<Value: Sendable>(
        _ work: @escaping @Sendable (PostgresConnection, _ isRepeated: Bool) throws(PostgresFailure) -> Value
    ) async throws(ChappieThreadStoreError) -> Value {
        do {
            return try await database.perform(schema, work)
        } catch let error as ChappieThreadStoreError {
            throw error
        } catch let error as ChappiePostgresError {
            throw ChappieThreadStoreError(error)
        } catch {
            throw .unavailable("the work with the database failed")
        }
    }
}

extension ChappieThreadStoreError {
    init(_ error: ChappiePostgresError) {
        self =
            switch error {
            case .invalidAddress(let words), .unavailable(let words): .unavailable(words)
            case .unsafeRole(let reason, let remedy): .unsafeFile(reason, remedy: remedy)
            case .busy(let limit): .busy(limit)
            case .exhausted: .unavailable("all connections to the database are in use")
            case .closed: .unavailable("the program has closed the database")
            case .outdated(let words):
                .unavailable(
                    "the tables are missing or older than this program (\(words)); run the migration as their owner")
            case .tooNew(let found, let known): .tooNew(found: found, known: known)
            case .damaged(let words): .damaged(thread: nil, words)
            case .uncertain:
                .unavailable(
                    "the connection broke at the end of the save, and the server can't be asked whether it has the "
                        + "records; open the thread again to see")
            }
    }
}
