import ChappieRuntime

/// The tables, their migrations, and the beginning of a transaction, which sets the tenant and checks the version of
/// the tables.
struct PostgresSchema: Sendable {
    /// The quoted name with its dot, such as `"chappie".`
    let prefix: String
    private let name: String
    let tenant: String
    /// The limit for one statement. The client waits a little longer, so that the server's own message arrives.
    private let limit: Duration
    /// The time for which the store asks for the outcome of an append.
    var findingOut: Duration { isUnlimited ? .seconds(30) : limit }
    /// Whether there is no limit. The server counts milliseconds in 32 bits.
    private var isUnlimited: Bool { limit > .milliseconds(Int32.max) }

    /// The newest version of the tables that this program knows.
    static let version = 1

    init(name: String, tenant: String, limit: Duration) {
        self.name = name
        prefix = "\"\(name.replacing("\"", with: "\"\""))\"."
        self.tenant = tenant
        self.limit = limit.bounded
    }

    var patience: Duration { limit + .seconds(2) }

    // MARK: Transactions

    /// Runs statements that change nothing in one transaction and one round trip. Returns their results.
    func read(
        _ statements: [PostgresStatement], on connection: PostgresConnection
    ) throws(PostgresFailure) -> ArraySlice<PostgresResult> {
        let results = try connection.run(
            ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", setup] + statements + ["COMMIT"], within: patience)
        try check(results[1])
        return results[2...]
    }

    /// Begins a transaction that writes, and runs its first statements, which by themselves have no lasting effect.
    ///
    /// The caller then calls either ``commit(_:on:)`` or ``rollBack(on:)``.
    func begin(
        _ statements: [PostgresStatement], on connection: PostgresConnection
    ) throws(PostgresFailure) -> ArraySlice<PostgresResult> {
        let results = try connection.run(
            ["BEGIN ISOLATION LEVEL READ COMMITTED", setup] + statements, within: patience)
        do {
            try check(results[1])
        } catch {
            try rollBack(on: connection)
            throw error
        }
        return results[2...]
    }

    func commit(_ statements: [PostgresStatement], on connection: PostgresConnection) throws(PostgresFailure) {
        _ = try connection.run(statements + ["COMMIT"], within: patience, commits: true)
    }

    func rollBack(on connection: PostgresConnection) throws(PostgresFailure) {
        _ = try connection.run(["ROLLBACK"], within: patience)
    }

    /// The statement that sets up a transaction. All settings end with the transaction, so that a pooler in front of
    /// the server may share connections.
    ///
    /// With `client_connection_check_interval`, a server on Linux (since version 14) checks each second that the client
    /// of a running statement still exists. The transaction holds a lock on the version until it ends. A migration
    /// waits for the lock, and a later transaction sees the new version.
    private var setup: PostgresStatement {
        PostgresStatement(
            """
            SELECT max(version), set_config('chappie.tenant', $1, true), set_config('statement_timeout', $2, true),
                set_config('idle_in_transaction_session_timeout', $2, true),
                CASE WHEN current_setting('server_version_num')::int >= 140000 AND version() LIKE '%linux%'
                    THEN set_config('client_connection_check_interval', '1000', true) END,
                set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                    ELSE current_setting('synchronous_commit') END, true)
            FROM \(prefix)format
            """, [.text(tenant), .text(isUnlimited ? "0" : "\(max(Int(limit / .milliseconds(1)), 1))")])
    }

    private func check(_ result: PostgresResult) throws(PostgresFailure) {
        guard !result.bytes(0, 0).isEmpty else {
            throw .answer(.damaged(thread: nil, "the row with the version of the tables is missing"))
        }
        let version = result.integer(0, 0)
        if version > Self.version { throw .answer(.tooNew(found: version, known: Self.version)) }
        if version < Self.version { throw .outdated("the tables are of version \(version)") }
    }

    // MARK: Connections

    /// Checks a new connection. Row-level security must have an effect for its role.
    func examine(_ connection: PostgresConnection, allowsUnrestrictedRole: Bool) throws(PostgresFailure) {
        let results = try connection.run(
            [
                """
                SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = current_user
                """
            ], within: patience)
        let isUnrestricted = results[0].rows.isEmpty || results[0].integer(0, 0) != 0
        guard !isUnrestricted || allowsUnrestrictedRole else {
            throw .refused(
                .unsafeFile(
                    "row-level security does nothing for the role that the connection string names",
                    remedy: "Connect as a role without SUPERUSER and BYPASSRLS."))
        }
    }

    // MARK: Migrations

    /// Creates the tables, or changes them to this version. If several processes start at the same time, one of them
    /// does this.
    func migrate(_ connection: PostgresConnection) throws(PostgresFailure) {
        let there = try connection.run(
            [
                "BEGIN ISOLATION LEVEL READ COMMITTED",
                PostgresStatement(
                    "SELECT pg_advisory_xact_lock(hashtextextended('chappie threads ' || $1, 0))", [.text(name)]),
                PostgresStatement("SELECT 1::bigint FROM pg_catalog.pg_namespace WHERE nspname = $1", [.text(name)]),
                PostgresStatement(
                    "SELECT 1::bigint FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'format'",
                    [.text(name)]),
            ], within: patience)
        var statements: [PostgresStatement] = []
        if there[2].rows.isEmpty { statements.append(PostgresStatement("CREATE SCHEMA \(prefix.dropLast())")) }
        var version = 0
        if there[3].rows.isEmpty {
            statements += [
                PostgresStatement("CREATE TABLE \(prefix)format (version bigint NOT NULL)"),
                PostgresStatement("INSERT INTO \(prefix)format VALUES (0)"),
            ]
        } else {
            let found = try connection.run([PostgresStatement("SELECT version FROM \(prefix)format")], within: patience)
            version = found[0].rows.isEmpty ? Self.version : found[0].integer(0, 0)
            statements.append(PostgresStatement("LOCK TABLE \(prefix)format IN ACCESS EXCLUSIVE MODE"))
        }
        // Another process may have done this in the meantime. The next transaction refuses a newer version.
        guard version < Self.version else { return try rollBack(on: connection) }
        statements += migrations[version...].joined()
        statements.append(PostgresStatement("UPDATE \(prefix)format SET version = $1", [.integer(Self.version)]))
        do {
            try commit(statements, on: connection)
        } catch {
            // The next attempt shows whether the migration was committed.
            if case .uncertain = error { throw .lost("the connection to the server broke") }
            throw error
        }
    }

    /// The statements that lead from each version to the next. A published list never changes. New lists are added.
    private var migrations: [[PostgresStatement]] { [first] }

    /// The statements that create the tables of version 1.
    ///
    /// - `threads` has a row for each thread, which is locked while records are added to it.
    /// - `records` contains the bodies byte for byte. `append` identifies the call that wrote them.
    /// - `words` is the index for searches. Its policy contains the query. For a condition in the query itself, other
    ///   than a comparison, the server would use an index only after it has checked the policy for each row.
    private var first: [PostgresStatement] {
        let key = "tenant text COLLATE \"C\" NOT NULL, thread text COLLATE \"C\" NOT NULL, position bigint NOT NULL"
        let isOwn = "tenant = current_setting('chappie.tenant', true)"
        let texts = [
            """
            CREATE TABLE \(prefix)threads (
                tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''), id text COLLATE "C" NOT NULL,
                record_count bigint NOT NULL, bytes bigint NOT NULL, model text COLLATE "C" NOT NULL,
                is_archived boolean NOT NULL, updated_ms bigint NOT NULL, summary bytea NOT NULL,
                PRIMARY KEY (tenant, id))
            """,
            """
            CREATE TABLE \(prefix)records (
                \(key), kind text COLLATE "C" NOT NULL, date_ms bigint NOT NULL, append uuid NOT NULL,
                body bytea NOT NULL, PRIMARY KEY (tenant, thread, position),
                FOREIGN KEY (tenant, thread) REFERENCES \(prefix)threads ON DELETE CASCADE)
            """,
            """
            CREATE TABLE \(prefix)words (
                \(key), date_ms bigint NOT NULL, words tsvector NOT NULL, PRIMARY KEY (tenant, thread, position),
                FOREIGN KEY (tenant, thread) REFERENCES \(prefix)threads ON DELETE CASCADE)
            """,
            "CREATE INDEX words_words ON \(prefix)words USING gin (words)",
            "CREATE POLICY own ON \(prefix)threads USING (\(isOwn))",
            "CREATE POLICY own ON \(prefix)records USING (\(isOwn))",
            "CREATE POLICY written ON \(prefix)words FOR INSERT WITH CHECK (\(isOwn))",
            "CREATE POLICY removed ON \(prefix)words FOR DELETE USING (\(isOwn))",
            """
            CREATE POLICY found ON \(prefix)words FOR SELECT
                USING (\(isOwn) AND words @@ current_setting('chappie.query', true)::tsquery)
            """,
        ]
        let security = ["threads", "records", "words"].map { table in
            "ALTER TABLE \(prefix)\(table) ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        }
        return (texts + security).map { PostgresStatement($0) }
    }
}

extension Duration {
    /// The duration, limited to ten years, so that a moment this far in the future can be represented.
    var bounded: Duration { min(self, .seconds(315_360_000)) }
}
