public import ChappieCore
public import ChappiePostgres
public import ChappieRuntime

extension ChappiePostgresCare {
    /// Deletes the threads that nobody has changed since `date`, with their records. It can run while the service works,
    /// and leaves out threads that are being changed.
    ///
    /// - Parameters:
    ///   - date: The date of the last change, by the clocks of the service's machines.
    ///   - tenant: The tenant whose threads are deleted. Default: all tenants.
    ///   - batch: The maximum number of threads of one transaction. Default: 500.
    /// - Returns: The number of deleted threads.
    /// - Throws: `ChappiePostgresError`. Threads of earlier transactions are deleted.
    public func deleteThreads(
        untouchedSince date: Date, of tenant: String? = nil, batch: Int = 500
    ) async throws(ChappiePostgresError) -> Int {
        let limit = Int(max(min(date.timeIntervalSince1970 * 1000, 9e15), -9e15).rounded(.down))
        return try await delete(from: .threads, batch: batch) { schema, batch in
            schema.deletion(ofThreadsBefore: limit, of: tenant, batch: batch)
        }
    }

    /// Ends the user's sign-in with `signOut`, and then deletes all threads of the tenant.
    ///
    /// Pass the revocation of the user's sign-in. Without it, the grant at ChatGPT stays open. If it throws, no thread is
    /// deleted, and the call can be repeated:
    /// ```swift
    /// try await care.deleteTenant("user-17") { try await session.signOutAndRevoke() }
    /// ```
    /// End the user's turns first, because a turn that runs can begin another thread. An empty row with the user's id
    /// stays in the table of sign-ins until it is purged.
    ///
    /// - Parameters:
    ///   - tenant: The tenant whose threads are deleted.
    ///   - batch: The maximum number of threads of one transaction. Default: 500.
    ///   - signOut: The revocation of the sign-in. It does nothing in a service that stores no sign-ins.
    /// - Returns: The number of deleted threads.
    /// - Throws: The errors of `signOut`, or `ChappiePostgresError`.
    public func deleteTenant(
        _ tenant: String, batch: Int = 500, afterSigningOut signOut: () async throws -> Void
    ) async throws -> Int {
        try await signOut()
        return try await delete(from: .threads, batch: batch) { schema, batch in
            schema.deletion(ofThreadsBefore: nil, of: tenant, batch: batch)
        }
    }

    /// Returns the usage of tenants in the order of their names, a page at a time.
    ///
    /// - Parameters:
    ///   - tenant: The last tenant of the page before. Default: none, for the first page.
    ///   - limit: The maximum number of tenants. Default: 500.
    /// - Returns: The tenants that have threads. An empty page is the last one.
    /// - Throws: `ChappiePostgresError`.
    public func usage(
        after tenant: String = "", limit: Int = 500
    ) async throws(ChappiePostgresError) -> [(tenant: String, usage: ChappieThreadStoreUsage)] {
        let schema = database.schema(of: .threads)
        return try await database.performCare(schema) { connection, _ throws(PostgresFailure) in
            let found = try schema.read([schema.usage(ofTenantsAfter: tenant, limit: limit)], on: connection)[2]
            return found.rows.map { row in
                let usage = ChappieThreadStoreUsage(
                    bytes: found.integer(row, 3), limit: nil, threads: found.integer(row, 1),
                    records: found.integer(row, 2))
                return (found.text(row, 0), usage)
            }
        }
    }
}

/// The statements that apply to the rows of all tenants.
extension PostgresSchema {
    /// Returns the statement that deletes threads, and returns their number. Their records are deleted with them.
    ///
    /// - Parameter date: The time in milliseconds that their last change precedes, or `nil` for all threads of the tenant.
    fileprivate func deletion(ofThreadsBefore date: Int?, of tenant: String?, batch: Int) -> PostgresStatement {
        let conditions = [date == nil ? nil : "updated_ms < $2", tenant == nil ? nil : "tenant = $3"].compactMap(\.self)
        return PostgresStatement(
            """
            WITH old AS MATERIALIZED (
                SELECT tenant, id FROM \(prefix)threads WHERE \(conditions.joined(separator: " AND "))
                ORDER BY updated_ms LIMIT $1 FOR UPDATE SKIP LOCKED),
            gone AS (
                DELETE FROM \(prefix)threads thread USING old
                WHERE thread.tenant = old.tenant AND thread.id = old.id RETURNING 1)
            SELECT count(*) FROM gone
            """, [.integer(batch), .integer(date ?? 0), .text(tenant)])
    }

    fileprivate func usage(ofTenantsAfter tenant: String, limit: Int) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT tenant, count(*), sum(record_count)::bigint, sum(bytes)::bigint FROM \(prefix)threads
            WHERE tenant > $1 GROUP BY tenant ORDER BY tenant LIMIT $2
            """, [.text(tenant), .integer(max(limit, 0))])
    }
}
