/// The care of the data of all tenants: retention, deletion of a tenant, and usage.
///
/// ```swift
/// let care = try ChappiePostgresCare(
///     connectionString: "postgresql://chat_care@db.example/chat?sslmode=verify-full")
/// let deleted = try await care.deleteThreads(untouchedSince: .now - 90 * 86_400)
/// ```
/// Row-level security shows the service's role only one tenant at a time, so this needs another role, with BYPASSRLS. The
/// stores refuse such a role. Use it in a separate program, such as an hourly job, and grant it the tables with
/// ``ChappiePostgresMigration``.
///
/// `ChappieThreadsPostgres` adds the functions for threads, and `ChappieCredentialsPostgres` those for sign-ins.
public struct ChappiePostgresCare: Sendable {
    package let database: ChappiePostgresDatabase

    /// Creates the care of the tables at an address. It does not connect yet.
    ///
    /// - Parameters:
    ///   - connectionString: The address, as for ``ChappiePostgresDatabase/init(connectionString:options:observer:)``. Its role
    ///     has BYPASSRLS. Another one ends each call with ``ChappiePostgresError/unsafeRole(_:remedy:)``.
    ///   - schema: The schema of the tables. Default: `chappie`.
    /// - Throws: ``ChappiePostgresError/invalidAddress(_:)`` for an invalid connection string or schema.
    public init(connectionString: String, schema: String = "chappie") throws(ChappiePostgresError) {
        database = try ChappiePostgresDatabase(
            connectionString: connectionString, options: .init(schema: schema, connections: 1, migrates: false),
            role: .unrestricted)
    }

    /// Deletes rows in transactions of at most `batch` rows each, until one of them finds fewer.
    ///
    /// - Parameter statement: The statement, which returns the number of rows that it deletes. It gets the size of a
    ///   batch, and should skip rows that other transactions have locked.
    package func delete(
        from part: ChappiePostgresPart, batch: Int,
        _ statement: @escaping @Sendable (PostgresSchema, _ batch: Int) -> PostgresStatement
    ) async throws(ChappiePostgresError) -> Int {
        let schema = database.schema(of: part)
        let batch = max(batch, 1)
        var total = 0
        while true {
            let count = try await database.performCare(schema) { connection, _ throws(PostgresFailure) in
                let found = try schema.begin([statement(schema, batch)], on: connection)[2]
                try schema.commit([], on: connection)
                return found.integer(0, 0)
            }
            total += count
            guard count == batch else { return total }
        }
    }
}
