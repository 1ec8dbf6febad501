import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import Glibc
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieFiles

@Suite struct FileRegistrationStoreTests {
    private let folder: TemporaryDirectory
    private let slot = CredentialSlot(account: "ada", issuer: "https://auth.example")
    private let registration = ChappieClientRegistration(
        clientID: "oaiapp_1", subject: "user-1", email: "ada@example.com", appName: "Notes 📝")

    init() throws { folder = try TemporaryDirectory() }

    private var directory: String { folder.path("state/registrations") }
    private var file: String { "\(directory)/registrations.json" }
    private var store: FileRegistrationStore { FileRegistrationStore(directory: directory) }

    /// Puts a file there that only its owner can open.
    private func put(_ text: String) throws {
        PrivateFile.makeFolder(of: file)
        try PrivateFile.replace(file, with: Array(text.utf8))
    }

    private var text: String { get throws { try String(contentsOfFile: file, encoding: .utf8) } }

    @Test(arguments: RegistrationStoreContract.cases)
    func theFileAndTheFakeKeepTheContract(_ demand: RegistrationStoreContract.Case) async throws {
        try await demand.run(store)
        try await demand.run(InMemoryRegistrationStore())
    }

    // MARK: Registrations

    @Test func aRegistrationIsReadByAnotherStore() async throws {
        #expect(try await store.registration(for: slot) == nil)
        try await store.save(registration, for: slot)
        #expect(try await store.registration(for: slot) == registration)
        let later = ChappieClientRegistration(clientID: "oaiapp_2", appName: "Notes")
        try await store.save(later, for: slot)
        #expect(try await store.registration(for: slot) == later)
    }

