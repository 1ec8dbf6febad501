@_spi(ChappieInternals) import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieCrypto
import ChappieFiles
import ChappieRuntime
import ChappieSimulatorServer
import ChappieTesting
import ChappieThreadForms
import ChappieThreadsSQLite
import Foundation
import TestFixtures
import Testing

/// The files that a released version has written (Tests/Fixtures). `Tests/Acceptance/test_formats.py` reads them with the
/// program.
struct Release: Sendable, CustomTestStringConvertible {
    private static let fixtures = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures")
    /// The version that writes its own folder now, if `Tests/Acceptance/test_formats.py` asks for it.
    static let new = ProcessInfo.processInfo.environment["CHAPPIE_WRITE_FIXTURES"].map(Release.init(path:))
    static let all: [Release] =
        (try? FileManager.default.contentsOfDirectory(atPath: fixtures.path))?.sorted()
        .filter { $0.first?.isNumber == true }.map { Release(path: fixtures.path + "/" + $0) } ?? []

    let path: String
    var testDescription: String { URL(filePath: path).lastPathComponent }
    static let passphrase = Secret("correct horse battery staple")

    func data(_ name: String) throws -> Data { try Data(contentsOf: URL(filePath: path + "/" + name)) }

    func json(_ name: String) throws -> ChappieJSON { try ChappieJSON(parsing: Array(data(name))) }

    /// The files in a folder of threads that were exported as JSON. They state what the stores contain.
    func exports(in folder: String = "exports") throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path + "/" + folder).filter { $0.hasSuffix(".json") }
            .map { folder + "/" + $0 }
    }

    /// Returns the records of each thread.
    func records(in folders: String...) throws -> [String: ChappieJSON] {
        try folders.flatMap(exports).reduce(into: [:]) { records, name in
            let json = try json(name)
            records[try #require(json["id"]?.string)] = json["records"]
        }
    }

    /// Copies a folder to a place of a test, where only this user can open the files, as git does not keep that.
    func copy(_ name: String, to target: String) throws {
        try FileManager.default.copyItem(atPath: path + "/" + name, toPath: target)
        let files = try FileManager.default.subpathsOfDirectory(atPath: target)
        for file in files { try Self.setMode(0o600, of: target + "/" + file) }
        try Self.setMode(0o700, of: target)
    }

    private static func setMode(_ mode: Int, of path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }
}

extension ChappieThreadStore {
    /// The records of each thread as JSON.
    fileprivate var contents: [String: ChappieJSON] {
        get async throws {
            var contents: [String: ChappieJSON] = [:]
            for summary in try await summaries() {
                let thread = try await thread(summary.id)
                contents[thread.id] = .array(thread.records.map(ChappieThread.json(of:)))
            }
            return contents
        }
    }
}

