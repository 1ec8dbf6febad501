public import Testing

extension PostgresServer {
    /// The server of the suite whose test runs, which has the trait ``Testing/Trait/postgres``.
    @TaskLocal public static var current: PostgresServer?
    /// The database that the tests of a suite share, unless they need a separate one.
    public static let sharedDatabase = "shared"

    /// Runs `body` with a server, and ends it afterwards.
    public static func lent(
        withTLS: Bool = false, _ body: @Sendable (PostgresServer) async throws -> Void
    ) async throws {
        let server = try await PostgresServer(withTLS: withTLS)
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(server))
        } catch {
            result = .failure(error)
        }
        try await server.end()
        try result.get()
    }
}

/// A trait that starts a server for a suite, and ends it after the last of its tests.
public struct PostgresTrait: SuiteTrait, TestScoping {
    /// Runs the tests of a suite with a server.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await PostgresServer.lent { server in
            try await server.makeDatabase(PostgresServer.sharedDatabase)
            try await PostgresServer.$current.withValue(server, operation: function)
        }
    }
}

extension Trait where Self == PostgresTrait {
    /// A PostgreSQL server for the suite.
    public static var postgres: Self { Self() }
}
