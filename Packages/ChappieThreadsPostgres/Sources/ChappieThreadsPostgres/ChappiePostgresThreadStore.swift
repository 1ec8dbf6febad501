import ChappieCore
@_spi(ChappieInternals) public import ChappieRuntime

/// Keeps threads in a PostgreSQL database: for a service on many machines, with many users.
///
/// ```swift
/// let store = try ChappiePostgresThreadStore(
///     connectionString: "postgresql://chat@db.example/chat?sslmode=verify-full", tenant: user.id)
/// let threads = try await store.summaries()
/// ```
/// A store belongs to one tenant, and shows and changes that tenant's threads alone: each statement asks for them alone, and
/// row-level security in the database refuses everything else. It does nothing for superusers and roles with BYPASSRLS, so
/// these are refused. What tenants there are, and who may speak for which, is for the service to decide.
///
/// The tables are made with the first use, in a schema of their own, by the connection's role: it needs CREATE on the
/// database, or on the schema where that is there already. An append is one transaction; two at the same place end in one
/// ``ChappieRuntime/ChappieThreadStoreError/conflict(thread:expected:actual:)``. When the connection breaks while the server
/// is told to commit, the store connects again and finds out, so that records are neither lost nor doubled.
///
/// Connections are made when they are needed, kept, and replaced when they break. A call whose task is cancelled throws
/// ``ChappieRuntime/ChappieThreadStoreError/unavailable(_:)`` and has changed nothing, unless the server has been told to
/// commit: then the call goes on to its end. Bodies come back byte for byte; they are stored as they are, so encrypt the disk
/// or redact with `ChappieRedactingThreadStore` where that matters. A search finds words among the first 100,000 or so
/// different ones of a record. Back up as a role with BYPASSRLS: others see one tenant at most.
public final class ChappiePostgresThreadStore: ChappieThreadStore {
    /// What can be set beside the address and the tenant.
    public struct Options: Sendable, Hashable {
        /// The schema of the tables, 1 to 63 bytes. Default `chappie`.
        public var schema: String
        /// How many connections there are at most. Default 4, at least 1.
        public var connections: Int
        /// How long connecting may take, beside looking up the server's name; and for how long a connection that broke is
        /// replaced before the call ends in an error. Default 10 s.
        public var connectTimeout: Duration
        /// How long a statement may take, waiting for other transactions included; and for how long the store asks for the
        /// outcome of an append whose connection broke at its end. Default 30 s.
        public var statementTimeout: Duration
        /// How many bytes the bodies of one tenant's records may have together; appends that go beyond are refused. Appends
        /// at the same time may pass it together. Default: no limit.
        public var limit: Int?
        /// Whether a role that row-level security does nothing for may be used. Each statement asks for the tenant's own
        /// rows nevertheless. Default `false`.
        public var allowsUnrestrictedRole: Bool

        /// Options with the given properties.
        public init(
            schema: String = "chappie", connections: Int = 4, connectTimeout: Duration = .seconds(10),
            statementTimeout: Duration = .seconds(30), limit: Int? = nil, allowsUnrestrictedRole: Bool = false
        ) {
            self.schema = schema
            self.connections = connections
            self.connectTimeout = connectTimeout
            self.statementTimeout = statementTimeout
            self.limit = limit
            self.allowsUnrestrictedRole = allowsUnrestrictedRole
        }
    }

    private let tenant: String
    private let options: Options
    private let schema: PostgresSchema
    private let pool: PostgresPool

