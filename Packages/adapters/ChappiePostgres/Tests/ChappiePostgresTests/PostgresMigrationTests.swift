import ChappieAuth
import ChappieCore
import ChappieCredentialsPostgres
import ChappieCrypto
import ChappieRuntime
import ChappieThreadsPostgres
import TestFixtures
import Testing

@testable import ChappiePostgres

/// Tables that belong to another role than the service's.
extension PostgresDatabaseTests {
    private static let parts: [ChappiePostgresPart] = [.threads, .credentials]

    private static func signIns(_ database: ChappiePostgresDatabase) throws -> ChappiePostgresCredentialStore {
        database.credentials(sealedWith: try ChappieSealingKeys(current: Secret(Array(repeating: 1, count: 32))))
    }

    /// Appends a thread, and stores, reads and deletes a sign-in.
    private func use(_ address: String, _ options: ChappiePostgresDatabase.Options = .init(migrates: false))
        async throws
    {
        let database = try ChappiePostgresDatabase(connectionString: address, options: options)
        let threads = try database.threads(of: "one")
        try await threads.begin("thread", at: .now)
        #expect(try await threads.summaries().count == 1)
        #expect(try await threads.search(ChappieThreadQuery("words")).count == 1)
        try await threads.delete("thread")
        let (signIns, slot) = (try Self.signIns(database), CredentialSlot(service: "chat", account: "one"))
        try await signIns.save(Secret("tokens"), in: slot)
        #expect(try await signIns.load(slot) == Secret("tokens"))
        try await signIns.delete(slot)
        await database.close()
    }

