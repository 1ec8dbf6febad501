/// The tables of a store in their schema, their migrations, and the beginning of a transaction, which sets the tenant
/// and checks the version of the tables.
package struct PostgresSchema: Sendable {
    /// The quoted name with its dot, such as `"chappie".`
    package let prefix: String
    private let name: String
    private let part: ChappiePostgresPart
    /// The tenant whose rows the transaction may see. It is empty for tables without tenants.
    package let tenant: String
    /// The limit for one statement. The client waits a little longer, so that the server's own message arrives.
    private let limit: Duration
    /// The time for which a store asks for the outcome of a COMMIT.
    var findingOut: Duration { isUnlimited ? .seconds(30) : limit }
    /// Whether there is no limit. The server counts milliseconds in 32 bits.
    private var isUnlimited: Bool { limit > .milliseconds(Int32.max) }

    package init(_ part: ChappiePostgresPart, in name: String, tenant: String = "", limit: Duration) {
        self.part = part
        self.name = name
        prefix = ChappiePostgresPart.prefix(of: name)
        self.tenant = tenant
        self.limit = limit.bounded
    }

    package var patience: Duration { limit + .seconds(2) }

    // MARK: Transactions

    /// Runs statements that change nothing in one transaction and one round trip. Returns their results.
    package func read(
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
    package func begin(
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

    package func commit(_ statements: [PostgresStatement], on connection: PostgresConnection) throws(PostgresFailure) {
        _ = try connection.run(statements + ["COMMIT"], within: patience, commits: true)
    }

    package func rollBack(on connection: PostgresConnection) throws(PostgresFailure) {
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
            FROM \(prefix)\(part.format)
            """, [.text(tenant), .text(isUnlimited ? "0" : "\(max(Int(limit / .milliseconds(1)), 1))")])
    }

    private func check(_ result: PostgresResult) throws(PostgresFailure) {
        guard !result.bytes(0, 0).isEmpty else {
            throw .refused(.damaged("the row with the version of the tables is missing"))
        }
        let version = result.integer(0, 0)
        if version > part.version { throw .refused(.tooNew(found: version, known: part.version)) }
        if version < part.version { throw .outdated("the tables are of version \(version)") }
    }

    // MARK: Migrations

    /// Creates the tables, or changes them to this version, and grants the use of them to roles. If several processes
    /// start at the same time, one of them does this.
    func migrate(_ connection: PostgresConnection, granting roles: [String] = []) throws(PostgresFailure) {
        let statements = part.migration(in: name, granting: roles).map { PostgresStatement($0) }
        do {
            _ = try connection.run(["BEGIN ISOLATION LEVEL READ COMMITTED"] + statements, within: patience)
            try commit([], on: connection)
        } catch {
            // The next attempt shows whether the migration was committed.
            if case .uncertain = error { throw .lost("the connection to the server broke") }
            throw error
        }
    }
}

extension Duration {
    /// The duration, limited to ten years, so that a moment this far in the future can be represented.
    package var bounded: Duration { min(self, .seconds(315_360_000)) }
}