    /// A store of one tenant's threads. Nothing is connected yet.
    ///
    /// - Parameters:
    ///   - connectionString: a URI or pairs of keyword and value, as libpq takes them; what it leaves out comes from libpq's
    ///     environment variables and password file. Ask for `sslmode=verify-full` over a network. It appears in no message.
    ///   - tenant: whose threads these are. Never empty. Default `default`.
    ///   - options: see ``Options``.
    /// - Throws: ``ChappieRuntime/ChappieThreadStoreError/unavailable(_:)`` for a connection string, tenant or schema that
    ///   can't be.
    public init(
        connectionString: String, tenant: String = "default", options: Options = Options()
    ) throws(ChappieThreadStoreError) {
        guard let address = PostgresAddress(connectionString) else {
            throw .unavailable("the connection string is neither a URI of PostgreSQL nor pairs of keyword=value")
        }
        guard !tenant.isEmpty, !tenant.utf8.contains(0) else { throw .unavailable("the tenant has no name") }
        guard (1...63).contains(options.schema.utf8.count), !options.schema.utf8.contains(0) else {
            throw .unavailable("the schema's name must have 1 to 63 bytes")
        }
        let schema = PostgresSchema(name: options.schema, tenant: tenant, limit: options.statementTimeout)
        self.tenant = tenant
        self.options = options
        self.schema = schema
        pool = PostgresPool(of: options.connections) {
            PostgresWorker { interruption throws(PostgresFailure) in
                let connection = try PostgresConnection.open(address, within: options.connectTimeout, for: interruption)
                try schema.examine(connection, allowsUnrestrictedRole: options.allowsUnrestrictedRole)
                return connection
            }
        }
    }

    // MARK: Reading

    public func summaries() async throws(ChappieThreadStoreError) -> [ChappieThreadSummary] {
        let statement = PostgresStatement(
            "SELECT id, summary FROM \(schema.prefix)threads WHERE tenant = $1", [.text(tenant)])
        return try await perform { [schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read([statement], on: connection)[2]
            var summaries: [ChappieThreadSummary] = []
            for row in found.rows { summaries.append(try readSummary(of: found.text(row, 0), found.bytes(row, 1))) }
            return summaries
        }
    }

    public func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        let statement = PostgresStatement(
            "SELECT summary FROM \(schema.prefix)threads WHERE tenant = $1 AND id = $2", [.text(tenant), .text(thread)])
        return try await perform { [schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read([statement], on: connection)[2]
            return found.rows.isEmpty ? nil : try readSummary(of: thread, found.bytes(0, 0))
        }
    }

    public func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        let first = max(position, 0)
        let statements = [
            PostgresStatement(
                "SELECT record_count FROM \(schema.prefix)threads WHERE tenant = $1 AND id = $2",
                [.text(tenant), .text(thread)]),
            PostgresStatement(
                """
                SELECT position, kind, date_ms, body FROM \(schema.prefix)records
                WHERE tenant = $1 AND thread = $2 AND position >= $3 ORDER BY position
                """, [.text(tenant), .text(thread), .integer(first)]),
        ]
        return try await perform { [schema] connection, _ throws(PostgresFailure) in
            let results = try schema.read(statements, on: connection)
            let (counts, found) = (results[2], results[3])
            guard !counts.rows.isEmpty else { throw .answer(.notFound(thread: thread)) }
            var records: [ChappieThreadRecord] = []
            records.reserveCapacity(found.rows.count)
            for row in found.rows {
                let place = found.integer(row, 0)
                guard place == first + row else {
                    throw .answer(.damaged(thread: thread, "its record \(first + row) is missing"))
                }
                records.append(
                    try readRecord(
                        at: place, of: thread, found.text(row, 1), found.integer(row, 2), found.bytes(row, 3)))
            }
            let (count, end) = (counts.integer(0, 0), first + records.count)
            guard end == max(count, first) else {
                throw .answer(.damaged(thread: thread, "it was left with \(count) records, and has \(end)"))
            }
            return records
        }
    }

