import ChappieAuth
import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import Foundation
import HTTPTypes
import InMemoryLogging
import Logging
import Synchronization
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieSDK

/// `store:`, `logger:` and `middleware:` of the front door.
@MainActor
@Suite(.timeLimit(.minutes(2))) struct StorageTests {
    /// A slot of this test's own.
    private let configuration = ChappieConfiguration(keychainAccount: "\(UUID())")

    // MARK: Shared credentials

    private struct Vault: CredentialStore, Hashable {
        let name: String

        func load(_ slot: CredentialSlot) -> Secret? { nil }
        func save(_ secret: Secret, in slot: CredentialSlot) {}
        func delete(_ slot: CredentialSlot) {}
    }

    @Test func `one configuration and one store share a credential`() {
        let composition = PlatformComposition()
        let (asking, object) = (ChappiePassphrase.asking { _ in nil }, InMemoryCredentialStore())
        let stores: [() -> ChappieCredentialStorage] = [
            { .keyring }, { .memory }, { .custom(object) },
            { .custom(Vault(name: "a")) }, { .custom(Vault(name: "b")) }, { .custom(InMemoryCredentialStore()) },
            { .encryptedFile(passphrase: .environment) },
            { .encryptedFile(passphrase: .environment, directory: "/elsewhere") },
            { .encryptedFile(passphrase: .file("/a")) },
            { .encryptedFile(passphrase: "open sesame") },
            { .encryptedFile(passphrase: "close sesame") },
            { .encryptedFile(passphrase: asking) },
            { .encryptedFile { "asked for by another closure each time" } },
        ]
        let isOneEachTime = [5, 12]
        let managers = stores.map { composition.credentials(for: configuration, in: $0()) }
        for (index, store) in stores.enumerated() {
            let again = composition.credentials(for: configuration, in: store())
            #expect((again === managers[index]) != isOneEachTime.contains(index), "store \(index)")
        }
        #expect(Set(managers.map(ObjectIdentifier.init)).count == stores.count)
        // A keyring that may ask the user is no other keyring.
        let asksUser = ChappieCredentialStorage.keyring(unlocking: .promptAllowed)
        #expect(composition.credentials(for: configuration, in: asksUser) === managers[0])
    }

    @Test func aStoreThatNoClientUsesAnyMoreIsLetGoOf() {
        let composition = PlatformComposition()
        weak var store: InMemoryCredentialStore?
        do {
            let mine = InMemoryCredentialStore()
            store = mine
            #expect(
                composition.credentials(for: configuration, in: .custom(mine)).slot.account
                    == configuration.keychainAccount)
        }
        #expect(store == nil)
    }

    // MARK: Places of credentials

    private func save(_ seed: SeededAuth, in storage: ChappieCredentialStorage) async throws {
        let store = storage.store(.whenUnlockedThisDeviceOnly)
        try await store.prepareToSave(in: configuration.credentialSlot)
        try await store.save(seed.credential, in: configuration.credentialSlot)
    }

    @Test func memoryIsOnePlaceForEachSlotOfTheProcess() async throws {
        try await save(SeededAuth(), in: .memory)
        let session = Chappie.authSession(configuration: configuration, store: .memory)
        #expect(session.accountInfo?.email == "person@example.com")
        var patient = configuration
        patient.network.deadlines.idle = .seconds(600)
        let client = Chappie.client(configuration: patient, store: .memory)
        #expect(try await client.accountInfo().email == "person@example.com")
        let other = ChappieConfiguration(keychainAccount: "\(UUID())")
        #expect(await Chappie.loadedAuthSession(configuration: other, store: .memory).state == .signedOut)
        // The client of the slot knows at once.
        session.signOut()
        await #expect(throws: ChappieClientError.missingCredential) { _ = try await client.accountInfo() }
        await session.finishPendingWork()
        #expect(await Chappie.loadedAuthSession(configuration: configuration, store: .memory).state == .signedOut)
    }

    @Test func `an encrypted file opens only with its passphrase`() async throws {
        let folder = try TemporaryDirectory()
        let place = folder.path("credentials")
        try await save(SeededAuth(), in: .encryptedFile(passphrase: "open sesame", directory: place))
        let asked = Mutex<[Bool]>([])
        let asking = ChappiePassphrase.asking { isNew in
            asked.withLock { $0.append(isNew) }
            return "open sesame"
        }
        let file = try folder.write("open sesame\n", to: "passphrase")
        #expect(chmod(file, 0o600) == 0)
        for passphrase in [asking, .file(file)] {
            let session = await Chappie.loadedAuthSession(
                configuration: configuration, store: .encryptedFile(passphrase: passphrase, directory: place))
            #expect(session.state.isSignedIn, "\(session.state)")
        }
        #expect(asked.withLock(\.self) == [false])
        let wrong = await Chappie.loadedAuthSession(
            configuration: configuration, store: .encryptedFile(directory: place) { "close sesame" })
        guard case .wrongPassphrase? = wrong.lastStoreError else {
            Issue.record("\(wrong.state)")
            return
        }
    }

    @Test(arguments: [false, true]) func aPassphraseThatIsNotToBeHadIsSaid(throwing: Bool) async throws {
        let folder = try TemporaryDirectory()
        try await save(SeededAuth(), in: .encryptedFile(passphrase: "open sesame", directory: folder.path))
        let session = await Chappie.loadedAuthSession(
            configuration: configuration,
            store: .encryptedFile(directory: folder.path) {
                if throwing { throw CancellationError() }
                return nil
            })
        guard case .noPassphrase? = session.lastStoreError, case .failed = session.state else {
            Issue.record("\(session.state)")
            return
        }
    }

    @Test func `a folder that cannot be used is reported by the session`() async {
        let session = Chappie.authSession(
            configuration: configuration, store: .encryptedFile(passphrase: "x", directory: "not/absolute"))
        #expect(
            session.lastStoreError == .failed("the folder of the encrypted credential files needs an absolute path"))
        await #expect(throws: ChappieAuthError.self) { try await session.signIn { _ in } }
    }

    @Test func aCancelledLoadReturnsWithoutTheStore() async throws {
        let store = InMemoryCredentialStore([configuration.credentialSlot: SeededAuth().credential])
        let gate = ScriptedGate()
        store.wait(at: gate, before: .load)
        let load = Task { await Chappie.loadedAuthSession(configuration: configuration, store: .custom(store)) }
        load.cancel()
        let session = await load.value
        #expect(!session.state.isSignedIn)
        gate.open()
        for await state in session.stateUpdates where state.isSignedIn { break }
    }

    @Test func `a keyring that is unlocked later is read by a reload`() async {
        let store = InMemoryCredentialStore([configuration.credentialSlot: SeededAuth().credential])
        store.fail(.load, with: .locked("the login keyring is locked"), times: 1)
        let session = await Chappie.loadedAuthSession(configuration: configuration, store: .custom(store))
        #expect(session.lastStoreError == .locked("the login keyring is locked"))
        await session.reload()
        #expect(session.state.isSignedIn)
        #expect(session.lastStoreError == nil)
        await session.reload()
        #expect(store.calls == [.load, .load, .load])
        #expect(session.state.isSignedIn)
    }

    // MARK: A whole conversation

    private final class Counter: HTTPMiddleware {
        let count = Mutex(0)

        func intercept(
            _ request: HTTPExchangeRequest,
            next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
        ) async throws -> HTTPExchangeResponse {
            count.withLock { $0 += 1 }
            return try await next(request)
        }
    }

    @Test func fromSignInToAnAnswerThroughTheFrontDoor() async throws {
        let simulator = try await Simulator.start(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
        var configuration = configuration
        configuration.endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
        configuration.network.proxy = .none
        let (log, counter) = (InMemoryLogHandler(), Counter())
        var logger = Logger(label: "test") { _ in log }
        logger.logLevel = .trace
        let session = await Chappie.loadedAuthSession(configuration: configuration, store: .memory, logger: logger)
        let account = try await session.signIn { code in #expect(!code.userCode.isEmpty) }
        #expect(session.accountInfo == account)
        let client = Chappie.client(
            configuration: configuration, harness: "Be brief.", store: .memory, logger: logger, middleware: [counter],
            rateLimitBackoff: .disabled, streamingTransportPolicy: .httpSSEOnly)
        let response = try await client.response(ChappieResponseRequest(messages: [.user("Hello")]))
        #expect(!response.outputText.isEmpty)
        #expect(response.requestID?.hasPrefix("req_") == true)
        // The list of models, and the turn.
        #expect(counter.count.withLock(\.self) == 2)
        try await session.refreshAuth()
        #expect(log.entries.map { "\($0.metadata["reason"] ?? "")" } == ["the program asked for it"])
        await session.finishPendingWork()
        session.signOut()
        await #expect(throws: ChappieClientError.missingCredential) { _ = try await client.send("Hello") }
        await session.finishPendingWork()
        await simulator.stop()
    }

    // MARK: The testing product

    @Test func aSeededSessionAndAnAnswerTakeALineEach() async throws {
        let session = SeededAuth().session()
        #expect(session.state.isSignedIn)
        #expect(session.accountInfo?.plan == .plus)
        #expect(try await ChappieClient.answering("Hello").send("Hi") == "Hello")
        let client = ChappieClient.answering("One", "Two")
        var answers: [String] = []
        for _ in 0..<3 { answers.append(try await client.send("Hi")) }
        #expect(answers == ["One", "Two", "Two"])
        let transport = ScriptedHTTPTransport.answering("Hello")
        let other = ChappieClient(transport: transport, credentials: SeededAuth().manager(transport: transport))
        var text = ""
        for try await piece in other.stream("Hi").text { text += piece }
        #expect(text == "Hello")
        await #expect(throws: ChappieClientError.self) { _ = try await other.models() }
    }
}
