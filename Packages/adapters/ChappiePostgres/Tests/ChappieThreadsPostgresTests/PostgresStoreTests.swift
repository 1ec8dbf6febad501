import ChappieCore
import ChappieRuntime
import ChappieTesting
import FoundationEssentials
import TestFixtures
import Testing

@testable import ChappiePostgres
@testable import ChappieThreadsPostgres

/// The store with a real server. The tests share a server, and a database on it unless they need a separate one.
@Suite(.postgres, .enabled(if: PostgresServer.program.isUsable, "PostgreSQL 15 is not installed here"))
struct PostgresStoreTests {
    static let shared = PostgresServer.sharedDatabase

    let server: PostgresServer
    let tenant = "\(UUID())"
    init() throws { server = try #require(PostgresServer.current) }

    func store(
        tenant: String? = nil, in database: String = shared, port: Int? = nil,
        _ options: ChappiePostgresThreadStore.Options = .init()
    ) throws -> ChappiePostgresThreadStore {
        try ChappiePostgresThreadStore(
            connectionString: server.address(of: database, port: port), tenant: tenant ?? self.tenant, options: options)
    }

    /// A connection of the ordinary role, for SQL of the test's own.
    func rawConnection(to database: String = shared, port: Int? = nil) throws -> PostgresWorker {
        let address = try #require(PostgresAddress(server.address(of: database, port: port)))
        return PostgresWorker { interruption throws(PostgresFailure) in
            try PostgresConnection.open(address, within: Patience.limit, for: interruption)
        }
    }

    // MARK: The contract of every store

    @Test(arguments: ThreadStoreContract.cases)
    func keepsTheContract(_ contractCase: ThreadStoreContract.Case) async throws {
        try await contractCase.run(store())
    }

    @Test func `two stores that write one thread lose and duplicate nothing`() async throws {
        let stores = try [store(), store()]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, store) in stores.enumerated() {
                group.addTask {
                    var position = 0
                    for count in 0..<25 {
                        var isWritten = false
                        while !isWritten {
                            do {
                                try await store.say(["\(number) \(count)"], in: "thread", at: position)
                                position += 1
                                isWritten = true
                            } catch ChappieThreadStoreError.conflict(_, _, let actual) { position = actual }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let texts = try await stores[0].texts(in: "thread")
        #expect(texts.count == 50)
        for number in 0..<2 {
            #expect(texts.filter { $0.hasPrefix("\(number)") } == (0..<25).map { "\(number) \($0)" })
        }
    }

    // MARK: Connections

    @Test func `the tenants of a database share its connections, and idle ones close`() async throws {
        let name = "pool-\(UUID().uuidString.prefix(8))"
        let address =
            server.address(of: Self.shared) + (server.address(of: Self.shared).contains("?") ? "&" : "?")
            + "application_name=\(name)"
        let database = try ChappiePostgresDatabase(
            connectionString: address, options: .init(connections: 3, idleTimeout: .milliseconds(300)))
        let raw = try rawConnection()
        func connections() async throws -> Int {
            try await raw.run { connection throws(PostgresFailure) in
                try connection.run(
                    [.init("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", [.text(name)])],
                    within: Patience.limit)[0].integer(0, 0)
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                group.addTask {
                    let store = try database.threads(of: "tenant \(number) \(name)")
                    try await store.say(["words of \(number)"], in: "thread", at: 0)
                }
            }
            try await group.waitForAll()
        }
        #expect(try await connections() <= 3)
        #expect(try await eventually { try await connections() == 0 })
        for number in [0, 39] {
            let store = try database.threads(of: "tenant \(number) \(name)")
            #expect(try await store.texts(in: "thread") == ["words of \(number)"])
            #expect(try await store.usage().threads == 1)
        }
        #expect(throws: ChappieThreadStoreError.unavailable("the tenant has no name")) { try database.threads(of: "") }
    }

    // MARK: TLS

    @Test func `the store keeps the contract over TLS and verifies its server`() async throws {
        try await PostgresServer.lent(withTLS: true) { server in
            try await server.makeDatabase("sealed")
            func store(_ address: String) throws -> ChappiePostgresThreadStore {
                try ChappiePostgresThreadStore(connectionString: address, tenant: "\(UUID())")
            }
            let address = try server.verifyingAddress(of: "sealed")
            for contractCase in ThreadStoreContract.cases { try await contractCase.run(store(address)) }

            for (address, words) in try [
                (server.verifyingAddress(of: "sealed", trusting: server.strangeAuthority), "certificate verify failed"),
                (server.verifyingAddress(of: "sealed", trusting: "/nowhere"), "does not exist"),
                (server.verifyingAddress(of: "sealed", host: "other.invalid"), "does not match host name"),
                (server.address(of: "sealed"), "no encryption"),
            ] {
                let error = await refusal("unavailable", saying: words) { _ = try await store(address).summaries() }
                #expect(error.map { "\($0)".contains(PostgresServer.password) } == false)
            }
        }
    }

    // MARK: Tenants

    @Test func aTenantSeesAndChangesNothingOfAnothers() async throws {
        let own = try store()
        try await own.say(["private words"], in: "thread", at: 0)
        for options in [ChappiePostgresThreadStore.Options(), .init(allowsUnrestrictedRole: true)] {
            // The database separates nothing for a superuser. The statements themselves give it the same result.
            let address = options.allowsUnrestrictedRole ? superuserAddress : server.address(of: Self.shared)
            let other = try ChappiePostgresThreadStore(
                connectionString: address, tenant: "other-\(UUID())", options: options)
            #expect(try await other.summaries() == [])
            #expect(try await other.summary(of: "thread") == nil)
            #expect(try await other.search(ChappieThreadQuery("private")) == [])
            #expect(try await other.usage().threads == 0)
            await #expect(throws: ChappieThreadStoreError.notFound(thread: "thread")) {
                try await other.records(of: "thread", from: 0)
            }
            await #expect(throws: ChappieThreadStoreError.conflict(thread: "thread", expected: 1, actual: 0)) {
                try await other.say(["more"], in: "thread", at: 1)
            }
            try await other.delete("thread")
            try await other.say(["of the other"], in: "thread", at: 0)
            #expect(try await other.texts(in: "thread") == ["of the other"])
            #expect(try await other.search(ChappieThreadQuery("private")) == [])
        }
        #expect(try await own.texts(in: "thread") == ["private words"])
    }

    @Test func `the database separates tenants whatever is queried`() async throws {
        try await store().say(["private words", "more words"], in: "thread", at: 0)
        let raw = try rawConnection()
        func settings(_ tenant: String) -> [PostgresStatement] {
            [
                "BEGIN", .init("SELECT set_config('chappie.tenant', $1, true)", [.text(tenant)]),
                "SELECT set_config('chappie.query', '''words'':*', true)",
            ]
        }
        let counts: [PostgresStatement] = ["threads", "records", "words"].map {
            .init("SELECT count(*) FROM chappie.\($0)")
        }
        for (tenant, expected) in [("", [0, 0, 0]), ("other", [0, 0, 0]), (tenant, [1, 2, 2])] {
            let statements = settings(tenant) + counts + ["ROLLBACK"]
            let found = try await raw.run { connection throws(PostgresFailure) in
                let results = try connection.run(statements, within: Patience.limit)
                return [results[3].integer(0, 0), results[4].integer(0, 0), results[5].integer(0, 0)]
            }
            #expect(found == expected, "as \(tenant)")
        }
        let changes =
            settings("other") + [
                "UPDATE chappie.threads SET model = 'x'", "DELETE FROM chappie.records", "DELETE FROM chappie.threads",
                "COMMIT",
            ]
        let commands = try await raw.run { connection throws(PostgresFailure) in
            try connection.run(changes, within: Patience.limit)[3...].map(\.command)
        }
        #expect(commands == ["UPDATE 0", "DELETE 0", "DELETE 0", "COMMIT"])
        let intrusion =
            settings("other") + [
                .init(
                    "INSERT INTO chappie.records VALUES ($1, 'thread', 2, 'k', 0, gen_random_uuid(), 'x')",
                    [.text(tenant)])
            ]
        await #expect(throws: PostgresFailure.self) {
            try await raw.run { connection throws(PostgresFailure) in
                _ = try connection.run(intrusion, within: Patience.limit)
            }
        }
        #expect(try await store().texts(in: "thread") == ["private words", "more words"])
    }

    @Test func aRoleThatSecurityDoesNothingForIsRefused() async throws {
        let store = try ChappiePostgresThreadStore(connectionString: superuserAddress, tenant: tenant)
        await refusal("unsafeFile", saying: "row-level security does nothing") { _ = try await store.summaries() }
    }

    private var superuserAddress: String {
        "host=\(server.socketDirectory) port=\(server.port) user=\(PostgresServer.superuser) dbname=\(Self.shared)"
    }

    // MARK: Search, limits, damage

    @Test func `a search uses its index under row-level security`() async throws {
        try await server.makeDatabase("searched")
        try await store(in: "searched").say(["needle"], in: "thread", at: 0)
        // Many rows, so that the server has a reason; their bodies play no part.
        try await server.sql(
            """
            INSERT INTO chappie.words SELECT '\(tenant)', 'thread', number, 0, ('word' || number)::tsvector
            FROM generate_series(1, 5000) number
            """, in: "searched")
        try await server.sql("ANALYZE chappie.words", in: "searched")
        let raw = try rawConnection(to: "searched")
        let statements: [PostgresStatement] = [
            "BEGIN",
            .init("SELECT set_config('chappie.tenant', $1, true)", [.text(tenant)]),
            "SELECT set_config('chappie.query', '''needle'':*', true)",
            "EXPLAIN SELECT thread, position FROM chappie.words WHERE words @@ '''needle'':*'::tsquery", "ROLLBACK",
        ]
        let plan = try await raw.run { connection throws(PostgresFailure) in
            let plan = try connection.run(statements, within: Patience.limit)[3]
            return plan.rows.map { plan.text($0, 0) }.joined(separator: "\n")
        }
        #expect(plan.contains("Index Scan on words_words"), "\(plan)")
    }

    @Test func theBestRecordIsFoundFirst() async throws {
        let store = try store()
        try await store.say(["needle in much hay and straw and grass", "needle needle needle"], in: "often", at: 0)
        try await store.say(["one needle, and nothing else that matters at all"], in: "once", at: 0)
        let hits = try await store.search(ChappieThreadQuery("needle"))
        #expect(hits.map(\.thread.id) == ["often", "once"])
        #expect(hits.first?.position == 1)
    }

    @Test func `a record with more words than an index takes is stored completely`() async throws {
        let store = try store()
        let text = (0..<150_000).map { "word\($0)" }.joined(separator: " ")
        try await store.say([text], in: "thread", at: 0)
        #expect(try await store.texts(in: "thread") == [text])
        #expect(try await store.search(ChappieThreadQuery("word5000")).count == 1)
    }

    @Test func `a search has at most 1,000 words`() async throws {
        let store = try store()
        let text = (0..<1000).map { "word\($0)" }.joined(separator: " ")
        try await store.say([text], in: "thread", at: 0)
        for query in [text, "\"\(text)\""] {
            #expect(try await store.search(ChappieThreadQuery(query)).count == 1)
            await refusal("unavailable", saying: "at most 1,000 words") {
                _ = try await store.search(ChappieThreadQuery(query + String(repeating: " more", count: 49_000)))
            }
        }
    }

    @Test func `appends beyond the limit are refused and leave the existing records`() async throws {
        let store = try store(.init(limit: 2000))
        try await store.say(["first"], in: "thread", at: 0)
        let text = String(repeating: "w", count: 4000)
        await refusal("full") { try await store.say([text], in: "thread", at: 1) }
        await refusal("full") { try await store.say([text], in: "new", at: 0) }
        #expect(try await store.texts(in: "thread") == ["first"])
        let usage = try await store.usage()
        #expect(usage.threads == 1)
        #expect(usage.records == 1)
        #expect(usage.limit == 2000)
        #expect(usage.bytes < 2000)
    }

    @Test(arguments: [
        ("UPDATE chappie.records SET body = '{' WHERE position = 1", "record 1 can't be read"),
        ("DELETE FROM chappie.records WHERE position = 1", "record 1 is missing"),
        ("DELETE FROM chappie.records WHERE position = 2", "left with 3 records, and has 2"),
        ("UPDATE chappie.threads SET record_count = 2", "left with 2 records, and has 3"),
    ])
    func aThreadThatSomebodyChangedIsDamaged(change: String, words: String) async throws {
        let store = try store()
        try await store.say(["a", "b", "c"], in: "thread", at: 0)
        let condition = (change.contains("WHERE") ? " AND" : " WHERE") + " tenant = '\(tenant)'"
        try await server.sql(change + condition, in: Self.shared)
        await refusal("damaged", saying: words) {
            _ = try await store.records(of: "thread", from: 0)
        }
    }

    // MARK: Migrations

    @Test func `one of the stores that start at the same time creates the tables`() async throws {
        try await server.makeDatabase("starting")
        let stores = try (0..<6).map { _ in try store(in: "starting") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, store) in stores.enumerated() {
                group.addTask { try await store.say(["hello"], in: "thread-\(number)", at: 0) }
            }
            try await group.waitForAll()
        }
        #expect(try await server.sql("SELECT count(*), max(version) FROM chappie.format", in: "starting") == "1|2")
        #expect(try await stores[0].summaries().count == 6)

        let other = try store(in: "starting", .init(schema: "an \"odd\" name"))
        try await other.say(["hello"], in: "thread", at: 0)
        #expect(try await other.summaries().count == 1)
    }

