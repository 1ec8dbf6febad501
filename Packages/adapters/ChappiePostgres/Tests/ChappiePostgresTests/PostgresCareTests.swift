import ChappieAuth
import ChappieCore
import ChappieCredentialsPostgres
import ChappieCrypto
import ChappieRuntime
import ChappieSDK
import ChappieSimulatorServer
import ChappieThreadsPostgres
import FoundationEssentials
import TestFixtures
import Testing

@testable import ChappiePostgres

/// The care of all tenants' data.
extension PostgresDatabaseTests {
    private static let now = Date(timeIntervalSince1970: 1_790_000_000)

    /// Makes a database whose tables belong to its owner, and roles for a service and for the care.
    private func makeCare(_ name: String) async throws -> (ChappiePostgresDatabase, ChappiePostgresCare) {
        try await server.makeDatabase(name)
        try await makeRole("\(name)_service")
        try await makeRole("\(name)_care", "BYPASSRLS")
        try await ChappiePostgresMigration.run(
            connectionString: server.address(of: name), granting: ["\(name)_service", "\(name)_care"],
            parts: [.threads, .credentials])
        let database = try ChappiePostgresDatabase(
            connectionString: address(of: name, as: "\(name)_service"), options: .init(migrates: false))
        return (database, try ChappiePostgresCare(connectionString: address(of: name, as: "\(name)_care")))
    }

    @Test func `threads that nobody touched are deleted in batches, with their records and words`() async throws {
        let (database, care) = try await makeCare("retention")
        for tenant in ["one", "two"] {
            let store = try database.threads(of: tenant)
            for number in 0..<5 { try await store.begin("old-\(number)", at: Self.now - 100) }
            try await store.begin("at the limit", at: Self.now)
            try await store.begin("new", at: Self.now + 1)
        }
        #expect(try await care.deleteThreads(untouchedSince: Self.now, of: "one", batch: 2) == 5)
        #expect(try await database.threads(of: "two").summaries().count == 7)
        #expect(try await care.deleteThreads(untouchedSince: Self.now, batch: 5) == 5)
        #expect(try await care.deleteThreads(untouchedSince: Self.now) == 0)
        for tenant in ["one", "two"] {
            let left = try await database.threads(of: tenant).summaries().map(\.id)
            #expect(Set(left) == ["at the limit", "new"])
        }
        let rows = "SELECT (SELECT count(*) FROM chappie.records), (SELECT count(*) FROM chappie.words)"
        #expect(try await server.sql(rows, in: "retention") == "4|4")
        #expect(try await care.deleteThreads(untouchedSince: .distantFuture) == 4)
    }

    @Test func `a thread that a call changes is left out`() async throws {
        let (database, care) = try await makeCare("changing")
        let store = try database.threads(of: "one")
        try await store.begin("free", at: Self.now - 100)
        try await store.begin("held", at: Self.now - 100)
        let schema = database.schema(of: .threads, tenant: "one")
        let worker = try await database.pool.take()
        try await worker.run { connection throws(PostgresFailure) in
            let lock = PostgresStatement("SELECT 1::bigint FROM chappie.threads WHERE id = 'held' FOR UPDATE")
            _ = try schema.begin([lock], on: connection)
        }
        #expect(try await care.deleteThreads(untouchedSince: Self.now) == 1)
        try await worker.run { connection throws(PostgresFailure) in try schema.rollBack(on: connection) }
        database.pool.give(worker)
        #expect(try await store.summaries().map(\.id) == ["held"])
        #expect(try await care.deleteThreads(untouchedSince: Self.now) == 1)
    }

    @Test func `tables of version 1 get the index of the dates`() async throws {
        try await server.makeDatabase("upgraded")
        let owner = server.address(of: "upgraded")
        let store = try ChappiePostgresDatabase(connectionString: owner).threads(of: "one")
        try await store.begin("thread", at: Self.now)
        // The second version adds only this index.
        let older = "DROP INDEX chappie.threads_updated_ms; UPDATE chappie.format SET version = 1"
        try await server.sql(older, in: "upgraded")
        #expect(try await store.summaries().map(\.id) == ["thread"])
        let state = "SELECT max(version), to_regclass('chappie.threads_updated_ms') IS NOT NULL FROM chappie.format"
        #expect(try await server.sql(state, in: "upgraded") == "2|t")
        #expect(ChappiePostgresPart.threads.version == 2)
        let plan = """
            SET enable_seqscan = off; EXPLAIN SELECT tenant, id FROM chappie.threads WHERE updated_ms < 5
            ORDER BY updated_ms LIMIT 500 FOR UPDATE SKIP LOCKED
            """
        #expect(try await server.sql(plan, in: "upgraded").contains("threads_updated_ms"))
    }

