@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// A PostgreSQL database with the threads and sign-ins of many users, and the connections to it.
///
/// ```swift
/// let database = try ChappiePostgresDatabase(
///     connectionString: "postgresql://chat@db.example/chat?sslmode=verify-full")
/// let runtime = client.runtime(store: try database.threads(of: user.id))
/// ```
/// Create one database for each process. All its stores share the connections, whatever their number. The tenant is set
/// inside each transaction. A connection that was not used for a minute is closed.
public final class ChappiePostgresDatabase: Sendable {
    /// The settings in addition to the address.
    public struct Options: Sendable, Hashable {
        /// The schema of the tables, whose name has 1 to 63 bytes. The default is `chappie`.
        public var schema: String
        /// The maximum number of connections of one database, which is at least 1. The default is 4.
        public var connections: Int
        /// The time for which a connection that is not used stays open. The default is one minute.
        public var idleTimeout: Duration
        /// The limit for connecting, without the look-up of the server's name. It is also the time for which a call
        /// tries to connect again, if the server refuses, starts, has too many connections or can't be found. Errors
        /// that a user must correct, such as a wrong password, end the call at once. The default is 10 s.
        public var connectTimeout: Duration
        /// The limit for a statement, including the wait for other transactions, and for the server's silence while
        /// data is transferred. It is also the time for which the store asks for the outcome of an append whose
        /// connection broke at its end. The final attempt may take longer. More than 24 days mean no limit, and the
        /// store then asks for 30 s. The default is 30 s.
        public var statementTimeout: Duration
        /// The maximum sum of the bytes of all bodies of one tenant's records. An append that would exceed it is
        /// refused. Appends at the same time may exceed it together. By default, there is no limit.
        public var limit: Int?
        /// Whether the store accepts a role for which row-level security has no effect. Each statement still asks only
        /// for the tenant's own rows. The default is `false`.
        public var allowsUnrestrictedRole: Bool

        /// Whether the first use creates missing tables and changes older ones, for which the role has to own them. If
        /// it is `false`, such tables are ``ChappiePostgresError/outdated(_:)``, and ``ChappiePostgresMigration`` creates
        /// them. The default is `true`.
        public var migrates: Bool

        /// Creates options with the given properties.
        public init(
            schema: String = "chappie", connections: Int = 4, connectTimeout: Duration = .seconds(10),
            statementTimeout: Duration = .seconds(30), limit: Int? = nil, allowsUnrestrictedRole: Bool = false,
            idleTimeout: Duration = .seconds(60), migrates: Bool = true
        ) {
            self.schema = schema
            self.connections = connections
            self.idleTimeout = idleTimeout
            self.connectTimeout = connectTimeout
            self.statementTimeout = statementTimeout
            self.limit = limit
            self.allowsUnrestrictedRole = allowsUnrestrictedRole
            self.migrates = migrates
        }
    }

    let pool: PostgresPool
    let lastFailure = Mutex<ChappiePostgresState.Failure?>(nil)
    private let observer: (any ChappieObserver)?
    package let options: Options

    /// Creates the database at an address. It does not connect yet.
    ///
    /// - Parameters:
    ///   - connectionString: A URI, or pairs of keyword and value, in the form that libpq accepts. Missing settings are
    ///     read from libpq's environment variables and password file. Use `sslmode=verify-full` over a network. No
    ///     message repeats the string.
    ///   - options: See ``Options``.
    ///   - observer: Follows connections and repeated transactions, for metrics. Default: none.
    /// - Throws: ``ChappiePostgresError/invalidAddress(_:)`` for an invalid connection string or schema.
    public convenience init(
        connectionString: String, options: Options = Options(), observer: (any ChappieObserver)? = nil
    ) throws(ChappiePostgresError) {
        try self.init(
            connectionString: connectionString, options: options,
            role: options.allowsUnrestrictedRole ? .any : .restricted, observer: observer)
    }

    init(
        connectionString: String, options: Options, role: PostgresRole, observer: (any ChappieObserver)? = nil
    ) throws(ChappiePostgresError) {
        guard let address = PostgresAddress(connectionString) else {
            throw .invalidAddress("the connection string is neither a URI of PostgreSQL nor pairs of keyword=value")
        }
        guard (1...63).contains(options.schema.utf8.count), !options.schema.utf8.contains(0) else {
            throw .invalidAddress("the schema's name must have 1 to 63 bytes")
        }
        self.options = options
        self.observer = observer
        let patience = options.statementTimeout.bounded + .seconds(2)
        pool = PostgresPool(of: options.connections, idleTimeout: options.idleTimeout.bounded, observer: observer) {
            PostgresWorker(observer: observer) { interruption throws(PostgresFailure) in
                let connection = try PostgresConnection.open(
                    address, within: options.connectTimeout.bounded, for: interruption)
                try connection.check(role, within: patience)
                return connection
            }
        }
    }

    /// Returns the tables of one kind of store in this database's schema.
    package func schema(of part: ChappiePostgresPart, tenant: String = "") -> PostgresSchema {
        PostgresSchema(part, in: options.schema, tenant: tenant, limit: options.statementTimeout)
    }