    @Test func `a service without CREATE works after the owner's migration, and can't do more`() async throws {
        try await server.makeDatabase("granted")
        try await makeRole("chat_service")
        let service = address(of: "granted", as: "chat_service")
        try await ChappiePostgresMigration.run(
            connectionString: server.address(of: "granted"), granting: ["chat_service"], parts: Self.parts)
        try await use(service)
        // The default creates nothing that exists.
        try await use(service, .init())

        let address = try #require(PostgresAddress(service))
        for statement in [
            "DROP TABLE chappie.threads", "DROP SCHEMA chappie CASCADE", "TRUNCATE chappie.threads CASCADE",
            "ALTER TABLE chappie.threads DISABLE ROW LEVEL SECURITY", "CREATE TABLE chappie.own (number bigint)",
            "CREATE TABLE public.own (number bigint)", "CREATE SCHEMA own", "UPDATE chappie.format SET version = 9",
            "DELETE FROM chappie.credentials_format", "SELECT rolname FROM pg_authid", "SET ROLE app",
        ] {
            let worker = PostgresWorker { interruption throws(PostgresFailure) in
                try PostgresConnection.open(address, within: Patience.limit, for: interruption)
            }
            let error = await #expect(throws: PostgresFailure.self, "\(statement)") {
                try await worker.run { connection throws(PostgresFailure) in
                    _ = try connection.run([PostgresStatement(statement)], within: Patience.limit)
                }
            }
            guard case .refused(.unavailable(let words)) = error else {
                Issue.record("\(statement): \(String(describing: error))")
                continue
            }
            // Insufficient privilege.
            #expect(words.hasSuffix("(42501)"), "\(statement): \(words)")
        }
        #expect(
            try await server.sql("SELECT max(version) FROM chappie.format", in: "granted")
                == "\(ChappiePostgresPart.threads.version)")
    }

    @Test func `without migrations, missing and older tables are an error with advice`() async throws {
        try await server.makeDatabase("unmigrated")
        let database = try ChappiePostgresDatabase(
            connectionString: server.address(of: "unmigrated"), options: .init(migrates: false))
        let schema = database.schema(of: .threads)
        func refused() async -> ChappiePostgresError? {
            await #expect(throws: ChappiePostgresError.self) {
                try await database.performCare(schema) { connection, _ throws(PostgresFailure) in
                    _ = try schema.read([], on: connection)
                }
            }
        }
        let missing = await refused()
        #expect(missing == .outdated("relation \"chappie.format\" does not exist (42P01)"))
        #expect(missing?.recoverySuggestion == "Run the migration as the owner of the tables.")
        #expect(database.state.lastFailure?.error == missing)
        await #expect(throws: ChappieThreadStoreError.self) { try await database.threads(of: "one").summaries() }
        #expect(try await server.sql("SELECT to_regnamespace('chappie') IS NULL", in: "unmigrated") == "t")

        try await ChappiePostgresMigration.run(connectionString: server.address(of: "unmigrated"), parts: [.threads])
        _ = try await database.threads(of: "one").summaries()
        #expect(try await server.sql("SELECT to_regclass('chappie.credentials') IS NULL", in: "unmigrated") == "t")

        try await server.sql("UPDATE chappie.format SET version = 0", in: "unmigrated")
        #expect(await refused() == .outdated("the tables are of version 0"))
        #expect(try await database.ping(of: [.threads], within: Patience.limit).versions == [.threads: 0])
    }

    @Test func `migrations at the same time end in one result`() async throws {
        try await server.makeDatabase("together")
        try await makeRole("together_service")
        let owner = server.address(of: "together")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 {
                group.addTask {
                    try await ChappiePostgresMigration.run(
                        connectionString: owner, granting: ["together_service"], parts: Self.parts)
                }
            }
            try await group.waitForAll()
        }
        let versions = "SELECT (SELECT count(*) FROM chappie.format), (SELECT count(*) FROM chappie.credentials_format)"
        #expect(try await server.sql(versions, in: "together") == "1|1")
        try await use(address(of: "together", as: "together_service"))
    }

    @Test func `a migration refuses newer tables and a role that does not exist`() async throws {
        try await server.makeDatabase("refused")
        let owner = server.address(of: "refused")
        let error = await #expect(throws: ChappiePostgresError.self) {
            try await ChappiePostgresMigration.run(
                connectionString: owner, granting: ["nobody_here"], parts: Self.parts)
        }
        #expect(error == .unavailable("role \"nobody_here\" does not exist (42704)"))
        #expect(try await server.sql("SELECT to_regnamespace('chappie') IS NULL", in: "refused") == "t")

        try await ChappiePostgresMigration.run(connectionString: owner, parts: [.threads])
        try await server.sql("UPDATE chappie.format SET version = 9", in: "refused")
        await #expect(
            throws: ChappiePostgresError.tooNew(found: 9, known: ChappiePostgresPart.threads.version)
        ) { try await ChappiePostgresMigration.run(connectionString: owner, parts: [.threads]) }
    }

    @Test func `an administrator can run the statements in place of the migration`() async throws {
        try await server.makeDatabase("printed")
        try await makeRole("\"Odd \"\"role\"")
        let schema = "an \"odd\" name's"
        let text = ChappiePostgresMigration.statements(
            schema: schema, granting: ["Odd \"role"], parts: Self.parts)
        // As the owner, twice: the second time changes nothing.
        for _ in 0..<2 { try await server.sql("SET ROLE \(PostgresServer.role);\n" + text, in: "printed") }
        try await use(
            address(of: "printed", as: "Odd%20%22role"), .init(schema: schema, migrates: false))
        #expect(
            try await server.sql("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'an %'", in: "printed") == "1")
    }
}

extension ChappieThreadStore {
    /// Begins a thread with one record.
    func begin(_ thread: String, at date: Date, text: String = "some words") async throws {
        let record = ChappieThreadRecord(
            position: 0, kind: .turnStarted, date: date,
            body: ["messages": [["role": "user", "content": [["type": "input_text", "text": .string(text)]]]]])
        let summary = try #require(ChappieThreadSummary(id: thread, records: [record]))
        try await append([record], to: summary, at: 0)
    }
}
