public import ChappiePostgres
public import ChappieRuntime

extension ChappiePostgresDatabase {
    /// Returns a store for the threads of one tenant. The result is cheap, so a server may create one for each request.
    ///
    /// - Parameter tenant: The tenant's name, which must not be empty. A default would mix the users of a service that
    ///   forgot to pass it.
    /// - Throws: ``ChappieRuntime/ChappieThreadStoreError/unavailable(_:)`` for a tenant without a name.
    public func threads(of tenant: String) throws(ChappieThreadStoreError) -> ChappiePostgresThreadStore {
        try ChappiePostgresThreadStore(of: tenant, in: self)
    }
}

extension ChappiePostgresThreadStore {
    /// Creates a store for one tenant's threads with its own connections. A service with many tenants creates its
    /// stores with one `ChappiePostgresDatabase`.
    ///
    /// - Parameters:
    ///   - connectionString: See `ChappiePostgresDatabase.init(connectionString:options:)`.
    ///   - tenant: The tenant that owns the threads. It must not be empty.
    ///   - options: See ``Options``.
    /// - Throws: ``ChappieRuntime/ChappieThreadStoreError/unavailable(_:)`` for an invalid connection string, tenant or
    ///   schema.
    public convenience init(
        connectionString: String, tenant: String, options: Options = Options()
    ) throws(ChappieThreadStoreError) {
        let database: ChappiePostgresDatabase
        do {
            database = try ChappiePostgresDatabase(connectionString: connectionString, options: options)
        } catch {
            throw ChappieThreadStoreError(error)
        }
        try self.init(of: tenant, in: database)
    }
}