    /// Runs `work` with a connection until it succeeds or must not be tried again. Creates the tables if they are
    /// missing and the options allow it. `isRepeated` is whether an earlier attempt may have been committed.
    ///
    /// - Throws: The error of ``PostgresFailure/answer(_:)``, or ``ChappiePostgresError``.
    package func perform<Value: Sendable>(
        _ schema: PostgresSchema,
        _ work: @escaping @Sendable (PostgresConnection, _ isRepeated: Bool) throws(PostgresFailure) -> Value
    ) async throws -> Value {
        // Calls that wait for a connection of the pool all end together if the server does not return.
        var retries = PostgresRetries(
            reconnecting: options.connectTimeout.bounded, findingOut: schema.findingOut, began: .now,
            migrates: options.migrates)
        let worker: PostgresWorker
        do {
            worker = try await pool.take()
        } catch {
            throw publicError(of: error)
        }
        defer { pool.give(worker) }
        while true {
            // Even for a cancelled task, the outcome of an earlier attempt is determined.
            let isRepeated = retries.isUncertain
            do throws(PostgresFailure) {
                if retries.wantsMigration {
                    try await worker.run(isInterruptible: !isRepeated) { connection throws(PostgresFailure) in
                        try schema.migrate(connection)
                    }
                    retries.migrated()
                }
                return try await worker.run(isInterruptible: !isRepeated) { connection throws(PostgresFailure) in
                    try work(connection, isRepeated)
                }
            } catch {
                let pause = retries.pause(after: error, now: .now, jitter: Double.random(in: 0..<1))
                note(error, isLast: pause == nil)
                guard let pause else { throw publicError(of: error, isUncertain: retries.isUncertain) }
                if let reason = error.retryReason { observer?.happened(.postgresRetried(reason)) }
                do {
                    if retries.isUncertain {
                        try await uncancelled { try await Task.sleep(for: pause) }
                    } else {
                        try await Task.sleep(for: pause)
                    }
                } catch {
                    throw publicError(of: .cancelled, isUncertain: retries.isUncertain)
                }
            }
        }
    }

    /// Runs `work`, which throws only failures of the server, as ``perform(_:_:)`` does.
    package func performCare<Value: Sendable>(
        _ schema: PostgresSchema,
        _ work: @escaping @Sendable (PostgresConnection, _ isRepeated: Bool) throws(PostgresFailure) -> Value
    ) async throws(ChappiePostgresError) -> Value {
        do {
            return try await perform(schema, work)
        } catch let error as ChappiePostgresError {
            throw error
        } catch {
            throw .unavailable("the work with the database failed")
        }
    }

    func publicError(of failure: PostgresFailure, isUncertain: Bool = false) -> any Error {
        if case .answer(let error) = failure { return error }
        if isUncertain { return ChappiePostgresError.uncertain }
        return switch failure {
        case .answer(let error): error
        case .refused(let error): error
        case .unreachable(let words), .lost(let words): ChappiePostgresError.unavailable(words)
        case .outdated(let words): ChappiePostgresError.outdated(words)
        case .late, .contended: ChappiePostgresError.busy(options.statementTimeout)
        case .uncertain: ChappiePostgresError.unavailable("the connection to the server broke")
        case .cancelled: ChappiePostgresError.unavailable("the task was cancelled")
        }
    }

    /// Records a failure of the server or of the connection, unless it is an ordinary part of a call.
    func note(_ failure: PostgresFailure, isLast: Bool) {
        switch failure {
        case .answer, .contended, .cancelled: return
        case .outdated where !isLast: return
        default: note(publicError(of: failure))
        }
    }

    func note(_ error: any Error) {
        guard let error = error as? ChappiePostgresError else { return }
        lastFailure.withLock { $0 = ChappiePostgresState.Failure(error: error, date: .now) }
    }
}

/// The role that a database needs.
enum PostgresRole {
    /// A role that row-level security restricts to one tenant.
    case restricted
    /// A role that sees the rows of all tenants.
    case unrestricted
    case any
}

extension PostgresConnection {
    /// Refuses another role than the needed one.
    fileprivate func check(_ role: PostgresRole, within limit: Duration) throws(PostgresFailure) {
        guard role != .any else { return }
        let results = try run(
            ["SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = current_user"], within: limit)
        let isRestricted = !results[0].rows.isEmpty && results[0].integer(0, 0) == 0
        switch role {
        case .restricted where !isRestricted:
            throw .refused(
                .unsafeRole(
                    "row-level security does nothing for the role that the connection string names",
                    remedy: "Connect as a role without SUPERUSER and BYPASSRLS."))
        case .unrestricted where isRestricted:
            throw .refused(
                .unsafeRole(
                    "row-level security hides the tenants from the role that the connection string names",
                    remedy: "Connect as a role with BYPASSRLS that only the care of the data uses."))
        default: return
        }
    }
}

extension PostgresFailure {
    /// The reason with which an observer hears of another attempt. A migration has none.
    fileprivate var retryReason: ChappiePostgresRetryReason? {
        switch self {
        case .lost: .lost
        case .contended: .contended
        case .uncertain: .uncertain
        case .unreachable: .unreachable
        case .answer, .refused, .late, .outdated, .cancelled: nil
        }
    }
}
