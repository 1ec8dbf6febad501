@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappieTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// A credential belongs to the issuer and the backend that it was given for.
@Suite struct CredentialOriginTests {
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
    func whatAnotherServiceGaveIsLeftAlone(_ backend: String) async throws {
        let service = Service(SessionHarness.signingIn(as: person(endingIn: 7200, serial: 7)))
        var seed = SeededAuth()
        // A document without the members is the default service's.
        seed.endpoints.profile.backend = try #require(URL(string: backend))
        let inner = InMemoryCredentialStore([CredentialSlot(): seed.credential])
        let manager = CredentialManager(
            slot: CredentialSlot(), store: OneSecret(inner: inner), transport: service.transport,
            endpoints: Service.endpoints, lock: NoCredentialLock(), clock: ManualClock())
        let session = try await ChappieAuthSession(loading: manager)
        guard case .failed(let sentence) = session.state else { return #expect(Bool(false), "\(session.state)") }
        #expect(sentence.contains("https://auth.openai.com") && sentence.contains("https://issuer.test"))
        let transport = MiddlewareTransport(service.transport, middleware: [manager.authorization])
        await #expect(throws: AuthorizationError.self) { try await transport.send(Service.backendRequest) }
        await #expect(throws: ChappieAuthError.self) { try await session.startDeviceCodeSignIn() }
        try await session.signOutAndRevoke()
        await #expect(throws: CredentialStoreError.self) { try await manager.importCredential(seed.credential) }
        #expect(inner[CredentialSlot()] == seed.credential)
        for path in [Service.backend, Service.token, Service.revoke, Service.usercode] {
            #expect(service.count(path) == 0, "\(path)")
        }
    }

    @Test func eachServiceHasASlotOfItsOwn() async throws {
        let store = InMemoryCredentialStore([CredentialSlot(): SeededAuth().credential])
        let service = Service()
        func manager(_ endpoints: ChappieEndpoints) -> CredentialManager {
            CredentialManager(
                slot: CredentialSlot(), store: store, transport: service.transport, endpoints: endpoints,
                lock: NoCredentialLock())
        }
        #expect(manager(.chatGPT).slot == CredentialSlot())
        #expect(try await manager(.chatGPT).accountInfo() != nil)
        #expect(try await manager(Service.endpoints).accountInfo() == nil)
        #expect(manager(Service.endpoints).slot.issuer == "https://issuer.test https://backend.test")
    }

    @Test func aDocumentWithoutAnIssuerIsTheDefaultOnes() async throws {
        let old = #"{"version":1,"tokens":{"access_token":"a","account_id":"acc"}}"#
        for (endpoints, isRead) in [(ChappieEndpoints.chatGPT, true), (Service.endpoints, false)] {
            let slot = CredentialSlot(issuer: endpoints.credentialIssuer)
            let manager = CredentialManager(
                slot: slot, store: InMemoryCredentialStore([slot: Secret(old)]), transport: Service().transport,
                endpoints: endpoints, lock: NoCredentialLock())
            #expect((try? await manager.accountInfo()?.accountID) == (isRead ? "acc" : nil))
        }
    }
}

/// What the session says, and when.
@MainActor
@Suite struct SessionReportTests {
    @Test func whatEndedTheSignInIsTheLastError() async throws {
        let it = SessionHarness(
            person(endingIn: -1), [Service.token: [.error(.unauthorized, "refresh_token_invalidated")]])
        let updates = it.session.stateUpdates
        await #expect(throws: AuthorizationError.self) { try await it.stand.send() }
        #expect(await updates.next { $0 == .reauthenticationRequired } != nil)
        #expect(it.session.lastError?.requiresReauthentication == true)
    }

    @Test func aFinal401IsSaidByTheSessionTooUntilATokenIsTaken() async throws {
        let it = SessionHarness(
            person(endingIn: 7200),
            [
                Service.token: [.tokens(person(endingIn: 9000, serial: 2))],
                Service.backend: [.refused, .refused, .ok],
            ])
        let updates = it.session.stateUpdates
        await #expect(throws: AuthorizationError.self) { try await it.stand.send() }
        #expect(await updates.next { $0 == .reauthenticationRequired } != nil)
        #expect(it.session.lastError?.errorDescription?.contains("refused the sign-in") == true)
        #expect(it.session.deviceLinkState == .idle)
        #expect(it.stand.storedText?.contains("rt_seeded_2") == true)
        #expect(try await it.stand.send() == 200)
        #expect(await updates.next { $0.isSignedIn } != nil)
        #expect(it.session.lastError == nil)
    }

    @Test func aSignInIsNotLinkedAnyMoreOnceItIsGone() async throws {
        let it = SessionHarness(nil, SessionHarness.signingIn(as: person(endingIn: 7200, serial: 7)))
        _ = try await it.session.signIn { _ in }
        #expect(it.session.deviceLinkState.name == "linked")
        it.session.signOut()
        #expect(it.session.deviceLinkState == .idle)
        it.stand.service.play(Service.token, .tokens(person(endingIn: -1, serial: 8)), .error(.unauthorized, "x"))
        _ = try await it.session.signIn { _ in }
        let updates = it.session.deviceLinkStateUpdates
        it.stand.clock.advance(by: .seconds(60))
        await #expect(throws: AuthorizationError.self) { try await it.stand.send() }
        #expect(await updates.next { $0 == .idle } != nil)
    }