    @Test func `a tenant is deleted only after its sign-in has been revoked`() async throws {
        let (database, care) = try await makeCare("leaving")
        for tenant in ["one", "two"] {
            let store = try database.threads(of: tenant)
            for number in 0..<3 { try await store.begin("thread-\(number)", at: Self.now) }
        }
        let signIns = database.credentials(
            sealedWith: try ChappieSealingKeys(current: Secret(Array(repeating: 1, count: 32))))
        let simulator = try await Simulator.start(
            SimulatorConfiguration(autoApprove: true, pollInterval: 0, recordedRequestLimit: 1024))
        let configuration = ChappieConfiguration(
            keychainService: "chat", keychainAccount: "one",
            endpoints: ChappieEndpoints(
                issuer: simulator.issuer, backend: simulator.issuer.appending(path: "backend-api")))
        let session = await Chappie.loadedAuthSession(configuration: configuration, store: .custom(signIns))
        try await session.signIn { _ in }

        await #expect(throws: FixtureFailure.self) {
            try await care.deleteTenant("one") { throw FixtureFailure("the service can't be reached") }
        }
        #expect(try await database.threads(of: "one").summaries().count == 3)

        func hasRevoked() -> Bool { simulator.receivedRequests.contains { $0.target == "/oauth/revoke" } }
        #expect(!hasRevoked())
        let deleted = try await care.deleteTenant("one", batch: 2) {
            try await session.signOutAndRevoke()
            #expect(hasRevoked())
            #expect(try await database.threads(of: "one").summaries().count == 3)
        }
        await simulator.stop()
        #expect(deleted == 3)
        #expect(try await database.threads(of: "one").summaries().isEmpty)
        #expect(try await database.threads(of: "two").summaries().count == 3)
        #expect(try await care.purgeSignedOut() == 0)
        // The lease of the sign-out ends a moment later.
        #expect(try await eventually { try await care.purgeSignedOut(olderThan: .zero) == 1 })
    }

    @Test func `usage comes by pages of tenants`() async throws {
        let (database, care) = try await makeCare("measured")
        for number in 1...5 {
            let store = try database.threads(of: "tenant-\(number)")
            for thread in 0..<number { try await store.begin("thread-\(thread)", at: Self.now) }
        }
        var pages: [[String]] = []
        var last = ""
        while case let page = try await care.usage(after: last, limit: 2), let end = page.last {
            pages.append(page.map { "\($0.tenant): \($0.usage.threads)" })
            for (tenant, usage) in page {
                let own = try await database.threads(of: tenant).usage()
                #expect(usage == own)
            }
            last = end.tenant
        }
        #expect(pages == [["tenant-1: 1", "tenant-2: 2"], ["tenant-3: 3", "tenant-4: 4"], ["tenant-5: 5"]])
    }

    @Test func `rows of users who signed out a day ago are purged`() async throws {
        let (database, care) = try await makeCare("purged")
        let signIns = database.credentials(
            sealedWith: try ChappieSealingKeys(current: Secret(Array(repeating: 1, count: 32))))
        let accounts = ["signed in", "out long ago 1", "out long ago 2", "just out", "held"]
        for account in accounts {
            let slot = CredentialSlot(service: "chat", account: account)
            try await signIns.save(Secret("tokens"), in: slot)
            if account != "signed in" { try await signIns.delete(slot) }
        }
        let changes = [
            "changed = clock_timestamp() - interval '25 hours' WHERE account <> 'just out'",
            "holder = gen_random_uuid(), held_until = clock_timestamp() + interval '1 minute' WHERE account = 'held'",
        ]
        for change in changes { try await server.sql("UPDATE chappie.credentials SET \(change)", in: "purged") }
        #expect(try await care.purgeSignedOut(batch: 1) == 2)
        let left = "SELECT account FROM chappie.credentials ORDER BY account"
        #expect(try await server.sql(left, in: "purged") == "held\njust out\nsigned in")
        #expect(try await care.purgeSignedOut(olderThan: .zero) == 1)
    }

    @Test func `the care and the stores refuse each other's roles`() async throws {
        let (_, care) = try await makeCare("roles")
        let service = try ChappiePostgresCare(connectionString: address(of: "roles", as: "roles_service"))
        let error = await #expect(throws: ChappiePostgresError.self) { _ = try await service.usage() }
        guard case .unsafeRole = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try await care.usage().isEmpty)
        let store = try ChappiePostgresDatabase(connectionString: address(of: "roles", as: "roles_care"))
        await #expect(throws: ChappieThreadStoreError.self) { try await store.threads(of: "one").summaries() }
    }
}