    public func search(
        _ query: ChappieThreadQuery
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        let words = ChappieThreadWords(query: query.text)
        guard let last = words.words.last, query.limit > 0 else { return [] }
        // Words are letters and digits: none of them holds a quote.
        let sought = (words.words.dropLast().map { "'\($0)'" } + ["'\(last)':*"]).joined(separator: " & ")
        var since = Int.min
        if let date = query.since {
            since = try milliseconds(of: date)
            // Rounding must not reach back.
            if Date(timeIntervalSince1970: Double(since) / 1000) < date { since += 1 }
        }
        let prefix = schema.prefix
        let statements = [
            PostgresStatement("SELECT set_config('chappie.query', $1, true)", [.text(sought)]),
            PostgresStatement(
                """
                SELECT hit.id, hit.summary, hit.position, record.kind, record.date_ms, record.body FROM (
                    SELECT thread.id, thread.summary, thread.updated_ms, best.position, best.rank FROM (
                        SELECT DISTINCT ON (thread) thread, position, ts_rank(words, $2::tsquery, 1) AS rank
                        FROM \(prefix)words WHERE tenant = $1 AND words @@ $2::tsquery AND date_ms >= $3
                        ORDER BY thread, rank DESC, position DESC) best
                    JOIN \(prefix)threads thread ON thread.tenant = $1 AND thread.id = best.thread
                    WHERE ($4 IS NULL OR thread.model = $4) AND ($5 OR NOT thread.is_archived)
                    ORDER BY best.rank DESC, thread.updated_ms DESC LIMIT $6) hit
                JOIN \(prefix)records record
                    ON record.tenant = $1 AND record.thread = hit.id AND record.position = hit.position
                ORDER BY hit.rank DESC, hit.updated_ms DESC
                """,
                [
                    .text(tenant), .text(sought), .integer(since), .text(query.model),
                    .bool(query.includesArchived), .integer(query.limit),
                ]),
        ]
        return try await perform { [schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read(statements, on: connection)[3]
            var hits: [ChappieThreadHit] = []
            for row in found.rows {
                let thread = found.text(row, 0)
                let record = try readRecord(
                    at: found.integer(row, 2), of: thread, found.text(row, 3), found.integer(row, 4),
                    found.bytes(row, 5))
                hits.append(
                    ChappieThreadHit(
                        thread: try readSummary(of: thread, found.bytes(row, 1)), position: record.position,
                        date: record.date, excerpt: words.excerpt(of: record.searchableText ?? "")))
            }
            return hits
        }
    }

    public func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage {
        let statement = PostgresStatement(
            """
            SELECT count(*), coalesce(sum(record_count), 0)::bigint, coalesce(sum(bytes), 0)::bigint
            FROM \(schema.prefix)threads WHERE tenant = $1
            """, [.text(tenant)])
        return try await perform { [schema, options] connection, _ throws(PostgresFailure) in
            let found = try schema.read([statement], on: connection)[2]
            return ChappieThreadStoreUsage(
                bytes: found.integer(0, 2), limit: options.limit, threads: found.integer(0, 0),
                records: found.integer(0, 1))
        }
    }

    // MARK: Writing

    public func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        let key = UUID()
        let identity: [PostgresStatement.Value] = [.text(tenant), .text(thread.id)]
        let prefix = schema.prefix
        // First everything is looked at, under the lock of the thread's row.
        var looks = [
            PostgresStatement(
                "SELECT record_count FROM \(prefix)threads WHERE tenant = $1 AND id = $2 FOR UPDATE", identity)
        ]
        if position == 0 {
            // A row to lock: of two that begin the same thread, one waits here for the other.
            looks.insert(
                PostgresStatement(
                    """
                    INSERT INTO \(prefix)threads (tenant, id, record_count, bytes, model, is_archived, updated_ms, summary)
                    VALUES ($1, $2, 0, 0, '', false, 0, '') ON CONFLICT DO NOTHING
                    """, identity), at: 0)
        }
        if options.limit != nil {
            looks.append(
                PostgresStatement(
                    "SELECT coalesce(sum(bytes), 0)::bigint FROM \(prefix)threads WHERE tenant = $1", [.text(tenant)]))
        }
        let ownRecord = PostgresStatement(
            "SELECT 1::bigint FROM \(prefix)records WHERE tenant = $1 AND thread = $2 AND position = $3 AND append = $4",
            identity + [.integer(position), .uuid(key)])
        let (writes, bytes) = try writes(of: records, to: thread, at: position, key)

        try await perform { [schema, options, looks] connection, isRepeated throws(PostgresFailure) in
            var results = try schema.begin(looks, on: connection)
            if position == 0 { results.removeFirst() }
            let row = results.removeFirst()
            let actual = row.rows.isEmpty ? 0 : row.integer(0, 0)
            guard actual == position else {
                let isOwn =
                    isRepeated ? try !connection.run([ownRecord], within: schema.patience)[0].rows.isEmpty : false
                try schema.rollBack(on: connection)
                guard !isOwn else { return }
                throw .answer(.conflict(thread: thread.id, expected: position, actual: actual))
            }
            // Deleted by another process after the insertion had found it.
            guard !row.rows.isEmpty else { throw .contended }
            if let limit = options.limit, let held = results.first?.integer(0, 0), held + bytes > limit {
                try schema.rollBack(on: connection)
                throw .answer(.full(bytes: held + bytes, limit: limit))
            }
            try schema.commit(writes, on: connection)
        }
    }