@Suite(.timeLimit(.minutes(3))) struct FrozenFormatTests {
    private let folder: TemporaryDirectory
    private let simulator: InMemorySimulator

    init() throws {
        folder = try TemporaryDirectory()
        simulator = try InMemorySimulator(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
    }

    private func keys(in name: String, _ passphrase: Secret = Release.passphrase) throws -> EncryptedFileCredentialStore
    {
        try EncryptedFileCredentialStore(directory: folder.path(name), passphrase: FixedPassphrase(passphrase))
    }

    private func store(
        _ name: String, _ protection: ChappieFileThreadStoreStoragePolicy.FileProtection = .complete,
        keys: any CredentialStore
    ) -> ChappieFileThreadStore {
        ChappieFileThreadStore(
            directory: folder.path(name), storagePolicy: .init(fileProtection: protection), keys: keys)
    }

    private static func tool(_ handler: @escaping ChappieHostTool.Handler = { _ in "up" }) -> ChappieHostTool {
        ChappieHostTool(name: "lift", policy: .ask, handler: handler)
    }

    /// A client that has signed in to the simulator.
    private func client(approval: ChappieToolApprovalHandler? = nil) async throws -> ChappieClient {
        try await simulator.client(tools: [Self.tool()], approval: approval)
    }

    @Test func `each release has a folder`() { #expect(Release.all.first?.testDescription == "0.1.0") }

    // MARK: Threads

    @Test(arguments: Release.all) func `an encrypted store is read, searched and continued`(_ release: Release)
        async throws
    {
        try release.copy("sdk/encrypted", to: folder.path("encrypted"))
        try release.copy("sdk/keys", to: folder.path("keys"))
        let store = try store("encrypted", keys: keys(in: "keys"))
        try await checkStore(store, release.records(in: "exports", "sdk/exports"))
        // Only an app leaves a turn that waits for its user.
        let runtime = try await client().runtime(store: store)
        let waiting = try #require(try release.records(in: "sdk/exports").keys.first)
        let turn = try #require(try await runtime.openThread(waiting).resumableTurn)
        #expect(turn.status == .waitingForApproval)
        let call = try #require(turn.toolCalls.first)
        let response = try await runtime.resumeTurn(decisions: [call.id: .approved()])
        #expect(response.outputText.contains("up"))
    }

    @Test(arguments: Release.all) func `a store of plain text is read, searched and continued`(_ release: Release)
        async throws
    {
        try release.copy("sdk/plain", to: folder.path("plain"))
        let store = store("plain", .none, keys: InMemoryCredentialStore())
        try await checkStore(store, release.records(in: "exports", "sdk/exports"))
    }

    @Test(arguments: Release.all) func `a backup is restored and continued`(_ release: Release) async throws {
        let store = store("restored", keys: InMemoryCredentialStore())
        let restored = try await store.restore(from: release.path + "/threads.backup", passphrase: Release.passphrase)
        let expected = try release.records(in: "exports")
        #expect(Set(restored.threads[.added] ?? []) == Set(expected.keys) && restored.problems.isEmpty)
        try await checkStore(store, expected)
    }

    private func checkStore(_ store: ChappieFileThreadStore, _ expected: [String: ChappieJSON]) async throws {
        #expect(try await store.contents == expected)
        #expect(try await store.verify().isEmpty)
        // The title is of another record than the word.
        let hit = try #require(try await store.search(ChappieThreadQuery("nightingale")).first)
        #expect(hit.thread.title == "Birds" && hit.thread.turnCount > 1)
        let runtime = try await client().runtime(store: store)
        try await runtime.openThread(hit.thread.id)
        #expect(try await runtime.send("reply: a magpie") == "a magpie")
        let after = try await store.contents
        let (before, added) = (try #require(expected[hit.thread.id]?.array), try #require(after[hit.thread.id]?.array))
        #expect(Array(added.prefix(before.count)) == Array(before) && added.count > before.count)
        #expect(after.count == expected.count)
        #expect(try await store.search(ChappieThreadQuery("magpie")).map(\.thread.id) == [hit.thread.id])
    }

    @Test(arguments: Release.all) func `a store without its key is refused and stays unchanged`(_ release: Release)
        async throws
    {
        try release.copy("sdk/encrypted", to: folder.path("encrypted"))
        try release.copy("sdk/keys", to: folder.path("keys"))
        let path = folder.path("encrypted/threads.db")
        let before = try Data(contentsOf: URL(filePath: path))
        await refusal("wrongKey", saying: "not in the credential store") {
            _ = try await store("encrypted", keys: InMemoryCredentialStore()).summaries()
        }
        let wrong = try keys(in: "keys", Secret("wrong"))
        await refusal("locked", saying: "passphrase does not open") {
            _ = try await store("encrypted", keys: wrong).summaries()
        }
        await refusal("locked", saying: "not the passphrase") {
            _ = try await store("other", keys: InMemoryCredentialStore())
                .restore(from: release.path + "/threads.backup", passphrase: Secret("wrong"))
        }
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
    }

    @Test(arguments: Release.all) func `an export is read`(_ release: Release) async throws {
        let names = try release.exports()
        #expect(names.count > 3)
        for name in names {
            let json = try release.json(name)
            let thread = try ChappieThread(json: json)
            #expect(thread.json["records"] == json["records"] && thread.id == json["id"]?.string)
            #expect(thread.summary.title == json["title"]?.string && thread.summary.model == json["model"]?.string)
            // Lines say the same.
            let lines = try ChappieThreadImport(path: release.path + "/" + name + "l")
            #expect(lines.threads == [thread] && lines.leftOut.isEmpty)
        }
    }

    /// An older program keeps what it does not know, in every form and in a copy.
    @Test func `records and members of a later version are kept`() async throws {
        let date = Date(timeIntervalSince1970: 1_790_000_000)
        let message: ChappieJSON = [
            "type": "message", "role": "user", "later": [1],
            "content": [["type": "input_text", "text": "a question", "later": true], ["type": "input_smell"]],
        ]
        let kinds: [(String, ChappieJSON)] = [
            ("turn.started", ["turn": "t", "model": "m", "messages": [message], "later": ["a": 1]]),
            ("turn.pondered", ["turn": "t", "depth": 3]),
            ("turn.finished", ["turn": "t", "model": "m", "items": [], "output": [], "later": 1.5]),
            ("thread.coloured", ["colour": "blue"]),
        ]
        let records = kinds.enumerated().map { position, kind in
            ChappieThreadRecord(position: position, kind: .init(rawValue: kind.0), date: date, body: kind.1)
        }
        let thread = try ChappieThread(id: "later", records: records)
        #expect(thread.turns.map(\.status) == [.finished] && thread.summary.preview == "a question")
        let keys = InMemoryCredentialStore()
        let stores = [store("here", keys: keys), store("there", .none, keys: keys), store("restored", keys: keys)]
        try await stores[0].append(records, to: thread.summary, at: 0)
        let read = try await stores[0].thread("later")
        try await stores[1].append(read.records, to: read.summary, at: 0)
        try await stores[0].backup(to: folder.path("backup"), passphrase: Release.passphrase)
        _ = try await stores[2].restore(from: folder.path("backup"), passphrase: Release.passphrase)
        for store in stores { #expect(try await store.thread("later").records == records) }
        for format in [ChappieThreadFormat.json, .jsonl] {
            let file = try folder.write(format.text(of: read), to: "file." + format.rawValue)
            #expect(try ChappieThreadImport(path: file).threads.map(\.records) == [records])
        }
    }

    // MARK: Values that apps keep

    @Test(arguments: Release.all) func `a conversation is continued`(_ release: Release) async throws {
        let context = try JSONDecoder().decode(ChappieClientContext.self, from: release.data("sdk/context.json"))
        #expect(context.messages.map(\.text) == ["reply: to be kept", "to be kept"])
        try await expectSame(context, as: release.json("sdk/context.json"))
        let client = try await client()
        await client.resumeContext(context)
        #expect(try await client.send("reply: a second answer") == "a second answer")
        #expect(await client.context().items.starts(with: context.items))
        #expect(await client.context().sessionID == context.sessionID)
    }

    @Test(arguments: Release.all) func `a turn that waits for the user is resumed`(_ release: Release) async throws {
        let pending = try JSONDecoder().decode(ChappiePendingTurn.self, from: release.data("sdk/pending-turn.json"))
        try await expectSame(pending, as: release.json("sdk/pending-turn.json"))
        let call = try #require(pending.approvals.first)
        #expect(pending.approvals.count == 1 && call.call.name == "lift")
        let response = try await client().resume(pending, decisions: [call.id: .approved()])
        #expect(response.outputText.contains("up"))
    }

    /// Compares a value's JSON with that of a fixture. A later version may have more members.
    private func expectSame(_ value: some Encodable, as fixture: ChappieJSON) async throws {
        let json = try ChappieJSON(parsing: Array(JSONEncoder().encode(value)))
        for member in try #require(fixture.object).members { #expect(json[member.name] == member.value) }
    }

    @Test(arguments: Release.all) func `a credential file is read, and written again with all members`(
        _ release: Release
    ) async throws {
        try release.copy("home/data/chappie/credentials", to: folder.path("credentials"))
        let store = try keys(in: "credentials")
        let slot = ChappieConfiguration().credentialSlot
        let manager = CredentialManager(slot: slot, store: store, transport: simulator.transport)
        let session = await ChappieAuthSession(credentials: manager)
        #expect(await session.accountInfo?.email == "ada@example.com")
        let (stored, exported) = (try #require(try await store.load(slot)), try release.json("sign-in.json"))
        let document = try ChappieJSON(parsing: stored.withBytes(Array.init))
        #expect(document == exported)
        #expect(try await manager.exportCredential() == stored)
        #expect(simulator.transport.receivedRequests.isEmpty)
        // The same with members of a later version.
        var later = try #require(document.object)
        later["later"] = ["a": 1]
        try await store.save(Secret(ChappieJSON.object(later).serializedBytes()), in: slot)
        let other = CredentialManager(slot: slot, store: store, transport: simulator.transport)
        let kept = try ChappieJSON(parsing: await other.exportCredential().withBytes(Array.init))
        #expect(kept == .object(later))
    }

    @Test func `a sign-in and a key of a newer version are named and stay unchanged`() async throws {
        let keys = try keys(in: "keys")
        let slot = ChappieConfiguration().credentialSlot
        let newer = Secret(#"{"version":2,"tokens":[]}"#)
        try await keys.save(newer, in: slot)
        let manager = CredentialManager(slot: slot, store: keys, transport: simulator.transport)
        await refusal(
            "credentialStoreUnavailable",
            saying: "The stored sign-in was written by a newer version of this program (format 2, this version knows 1)"
        ) { _ = try await manager.exportCredential() }
        #expect(try await keys.load(slot) == newer)
        let store = store("store", keys: KeysOfLater(keys: keys))
        try await store.prepare()
        let file = try Data(contentsOf: URL(filePath: folder.path("store/threads.db")))
        let other = self.store("store", keys: KeysOfLater(keys: keys, areLater: true))
        await refusal("tooNew(found: 2, known: 1)", saying: "newer version") { _ = try await other.summaries() }
        await refusal("tooNew(found: 2, known: 1)") { _ = try await other.repair() }
        #expect(try Data(contentsOf: URL(filePath: folder.path("store/threads.db"))) == file)
    }

    @Test(arguments: Release.all) func `registrations are read`(_ release: Release) async throws {
        try release.copy("sdk/registrations", to: folder.path("registrations"))
        let store = FileRegistrationStore(directory: folder.path("registrations"))
        #expect(try await store.registration(for: Self.registrationSlot) == Self.registration)
        #expect(try await store.hostID() == release.json("sdk/registrations/registrations.json")["host_id"]?.string)
    }

    private static let registrationSlot = CredentialSlot(service: "com.example.notes", account: "ada")
    private static let registration = ChappieClientRegistration(
        clientID: "client-of-the-fixtures", subject: "user-simulated", email: "ada@example.com", appName: "Notes")

    // MARK: Writing

    /// Writes what an app keeps, from the exports of the program. `Tests/Acceptance/test_formats.py` runs this.
    @Test(.enabled(if: Release.new != nil)) func `the fixtures of this version are written`() async throws {
        let release = try #require(Release.new)
        let keys = try keys(in: "keys")
        let stores = [store("encrypted", keys: keys), store("plain", .none, keys: keys)]
        // A turn that waits for its user, which the program never leaves behind.
        let runtime = try await client(approval: { _ in .deferred }).runtime(store: stores[0])
        await refusal("approvalPending") { try await runtime.send(#"call lift {"high":true}"#) }
        let waiting = try await stores[0].thread(#require(stores[0].summaries().first).id)
        try await stores[1].append(waiting.records, to: waiting.summary, at: 0)
        for name in try release.exports() {
            let thread = try ChappieThread(json: release.json(name))
            for store in stores { try await store.append(thread.records, to: thread.summary, at: 0) }
        }
        for store in stores { await store.close() }
        let client = try await client(approval: { _ in .deferred })
        try await client.send("reply: to be kept")
        let context = await client.context()
        var pending: ChappiePendingTurn?
        do {
            try await client.send(#"call lift {"high":true}"#)
        } catch ChappieClientError.approvalPending(let turn) {
            pending = turn
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let target = release.path + "/sdk"
        try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: true)
        for name in ["encrypted", "plain", "keys"] {
            try FileManager.default.copyItem(atPath: folder.path(name), toPath: target + "/" + name)
        }
        try FileManager.default.createDirectory(atPath: target + "/exports", withIntermediateDirectories: true)
        try Data(ChappieThreadFormat.json.text(of: waiting).utf8).write(
            to: URL(filePath: target + "/exports/\(waiting.id).json"))
        let registrations = FileRegistrationStore(directory: target + "/registrations")
        try await registrations.save(Self.registration, for: Self.registrationSlot)
        _ = try await registrations.hostID()
        try encoder.encode(context).write(to: URL(filePath: target + "/context.json"))
        try encoder.encode(#require(pending)).write(to: URL(filePath: target + "/pending-turn.json"))
    }
}

/// A credential store whose entries seem to be of a later version.
private struct KeysOfLater: CredentialStore {
    let keys: any CredentialStore
    var areLater = false

    func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try await areLater ? Secret(#"{"version":2,"key":"x"}"#) : keys.load(slot)
    }

    func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await keys.save(secret, in: slot)
    }

    func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { try await keys.delete(slot) }
}
