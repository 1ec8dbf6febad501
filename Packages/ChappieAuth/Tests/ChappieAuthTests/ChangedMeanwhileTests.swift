import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// What somebody else does to the slot while tokens are being renewed, saved or removed.
@Suite struct ChangedMeanwhileTests {
    private let due = person(endingIn: -10)
    private let renewed = person(endingIn: 7200, serial: 2)
    private var other: SeededAuth {
        var auth = person(endingIn: 7200, serial: 9)
        (auth.accountID, auth.userID, auth.email) = ("account-9", "user-9", "other@example.com")
        return auth
    }

    // MARK: A renewal that takes long

    @Test func aRenewalOutlastedByASignOutElsewhereBringsNothingBack() async throws {
        let stand = try await afterASlowRenewal { $0.store[$0.slot] = nil }
        #expect(stand.store[stand.slot] == nil)
        await stand.service.waitForRequests(Service.revoke, count: 1)
        #expect(try await stand.manager.accountInfo() == nil)
    }

    @Test func aRenewalOutlastedByAnotherPersonsSignInLeavesIt() async throws {
        let other = other
        let stand = try await afterASlowRenewal { $0.store[$0.slot] = other.credential }
        #expect(stand.store[stand.slot] == other.credential)
        await stand.service.waitForRequests(Service.revoke, count: 1)
    }

    /// Lets the server think for longer than others wait for the lock, and `change` happen meanwhile.
    private func afterASlowRenewal(_ change: (Harness) -> Void) async throws -> Harness {
        let gate = ScriptedGate()
        let stand = Harness(
            due, [Service.token: [.tokens(renewed).after(gate)], Service.backend: [.ok], Service.revoke: [.ok]])
        let request = Task { try await stand.send() }
        await gate.reached()
        await stand.clock.waitForSleepers(count: 1)
        stand.clock.advance(by: .seconds(12))
        change(stand)
        gate.open()
        await #expect(throws: AuthorizationError.self) { try await request.value }
        #expect(stand.bearers.isEmpty)
        return stand
    }

    // MARK: The lock

    @Test func aSignOutWaitsForARenewalElsewhereThoughOneHereWaitsToo() async throws {
        let folder = FileManager.default.temporaryDirectory.path + "/chappie-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let gate = ScriptedGate()
        let stand = Harness(due, [Service.token: [.tokens(renewed).after(gate)], Service.backend: [.ok]])
        stand.service.play(Service.revoke, .ok)
        let here = manager(of: stand, FileCredentialLock(directory: folder))
        let elsewhere = manager(of: stand, FileCredentialLock(directory: folder))
        let renewing = Task { _ = try await elsewhere.exportCredential() }
        await gate.reached()
        let waiting = Task { _ = try await here.exportCredential() }
        let before = stand.store.calls.count
        while stand.store.calls.count == before { await Task.yield() }
        let signingOut = Task { try await here.signOut() }
        gate.open()
        _ = await (renewing.result, waiting.result)
        try await signingOut.value
        #expect(stand.store[stand.slot] == nil, "what was renewed elsewhere was stored after the sign-out")
    }

    // MARK: Tokens that the store did not take

    @Test func tokensThatCouldNotBeSavedAreSavedLater() async throws {
        let stand = try await withUnsavedTokens()
        #expect(try await stand.send() == 200)
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
    }

    @Test func tokensThatCouldNotBeSavedDoNotUndoASignOut() async throws {
        let stand = try await withUnsavedTokens()
        stand.store[stand.slot] = nil
        await #expect(throws: AuthorizationError.missingCredential) { try await stand.send() }
        #expect(stand.store[stand.slot] == nil)
        await stand.service.waitForRequests(Service.revoke, count: 1)
    }

    @Test func tokensThatCouldNotBeSavedDoNotReplaceAnotherPerson() async throws {
        let stand = try await withUnsavedTokens()
        stand.store[stand.slot] = other.credential
        await #expect(throws: AuthorizationError.self) { try await stand.send() }
        #expect(stand.store[stand.slot] == other.credential)
        #expect(stand.bearers.isEmpty)
    }

    @Test func tokensThatCouldNotBeSavedGiveWayToNewerOnes() async throws {
        let stand = try await withUnsavedTokens()
        let newest = person(endingIn: 7200, serial: 3)
        stand.store[stand.slot] = newest.credential
        #expect(try await stand.send() == 200)
        #expect(stand.bearers == [newest.accessToken])
    }

    @Test func aLateRefusalIsNotAnsweredWithTokensThatWereNeverSaved() async throws {
        let gate = ScriptedGate()
        let seed = person(endingIn: 7200)
        let stand = Harness(
            seed,
            [
                Service.token: [.tokens(renewed)],
                Service.backend: [
                    .error(.unauthorized, "token_expired").after(gate), .error(.unauthorized, "token_expired"), .ok,
                ],
            ])
        let late = Task { try await stand.send() }
        await gate.reached()
        stand.store.fail(.save, with: .locked("the keyring is locked"))
        await #expect(throws: AuthorizationError.self) { try await stand.send() }
        gate.open()
        await #expect(throws: AuthorizationError.self) { try await late.value }
        #expect(stand.bearers == [seed.accessToken, seed.accessToken])
    }