    /// The statements that add records, and how many bytes their bodies have.
    private func writes(
        of records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int, _ key: UUID
    ) throws(ChappieThreadStoreError) -> ([PostgresStatement], Int) {
        var statements: [PostgresStatement] = []
        var bytes = 0
        for (offset, record) in records.enumerated() {
            let body = try record.storedBody()
            bytes += body.count
            let place: [PostgresStatement.Value] = [.text(tenant), .text(thread.id), .integer(position + offset)]
            let date = PostgresStatement.Value.integer(try milliseconds(of: record.date))
            statements.append(
                PostgresStatement(
                    """
                    INSERT INTO \(schema.prefix)records (tenant, thread, position, kind, date_ms, append, body)
                    VALUES ($1, $2, $3, $4, $5, $6, $7)
                    """, place + [.text(record.kind.rawValue), date, .uuid(key), .bytes(body)]))
            guard let text = record.searchableText, let vector = vector(of: text) else { continue }
            statements.append(
                PostgresStatement(
                    """
                    INSERT INTO \(schema.prefix)words (tenant, thread, position, date_ms, words)
                    VALUES ($1, $2, $3, $4, $5::tsvector)
                    """, place + [date, .text(vector)]))
        }
        guard let summary = try? JSONEncoder().encode(thread) else {
            throw .unavailable("the summary of the thread \(thread.id) can't be written")
        }
        statements.append(
            PostgresStatement(
                """
                UPDATE \(schema.prefix)threads SET record_count = $3, bytes = bytes + $4, model = $5, is_archived = $6,
                    updated_ms = $7, summary = $8 WHERE tenant = $1 AND id = $2
                """,
                [
                    .text(tenant), .text(thread.id), .integer(position + records.count), .integer(bytes),
                    .text(thread.model), .bool(thread.isArchived),
                    .integer(try milliseconds(of: thread.updatedAt)),
                    .bytes(Array(summary)),
                ]))
        return (statements, bytes)
    }

    public func delete(_ thread: String) async throws(ChappieThreadStoreError) {
        let statement = PostgresStatement(
            "DELETE FROM \(schema.prefix)threads WHERE tenant = $1 AND id = $2", [.text(tenant), .text(thread)])
        try await perform { [schema] connection, _ throws(PostgresFailure) in
            _ = try schema.begin([], on: connection)
            try schema.commit([statement], on: connection)
        }
    }

    // MARK: Attempts

