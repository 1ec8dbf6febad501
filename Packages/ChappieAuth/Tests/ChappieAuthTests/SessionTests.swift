import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@MainActor
@Suite struct SessionTests {
    private func text(_ request: HTTPExchangeRequest?) -> String {
        String(decoding: request?.body?.bytes ?? [], as: UTF8.self)
    }

    // MARK: At the start

    @Test func aReturningPersonIsSignedInAtOnce() {
        let it = SessionHarness(person(endingIn: 7200))
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

    @Test(arguments: [
        CredentialStoreError.locked("l"), .absent("a"), .denied("d"), .timedOut(.seconds(5)), .corrupt("c"),
    ])
    func aStoreThatCanNotBeReadIsAFailureWithASentence(_ error: CredentialStoreError) throws {
        let stand = Harness(person(endingIn: 7200))
        stand.store.fail(.load, with: error)
        let session = ChappieAuthSession(credentials: stand.manager)
        #expect(session.state == .failed(try #require(error.errorDescription)))
        #expect(session.lastStoreError == error)
    }

    @Test func aSessionThatLoadsWithoutBlockingReadsOnce() async throws {
        let stand = Harness(person(endingIn: 7200))
        let session = try await ChappieAuthSession(loading: stand.manager)
        #expect(session.state == .signedIn(expiresAt: start.addingTimeInterval(7200)))
        #expect(session.accountInfo?.accountID == "account-1")
        #expect(stand.store.calls == [.load])
    }

    /// What asks the person is neither read again for the session nor for the deletion.
    @Test func whoeverRefusesIsNotAskedAgain() async throws {
        let stand = Harness(person(endingIn: 7200))
        stand.store.fail(.load, with: .denied("d"))
        let session = try await ChappieAuthSession(loading: stand.manager)
        #expect(session.lastStoreError == .denied("d"))
        let updates = session.stateUpdates
        try await stand.manager.signOut()
        #expect(stand.store.calls == [.load, .delete])
        #expect(stand.store[stand.slot] == nil)
        #expect(await updates.next { $0 == .signedOut } != nil)
    }

    @Test func aSessionThatIsGivenUpWhileItLoadsIsNone() async throws {
        let stand = Harness(person(endingIn: 7200))
        let gate = ScriptedGate()
        stand.store.wait(at: gate, before: .load)
        let task = Task { try await ChappieAuthSession(loading: stand.manager) }
        await gate.reached()
        task.cancel()
        await #expect(throws: CancellationError.self) { _ = try await task.value }
        gate.open()
    }

    @Test func aStoreThatRecoversSignsTheSessionIn() async throws {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok]])
        stand.store.fail(.load, with: .locked("l"), times: 1)
        let session = ChappieAuthSession(credentials: stand.manager)
        #expect(session.state.isFailed)
        try await stand.send()
        let state = await session.stateUpdates.next { !$0.isFailed }
        #expect(state == .signedIn(expiresAt: start.addingTimeInterval(7200)))
    }

    @Test func aStoreThatTakesTooLongArrivesLater() async {
        let stand = Harness(person(endingIn: 7200))
        let gate = ScriptedGate()
        stand.store.wait(at: gate, before: .load)
        let session = ChappieAuthSession(credentials: stand.manager, loadDeadline: .milliseconds(50))
        #expect(session.state.isFailed)
        let updates = session.stateUpdates
        gate.open()
        let state = await updates.next { !$0.isFailed }
        #expect(state == .signedIn(expiresAt: start.addingTimeInterval(7200)))
    }

    // MARK: Following

    @Test func aRefreshDoneForARequestShowsInTheSession() async throws {
        let it = SessionHarness(
            person(endingIn: 100),
            [Service.token: [.tokens(person(endingIn: 9000, serial: 2))], Service.backend: [.ok]])
        let updates = it.session.stateUpdates
        try await it.stand.send()
        let state = await updates.next { $0 != .signedIn(expiresAt: start.addingTimeInterval(100)) }
        #expect(state == .signedIn(expiresAt: start.addingTimeInterval(9000)))
    }

    @Test func aRejectionFoundByARequestShowsInTheSession() async throws {
        let it = SessionHarness(
            person(endingIn: -1), [Service.token: [.error(.unauthorized, "refresh_token_invalidated")]])
        let updates = it.session.stateUpdates
        await #expect(throws: AuthorizationError.self) { try await it.stand.send() }
        #expect(await updates.next { $0 == .reauthenticationRequired } != nil)
        #expect(it.session.accountInfo == nil)
    }

    // MARK: Signing out

    @Test func signingOutTakesEffectAtOnce() async throws {
        let it = SessionHarness(person(endingIn: 7200), [Service.revoke: [.ok], Service.backend: [.ok]])
        it.session.signOut()
        #expect(it.session.state == .signedOut)
        #expect(it.session.accountInfo == nil)
        await #expect(throws: AuthorizationError.missingCredential) { try await it.stand.send() }
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        #expect(it.stand.store[it.stand.slot] == nil)
        #expect(it.stand.service.count(Service.backend) == 0)
        let request = try #require(it.stand.service.requests(Service.revoke).first)
        #expect(
            text(request)
                == #"{"token":"rt_seeded_1","token_type_hint":"refresh_token","client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}"#
        )
        #expect(
            request.headerFields.map(\.name.canonicalName) == ["content-type", "originator", "user-agent", "accept"])
    }

    @Test func withoutARefreshTokenTheAccessTokenIsRevoked() async throws {
        var seed = person(endingIn: 7200)
        seed.refreshToken = nil
        let it = SessionHarness(seed, [Service.revoke: [.ok]])
        try await it.session.signOutAndRevoke()
        #expect(
            text(it.stand.service.requests(Service.revoke).first)
                == #"{"token":"\#(seed.accessToken)","token_type_hint":"access_token"}"#)
    }

    @Test func nobodySignsOutWithoutAnError() async throws {
        let it = SessionHarness()
        try await it.session.signOutAndRevoke()
        #expect(it.stand.service.count(Service.revoke) == 0)
        #expect(it.session.state == .signedOut)
    }

    @Test func aServerThatCanNotBeToldIsReportedAndChangesNothingHere() async throws {
        for answer in [ScriptedHTTPAnswer.lost, .error(.internalServerError, "x")] {
            let it = SessionHarness(person(endingIn: 7200), [Service.revoke: [answer]])
            await #expect(throws: ChappieAuthError.self) { try await it.session.signOutAndRevoke() }
            #expect(it.stand.store[it.stand.slot] == nil)
            #expect(it.session.state == .signedOut)
        }
    }

    @Test func aRevocationThatNeverAnswersIsGivenUpAfterTenSeconds() async throws {
        let it = SessionHarness(person(endingIn: 7200), [Service.revoke: [ScriptedHTTPAnswer(beforeHead: [.stall])]])
        let signOut = Task { try await it.session.signOutAndRevoke() }
        await it.stand.clock.waitForSleepers(count: 1)
        #expect(it.stand.store[it.stand.slot] == nil)
        it.stand.clock.advance(by: .seconds(10))
        await #expect(throws: ChappieAuthError.self) { try await signOut.value }
    }

    @Test func aStoreThatDoesNotDeleteIsReportedAndTheServerToldAllTheSame() async throws {
        let it = SessionHarness(person(endingIn: 7200), [Service.revoke: [.ok]])
        it.stand.store.fail(.delete, with: .locked("l"))
        await #expect(throws: ChappieAuthError.self) { try await it.session.signOutAndRevoke() }
        #expect(it.session.state == .signedOut)
        #expect(it.session.lastStoreError == .locked("l"))
        #expect(it.stand.service.count(Service.revoke) == 1)
        await #expect(throws: AuthorizationError.missingCredential) { try await it.stand.send() }
    }

    @Test func whatCanNotBeReadCanBeDeleted() async throws {
        let stand = Harness(nil)
        stand.store[stand.slot] = Secret("not a credential")
        try await stand.manager.signOut()
        #expect(stand.store[stand.slot] == nil)
        stand.store.fail(.delete, with: .denied("d"))
        stand.store[stand.slot] = Secret("not a credential")
        await #expect(throws: CredentialStoreError.denied("d")) { try await stand.manager.signOut() }
    }

    @Test func tokensThatComeAfterASignOutAreRevoked() async throws {
        let gate = ScriptedGate()
        let it = SessionHarness(
            person(endingIn: -1),
            [Service.token: [.tokens(person(endingIn: 7200, serial: 2)).after(gate)], Service.revoke: [.ok]])
        let request = Task { try await it.stand.send() }
        await gate.reached()
        try await it.session.signOutAndRevoke()
        gate.open()
        await #expect(throws: AuthorizationError.missingCredential) { try await request.value }
        await it.stand.service.waitForRequests(Service.revoke, count: 2)
        #expect(text(it.stand.service.requests(Service.revoke).last).contains("rt_seeded_2"))
        #expect(it.stand.store[it.stand.slot] == nil)
        #expect(it.session.state == .signedOut)
    }

    @Test func signingInRightAfterSigningOutIsNotUndoneByTheLateDeletion() async throws {
        let newcomer = person(endingIn: 7200, serial: 7)
        let it = SessionHarness(person(endingIn: 7200), SessionHarness.signingIn(as: newcomer))
        let updates = it.session.deviceLinkStateUpdates
        it.session.signOut()
        try await it.session.startDeviceCodeSignIn()
        #expect(await it.linkStates(from: updates).last?.name == "linked")
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        #expect(try await it.stand.send() == 200)
        #expect(it.stand.storedText?.contains("rt_seeded_7") == true)
    }

    // MARK: Refreshing on demand

    @Test func refreshingOnDemandAsksTheServerInAnyCase() async throws {
        var renewed = person(endingIn: 9000, serial: 2)
        renewed.plan = "pro"
        let it = SessionHarness(person(endingIn: 7200), [Service.token: [.tokens(renewed)]])
        try await it.session.refreshAuth()
        #expect(it.session.state == .signedIn(expiresAt: start.addingTimeInterval(9000)))
        #expect(it.session.accountInfo?.plan == .pro)
    }

    @Test(arguments: [400, 401, 403])
    func aRefusedRefreshRequiresReauthentication(_ status: Int) async throws {
        let it = SessionHarness(
            person(endingIn: 7200), [Service.token: [.error(.init(code: status), "invalid_grant", "Gone.")]])
        let expected = ChappieAuthError.tokenExchangeFailed(
            statusCode: status, body: #"{"error":{"code":"invalid_grant","message":"Gone."}}"#)
        await #expect(throws: expected) { try await it.session.refreshAuth() }
        #expect(expected.requiresReauthentication)
        #expect(it.session.state == .reauthenticationRequired)
        #expect(it.session.lastError == expected)
        #expect(it.session.accountInfo == nil)
        #expect(it.stand.store[it.stand.slot] == nil)
    }

    @Test(arguments: [500, 502, 429, 404, 400, 403])
    func anotherFailureLeavesTheCredential(_ status: Int) async throws {
        let seed = person(endingIn: 7200)
        let it = SessionHarness(seed, [Service.token: [.error(.init(code: status), "x", "Later.")]])
        await #expect(
            throws: ChappieAuthError.tokenExchangeFailed(
                statusCode: status, body: #"{"error":{"code":"x","message":"Later."}}"#)
        ) {
            try await it.session.refreshAuth()
        }
        #expect(it.session.state == .signedIn(expiresAt: seed.expiresAt))
        #expect(it.stand.store[it.stand.slot] == seed.credential)
    }

    @Test func refreshingWithoutARefreshTokenRequiresReauthentication() async throws {
        var seed = person(endingIn: 7200)
        seed.refreshToken = nil
        for it in [SessionHarness(seed), SessionHarness()] {
            await #expect(throws: ChappieAuthError.missingRefreshToken) { try await it.session.refreshAuth() }
            #expect(it.session.state == .reauthenticationRequired)
            #expect(it.session.lastError == .missingRefreshToken)
        }
    }

    @Test func refreshingWithALockedStoreIsTheStoresError() async throws {
        let it = SessionHarness(
            person(endingIn: 7200), [Service.token: [.tokens(person(endingIn: 9000, serial: 2))]])
        it.stand.store.fail(.save, with: .locked("l"), times: 1)
        await #expect(throws: ChappieAuthError.self) { try await it.session.refreshAuth() }
        #expect(it.session.lastStoreError == .locked("l"))
    }
}

extension ChappieAuthState {
    fileprivate var isFailed: Bool { if case .failed = self { true } else { false } }
}
