public import ChappieRuntime

/// A PostgreSQL database with the threads of many tenants, and the connections to it.
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
    public typealias Options = ChappiePostgresThreadStore.Options

    let pool: PostgresPool
    private let options: Options

    /// Creates the database at an address. It does not connect yet.
    ///
    /// - Parameters:
    ///   - connectionString: A URI, or pairs of keyword and value, in the form that libpq accepts. Missing settings are
    ///     read from libpq's environment variables and password file. Use `sslmode=verify-full` over a network. No
    ///     message repeats the string.
    ///   - options: See ``ChappiePostgresThreadStore/Options``.
    /// - Throws: ``ChappieRuntime/ChappieThreadStoreError/unavailable(_:)`` for an invalid connection string or schema.
    public init(connectionString: String, options: Options = Options()) throws(ChappieThreadStoreError) {
        guard let address = PostgresAddress(connectionString) else {
            throw .unavailable("the connection string is neither a URI of PostgreSQL nor pairs of keyword=value")
        }
        guard (1...63).contains(options.schema.utf8.count), !options.schema.utf8.contains(0) else {
            throw .unavailable("the schema's name must have 1 to 63 bytes")
        }
        self.options = options
        let schema = PostgresSchema(name: options.schema, tenant: "", limit: options.statementTimeout)
        pool = PostgresPool(of: options.connections, idleTimeout: options.idleTimeout.bounded) {
            PostgresWorker { interruption throws(PostgresFailure) in
                let connection = try PostgresConnection.open(
                    address, within: options.connectTimeout.bounded, for: interruption)
                try schema.examine(connection, allowsUnrestrictedRole: options.allowsUnrestrictedRole)
                return connection
            }
        }
    }

    /// Returns a store for the threads of one tenant. The result is cheap, so a server may create one for each request.
    ///
    /// - Parameter tenant: The tenant's name, which must not be empty. A default would mix the users of a service that
    ///   forgot to pass it.
    /// - Throws: ``ChappieRuntime/ChappieThreadStoreError/unavailable(_:)`` for a tenant without a name.
    public func threads(of tenant: String) throws(ChappieThreadStoreError) -> ChappiePostgresThreadStore {
        try ChappiePostgresThreadStore(of: tenant, in: pool, options)
    }
}

extension ChappiePostgresThreadStore {
    /// Creates a store for one tenant's threads with its own connections. A service with many tenants creates its
    /// stores with one ``ChappiePostgresDatabase``.
    ///
    /// - Parameters:
    ///   - connectionString: See ``ChappiePostgresDatabase/init(connectionString:options:)``.
    ///   - tenant: The tenant that owns the threads. It must not be empty.
    ///   - options: See ``Options``.
    /// - Throws: ``ChappieRuntime/ChappieThreadStoreError/unavailable(_:)`` for an invalid connection string, tenant or
    ///   schema.
    public convenience init(
        connectionString: String, tenant: String, options: Options = Options()
    ) throws(ChappieThreadStoreError) {
        try self.init(
            of: tenant, in: ChappiePostgresDatabase(connectionString: connectionString, options: options).pool, options)
    }
}
