import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieCredentialsPostgres
import ChappieCrypto
import ChappieSDK
import ChappieSimulatorServer
import ChappieTesting
import Dispatch
import FoundationEssentials
import Glibc
import TestFixtures
import Testing

/// The store with a real server.
@Suite(.postgres, .enabled(if: PostgresServer.program.isUsable, "PostgreSQL 15 is not installed here"))
struct PostgresCredentialStoreTests {
    private let server: PostgresServer
    private let slot = CredentialSlot(service: "com.example.server", account: "\(UUID())")

    init() throws { server = try #require(PostgresServer.current) }

    private static func key(_ byte: UInt8) -> Secret { Secret(Array(repeating: byte, count: 32)) }
    private static let keys = [key(1), key(2)]

    private func database(_ name: String = "shared", port: Int? = nil) throws -> ChappiePostgresDatabase {
        try ChappiePostgresDatabase(connectionString: server.address(of: name, port: port))
    }

    private func store(
        in name: String = "shared", port: Int? = nil, _ keys: [Secret] = [key(1)],
        leases: LeaseTimes = .init(), changesWithin interval: Duration = .milliseconds(100)
    ) throws -> ChappiePostgresCredentialStore {
        ChappiePostgresCredentialStore(
            try database(name, port: port),
            try ChappieSealingKeys(current: keys[0], earlier: Array(keys.dropFirst())), changesWithin: interval, leases)
    }

    // MARK: The contracts

    @Test(arguments: CredentialStoreContract.cases)
    func keepsTheContract(_ contractCase: CredentialStoreContract.Case) async throws {
        try await contractCase.run(store())
    }

    @Test func `it keeps the contract of shared stores`() async throws {
        try await server.makeDatabase("contract")
        for contractCase in SharedCredentialStoreContract.cases {
            try await contractCase.run { try store(in: "contract") }
        }
    }

    @Test func `it keeps the contract of leases that end`() async throws {
        try await server.makeDatabase("leases")
        let times = LeaseTimes(atFirst: .milliseconds(300), forRequest: .milliseconds(300), afterSave: .zero)
        for contractCase in SharedCredentialStoreContract.leaseCases {
            try await contractCase.run { try store(in: "leases", leases: times) }
        }
    }

    @Test(.enabled(if: PgBouncer.program.isUsable, "pgbouncer is not installed here"))
    func `it keeps both contracts through a pooler that shares connections between transactions`() async throws {
        try await server.makeDatabase("pooled")
        let bouncer = try await PgBouncer(before: server)
        defer { bouncer.end() }
        for contractCase in CredentialStoreContract.cases {
            try await contractCase.run(store(in: "pooled", port: bouncer.port))
        }
        for contractCase in SharedCredentialStoreContract.cases {
            try await contractCase.run { try store(in: "pooled", port: bouncer.port) }
        }
    }

    // MARK: Encryption

    @Test func `what the database stores has no part of the credential`() async throws {
        try await server.makeDatabase("sealed")
        let store = try store(in: "sealed")
        let token = "refresh-token-that-nobody-may-see"
        try await store.save(Secret(token), in: slot)
        store.notes.setNote(Array("note-that-nobody-may-see".utf8), for: slot)
        #expect(try await server.sql("SELECT count(*) FROM chappie.credentials", in: "sealed") == "1")
        try await server.sql("CHECKPOINT")
        let shell = SystemProgram("sh", packages: "dash")
        let search = "grep -rla \"$1\" \(server.dataDirectory) | wc -l"
        #expect(try await shell.run(["-c", search, "sh", "nobody-may-see"]) == "0\n")
        #expect(try await shell.run(["-c", search, "sh", slot.account]) != "0\n")
        #expect(store.notes.note(for: slot) == Array("note-that-nobody-may-see".utf8))
    }

    @Test(arguments: [
        "set_byte(sealed, 0, 0)", "set_byte(sealed, 20, get_byte(sealed, 20) # 1)", "substr(sealed, 1, 20)",
        "''::bytea",
    ])
    func `a row that was changed is an error, and stays`(_ change: String) async throws {
        let name = "changed_\(UUID().uuidString.prefix(8).lowercased())"
        try await server.makeDatabase(name)
        let store = try store(in: name)
        try await store.save(Secret("a credential"), in: slot)
        try await server.sql("UPDATE chappie.credentials SET sealed = \(change)", in: name)
        await #expect(throws: CredentialStoreError.corrupt("it was changed, or it belongs to another user")) {
            _ = try await store.load(slot)
        }
        #expect(try await server.sql("SELECT sealed = \(change) OR true FROM chappie.credentials", in: name) == "t")
    }

