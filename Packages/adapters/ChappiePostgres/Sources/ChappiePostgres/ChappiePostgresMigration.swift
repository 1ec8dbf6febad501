/// The creation of the tables by their owner, for a service whose own role may not change them.
///
/// ```swift
/// try await ChappiePostgresMigration.run(
///     connectionString: "postgresql://chat_owner@db.example/chat?sslmode=verify-full",
///     granting: ["chat_service"], parts: [.threads])
/// ```
/// The service then connects as `chat_service`, with ``ChappiePostgresDatabase/Options/migrates`` set to `false`.
public enum ChappiePostgresMigration {
    /// Creates the tables of `parts`, or changes them to the versions of this program, and lets `roles` use them. It can
    /// run repeatedly, and on several machines at the same time.
    ///
    /// Transactions that use the tables are waited for, and others wait in the meantime. Programs of an older version
    /// refuse changed tables from then on.
    ///
    /// - Parameters:
    ///   - connectionString: The address, as for ``ChappiePostgresDatabase/init(connectionString:options:observer:)``. Its role is
    ///     the owner of the tables. It needs CREATE on the database, or on the schema if that already exists.
    ///   - schema: The schema of the tables. Default: `chappie`.
    ///   - roles: The roles that get USAGE of the schema, SELECT of the versions, and SELECT, INSERT, UPDATE and DELETE of
    ///     the other tables. Default: none.
    ///   - parts: The parts, such as `.threads` of `ChappieThreadsPostgres`.
    /// - Throws: ``ChappiePostgresError``. Parts before the one that failed are finished.
    public static func run(
        connectionString: String, schema: String = "chappie", granting roles: [String] = [],
        parts: [ChappiePostgresPart]
    ) async throws(ChappiePostgresError) {
        let database = try ChappiePostgresDatabase(
            connectionString: connectionString,
            // An index over many rows takes its time.
            options: .init(
                schema: schema, connections: 1, statementTimeout: .seconds(3600), allowsUnrestrictedRole: true))
        for part in parts {
            let tables = database.schema(of: part)
            try await database.performCare(tables) { connection, _ throws(PostgresFailure) in
                try tables.migrate(connection, granting: roles)
                // Tables of a newer version are refused here.
                _ = try tables.read([], on: connection)
            }
        }
        await database.close()
    }

    /// Returns the statements of ``run(connectionString:schema:granting:parts:)`` as SQL, for an administrator who runs
    /// them as the owner with `psql`.
    public static func statements(
        schema: String = "chappie", granting roles: [String] = [], parts: [ChappiePostgresPart]
    ) -> String {
        parts.map { part in
            let statements = ["BEGIN"] + part.migration(in: schema, granting: roles) + ["COMMIT"]
            return "-- The part \(part.name), version \(part.version)\n" + statements.map { "\($0);\n" }.joined()
        }.joined(separator: "\n")
    }
}