    /// Runs `work` with a connection, as often as it takes; `isRepeated` says that an earlier attempt may have come through.
    private func perform<Value: Sendable>(
        _ work: @escaping @Sendable (PostgresConnection, _ isRepeated: Bool) throws(PostgresFailure) -> Value
    ) async throws(ChappieThreadStoreError) -> Value {
        let worker: PostgresWorker
        do { worker = try await pool.take() } catch { throw .unavailable("the task was cancelled") }
        defer { pool.give(worker) }
        var retries = PostgresRetries(
            reconnecting: options.connectTimeout, findingOut: options.statementTimeout)
        while true {
            // What may be there already is found out also for a task that is cancelled.
            let isRepeated = retries.isUncertain
            do throws(PostgresFailure) {
                if retries.wantsMigration {
                    try await worker.run(isInterruptible: !isRepeated) { [schema] connection throws(PostgresFailure) in
                        try schema.migrate(connection)
                    }
                    retries.migrated()
                }
                return try await worker.run(isInterruptible: !isRepeated) { connection throws(PostgresFailure) in
                    try work(connection, isRepeated)
                }
            } catch {
                guard
                    let pause = retries.pause(after: error, now: .now, jitter: Double.random(in: 0..<1))
                else { throw publicError(of: error, isUncertain: retries.isUncertain) }
                if retries.isUncertain {
                    // A cancelled task would not wait.
                    await Task { try? await Task.sleep(for: pause) }.value
                } else {
                    try? await Task.sleep(for: pause)
                }
            }
        }
    }

    private func publicError(of failure: PostgresFailure, isUncertain: Bool) -> ChappieThreadStoreError {
        if case .answer(let error) = failure { return error }
        if isUncertain {
            return .unavailable(
                "the connection broke at the end of saving, and the server can't be asked whether the records are there; "
                    + "the thread shows it when it is opened again")
        }
        return switch failure {
        case .answer(let error), .refused(let error): error
        case .unreachable(let words), .lost(let words): .unavailable(words)
        case .outdated(let words): .unavailable("the tables are not those of this version: \(words)")
        case .late, .contended: .busy(options.statementTimeout)
        case .uncertain: .unavailable("the connection to the server broke")
        case .cancelled: .unavailable("the task was cancelled")
        }
    }
}

// MARK: Rows

private func readSummary(of thread: String, _ bytes: [UInt8]) throws(PostgresFailure) -> ChappieThreadSummary {
    guard let summary = try? JSONDecoder().decode(ChappieThreadSummary.self, from: Data(bytes)), summary.id == thread
    else {
        throw .answer(.damaged(thread: thread, "its summary can't be read"))
    }
    return summary
}

private func readRecord(
    at position: Int, of thread: String, _ kind: String, _ milliseconds: Int, _ body: [UInt8]
) throws(PostgresFailure) -> ChappieThreadRecord {
    guard let body = try? ChappieJSON(parsing: body) else {
        throw .answer(.damaged(thread: thread, "its record \(position) can't be read"))
    }
    return ChappieThreadRecord(
        position: position, kind: .init(rawValue: kind),
        date: Date(timeIntervalSince1970: Double(milliseconds) / 1000), body: body)
}

private func milliseconds(of date: Date) throws(ChappieThreadStoreError) -> Int {
    guard let milliseconds = Int(exactly: (date.timeIntervalSince1970 * 1000).rounded()) else {
        throw .unavailable("a date is beyond what can be stored")
    }
    return milliseconds
}

/// The words of a text with their places, as the server reads them: `'to':1,4 'be':2`. `nil` for a text without words.
///
/// A tsvector has less than 1 MiB (https://www.postgresql.org/docs/15/textsearch-limitations.html); words beyond are left out.
private func vector(of text: String) -> String? {
    var seen: Set<String> = []
    var room = 1_000_000
    var vector = ""
    for (index, word) in ChappieThreadWords(text).words.enumerated() {
        let isNew = !seen.contains(word)
        // Places end at 16,383.
        guard isNew || index < 16_383 else { continue }
        room -= isNew ? word.utf8.count + 6 : 2
        guard room > 0 else { break }
        seen.insert(word)
        vector += "'\(word)':\(min(index + 1, 16_383)) "
    }
    return vector.isEmpty ? nil : vector
}