    private func withUnsavedTokens() async throws -> Harness {
        let stand = Harness(due, [Service.token: [.tokens(renewed)], Service.backend: [.ok], Service.revoke: [.ok]])
        stand.store.fail(.save, with: .locked("the keyring is locked"), times: 1)
        await #expect(throws: AuthorizationError.self) { try await stand.send() }
        #expect(stand.store[stand.slot] == due.credential)
        return stand
    }

    // MARK: A sign-out that the store did not carry out

    @Test func aSignOutThatIsMadeUpForLeavesWhoHasSignedInSince() async throws {
        let stand = try await withPendingSignOut()
        stand.store[stand.slot] = other.credential
        #expect(try await stand.manager.accountInfo()?.accountID == "account-9")
        #expect(stand.store[stand.slot] == other.credential)
    }

    @Test func aSignOutThatIsMadeUpForRemovesWhatWasRenewedSince() async throws {
        let stand = try await withPendingSignOut()
        stand.store[stand.slot] = renewed.credential
        #expect(try await stand.manager.accountInfo() == nil)
        #expect(stand.store[stand.slot] == nil)
    }

    private func withPendingSignOut() async throws -> Harness {
        let stand = Harness(person(endingIn: 7200), [Service.revoke: [.ok]])
        _ = try await stand.manager.accountInfo()
        stand.store.fail(.delete, with: .locked("the keyring is locked"), times: 1)
        await #expect(throws: CredentialStoreError.self) { try await stand.manager.signOut() }
        return stand
    }

    /// Deleting needs no access, so that nobody is asked for it twice.
    @Test func aSignOutDoesNotAskAgainForWhatWasDenied() async throws {
        let stand = Harness(person(endingIn: 7200), [Service.revoke: [.ok]])
        stand.store.fail(.load, with: .denied("the prompt was dismissed"))
        await #expect(throws: AuthorizationError.self) { try await stand.manager.accountInfo() }
        try await stand.manager.signOut()
        #expect(stand.store.calls == [.load, .delete])
        #expect(stand.store[stand.slot] == nil)
    }

    // MARK: Moving and signing in

    @Test func aScreenThatLocksDuringAnImportLosesNothing() async throws {
        let stand = Harness(nil)
        let gate = ScriptedGate()
        stand.store.wait(at: gate, before: .save)
        let importing = Task { try await stand.manager.importCredential(renewed.credential) }
        await gate.reached()
        stand.store.fail(.load, with: .locked("the login session is locked"))
        gate.open()
        #expect(try await importing.value.accountID == "account-1")
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
    }

    @Test func anImportThatTheStoreGarblesPutsBackWhatWasThere() async throws {
        let store = GarblingStore(due.credential)
        let stand = Harness(nil)
        let manager = CredentialManager(
            slot: stand.slot, store: store, transport: stand.service.transport, endpoints: Service.endpoints,
            lock: NoCredentialLock())
        await #expect(throws: CredentialStoreError.notVerified) { try await manager.importCredential(other.credential) }
        let text = await store.secret.withBytes { String(decoding: $0, as: UTF8.self) }
        #expect(text.contains("rt_seeded_1") && text.contains(due.accessToken))
    }

    @Test func anExportWaitsForTheRenewalThatUsesUpTheToken() async throws {
        let gate = ScriptedGate()
        let stand = Harness(
            person(endingIn: 200), [Service.token: [.tokens(renewed).after(gate)], Service.backend: [.ok]])
        let exporting = Task { try await stand.manager.exportCredential() }
        await gate.reached()
        await stand.clock.waitForSleepers(count: 1)
        // Longer than a request would wait.
        stand.clock.advance(by: .seconds(20))
        gate.open()
        let document = try await exporting.value.withBytes { String(decoding: $0, as: UTF8.self) }
        #expect(document.contains("rt_seeded_2"))
    }

    @Test func aProcessThatEndsWaitsForItsRenewal() async throws {
        let gate = ScriptedGate()
        let stand = Harness(
            person(endingIn: 200), [Service.token: [.tokens(renewed).after(gate)], Service.backend: [.ok]])
        let request = Task { try await stand.send() }
        await gate.reached()
        await stand.clock.waitForSleepers(count: 2)
        stand.clock.advance(by: .seconds(10))
        _ = try await request.value
        let settling = Task {
            await stand.manager.settle()
            return stand.storedText
        }
        await stand.clock.waitForSleepers(count: 2)
        stand.clock.advance(by: .seconds(30))
        gate.open()
        #expect(await settling.value?.contains("rt_seeded_2") == true)
    }

    private func manager(of stand: Harness, _ lock: any CredentialLock) -> CredentialManager {
        CredentialManager(
            slot: stand.slot, store: stand.store, transport: stand.service.transport, endpoints: Service.endpoints,
            lock: lock, clock: stand.clock)
    }
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
