import ChappieCore
public import ChappiePostgres

extension ChappiePostgresCare {
    /// Deletes the rows of users who have signed out, whose row still has their id. It can run while the service works.
    ///
    /// - Parameters:
    ///   - age: The time since the sign-out. Default: one day, after which no machine still works with the earlier row.
    ///   - batch: The maximum number of rows of one transaction. Default: 500.
    /// - Returns: The number of deleted rows.
    /// - Throws: `ChappiePostgresError`.
    public func purgeSignedOut(
        olderThan age: Duration = .seconds(86_400), batch: Int = 500
    ) async throws(ChappiePostgresError) -> Int {
        let age = max(age, .zero).bounded.milliseconds
        return try await delete(from: .credentials, batch: batch) { $0.removal(ofSignOutsOlderThan: age, batch: $1) }
    }
}

extension PostgresSchema {
    /// Returns the statement that deletes rows without a credential and without a lease, and returns their number.
    fileprivate func removal(ofSignOutsOlderThan age: Int, batch: Int) -> PostgresStatement {
        PostgresStatement(
            """
            WITH old AS MATERIALIZED (
                SELECT service, account, access_group, issuer FROM \(prefix)credentials
                WHERE sealed IS NULL AND changed < clock_timestamp() - $1 * interval '1 millisecond'
                    AND (held_until IS NULL OR held_until < clock_timestamp())
                ORDER BY changed LIMIT $2 FOR UPDATE SKIP LOCKED),
            gone AS (
                DELETE FROM \(prefix)credentials known USING old
                WHERE (known.service, known.account, known.access_group, known.issuer)
                    = (old.service, old.account, old.access_group, old.issuer) RETURNING 1)
            SELECT count(*) FROM gone
            """, [.integer(age), .integer(batch)])
    }
}