    @Test func `a newer schema is refused even by a store that is connected`() async throws {
        try await server.makeDatabase("newer")
        let store = try store(in: "newer")
        try await store.say(["first"], in: "thread", at: 0)
        try await server.sql("UPDATE chappie.format SET version = 7", in: "newer")
        let refused = ChappieThreadStoreError.tooNew(found: 7, known: ChappiePostgresPart.threads.version)
        await #expect(throws: refused) { try await store.summaries() }
        await #expect(throws: refused) { try await store.delete("thread") }
        await #expect(throws: refused) { try await store.say(["second"], in: "thread", at: 1) }
        try await server.sql("UPDATE chappie.format SET version = 2", in: "newer")
        #expect(try await store.texts(in: "thread") == ["first"])
    }

    @Test func `tables without their version are damaged`() async throws {
        try await server.makeDatabase("unversioned")
        let store = try store(in: "unversioned")
        try await store.say(["first"], in: "thread", at: 0)
        try await server.sql("DELETE FROM chappie.format", in: "unversioned")
        let words = "the row with the version of the tables is missing"
        await refusal("damaged", saying: words) { _ = try await store.summaries() }
        await refusal("damaged", saying: words) { try await store.say(["second"], in: "new", at: 0) }
        await refusal("damaged", saying: words) { try await store.delete("thread") }
    }

