import ChappieCore
import ChappieKeychainApple
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

@MainActor
@Suite struct SessionTests {
    private let seed = person(endingIn: 7200)
    private let renewed = person(endingIn: 9000, serial: 2)

    // MARK: At the start

    @Test func aReturningUserIsSignedInAtOnce() {
        let it = SessionHarness(seed)
        #expect(it.session.state == .signedIn(expiresAt: start.addingTimeInterval(7200)))
        #expect(it.session.accountInfo?.accountID == "account-1")
        #expect(it.session.deviceLinkState == .idle)
        #expect(it.session.lastError == nil)
    }

    @Test func anEmptySlotIsSignedOut() {
        let it = SessionHarness()
        #expect(it.session.state == .signedOut)
        #expect(it.session.accountInfo == nil)
        #expect(it.session.lastStoreError == nil)
    }

    @Test func `an unreadable store is a failure with a message until it can be read`() async throws {
        let stand = Harness(seed, [Service.backend: [.ok]])
        stand.store.fail(.load, with: .locked("l"), times: 1)
        let session = ChappieAuthSession(credentials: stand.manager)
        #expect(session.state == .failed("The keyring is locked: l."))
        #expect(session.lastStoreError == .locked("l"))
        let updates = session.stateUpdates
        try await stand.send()
        #expect(await updates.next { $0.isSignedIn } == .signedIn(expiresAt: seed.expiresAt))
        #expect(session.lastStoreError == nil)
    }

    /// An app that the system starts while the device is locked, for a notification or in the background.
    @Test func `a session that began while the store was locked reads it after the unlock`() async throws {
        let keychain = InMemoryKeychain()
        let store = KeychainCredentialStore(calls: keychain.calls())
        try await store.save(seed.credential, in: CredentialSlot(issuer: Service.endpoints.credentialIssuer))
        keychain.set(.locked)
        let session = ChappieAuthSession(
            credentials: CredentialManager(
                slot: CredentialSlot(), store: store, transport: Service().transport, endpoints: Service.endpoints,
                clock: ManualClock()))
        #expect(session.lastStoreError == .locked("the device is locked"))
        let updates = session.stateUpdates
        keychain.set(.unlocked)
        #expect(await updates.next { $0.isSignedIn } != nil)
        #expect(session.lastStoreError == nil && session.lastError == nil)
    }

    @Test func `a session that loads without blocking reads once`() async throws {
        let stand = Harness(seed)
        let session = try await ChappieAuthSession(loading: stand.manager)
        #expect(session.state == .signedIn(expiresAt: seed.expiresAt))
        #expect(stand.store.calls == [.load])
    }

    /// A store that asks the user is read neither again for the session nor for the deletion.
    @Test func aUserWhoRefusesIsNotAskedAgain() async throws {
        let stand = Harness(seed)
        stand.store.fail(.load, with: .denied("d"))
        let session = try await ChappieAuthSession(loading: stand.manager)
        #expect(session.lastStoreError == .denied("d"))
        let updates = session.stateUpdates
        try await stand.manager.signOut()
        #expect(stand.store.calls == [.load, .delete])
        #expect(await updates.next { $0 == .signedOut } != nil)
    }

    @Test func aSessionThatIsGivenUpWhileItLoadsIsNone() async throws {
        let stand = Harness(seed)
        let gate = ScriptedGate()
        stand.store.wait(at: gate, before: .load)
        let task = Task { try await ChappieAuthSession(loading: stand.manager) }
        await gate.reached()
        task.cancel()
        await #expect(throws: CancellationError.self) { _ = try await task.value }
        gate.open()
    }