    @Test func `a row that was copied to another user does not open`() async throws {
        try await server.makeDatabase("copied")
        let store = try store(in: "copied")
        try await store.save(Secret("a credential"), in: slot)
        try await server.sql("UPDATE chappie.credentials SET account = 'other'", in: "copied")
        await #expect(throws: CredentialStoreError.self) {
            _ = try await store.load(CredentialSlot(service: slot.service, account: "other"))
        }
    }

    @Test func `a key that is missing is named by its number, and nothing is lost`() async throws {
        let one = try store()
        try await one.save(Secret("a credential"), in: slot)
        let two = try store([Self.key(2)])
        let error = await #expect(throws: CredentialStoreError.self) { _ = try await two.load(slot) }
        #expect("\(try #require(error))".contains("which this program does not have"))
        #expect(try await one.load(slot) == Secret("a credential"))
    }

    @Test func `a change of the key beside renewals loses nothing`() async throws {
        try await server.makeDatabase("rotated")
        let old = try store(in: "rotated", [Self.key(1), Self.key(2)])
        let slots = (0..<40).map { CredentialSlot(service: "com.example.server", account: "user-\($0)") }
        for slot in slots { try await old.save(Secret("first of \(slot.account)"), in: slot) }
        let new = try store(in: "rotated", [Self.key(2), Self.key(1)])
        #expect(try await new.countSealedWithEarlierKeys() == 40)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    // The machines have both orders of the keys, as during a restart of one after the other.
                    let machine = try store(
                        in: "rotated", number < 2 ? [Self.key(1), Self.key(2)] : [Self.key(2), Self.key(1)])
                    for slot in slots[number * 10..<number * 10 + 10] {
                        let hold = try await machine.lock.acquire(slot, within: .seconds(10))
                        try await machine.prepareToSave(in: slot)
                        try await machine.save(Secret("second of \(slot.account)"), in: slot)
                        withExtendedLifetime(hold) {}
                    }
                }
            }
            group.addTask { while try await new.reseal(limit: 7) > 0 {} }
            try await group.waitForAll()
        }
        while try await new.reseal() > 0 {}
        #expect(try await new.countSealedWithEarlierKeys() == 0)
        let last = try store(in: "rotated", [Self.key(2)])
        for slot in slots { #expect(try await last.load(slot) == Secret("second of \(slot.account)")) }
    }

    @Test func `a row that does not open keeps no other from a new key`() async throws {
        try await server.makeDatabase("partly")
        let old = try store(in: "partly", [Self.key(1)])
        for number in 0..<5 {
            let slot = CredentialSlot(service: "com.example.server", account: "user-\(number)")
            try await old.save(Secret("a credential"), in: slot)
        }
        try await server.sql("UPDATE chappie.credentials SET sealed = '' WHERE account = 'user-2'", in: "partly")
        let new = try store(in: "partly", [Self.key(2), Self.key(1)])
        #expect(try await new.reseal() == 4)
        let error = await #expect(throws: CredentialStoreError.self) { try await new.reseal() }
        #expect(error?.errorDescription?.contains("user-2") == true)
        #expect(try await new.countSealedWithEarlierKeys() == 1)
    }

    // MARK: Rows

    @Test func `processes that begin at the same time make the tables once`() async throws {
        try await server.makeDatabase("begun")
        let slot = slot
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 {
                group.addTask { _ = try await store(in: "begun").load(slot) }
            }
            try await group.waitForAll()
        }
        #expect(try await server.sql("SELECT version FROM chappie.credentials_format", in: "begun") == "1")
    }

    @Test func `tables of a newer version are refused`() async throws {
        try await server.makeDatabase("newer")
        let store = try store(in: "newer")
        try await store.save(Secret("a credential"), in: slot)
        try await server.sql("UPDATE chappie.credentials_format SET version = 99", in: "newer")
        await #expect(throws: CredentialStoreError.tooNew("The table of sign-ins", found: 99, known: 1)) {
            try await store.save(Secret("new"), in: slot)
        }
    }

    @Test func `a role that may only read is found before the user is asked for anything`() async throws {
        try await server.makeDatabase("readable")
        let store = try store(in: "readable")
        try await store.prepareToSave(in: slot)
        try await server.sql("REVOKE UPDATE ON chappie.credentials FROM \(PostgresServer.role)", in: "readable")
        let error = await #expect(throws: CredentialStoreError.self) { try await store.prepareToSave(in: slot) }
        #expect("\(try #require(error))".contains("may not change"))
    }

    @Test func `the plan route is refused with a sentence`() async throws {
        let slot = ChappieConfiguration(
            keychainService: "com.example.server", keychainAccount: "one",
            endpoints: .continueWithChatGPT(appName: "A service")
        ).credentialSlot
        let store = try store()
        for call in [
            { _ = try await store.load(slot) }, { try await store.prepareToSave(in: slot) },
            { try await store.save(Secret("a credential"), in: slot) },
            { _ = try await store.lock.acquire(slot, within: .seconds(1)) },
        ] as [() async throws -> Void] {
            let error = await #expect(throws: CredentialStoreError.self) { try await call() }
            #expect(try #require(error).errorDescription?.contains("its user's own machine") == true)
        }
        try await store.delete(slot)
    }

    // MARK: Changes on other machines

    @Test func `marks need no database once they are known`() async throws {
        try await PostgresServer.lent { server in
            try await server.makeDatabase("marks")
            let database = try ChappiePostgresDatabase(connectionString: server.address(of: "marks"))
            let store = database.credentials(sealedWith: try ChappieSealingKeys(current: Self.key(1)))
            try await store.save(Secret("a credential"), in: slot)
            let slot = slot
            let mark = await onAThread { store.notes.changeMark(for: slot) }
            #expect(mark != nil)
            try await server.end()
            #expect(await onAThread { store.notes.changeMark(for: slot) } == mark)
        }
    }

    @Test func `a sign-out on one machine ends the requests of another within two seconds`() async throws {
        let simulator = try await Simulator.start(
            SimulatorConfiguration(autoApprove: true, pollInterval: 0, recordedRequestLimit: 4096))
        let configuration = ChappieConfiguration(
            keychainService: "com.example.server", keychainAccount: slot.account,
            endpoints: ChappieEndpoints(
                issuer: simulator.issuer, backend: simulator.issuer.appending(path: "backend-api")))
        let stores = try (0..<2).map { _ in ChappieCredentialStorage.custom(try store(changesWithin: .seconds(1))) }
        let session = await Chappie.loadedAuthSession(configuration: configuration, store: stores[0])
        try await session.signIn { _ in }
        let client = Chappie.client(
            configuration: configuration, store: stores[1], streamingTransportPolicy: .httpSSEOnly)
        #expect(try await client.send("reply: here") == "here")
        await session.signOut()
        await session.finishPendingWork()
        let end = ContinuousClock.now + .seconds(2)
        var refusal: (any Error)?
        while refusal == nil, ContinuousClock.now < end {
            do {
                _ = try await client.send("reply: here")
            } catch {
                refusal = error
            }
        }
        let count = simulator.receivedRequests.count
        await #expect(throws: ChappieClientError.missingCredential) { _ = try await client.send("reply: here") }
        #expect(refusal as? ChappieClientError == .missingCredential)
        #expect(simulator.receivedRequests.count == count)
        await simulator.stop()
    }

    private func onAThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { result in
            DispatchQueue.global().async { result.resume(returning: work()) }
        }
    }
}
