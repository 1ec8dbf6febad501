@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieFiles
import ChappieTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// The actions of ``CredentialLifecycle`` carried out: over a store, a lock and a scripted service.
@Suite final class CredentialManagerTests: Sendable {
    private let folder = FileManager.default.temporaryDirectory.path + "/chappie-manager-\(UUID().uuidString)"
    private let renewed = person(endingIn: 7200, serial: 2)

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// A stand whose next request renews the token.
    private func due(_ answer: ScriptedHTTPAnswer, endingIn seconds: TimeInterval = -10) -> Harness {
        Harness(person(endingIn: seconds), [Service.token: [answer], Service.backend: [.ok], Service.revoke: [.ok]])
    }

    // MARK: Renewal

    @Test func theRefreshIsTheOneThatTheServiceKnows() async throws {
        let stand = due(.tokens(renewed))
        try await stand.send()
        let request = try #require(stand.service.requests(Service.token).first)
        #expect(request.method == .post)
        #expect(
            request.fields == [
                "content-type: application/json", "originator: chappie",
                "user-agent: \(ChappieRegistration.defaultUserAgent)", "accept: */*",
            ])
        #expect(
            request.text
                == #"{"client_id":"app_EMoamEEZ73f0CkXaXp7hrann","grant_type":"refresh_token","refresh_token":"rt_seeded_1"}"#
        )
        #expect(stand.bearers == [renewed.accessToken])
    }

    @Test func `only the tokens that were received replace the stored ones`() async throws {
        let stand = due(.json(#"{"access_token":"\#(renewed.accessToken)"}"#))
        stand.store[stand.slot] = Secret(
            #"{"version":1,"issuer":"https://issuer.test","backend":"https://backend.test","later":{"a":[1,2.50]},"tokens":{"access_token":"\#(person(endingIn: 0).accessToken)","refresh_token":"rt_1","account_id":"account-1","proof_key":"k"}}"#
        )
        try await stand.send()
        let stored = try ChappieJSON(parsing: try #require(stand.storedText))
        #expect(stored["later"]?.serialized() == #"{"a":[1,2.50]}"#)
        #expect(stored["tokens"]?["proof_key"]?.string == "k")
        #expect(stored["tokens"]?["access_token"]?.string == renewed.accessToken)
        #expect(stored["tokens"]?["refresh_token"]?.string == "rt_1")
        #expect(stored["last_refresh"]?.string == "2026-11-20T12:00:00Z")
    }

    /// A cancelled request leaves at once; the renewal that it began goes on for others, and a process can wait for it.
    @Test func aRenewalOutlivesTheRequestThatBeganIt() async throws {
        let gate = ScriptedGate()
        let stand = due(.tokens(renewed).after(gate))
        let first = Task { try await stand.send() }
        await gate.reached()
        let second = Task { try await stand.send() }
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        let settling = Task { await stand.manager.settle() }
        gate.open()
        await settling.value
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
        #expect(try await second.value == 200)
        #expect(stand.service.count(Service.token) == 1)
        await stand.manager.settle()
    }

    @Test func `a stalled early refresh delays a request for at most ten seconds`() async throws {
        let gate = ScriptedGate()
        let stand = due(.tokens(renewed).after(gate), endingIn: 200)
        let request = Task { try await stand.send() }
        await gate.reached()
        // The deadline of the exchange, and the patience of the request.
        await stand.clock.waitForSleepers(count: 2)
        // An export waits on: the renewal uses up its token.
        let exporting = Task { try await stand.manager.exportCredential() }
        stand.clock.advance(by: .seconds(10))
        #expect(try await request.value == 200)
        #expect(stand.bearers == [person(endingIn: 200).accessToken])
        gate.open()
        let document = try await exporting.value.withBytes { String(decoding: $0, as: UTF8.self) }
        #expect(document.contains("rt_seeded_2"))
        #expect(try await stand.send() == 200)
        #expect(stand.bearers.last == renewed.accessToken)
    }

    @Test func `a token endpoint that never answers is given up after a minute`() async throws {
        let stand = due(ScriptedHTTPAnswer(beforeHead: [.stall]))
        let request = Task { try await stand.send() }
        await stand.clock.waitForSleepers(count: 1)
        stand.clock.advance(by: .seconds(60))
        await #expect {
            try await request.value
        } throws: { error in
            guard case .networkFailure(let words)? = error as? ChappieAuthError else { return false }
            return words.contains("issuer.test") && words.contains("60 s")
        }
    }

    @Test func `a refused refresh token is removed, and the reason is kept`() async throws {
        let stand = due(.error(.unauthorized, "refresh_token_expired"))
        for _ in 0..<2 {
            await #expect(
                throws: ChappieAuthError.reauthenticationRequired("Your sign-in has expired. Please sign in again.")
            ) { try await stand.send() }
        }
        #expect(stand.service.count(Service.token) == 1)
        let stored = try #require(stand.storedText)
        #expect(!stored.contains("refresh_token\"") && stored.contains("has expired"))
        // A process that begins now knows the reason, too.
        await #expect(
            throws: ChappieAuthError.reauthenticationRequired("Your sign-in has expired. Please sign in again.")
        ) { try await stand.otherManager().authorization.ask(Service.backendRequest, over: stand.service.transport) }
        #expect(stand.service.count(Service.token) == 1)
    }

    @Test(arguments: [ScriptedHTTPAnswer.lost, .error(.serviceUnavailable, "x"), .page(.forbidden)])
    func `a failed refresh that may work later leaves the credential`(_ answer: ScriptedHTTPAnswer) async throws {
        let stand = due(answer)
        await #expect {
            try await stand.send()
        } throws: { error in
            (error as? ChappieAuthError)?.requiresReauthentication == false
        }
        #expect(stand.store[stand.slot] == person(endingIn: -10).credential)
        stand.service.play(Service.token, .tokens(renewed))
        #expect(try await stand.send() == 200)
    }

    // MARK: The store

    /// A valid token stays in use; an expired token waits for a store that can save.
    @Test(arguments: [200.0, -10])
    func aStoreThatCanNotSaveKeepsTheRefreshToken(_ seconds: Double) async throws {
        let stand = due(.tokens(renewed), endingIn: seconds)
        let full = CredentialStoreError.failed("no space left")
        stand.store.fail(.prepareToSave, with: full)
        if seconds > 0 {
            #expect(try await stand.send() == 200)
        } else {
            await #expect(throws: ChappieAuthError.credentialStoreUnavailable(full)) { try await stand.send() }
        }
        #expect(stand.service.count(Service.token) == 0)
        stand.store.fail(.prepareToSave, with: full, times: 0)
        stand.clock.advance(by: .seconds(31))
        #expect(try await stand.send() == 200)
        #expect(stand.bearers.last == renewed.accessToken)
    }

    @Test func `tokens that could not be saved are kept and not used before they are saved`() async throws {
        let stand = due(.tokens(renewed))
        stand.store.fail(.save, with: .locked("l"), times: 2)
        for _ in 0..<2 {
            await #expect(throws: ChappieAuthError.credentialStoreUnavailable(.locked("l"))) { try await stand.send() }
        }
        #expect(stand.bearers.isEmpty)
        #expect(try await stand.send() == 200)
        #expect(stand.bearers == [renewed.accessToken])
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
    }

    /// An app may drop its session and its client when a request fails.
    @Test func `tokens that could not be saved keep their manager alive`() async throws {
        let stand = due(.tokens(renewed))
        stand.store.fail(.save, with: .locked("l"), times: 1)
        weak let kept = try await managerWithoutAStore(stand)
        await kept?.settle()
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
        #expect(stand.service.count(Service.token) == 1)
        while kept != nil { await Task.yield() }
    }

    /// A manager whose new tokens have been refused.
    private func managerWithoutAStore(_ stand: Harness) async throws -> CredentialManager {
        let manager = stand.otherManager()
        await #expect(throws: ChappieAuthError.self) { _ = try await manager.exportCredential() }
        return manager
    }

    @Test(arguments: ["", #"{"version":1,"tokens":{"access_token":"a\r\nb: c"}}"#, "\u{0}\u{1}"])
    func `a document that cannot be read is reported and can be deleted`(_ document: String) async throws {
        let stand = Harness(nil)
        stand.store[stand.slot] = Secret(document)
        await #expect {
            try await stand.send()
        } throws: { error in
            if case .credentialStoreUnavailable(.corrupt)? = error as? ChappieAuthError { true } else { false }
        }
        #expect(stand.store[stand.slot] == Secret(document))
        stand.store.fail(.delete, with: .denied("d"), times: 1)
        await #expect(throws: CredentialStoreError.denied("d")) { try await stand.manager.signOut() }
        try await stand.manager.signOut()
        #expect(stand.store[stand.slot] == nil)
    }

    @Test(arguments: CredentialStoreContract.cases)
    func theStoreInMemoryKeepsTheContract(_ contractCase: CredentialStoreContract.Case) async throws {
        try await contractCase.run(InMemoryCredentialStore())
    }

    // MARK: The lock

    @Test func `a sign-out waits for a renewal elsewhere even if one here also waits`() async throws {
        let gate = ScriptedGate()
        let stand = due(.tokens(renewed).after(gate))
        let here = stand.otherManager(FileCredentialLock(directory: folder))
        let elsewhere = stand.otherManager(FileCredentialLock(directory: folder))
        let renewing = Task { _ = try await elsewhere.exportCredential() }
        await gate.reached()
        let waiting = Task { _ = try await here.exportCredential() }
        let before = stand.store.calls.count
        while stand.store.calls.count == before { await Task.yield() }
        let signingOut = Task { try await here.signOut() }
        gate.open()
        _ = await (renewing.result, waiting.result)
        try await signingOut.value
        #expect(stand.store[stand.slot] == nil, "the tokens that were renewed elsewhere were stored after the sign-out")
    }

    @Test func `a process that ends does not wait for another process's lock`() async throws {
        let stand = Harness(person(endingIn: -1))
        let hold = try await FileCredentialLock(directory: folder).acquire(stand.slot, within: .zero)
        let manager = stand.otherManager(FileCredentialLock(directory: folder, clock: stand.clock))
        let request = Task { try await manager.authorization.authorized { _ in AuthorizedAttempt.value(1) } }
        await stand.clock.waitForSleepers(count: 1)
        await manager.settle()
        request.cancel()
        withExtendedLifetime(hold) {}
    }

    // MARK: Another process

    @Test(.timeLimit(.minutes(1))) func `another process's changes take effect before the next request`() async throws {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok], Service.revoke: [.ok]])
        let here = stand.otherManager(FileCredentialLock(directory: folder))
        let elsewhere = stand.otherManager(FileCredentialLock(directory: folder))
        let transport = MiddlewareTransport(stand.service.transport, middleware: [here.authorization])
        #expect(try await transport.send(Service.backendRequest).status == .ok)
        let loss = here.signOuts
        try await elsewhere.signOut()
        await #expect(throws: ChappieAuthError.missingCredential) {
            _ = try await transport.send(Service.backendRequest)
        }
        for await _ in loss { break }
        #expect(stand.service.count(Service.backend) == 1)
        // And a sign-in.
        let newcomer = person(endingIn: 7200, serial: 2)
        _ = try await elsewhere.importCredential(newcomer.credential)
        #expect(try await transport.send(Service.backendRequest).status == .ok)
        _ = try await elsewhere.importCredential(person(endingIn: 7200, serial: 3).credential)
        #expect(try await transport.send(Service.backendRequest).status == .ok)
        #expect(stand.bearers.suffix(2) == [newcomer.accessToken, person(endingIn: 7200, serial: 3).accessToken])
    }

    /// Notes and marks in memory.
    private final class NotesInMemory: CredentialLock, CredentialNotes {
        private let state = Mutex((note: [UInt8]?.none, marks: UInt8(0)))

        func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }
        func setNote(_ note: [UInt8]?, for slot: CredentialSlot) { state.withLock { $0.note = note } }
        func note(for slot: CredentialSlot) -> [UInt8]? { state.withLock { $0.note } }
        func changeMark(for slot: CredentialSlot) -> [UInt8]? { state.withLock { [$0.marks] } }

        func announceChange(of slot: CredentialSlot) -> [UInt8]? {
            state.withLock { state in
                state.marks += 1
                return [state.marks]
            }
        }
    }

    @Test func `a sign-out elsewhere during a renewal takes effect at the next request`() async throws {
        let gate = ScriptedGate()
        let stand = due(.tokens(renewed).after(gate))
        let lock = NotesInMemory()
        let here = stand.otherManager(lock)
        let elsewhere = stand.otherManager(lock)
        let renewing = Task { _ = try await here.exportCredential() }
        await gate.reached()
        stand.store.fail(.delete, with: .locked("l"), times: 1)
        await #expect(throws: CredentialStoreError.self) { try await elsewhere.signOut() }
        gate.open()
        _ = await renewing.result
        let transport = MiddlewareTransport(stand.service.transport, middleware: [here.authorization])
        await #expect(throws: ChappieAuthError.missingCredential) {
            _ = try await transport.send(Service.backendRequest)
        }
        #expect(stand.service.count(Service.backend) == 0)
        #expect(stand.store[stand.slot] == nil)
    }

    // MARK: Signing out

    @MainActor
    @Test func `a session that does not wait for its store waits for its sign-out`() async throws {
        let stand = due(.ok, endingIn: 7200)
        let gate = ScriptedGate()
        // On a busy machine the task that it waits for may begin later than a user would wait.
        let session = ChappieAuthSession(stand.manager, loadDeadline: .zero, signOutDeadline: .seconds(300))
        stand.store.wait(at: gate, before: .delete)
        Task.detached {
            await gate.reached()
            gate.open()
        }
        session.signOut()
        #expect(stand.store[stand.slot] == nil)
        await session.finishPendingWork()
    }

    /// A store that lets nobody use its secrets while the screen is locked.
    private struct LockedScreen: CredentialStore {
        let inner: InMemoryCredentialStore

        func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? {
            throw .locked("the login session is locked")
        }
        func loadForDeletion(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
            try await inner.load(slot)
        }
        func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
            try await inner.save(secret, in: slot)
        }
        func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { try await inner.delete(slot) }
    }

    @Test func `a sign-out while the screen is locked revokes what it deletes`() async throws {
        let stand = due(.ok, endingIn: 7200)
        let manager = stand.otherManager(store: LockedScreen(inner: stand.store))
        await #expect(throws: ChappieAuthError.self) { _ = try await manager.exportCredential() }
        try await manager.signOut()
        await manager.settle()
        #expect(stand.store[stand.slot] == nil)
        #expect(stand.service.count(Service.revoke) == 1)
    }

    @Test func `a sign-out that the store refused is completed later without any notes`() async throws {
        let stand = due(.ok, endingIn: 7200)
        _ = try await stand.manager.exportCredential()
        stand.store.fail(.delete, with: .locked("l"), times: 1)
        await #expect(throws: CredentialStoreError.self) { try await stand.manager.forgetWithoutRevoking() }
        #expect(try await stand.manager.accountInfo() == nil)
        #expect(stand.store[stand.slot] == nil)
        await stand.manager.settle()
        #expect(stand.service.count(Service.revoke) == 0, "the exported sign-in was revoked")
    }

    @MainActor
    @Test func `a store that is slow leaves a mark that the next process obeys`() async throws {
        let stand = due(.ok, endingIn: 7200)
        let lock = FileCredentialLock(directory: folder)
        let gate = ScriptedGate()
        let session = ChappieAuthSession(credentials: stand.otherManager(lock), loadDeadline: .milliseconds(300))
        stand.store.wait(at: gate, before: .delete)
        session.signOut()
        #expect(session.state == .signedOut)
        #expect(stand.store[stand.slot] != nil)
        let next = stand.otherManager(FileCredentialLock(directory: folder))
        async let info = next.accountInfo()
        gate.open()
        #expect(try await info == nil)
        #expect(stand.store[stand.slot] == nil)
        while lock.note(for: stand.slot) != nil { await Task.yield() }
        // The same account may sign in again.
        _ = try await next.importCredential(person(endingIn: 7200, serial: 3).credential)
        #expect(try await stand.otherManager(lock).accountInfo()?.accountID == "account-1")
    }

    @MainActor
    @Test func `a mark that is slow to write does not outlive the sign-out`() async throws {
        let stand = due(.ok, endingIn: 7200)
        let gate = ScriptedGate()
        let lock = SlowNotes(gate)
        let session = ChappieAuthSession(credentials: stand.otherManager(lock), loadDeadline: .milliseconds(100))
        stand.store.wait(at: gate, before: .delete)
        // The store goes on while the mark is being written.
        session.signOut()
        await session.finishPendingWork()
        #expect(stand.store[stand.slot] == nil)
        #expect(lock.note(for: stand.slot) == nil)
    }

    /// Notes that take 200 ms to write, or until they are removed.
    private final class SlowNotes: CredentialLock, CredentialNotes {
        private let gate: ScriptedGate
        private let removed = DispatchSemaphore(value: 0)
        private let kept = Mutex<[UInt8]?>(nil)

        init(_ gate: ScriptedGate) { self.gate = gate }

        func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold { CredentialLockHold {} }

        func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {
            if note == nil {
                kept.withLock { $0 = nil }
                removed.signal()
            } else {
                gate.open()
                _ = removed.wait(timeout: .now() + .milliseconds(200))
                kept.withLock { $0 = note }
            }
        }

        func note(for slot: CredentialSlot) -> [UInt8]? { kept.withLock(\.self) }
    }

    /// Notes on a disk that does not answer, until the gate opens.
    private final class StalledNotes: CredentialLock, CredentialNotes {
        let gate = DispatchSemaphore(value: 0)
        let isReleased = Promise<Void>()

        func acquire(_ slot: CredentialSlot, within limit: Duration) -> CredentialLockHold {
            CredentialLockHold { [isReleased] in isReleased.fulfil(.success(())) }
        }

        func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {
            gate.wait()
            gate.signal()
        }
    }

    @Test(.timeLimit(.minutes(1))) func `a disk that does not answer delays a sign-out only for a while`() async throws
    {
        let stand = due(.ok, endingIn: 7200)
        let lock = StalledNotes()
        let manager = stand.otherManager(lock)
        let signingOut = Task { try await manager.signOut() }
        await stand.clock.waitForSleepers(count: 1)
        #expect(stand.store[stand.slot] == nil)
        stand.clock.advance(by: .seconds(10))
        try await signingOut.value
        try await lock.isReleased.value()
        lock.gate.signal()
    }

    @Test func lossesOfTheCredentialAreToldOnceEach() async throws {
        let stand = due(.ok, endingIn: 7200)
        _ = try await stand.manager.accountInfo()
        let losses = stand.manager.signOuts
        _ = try await stand.manager.importCredential(renewed.credential)
        _ = try await stand.manager.importCredential(someoneElse.credential)
        try await stand.manager.signOut()
        var iterator = losses.makeAsyncIterator()
        for _ in 0..<2 { #expect(await iterator.next() != nil) }
    }

    // MARK: Importing

    @Test func `a screen that locks during an import loses nothing`() async throws {
        let stand = Harness(nil)
        let gate = ScriptedGate()
        stand.store.wait(at: gate, before: .save)
        let importing = Task { [renewed] in try await stand.manager.importCredential(renewed.credential) }
        await gate.reached()
        stand.store.fail(.load, with: .locked("the login session is locked"))
        gate.open()
        #expect(try await importing.value.accountID == "account-1")
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
    }

    @Test func `an import that the store garbles restores the earlier credential`() async throws {
        let seed = person(endingIn: 7200)
        let store = GarblingStore(seed.credential)
        let manager = Harness(nil).otherManager(store: store)
        await #expect(throws: CredentialStoreError.notVerified) {
            try await manager.importCredential(someoneElse.credential)
        }
        #expect(await store.secret.withBytes { String(decoding: $0, as: UTF8.self) }.contains(seed.accessToken))
    }

    /// A store that writes something else the first time.
    private actor GarblingStore: CredentialStore {
        private(set) var secret: Secret
        private var hasGarbled = false

        init(_ secret: Secret) { self.secret = secret }

        func load(_ slot: CredentialSlot) -> Secret? { secret }
        func delete(_ slot: CredentialSlot) {}

        func save(_ secret: Secret, in slot: CredentialSlot) {
            self.secret = hasGarbled ? secret : Secret("something else")
            hasGarbled = true
        }
    }

    // MARK: The origin of a credential

    /// A store that keeps only one secret, whatever the slot.
    private struct OneSecret: CredentialStore {
        let inner: InMemoryCredentialStore
        func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
            try await inner.load(CredentialSlot())
        }
        func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
            try await inner.save(secret, in: CredentialSlot())
        }
        func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {
            try await inner.delete(CredentialSlot())
        }
    }

    @MainActor
    @Test(arguments: ["https://chatgpt.com/backend-api", "https://backend.test/backend-api"])
    func theCredentialOfAnotherServiceIsLeftAlone(_ backend: String) async throws {
        var seed = SeededAuth()
        seed.endpoints.backend = try #require(URL(string: backend))
        let inner = InMemoryCredentialStore([CredentialSlot(): seed.credential])
        let stand = Harness(nil, SessionHarness.signingIn(as: renewed))
        let manager = stand.otherManager(store: OneSecret(inner: inner))
        let session = try await ChappieAuthSession(loading: manager)
        guard case .failed(let sentence) = session.state else { return #expect(Bool(false), "\(session.state)") }
        #expect(sentence.contains("https://auth.openai.com") && sentence.contains("https://issuer.test"))
        await #expect(throws: ChappieAuthError.self) {
            try await manager.authorization.authorized { _ in AuthorizedAttempt.value(1) }
        }
        await #expect(throws: ChappieAuthError.self) { try await session.startDeviceCodeSignIn() }
        try await session.signOutAndRevoke()
        await #expect(throws: CredentialStoreError.self) { try await manager.importCredential(seed.credential) }
        #expect(inner[CredentialSlot()] == seed.credential)
        for path in [Service.backend, Service.token, Service.revoke, Service.usercode] {
            #expect(stand.service.count(path) == 0, "\(path)")
        }
    }

    @Test func `each service has its own slot, and a missing issuer means the default one`() async throws {
        let old = Secret(#"{"version":1,"tokens":{"access_token":"a","account_id":"acc"}}"#)
        let transport = ScriptedHTTPTransport { _ in .response(status: .internalServerError) }
        for (endpoints, issuer, isRead) in [
            (ChappieEndpoints.chatGPT, nil, true),
            (Service.endpoints, "https://issuer.test https://backend.test", false),
        ] as [(ChappieEndpoints, String?, Bool)] {
            let slot = CredentialSlot(issuer: issuer)
            let manager = CredentialManager(
                slot: CredentialSlot(), store: InMemoryCredentialStore([slot: old]), transport: transport,
                endpoints: endpoints)
            #expect(manager.slot == slot)
            #expect((try? await manager.accountInfo()?.accountID) == (isRead ? "acc" : nil))
        }
    }
}