    @Test func `a transaction is durable whatever the database's default is`() async throws {
        try await server.makeDatabase("hasty")
        try await server.sql("ALTER DATABASE hasty SET synchronous_commit = off")
        try await store(in: "hasty").say(["first"], in: "thread", at: 0)
        let schema = PostgresSchema(.threads, in: "chappie", tenant: tenant, limit: .seconds(30))
        let setting = try await rawConnection(to: "hasty").run { connection throws(PostgresFailure) in
            try schema.begin(["SELECT current_setting('synchronous_commit')"], on: connection)[2].text(0, 0)
        }
        #expect(setting == "on")
    }
}

extension ChappieThreadStore {
    /// Appends a record for each text.
    func say(_ texts: [String], in thread: String, at position: Int) async throws {
        let records = texts.enumerated().map { offset, text in
            ChappieThreadRecord(
                position: position + offset, kind: .turnStarted, date: Date(timeIntervalSince1970: 1_790_000_000),
                body: ["messages": [["role": "user", "content": [["type": "input_text", "text": .string(text)]]]]])
        }
        var summary = ChappieThreadSummary(id: thread, createdAt: records[0].date)
        for record in records { summary.add(record) }
        try await append(records, to: summary, at: position)
    }

    /// The texts of the records, in order.
    func texts(in thread: String) async throws -> [String] {
        try await records(of: thread, from: 0).compactMap(\.searchableText)
    }
}