    @Test func `registrations that are saved at the same time are all kept`() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                let store = store
                group.addTask {
                    try await store.save(
                        ChappieClientRegistration(clientID: "id-\(number)", appName: "Notes"),
                        for: CredentialSlot(account: "\(number)"))
                }
            }
            try await group.waitForAll()
        }
        for number in 0..<20 {
            #expect(try await store.registration(for: CredentialSlot(account: "\(number)"))?.clientID == "id-\(number)")
        }
    }

    @Test(arguments: [
        ChappieClientRegistration(clientID: "", appName: "Notes"),
        ChappieClientRegistration(clientID: "a b", appName: "Notes"),
        ChappieClientRegistration(clientID: String(repeating: "a", count: 201), appName: "Notes"),
        ChappieClientRegistration(clientID: "a", email: String(repeating: "a", count: 5000), appName: "Notes"),
    ])
    func aRegistrationThatCouldNotBeReadAgainIsNotSaved(wrong: ChappieClientRegistration) async throws {
        try await store.save(registration, for: slot)
        await refusal("failed", saying: "can't be kept") { try await store.save(wrong, for: slot) }
        #expect(try await store.registration(for: slot) == registration)
    }

    @Test func theFileIsForItsOwnerAloneAndHasNoSecret() async throws {
        try await store.save(registration, for: slot)
        let id = try await store.hostID()
        for (place, mode) in [(file, mode_t(0o600)), (directory, 0o700)] {
            var facts = stat()
            #expect(stat(place, &facts) == 0 && facts.st_mode & 0o777 == mode)
        }
        #expect(
            json(try text) == [
                "version": 1,
                "host_id": .string(id),
                "registrations": [
                    [
                        "service": "com.chappie.sdk", "account": "ada", "issuer": "https://auth.example",
                        "client_id": "oaiapp_1", "app_name": "Notes 📝", "subject": "user-1",
                        "email": "ada@example.com",
                    ]
                ],
            ])
    }

    @Test func membersOfALaterVersionStay() async throws {
        let id = "urn:uuid:8f14e45f-ceea-467f-a0e6-8b2c3f1d9a77"
        try put(
            """
            {"later":[1],"version":1,"host_id":"\(id)","registrations":[{"service":"com.chappie.sdk","account":"ada",
            "issuer":"https://auth.example","client_id":"old","app_name":"Notes","later":{"a":2}}]}
            """)
        try await store.save(registration, for: slot)
        #expect(try await store.registration(for: slot) == registration)
        #expect(try await store.hostID() == id)
        #expect(json(try text)["later"] == [1])
        #expect(json(try text)["registrations"]?[0]?["later"] == ["a": 2])
    }

    @Test func `a file of a newer version is refused and stays unchanged`() async throws {
        let newer = #"{"version":2,"registrations":{}}"#
        try put(newer)
        let error = CredentialStoreError.tooNew(file, found: 2, known: 1)
        await #expect(throws: error) { try await store.registration(for: slot) }
        await #expect(throws: error) { try await store.save(registration, for: slot) }
        await #expect(throws: error) { try await store.hostID() }
        #expect(try text == newer)
    }

    // MARK: The id of the machine

    @Test func theHostIDIsOfOneFolder() async throws {
        let id = try await store.hostID()
        #expect(try await store.hostID() == id)
        #expect(try await FileRegistrationStore(directory: folder.path("other")).hostID() != id)
    }

    @Test func storesThatAskAtOnceGetTheSameHostID() async throws {
        let ids = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<20 {
                let store = store
                group.addTask { try await store.hostID() }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(ids.count == 1)
    }

    /// Another process holds the lock and has not written its id when this one asks.
    @Test func `two processes that ask at the same time get the same host ID`() async throws {
        // Makes the lock's file, whose name is a digest.
        _ = try await store.hostID()
        let names = try FileManager.default.contentsOfDirectory(atPath: directory)
        let lock = try #require(names.first { $0.hasSuffix(".lock") })
        PrivateFile.remove(file)
        let id = "urn:uuid:8f14e45f-ceea-467f-a0e6-8b2c3f1d9a77"
        try put(#"{"version":1,"host_id":"\#(id)"}"#)
        #expect(rename(file, file + ".theirs") == 0)
        let script = "echo locked; read -r line; mv \(file).theirs \(file)"
        let other = try SystemProgram("flock", packages: "util-linux").start(
            ["--no-fork", "\(directory)/\(lock)", "sh", "-c", script], input: .held, output: .pipe, errors: .inherited)
        #expect(try await onOwnThread { other.output?.line() } == "locked")
        let store = store
        let ours = Task { try await store.hostID() }
        // It has looked for the file, or waits for the lock: either way the other process is first.
        other.endInput()
        #expect(try await ours.value == id)
        #expect(try await onOwnThread { other.wait() } == 0)
    }

    @Test func `a lock that another process keeps is reported as the reason`() async throws {
        let hold = try await FileCredentialLock(directory: directory).acquire(
            CredentialSlot(service: "com.chappie.registrations"), within: .zero)
        let hasty = FileRegistrationStore(directory: directory, lockLimit: .milliseconds(20))
        await #expect(throws: CredentialStoreError.busy(.milliseconds(20))) { try await hasty.hostID() }
        withExtendedLifetime(hold) {}
    }

    // MARK: What may be there

    @Test(arguments: [
        "", "{", "[]", "null", "{}", #"{"version":0}"#, #"{"version":"1"}"#, #"{"version":1,"host_id":7}"#,
        #"{"version":1,"host_id":"8f14e45f-ceea-467f-a0e6-8b2c3f1d9a77"}"#, #"{"version":1,"host_id":"urn:uuid:x"}"#,
        #"{"version":1,"registrations":{}}"#, #"{"version":1,"registrations":[7]}"#,
        #"{"version":1,"registrations":[{"service":"a","account":"b","app_name":"c"}]}"#,
        #"{"version":1,"registrations":[{"service":"a","account":"b","app_name":"c","client_id":"d e"}]}"#,
        #"{"version":1,"registrations":[{"service":"a","account":"b","app_name":"c","client_id":"d","email":7}]}"#,
        #"{"version":1,"registrations":[{"service":"a","account":"b","app_name":"c","client_id":"d","issuer":null}]}"#,
    ])
    func aDamagedFileIsAnErrorAndStaysAsItIs(content: String) async throws {
        try put(content)
        await refusal("unsafeFile", saying: file) { _ = try await store.registration(for: slot) }
        await refusal("unsafeFile", saying: file) { try await store.save(registration, for: slot) }
        await refusal("unsafeFile", saying: file) { _ = try await store.hostID() }
        #expect(try text == content)
    }

    @Test func aFileBeyondTheLimitIsNotRead() async throws {
        try put(#"{"version":1,"x":""# + String(repeating: "x", count: FileRegistrationStore.limit) + #""}"#)
        await refusal("unsafeFile", saying: "larger than 1 MiB") { _ = try await store.hostID() }
    }

    @Test func aFullFileTakesNoMoreAndLosesNothing() async throws {
        let full = #"{"version":1,"x":""# + String(repeating: "x", count: FileRegistrationStore.limit - 30) + #""}"#
        try put(full)
        await refusal("failed", saying: "no room") { try await store.save(registration, for: slot) }
        #expect(try text == full)
    }

    @Test func aFileThatOthersCanOpenIsRefused() async throws {
        try put(#"{"version":1}"#)
        chmod(file, 0o644)
        let error = await refusal("unsafeFile", saying: file) { _ = try await store.hostID() }
        #expect(error?.recoverySuggestion?.contains("chmod 600") == true)
    }

    @Test(.timeLimit(.minutes(1))) func aLinkAPipeAndAFolderAreRefused() async throws {
        try put(#"{"version":1}"#)
        #expect(rename(file, file + ".own") == 0)
        #expect(symlink(file + ".own", file) == 0)
        await refusal("unsafeFile") { _ = try await store.hostID() }
        unlink(file)
        #expect(mkfifo(file, 0o600) == 0)
        await refusal("unsafeFile") { _ = try await store.hostID() }
        unlink(file)
        #expect(mkdir(file, 0o700) == 0)
        await refusal("unsafeFile") { _ = try await store.hostID() }
    }

    @Test func withoutAHomeDirectoryEachCallSaysSo() async throws {
        for directory in [nil, "relative"] {
            let store = FileRegistrationStore(directory: directory)
            await refusal("unusableFolder", saying: "home directory") { _ = try await store.hostID() }
            await refusal("unusableFolder", saying: "home directory") { _ = try await store.registration(for: slot) }
            await refusal("unusableFolder", saying: "home directory") { try await store.save(registration, for: slot) }
        }
    }

    @Test func `the folder is next to the locks and not where credentials are`() async throws {
        let state = folder.path
        let store = FileRegistrationStore.userDefault {
            $0 == "XDG_STATE_HOME" ? state : nil
        }
        _ = try await store.hostID()
        #expect(FileManager.default.fileExists(atPath: "\(state)/chappie/registrations/registrations.json"))
    }
}
