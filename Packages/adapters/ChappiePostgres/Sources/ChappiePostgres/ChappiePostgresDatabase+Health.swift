@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// The connections of a database in this process, and the calls that use them.
public struct ChappiePostgresState: Sendable, Hashable {
    /// A failure of the server or of a connection.
    public struct Failure: Sendable, Hashable {
        /// The reason.
        public let error: ChappiePostgresError
        /// The time of this machine's clock.
        public let date: Date
    }

    /// The number of open connections.
    public let openConnections: Int
    /// The number of connections that calls use, including those that are being opened.
    public let usedConnections: Int
    /// The number of calls that wait for a connection.
    public let waitingCalls: Int
    /// The time for which the first of these calls has waited. It is `nil` if no call waits.
    public let longestWait: Duration?
    /// The last failure since the program started. A call may have succeeded at a later attempt.
    public let lastFailure: Failure?
}

/// The server's answer to ``ChappiePostgresDatabase/ping(of:within:)``.
public struct ChappiePostgresPing: Sendable, Hashable {
    /// The time between the query and its answer, without the wait for a connection.
    public let roundTrip: Duration
    /// The time of the server's clock.
    public let serverTime: Date
    /// Whether the server accepts no changes, as a stand-by server.
    public let isReadOnly: Bool
    /// The versions of the tables of the parts that were asked for. A missing part has the version 0.
    public let versions: [ChappiePostgresPart: Int]

    /// Whether all these tables have the version that this program knows.
    public var hasCurrentTables: Bool { versions.allSatisfy { $0.key.version == $0.value } }
}

extension ChappiePostgresDatabase {
    /// The state of the connections at this moment. It is known in the process and asks no server.
    public var state: ChappiePostgresState {
        let load = pool.load(now: .now)
        return ChappiePostgresState(
            openConnections: load.open, usedConnections: load.inUse, waitingCalls: load.waiting,
            longestWait: load.longestWait, lastFailure: lastFailure.withLock(\.self))
    }

    /// Asks the server for its state, over a connection of the pool. If all connections are in use, it waits in the line
    /// as every other call does.
    ///
    /// - Parameters:
    ///   - parts: The parts whose tables' versions are read.
    ///   - limit: The limit for the call, including the wait for a connection and broken connections that are replaced.
    ///     Default: one second.
    /// - Throws: ``ChappiePostgresError``, such as ``ChappiePostgresError/exhausted(connections:_:)`` if no connection was
    ///   free.
    public func ping(
        of parts: [ChappiePostgresPart] = [], within limit: Duration = .seconds(1)
    ) async throws(ChappiePostgresError) -> ChappiePostgresPing {
        let reason = Mutex(ChappiePostgresError.exhausted(connections: pool.workers.count, limit))
        let name = options.schema
        do {
            return try await withDeadline(limit, clock: SystemClock(), late: LimitHasPassed()) { [self] in
                let worker = try await pool.take()
                defer { pool.give(worker) }
                reason.withLock { $0 = .busy(limit) }
                var retries = PostgresRetries(reconnecting: limit, findingOut: .zero, began: .now, migrates: false)
                while true {
                    do throws(PostgresFailure) {
                        return try await worker.run { connection throws(PostgresFailure) in
                            try connection.ping(parts, in: name, within: limit)
                        }
                    } catch {
                        guard let pause = retries.pause(after: error, now: .now, jitter: 0) else { throw error }
                        if let error = publicError(of: error) as? ChappiePostgresError {
                            reason.withLock { $0 = error }
                        }
                        try await Task.sleep(for: pause)
                    }
                }
            }
        } catch {
            let found =
                switch error {
                case is LimitHasPassed: reason.withLock(\.self)
                case let failure as PostgresFailure: publicError(of: failure) as? ChappiePostgresError
                default: nil as ChappiePostgresError?
                }
            guard let found else { throw .unavailable("the task was cancelled") }
            note(found)
            throw found
        }
    }

    /// Closes the database. Calls that run or wait for a connection end as usual, later ones throw
    /// ``ChappiePostgresError/closed``. This returns when all connections are closed, and can be called again.
    ///
    /// Each statement has a limit, so a program that ends calls this last, after its turns have ended.
    public func close() async { await pool.close() }
}

private struct LimitHasPassed: Error {}

extension PostgresConnection {
    fileprivate func ping(
        _ parts: [ChappiePostgresPart], in schema: String, within limit: Duration
    ) throws(PostgresFailure) -> ChappiePostgresPing {
        let began = ContinuousClock.now
        let found = try run(
            [
                """
                SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
                    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                """
            ] + parts.map { $0.presence(in: schema) }, within: limit)
        let roundTrip = ContinuousClock.now - began
        let present = parts.indices.filter { found[1 + $0].integer(0, 0) != 0 }.map { parts[$0] }
        let versions = present.isEmpty ? [] : try run(present.map { $0.storedVersion(in: schema) }, within: limit)
        let known = zip(present, versions).map { ($0, $1.integer(0, 0)) }
        let missing = parts.filter { !present.contains($0) }.map { ($0, 0) }
        return ChappiePostgresPing(
            roundTrip: roundTrip, serverTime: Date(timeIntervalSince1970: Double(found[0].integer(0, 1)) / 1_000_000),
            isReadOnly: found[0].integer(0, 0) != 0, versions: Dictionary(known + missing) { $1 })
    }
}
