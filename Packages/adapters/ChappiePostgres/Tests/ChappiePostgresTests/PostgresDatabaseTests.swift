import ChappieCore
import ChappieRuntime
import ChappieTesting
import ChappieThreadsPostgres
import FoundationEssentials
import TestFixtures
import Testing

@testable import ChappiePostgres

/// A database with a real server: its health and its end. Each test has a separate database.
@Suite(.postgres, .enabled(if: PostgresServer.program.isUsable, "PostgreSQL 15 is not installed here"))
struct PostgresDatabaseTests {
    let server: PostgresServer
    init() throws { server = try #require(PostgresServer.current) }

    /// Returns the address for a role other than the owner of the databases. All roles have the same password.
    func address(of database: String, as role: String) -> String {
        server.address(of: database).replacing("//\(PostgresServer.role):", with: "//\(role):")
    }

    func makeRole(_ name: String, _ attributes: String = "") async throws {
        try await server.sql("CREATE ROLE \(name) LOGIN PASSWORD '\(PostgresServer.password)' \(attributes)")
    }

    // MARK: Ping

    @Test func `a ping reports the server's time and the versions of the tables`() async throws {
        try await server.makeDatabase("pinged")
        let database = try ChappiePostgresDatabase(connectionString: server.address(of: "pinged"))
        let before = try await database.ping(of: [.threads], within: Patience.limit)
        #expect(before.versions == [.threads: 0])
        #expect(!before.hasCurrentTables)
        _ = try await database.threads(of: "one").summaries()

        let ping = try await database.ping(of: [.threads], within: Patience.limit)
        #expect(ping.versions == [.threads: ChappiePostgresPart.threads.version])
        #expect(ping.hasCurrentTables)
        #expect(!ping.isReadOnly)
        #expect(abs(ping.serverTime.timeIntervalSinceNow) < 60)
        #expect(ping.roundTrip > .zero && ping.roundTrip < Patience.limit)
        #expect(try await database.ping(within: Patience.limit).versions == [:])

        try await server.sql("ALTER DATABASE pinged SET default_transaction_read_only = on")
        let reader = try ChappiePostgresDatabase(connectionString: server.address(of: "pinged"))
        #expect(try await reader.ping(within: Patience.limit).isReadOnly)
    }

    @Test func `a ping shows that all connections are in use`() async throws {
        try await server.makeDatabase("exhausted")
        let database = try ChappiePostgresDatabase(
            connectionString: server.address(of: "exhausted"), options: .init(connections: 1))
        #expect(database.state.openConnections == 0)
        let occupation = try await Occupation(of: database)
        let limit = Duration.milliseconds(200)
        let exhausted = ChappiePostgresError.exhausted(connections: 1, limit)
        await #expect(throws: exhausted) { try await database.ping(within: limit) }
        #expect(database.state.lastFailure?.error == exhausted)

        let waiting = Task { try await database.threads(of: "one").summaries() }
        #expect(try await eventually { database.state.waitingCalls == 1 })
        let state = database.state
        #expect(state.openConnections == 1 && state.usedConnections == 1)
        #expect(try #require(state.longestWait) >= .zero)
        try await occupation.end()
        #expect(try await waiting.value.isEmpty)
        #expect(database.state.usedConnections == 0 && database.state.openConnections == 1)
        #expect(database.state.waitingCalls == 0 && database.state.longestWait == nil)
        _ = try await database.ping(within: Patience.limit)
    }

    @Test func `a ping reports why there is no connection`() async throws {
        let database = try ChappiePostgresDatabase(
            connectionString: "postgresql://app@127.0.0.1:1/absent?sslmode=disable&gssencmode=disable")
        let error = await #expect(throws: ChappiePostgresError.self) {
            try await database.ping(within: .milliseconds(300))
        }
        #expect(error?.errorDescription?.contains("Connection refused") == true, "\(String(describing: error))")
        #expect(database.state.lastFailure?.error == error)
        #expect(database.state.openConnections == 0)
        #expect(try await eventually { database.state.usedConnections == 0 })
    }

    @Test func `a ping replaces a connection that the server has ended`() async throws {
        try await server.makeDatabase("cut")
        let database = try ChappiePostgresDatabase(connectionString: server.address(of: "cut"))
        _ = try await database.ping(within: Patience.limit)
        let end = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = 'cut'"
        #expect(try await server.sql(end) == "1")
        _ = try await database.ping(within: Patience.limit)
    }

    // MARK: Close

    @Test func `close waits for running and waiting calls, and refuses later ones`() async throws {
        try await server.makeDatabase("closed")
        let database = try ChappiePostgresDatabase(
            connectionString: server.address(of: "closed"), options: .init(connections: 1))
        let occupation = try await Occupation(of: database)
        let waiting = Task { try await database.threads(of: "one").summaries() }
        #expect(try await eventually { database.state.waitingCalls == 1 })

        let closing = Task { await database.close() }
        let store = try database.threads(of: "one")
        #expect(
            try await eventually {
                await #expect(throws: ChappiePostgresError.self) { try await database.ping(within: .zero) }
                    == .closed
            })
        await #expect(throws: ChappieThreadStoreError.unavailable("the program has closed the database")) {
            _ = try await store.summaries()
        }
        // Even a cancelled task closes the connections.
        closing.cancel()
        #expect(database.state.openConnections == 1)
        try await occupation.end()
        #expect(try await waiting.value.isEmpty)
        await closing.value
        #expect(database.state.openConnections == 0)
        let connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'closed'"
        #expect(try await eventually { try await server.sql(connections) == "0" })
        await database.close()
        await #expect(throws: ChappiePostgresError.closed) { try await database.ping(within: Patience.limit) }
    }

    @Test func `a database without connections closes`() async throws {
        let database = try ChappiePostgresDatabase(connectionString: server.address(of: "never"))
        await database.close()
        await #expect(throws: ChappiePostgresError.closed) { try await database.ping() }
    }

    @Test func `an observer hears of waits, connections and repeated transactions`() async throws {
        let observer = RecordingObserver()
        try await PostgresServer.lent { server in
            try await server.makeDatabase("observed")
            let database = try ChappiePostgresDatabase(
                connectionString: server.address(of: "observed"), options: .init(connections: 1), observer: observer)
            let store = try database.threads(of: "one")
            #expect(store.kind == .postgres)
            _ = try await store.summaries()
            try await server.restart()
            _ = try await store.summaries()
            await database.close()
        }
        let facts = observer.events.compactMap { event in if case .happened(let fact) = event { fact } else { nil } }
        func sum(_ state: ChappieObservedConnection) -> [Int] {
            facts.compactMap { fact in
                if case .postgresConnections(state, let change) = fact { change } else { nil }
            }
        }
        #expect(sum(.used) == [1, -1, 1, -1])
        #expect(sum(.open).reduce(0, +) == 0 && sum(.open).count >= 4)
        #expect(facts.contains(.postgresRetried(.lost)))
        #expect(facts.count { if case .postgresPoolAwaited = $0 { true } else { false } } == 2)
    }
}