    @Test func aStoreThatTakesTooLongArrivesLater() async {
        let stand = Harness(seed)
        let gate = ScriptedGate()
        stand.store.wait(at: gate, before: .load)
        let session = ChappieAuthSession(credentials: stand.manager, loadDeadline: .milliseconds(50))
        guard case .failed = session.state else { return #expect(Bool(false), "\(session.state)") }
        let updates = session.stateUpdates
        gate.open()
        #expect(await updates.next { $0.isSignedIn } != nil)
    }

    // MARK: Following

    @Test func aRefreshDoneForARequestShowsInTheSession() async throws {
        let it = SessionHarness(
            person(endingIn: 100), [Service.token: [.tokens(renewed)], Service.backend: [.ok]])
        let updates = it.session.stateUpdates
        try await it.stand.send()
        #expect(await updates.next { $0 == .signedIn(expiresAt: start.addingTimeInterval(9000)) } != nil)
    }

    @Test func `a rejection that a request meets appears in the session`() async throws {
        let it = SessionHarness(
            person(endingIn: -1), [Service.token: [.error(.unauthorized, "refresh_token_invalidated")]])
        let updates = it.session.stateUpdates
        await #expect(throws: ChappieAuthError.self) { try await it.stand.send() }
        #expect(await updates.next { $0 == .reauthenticationRequired } != nil)
        #expect(it.session.accountInfo == nil)
        #expect(it.session.lastError?.requiresReauthentication == true)
    }

    @Test func `a final 401 is also reported by the session until a token is accepted`() async throws {
        let it = SessionHarness(
            seed, [Service.token: [.tokens(renewed)], Service.backend: [.refused, .refused, .ok]])
        let updates = it.session.stateUpdates
        await #expect(throws: ChappieAuthError.self) { try await it.stand.send() }
        #expect(await updates.next { $0 == .reauthenticationRequired } != nil)
        #expect(it.session.lastError?.errorDescription?.contains("refused the sign-in") == true)
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
        await #expect(throws: ChappieAuthError.self) { try await it.stand.send() }
        #expect(await updates.next { $0 == .idle } != nil)
    }

    // MARK: Signing out

    @Test func signingOutTakesEffectAtOnce() async throws {
        let it = SessionHarness(seed, [Service.revoke: [.ok], Service.backend: [.ok]])
        it.session.signOut()
        #expect(it.stand.store[it.stand.slot] == nil, "the credential is not gone when signOut returns")
        #expect(it.session.state == .signedOut)
        #expect(it.session.accountInfo == nil)
        await #expect(throws: ChappieAuthError.missingCredential) { try await it.stand.send() }
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        #expect(it.stand.service.count(Service.backend) == 0)
        let request = try #require(it.stand.service.requests(Service.revoke).first)
        #expect(
            request.text
                == #"{"token":"rt_seeded_1","token_type_hint":"refresh_token","client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}"#
        )
        #expect(
            request.headerFields.map(\.name.canonicalName) == ["content-type", "originator", "user-agent", "accept"])
    }

    @Test func `without a refresh token, the access token is revoked`() async throws {
        var seed = seed
        seed.refreshToken = nil
        let it = SessionHarness(seed, [Service.revoke: [.ok]])
        try await it.session.signOutAndRevoke()
        #expect(
            it.stand.service.requests(Service.revoke).first?.text
                == #"{"token":"\#(seed.accessToken)","token_type_hint":"access_token"}"#)
    }

    @Test func signingOutOfAnEmptySlotIsNoError() async throws {
        let it = SessionHarness()
        try await it.session.signOutAndRevoke()
        #expect(it.stand.service.count(Service.revoke) == 0)
        #expect(it.session.state == .signedOut)
    }

    @Test(arguments: [
        ScriptedHTTPAnswer.lost, .error(.internalServerError, "x"), ScriptedHTTPAnswer(beforeHead: [.stall]),
    ])
    func aServerThatCanNotBeToldWithinTenSecondsIsReportedAndChangesNothingHere(_ answer: ScriptedHTTPAnswer) async {
        let it = SessionHarness(seed, [Service.revoke: [answer]])
        let signOut = Task { try await it.session.signOutAndRevoke() }
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        it.stand.clock.advance(by: .seconds(10))
        await #expect(throws: ChappieAuthError.self) { try await signOut.value }
        #expect(it.stand.store[it.stand.slot] == nil)
        #expect(it.session.state == .signedOut)
    }

    @Test func `a store that does not delete is reported, and the token is still revoked`() async throws {
        let it = SessionHarness(seed, [Service.revoke: [.ok]])
        it.stand.store.fail(.delete, with: .locked("l"))
        await #expect(throws: ChappieAuthError.credentialStoreUnavailable(.locked("l"))) {
            try await it.session.signOutAndRevoke()
        }
        #expect(it.session.state == .signedOut)
        #expect(it.session.lastStoreError == .locked("l"))
        #expect(it.stand.service.count(Service.revoke) == 1)
        await #expect(throws: ChappieAuthError.missingCredential) { try await it.stand.send() }
    }

    @Test func tokensThatComeAfterASignOutAreRevoked() async throws {
        let gate = ScriptedGate()
        let it = SessionHarness(
            person(endingIn: -1), [Service.token: [.tokens(renewed).after(gate)], Service.revoke: [.ok]])
        let request = Task { try await it.stand.send() }
        await gate.reached()
        try await it.session.signOutAndRevoke()
        gate.open()
        await #expect(throws: ChappieAuthError.missingCredential) { try await request.value }
        await it.stand.service.waitForRequests(Service.revoke, count: 2)
        #expect(it.stand.service.requests(Service.revoke).last?.text.contains("rt_seeded_2") == true)
        #expect(it.stand.store[it.stand.slot] == nil)
        #expect(it.session.state == .signedOut)
    }

    @Test func `a sign-in right after a sign-out is not undone by the late deletion`() async throws {
        let it = SessionHarness(seed, SessionHarness.signingIn(as: person(endingIn: 7200, serial: 7)))
        it.session.signOut()
        #expect(try await it.signIn()?.name == "linked")
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        #expect(try await it.stand.send() == 200)
        #expect(it.stand.storedText?.contains("rt_seeded_7") == true)
    }

    // MARK: Refreshing on demand

    @Test func refreshingOnDemandAsksTheServerInAnyCase() async throws {
        var renewed = renewed
        renewed.plan = "pro"
        let it = SessionHarness(seed, [Service.token: [.tokens(renewed)]])
        try await it.session.refreshAuth()
        #expect(it.session.state == .signedIn(expiresAt: start.addingTimeInterval(9000)))
        #expect(it.session.accountInfo?.plan == .pro)
    }

    @Test(arguments: [400, 401, 403, 404, 429, 500])
    func `a refused refresh requires reauthentication if the server demands it`(_ status: Int) async throws {
        for code in ["invalid_grant", "x"] where status <= 403 || code == "x" {
            let it = SessionHarness(seed, [Service.token: [.error(.init(code: status), code, "Gone.")]])
            // An unknown word of the endpoint asks for a new sign-in, and leaves the credential for another try.
            let isFinal = code == "invalid_grant"
            let isUnknown = !isFinal && status < 429
            let expected: ChappieAuthError =
                if isUnknown {
                    .reauthenticationRequired(
                        "Your sign-in could not be renewed (status \(status): Gone. (x)). Please sign in again.")
                } else {
                    .tokenExchangeFailed(
                        statusCode: status, body: #"{"error":{"code":"\#(code)","message":"Gone."}}"#)
                }
            await #expect(throws: expected) { try await it.session.refreshAuth() }
            #expect(expected.requiresReauthentication == (isFinal || isUnknown))
            let signedIn = ChappieAuthState.signedIn(expiresAt: seed.expiresAt)
            #expect(it.session.state == (isFinal || isUnknown ? .reauthenticationRequired : signedIn))
            #expect(it.session.lastError == expected)
            #expect((it.stand.store[it.stand.slot] == seed.credential) != isFinal)
            #expect(it.stand.storedText?.contains(seed.accessToken) == true)
            guard isUnknown else { continue }
            await it.session.reload()
            #expect(it.session.state == signedIn)
        }
    }

    @Test func `refreshing without a refresh token requires reauthentication`() async throws {
        var seed = seed
        seed.refreshToken = nil
        for it in [SessionHarness(seed), SessionHarness()] {
            await #expect(throws: ChappieAuthError.missingRefreshToken) { try await it.session.refreshAuth() }
            #expect(it.session.state == .reauthenticationRequired)
            #expect(it.session.lastError == .missingRefreshToken)
        }
    }

    @Test func `refreshing with a locked store throws the store's error`() async throws {
        let it = SessionHarness(seed, [Service.token: [.tokens(renewed)]])
        it.stand.store.fail(.save, with: .locked("l"), times: 1)
        await #expect(throws: ChappieAuthError.credentialStoreUnavailable(.locked("l"))) {
            try await it.session.refreshAuth()
        }
        #expect(it.session.lastStoreError == .locked("l"))
    }
}

@Suite struct StatusSubjectTests {
    @Test func aSubjectMissesNothingAndRepeatsNothing() async {
        let subject = StatusSubject(0)
        let streams = (0..<4).map { _ in subject.updates() }
        let writer = Task.detached {
            for value in 1...1000 {
                subject.set(value)
                subject.set(value)
            }
        }
        for stream in streams { #expect(await stream.all { $0 == 1000 } == Array(0...1000)) }
        await writer.value
    }
}