    @Test func refreshingWhileSignedOutChangesNothingForRequests() async throws {
        let it = SessionHarness()
        await #expect(throws: ChappieAuthError.missingRefreshToken) { try await it.session.refreshAuth() }
        await #expect(throws: AuthorizationError.missingCredential) { try await it.stand.send() }
    }

    @Test func aCodeIsAwaitedUntilTheFirstPollIsSent() async throws {
        let gate = ScriptedGate()
        var answers = SessionHarness.signingIn(as: person(endingIn: 7200, serial: 7))
        answers[Service.poll] = [.approved.after(gate)]
        let it = SessionHarness(nil, answers)
        let code = try await it.session.startDeviceCodeSignIn()
        let updates = it.session.deviceLinkStateUpdates
        #expect(it.session.deviceLinkState == .awaitingUserCode(code))
        await gate.reached()
        #expect(await updates.next { $0.name == "polling" } != nil)
        gate.open()
    }

    @Test func aSignInThatFailsEndsTheOneCall() async throws {
        let it = SessionHarness(
            nil, [Service.usercode: [.deviceCode], Service.poll: [.error(.badRequest, "expired_token")]])
        var shown: [String] = []
        await #expect(throws: ChappieAuthError.expiredDeviceCode) {
            _ = try await it.session.signIn { shown.append($0.userCode) }
        }
        #expect(shown == ["ABCD-12345"])
        #expect(!it.session.state.isSignedIn)
    }

    @Test func theStoresOwnErrorStaysBesideTheSessions() async throws {
        let it = SessionHarness(person(endingIn: 7200), [Service.token: [.tokens(person(endingIn: 9000, serial: 2))]])
        it.stand.store.fail(.save, with: .locked("l"), times: 1)
        await #expect(throws: ChappieAuthError.unknown("The keyring is locked: l.")) {
            try await it.session.refreshAuth()
        }
        #expect(it.session.lastStoreError == .locked("l"))
    }
}

/// A sign-out lasts.
@MainActor
@Suite struct SignOutTests {
    private let folder = FileManager.default.temporaryDirectory.path + "/chappie-sign-out-\(UUID().uuidString)"

    @Test func theCredentialIsGoneWhenSignOutReturns() {
        let it = SessionHarness(person(endingIn: 7200), [Service.revoke: [.ok]])
        it.session.signOut()
        #expect(it.stand.store[it.stand.slot] == nil)
    }

    @Test func aStoreThatIsSlowLeavesAMarkThatTheNextProcessObeys() async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let stand = Harness(person(endingIn: 7200), [Service.revoke: [.ok]])
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

    @Test func aMarkThatIsSlowToWriteDoesNotOutliveTheSignOut() async throws {
        let stand = Harness(person(endingIn: 7200), [Service.revoke: [.ok]])
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
    private final class SlowNotes: CredentialLock {
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

    @Test func aFailedForgettingRevokesNothingLater() async throws {
        let stand = Harness(person(endingIn: 7200), [Service.revoke: [.ok]])
        _ = try await stand.manager.exportCredential()
        stand.store.fail(.delete, with: .locked("l"), times: 1)
        await #expect(throws: CredentialStoreError.self) { try await stand.manager.forgetWithoutRevoking() }
        #expect(try await stand.manager.accountInfo() == nil)
        #expect(stand.store[stand.slot] == nil)
        await stand.manager.settle()
        #expect(stand.service.count(Service.revoke) == 0)
    }

    @Test func whoeverEndsDoesNotWaitForAnotherProcessesLock() async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let stand = Harness(person(endingIn: -1))
        let hold = try await FileCredentialLock(directory: folder).acquire(stand.slot, within: .zero)
        let manager = stand.otherManager(FileCredentialLock(directory: folder, clock: stand.clock))
        let request = Task { try await manager.authorization.authorized { _ in AuthorizedAttempt.value(1) } }
        await stand.clock.waitForSleepers(count: 1)
        await manager.settle()
        request.cancel()
        withExtendedLifetime(hold) {}
    }

    @Test func signOutsAreToldOnceEach() async throws {
        let stand = Harness(person(endingIn: 7200), [Service.revoke: [.ok]])
        _ = try await stand.manager.accountInfo()
        let losses = stand.manager.signOuts
        _ = try await stand.manager.importCredential(person(endingIn: 7200, serial: 2).credential)
        var other = person(endingIn: 7200, serial: 3)
        other.accountID = "account-3"
        _ = try await stand.manager.importCredential(other.credential)
        try await stand.manager.signOut()
        var count = 0
        for await _ in losses {
            count += 1
            if count == 2 { break }
        }
        #expect(count == 2)
    }
}
