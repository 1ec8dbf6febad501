import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@MainActor
@Suite struct SignInTests {
    let newcomer = person(endingIn: 7200, serial: 7)

    // MARK: The way it goes

    @Test func aSignInGoesThroughEveryStateAndIsStored() async throws {
        let it = SessionHarness(nil, SessionHarness.signingIn(pending: 2, as: newcomer))
        let service = it.stand.service
        service.play(
            Service.usercode, .json(#"{"device_auth_id":"deviceauth_1","user_code":"ABCD-12345","interval":"5"}"#))
        let (updates, others) = (it.session.deviceLinkStateUpdates, it.session.deviceLinkStateUpdates)
        let states = it.session.stateUpdates
        let code = try await it.session.startDeviceCodeSignIn()
        #expect(code.userCode == "ABCD-12345")
        #expect(code.verificationURL.absoluteString == "https://issuer.test/codex/device")
        #expect(code.pollInterval == .seconds(5))
        #expect(code.expiresAt == start.addingTimeInterval(900))
        for polls in 0...2 {
            await it.stand.clock.waitForSleepers(count: 1, due: .seconds(5))
            #expect(service.count(Service.poll) == polls)
            #expect(it.session.deviceLinkState.name == (polls == 0 ? "awaitingUserCode" : "polling"))
            it.stand.clock.advance(by: .seconds(5))
        }
        let end = try #require(newcomer.expiresAt)
        for stream in [updates, others] {
            #expect(
                await stream.all { $0.isEnd } == [
                    .idle, .requestingCode, .awaitingUserCode(code), .polling(code), .linked(expiresAt: end),
                ])
        }
        #expect(
            await states.all { $0.isSignedIn } == [
                .signedOut, .signingIn,
                .awaitingDeviceCode(userCode: "ABCD-12345", verificationURL: code.verificationURL),
                .signedIn(expiresAt: end),
            ])
        #expect(it.session.accountInfo?.email == "person@example.com")
        #expect(it.session.accountInfo?.plan?.displayName == "Plus")
        #expect(it.session.lastError == nil)
        while it.notifier.notifications.isEmpty { await Task.yield() }
        let notification = it.notifier.notifications.first
        #expect(notification?.title == "ChatGPT Linked!")
        #expect(notification?.body == "Return to the app")
        let stored = try ChappieJSON(parsing: try #require(it.stand.storedText))
        #expect(stored["version"]?.int == 1)
        #expect(stored["grant"]?.string == "device_code")
        #expect(stored["tokens"]?["account_id"]?.string == "account-1")
        #expect(stored["tokens"]?["refresh_token"]?.string == "rt_seeded_7")
        #expect(try await it.stand.send() == 200)
        #expect(it.stand.bearers == [newcomer.accessToken])
    }

    @Test func theRequestsAreThoseThatTheServiceKnows() async throws {
        let it = SessionHarness(nil, SessionHarness.signingIn(as: newcomer))
        #expect(try await it.signIn()?.name == "linked")
        for (path, type, text) in [
            (Service.usercode, "application/json", #"{"client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}"#),
            (Service.poll, "application/json", #"{"device_auth_id":"deviceauth_1","user_code":"ABCD-12345"}"#),
            (
                Service.token, "application/x-www-form-urlencoded",
                "grant_type=authorization_code&client_id=app_EMoamEEZ73f0CkXaXp7hrann&code=ac_secret_1"
                    + "&redirect_uri=https%3A%2F%2Fissuer.test%2Fdeviceauth%2Fcallback&code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
            ),
        ] {
            let request = try #require(it.stand.service.requests(path).first)
            #expect(request.method == .post)
            #expect(request.fields == ["content-type: \(type)", "accept: */*"])
            #expect(request.text == text)
        }
    }

    @Test func aCodeIsAwaitedUntilTheFirstPollIsSent() async throws {
        let gate = ScriptedGate()
        var answers = SessionHarness.signingIn(as: newcomer)
        answers[Service.poll] = [.approved.after(gate)]
        let it = SessionHarness(nil, answers)
        let code = try await it.session.startDeviceCodeSignIn()
        let updates = it.session.deviceLinkStateUpdates
        #expect(it.session.deviceLinkState == .awaitingUserCode(code))
        await gate.reached()
        #expect(await updates.next { $0.name == "polling" } != nil)
        gate.open()
    }

    /// A revocation may end all of that user's sign-ins with this client.
    @Test(arguments: [true, false])
    func `the superseded credential is not revoked`(_ isOtherAccount: Bool) async throws {
        let seed = isOtherAccount ? someoneElse : person(endingIn: 7200)
        let it = SessionHarness(seed, SessionHarness.signingIn(as: newcomer))
        #expect(try await it.signIn()?.name == "linked")
        await it.session.finishPendingWork()
        #expect(it.stand.service.count(Service.revoke) == 0)
        #expect(it.stand.storedText?.contains("rt_seeded_7") == true)
    }

    // MARK: No code

    @Test func `a device sign-in that is switched off reports where to switch it on`() async throws {
        let it = SessionHarness(nil, [Service.usercode: [.error(.notFound, "not_found")]])
        await #expect {
            try await it.session.startDeviceCodeSignIn()
        } throws: { error in
            guard case .authorizationDenied(let words)? = error as? ChappieAuthError else { return false }
            return words.contains("Enable device code authorization for Codex")
                && words.contains("https://chatgpt.com/#settings/Security") && words.contains("issuer.test")
        }
        #expect(it.session.deviceLinkState.name == "failed")
        guard case .failed(let sentence) = it.session.state else { return #expect(Bool(false), "\(it.session.state)") }
        #expect(sentence.contains("#settings/Security"))
        #expect(it.session.lastError?.requiresReauthentication == false)
    }

    /// A keyring that asks its user may answer after the service has.
    @Test func `a store that answers late does not clear the reason of a failed sign-in`() async throws {
        let stand = Harness(nil, [Service.usercode: [.error(.notFound, "not_found")]])
        let gate = ScriptedGate()
        stand.store.wait(at: gate, before: .load)
        let session = ChappieAuthSession(credentials: stand.manager, loadDeadline: .milliseconds(50))
        await #expect(throws: ChappieAuthError.self) { try await session.startDeviceCodeSignIn() }
        let failed = session.state
        guard case .failed(let sentence) = failed else { return #expect(Bool(false), "\(failed)") }
        #expect(sentence.contains("#settings/Security"))
        gate.open()
        #expect(try await stand.manager.accountInfo() == nil)
        let updates = session.stateUpdates
        session.signOut()
        // Nothing came between.
        var states = updates.makeAsyncIterator()
        #expect(await states.next() == failed)
        #expect(await states.next() == .signedOut)
    }

    @Test func `a sign-in that fails next to an account is forgotten with the account`() async throws {
        let it = SessionHarness(
            person(endingIn: 7200), [Service.usercode: [.error(.notFound, "not_found")], Service.revoke: [.ok]])
        await #expect(throws: ChappieAuthError.self) { try await it.session.startDeviceCodeSignIn() }
        #expect(it.session.state.isSignedIn)
        let updates = it.session.stateUpdates
        try await ChappieAuthSession(credentials: it.stand.manager).signOutAndRevoke()
        #expect(await updates.next { !$0.isSignedIn } == .signedOut)
    }

    @Test(arguments: [
        (ScriptedHTTPAnswer.lost, "networkFailure"), (.error(.internalServerError, "x"), "tokenExchangeFailed 500"),
        (.page(.ok), "networkFailure"), (.page(.forbidden), "blockedByGateway"),
        (.page(.proxyAuthenticationRequired), "networkFailure"),
        (.json("{}"), "invalidResponse"),
        // Without an end.
        (.response(body: String(repeating: " ", count: 2 << 20)), "networkFailure"),
    ])
    func noCodeIsAnErrorOfItsOwn(_ answer: ScriptedHTTPAnswer, _ expected: String) async throws {
        let it = SessionHarness(nil, [Service.usercode: [answer]])
        await #expect {
            try await it.session.startDeviceCodeSignIn()
        } throws: { name(of: $0) == expected }
        #expect(it.session.deviceLinkState.name == "failed")
        #expect(it.stand.service.count(Service.usercode) == 1)
    }

    private func name(of error: any Error) -> String {
        switch error as? ChappieAuthError {
        case .networkFailure?: "networkFailure"
        case .blockedByGateway?: "blockedByGateway"
        case .tokenExchangeFailed(let status, _)?: "tokenExchangeFailed \(status)"
        default: "\(error)"
        }
    }

    // MARK: No approval

    @Test func theServersLifetimeEndsTheCode() async throws {
        let expires = #"{"device_auth_id":"d1","user_code":"A","interval":5,"expires_at":"2026-11-20T12:00:12Z"}"#
        let it = SessionHarness(nil, [Service.usercode: [.json(expires)], Service.poll: [.pending]])
        let end = try await it.signIn {
            // The wall jumps about; only the time that has passed counts.
            for (seconds, wall) in [(5, 1e9), (5, -1e9), (2, 0)] as [(Int, TimeInterval)] {
                await it.stand.clock.waitForSleepers(count: 1, due: .seconds(seconds))
                it.stand.clock.setWall(to: start.addingTimeInterval(wall))
                it.stand.clock.advance(by: .seconds(seconds))
            }
        }
        #expect(end == .expired)
        #expect(it.session.lastError == .expiredDeviceCode)
        #expect(it.session.state == .signedOut)
        #expect(it.stand.service.count(Service.poll) == 3)
    }

    @Test func aSignInThatFailsEndsTheOneCall() async throws {
        let refusal = ScriptedHTTPAnswer.error(.badRequest, "access_denied", "The person refused.")
        let it = SessionHarness(nil, [Service.usercode: [.deviceCode], Service.poll: [refusal]])
        var shown: [String] = []
        await #expect(throws: ChappieAuthError.authorizationDenied("The person refused.")) {
            _ = try await it.session.signIn { shown.append($0.userCode) }
        }
        #expect(shown == ["ABCD-12345"])
        #expect(!it.session.state.isSignedIn)
        #expect(it.session.deviceLinkState == .failed(.authorizationDenied("The person refused.")))
    }

    @Test func aCodeThatCantBeShownEndsTheSignIn() async {
        struct NoScreen: Error, Equatable {}
        let it = SessionHarness(nil, [Service.usercode: [.deviceCode], Service.poll: [.pending]])
        await #expect(throws: NoScreen()) {
            try await it.session.signIn { _ in
                await Task.yield()
                throw NoScreen()
            }
        }
        #expect(it.session.state == .signedOut && it.session.deviceLinkState == .cancelled)
        #expect(it.session.lastError == nil)
    }

    // MARK: No tokens

    @Test(arguments: [
        (ScriptedHTTPAnswer.lost, "networkFailure"), (.error(.badRequest, "invalid_grant"), "tokenExchangeFailed 400"),
        (.error(.unauthorized, "x"), "tokenExchangeFailed 401"), (.json("{}"), "invalidResponse"),
        (.json(#"{"id_token":"a.b.c","access_token":"at_1"}"#), "invalidResponse"),
        (.json(#"{"access_token":"at_1","refresh_token":"rt_1"}"#), "invalidResponse"),
        (.page(.badRequest), "networkFailure"),
    ])
    func aFailedExchangeLeavesAnExistingCredentialAlone(_ answer: ScriptedHTTPAnswer, _ expected: String) async throws {
        let seed = person(endingIn: 7200)
        let it = SessionHarness(
            seed, [Service.usercode: [.deviceCode], Service.poll: [.approved], Service.token: [answer]])
        guard case .failed(let error)? = try await it.signIn() else {
            return #expect(Bool(false), "\(it.session.deviceLinkState)")
        }
        #expect(name(of: error) == expected)
        #expect(it.session.lastError == error)
        #expect(it.session.state == .signedIn(expiresAt: seed.expiresAt))
        #expect(it.stand.store[it.stand.slot] == seed.credential)
        #expect(it.session.accountInfo != nil)
    }

    /// Without a sign-in before it, a sign-in that the token endpoint refuses leaves a user who has to begin anew.
    @Test(arguments: [
        (ScriptedHTTPAnswer.error(.badRequest, "invalid_grant"), true), (.error(.unauthorized, "x"), true),
        (.json(#"{"id_token":"a.b.c","access_token":"at_1"}"#), false), (.response(status: .unauthorized), false),
        (.json("{}"), false), (.page(.badRequest), false),
    ])
    func aRefusedExchangeWithoutAStoredCredentialAsksForANewSignIn(_ answer: ScriptedHTTPAnswer, _ isFinal: Bool)
        async throws
    {
        let it = SessionHarness(
            nil, [Service.usercode: [.deviceCode], Service.poll: [.approved], Service.token: [answer]])
        #expect(try await it.signIn()?.name == "failed")
        #expect(it.session.lastError?.requiresReauthentication == isFinal)
        #expect((it.session.state == .reauthenticationRequired) == isFinal, "\(it.session.state)")
    }

    private func exchanging(_ answers: ScriptedHTTPAnswer...) -> SessionHarness {
        let service = [Service.usercode: [.deviceCode], Service.poll: [.approved], Service.token: answers]
        return SessionHarness(nil, service)
    }

    @Test(arguments: [
        ScriptedHTTPAnswer.lost, .page(.badGateway), .error(.serviceUnavailable, "x"),
        .error(.internalServerError, "server_error"), .error(.init(code: 520), "x"),
    ])
    func anExchangeThatTheNetworkFailsIsTriedOnceMore(_ answer: ScriptedHTTPAnswer) async throws {
        var it = exchanging(answer, .tokens(newcomer))
        #expect(try await it.signIn()?.name == "linked")
        #expect(it.stand.service.count(Service.token) == 2)
        it = exchanging(answer)
        #expect(try await it.signIn()?.name == "failed")
        #expect(it.stand.service.count(Service.token) == 2)
    }

    @Test func `an exchange that the service puts off is repeated after a short pause`() async throws {
        let busy = { (seconds: String) in
            ScriptedHTTPAnswer.response(
                status: .tooManyRequests, headerFields: [.retryAfter: seconds, .contentType: "application/json"],
                body: #"{"error":{"code":"rate_limit_exceeded","message":"Try again later."}}"#)
        }
        var it = exchanging(busy("15"), .tokens(newcomer))
        let end = try await it.signIn {
            await it.stand.clock.waitForSleepers(count: 1, due: .seconds(15))
            it.stand.clock.advance(by: .seconds(15))
        }
        #expect(end?.name == "linked")
        it = exchanging(busy("120"), .tokens(newcomer))
        #expect(try await it.signIn() == .failed(.tooManyRequests(retryAfter: .seconds(120))))
        #expect(it.session.lastError?.recoverySuggestion == "Try again in 2 min.")
        #expect(it.stand.service.count(Service.token) == 1)
    }

    @Test func `a request for a code that is not answered ends`() async throws {
        let it = SessionHarness(nil, [Service.usercode: [ScriptedHTTPAnswer(beforeHead: [.stall])]])
        let code = Task { try await it.session.startDeviceCodeSignIn() }
        await it.stand.service.waitForRequests(Service.usercode, count: 1)
        await it.stand.clock.waitForSleepers(count: 1, due: .seconds(30))
        it.stand.clock.advance(by: .seconds(30))
        await #expect {
            _ = try await code.value
        } throws: { name(of: $0) == "networkFailure" }
    }

    @Test func `a poll that is not answered ends with its code`() async throws {
        let code = #"{"device_auth_id":"d1","user_code":"A","interval":"0","expires_in":20}"#
        let it = SessionHarness(
            nil, [Service.usercode: [.json(code)], Service.poll: [ScriptedHTTPAnswer(beforeHead: [.stall])]])
        let end = try await it.signIn {
            await it.stand.service.waitForRequests(Service.poll, count: 1)
            await it.stand.clock.waitForSleepers(count: 1, due: .seconds(20))
            it.stand.clock.advance(by: .seconds(20))
        }
        #expect(end == .expired)
        #expect(it.stand.service.count(Service.poll) == 1)
    }

    @Test func `an exchange that is not answered is tried once more`() async throws {
        let it = exchanging(ScriptedHTTPAnswer(beforeHead: [.stall]), .tokens(newcomer))
        let end = try await it.signIn {
            await it.stand.service.waitForRequests(Service.token, count: 1)
            await it.stand.clock.waitForSleepers(count: 1, due: .seconds(60))
            it.stand.clock.advance(by: .seconds(60))
        }
        #expect(end?.name == "linked")
        #expect(it.stand.service.count(Service.token) == 2)
    }

    /// The first request has arrived after all, and has used the code up.
    @Test func `a second exchange that is refused reports the failure of the first`() async throws {
        let it = exchanging(.lost, .error(.badRequest, "invalid_grant"))
        guard case .failed(.networkFailure(let words))? = try await it.signIn() else {
            return #expect(Bool(false), "\(it.session.deviceLinkState)")
        }
        #expect(words.contains("issuer.test"))
        #expect(it.stand.service.count(Service.token) == 2)
    }

    // MARK: No place to keep it

    @Test func `a store that does not accept the credential fails the sign-in`() async throws {
        let seed = person(endingIn: 7200)
        let it = SessionHarness(seed, SessionHarness.signingIn(as: newcomer))
        it.stand.store.fail(.save, with: .locked("the keyring is locked"))
        #expect(try await it.signIn()?.name == "failed")
        #expect(it.session.lastStoreError == .locked("the keyring is locked"))
        #expect(it.session.state == .signedIn(expiresAt: seed.expiresAt))
        #expect(it.stand.store[it.stand.slot] == seed.credential)
        await it.session.finishPendingWork()
        #expect(it.stand.service.count(Service.revoke) == 0, "the earlier sign-in might end as well")
    }

    /// Says "saved", and keeps what it had.
    private struct Forgetful: CredentialStore {
        func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? { nil }
        func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {}
        func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {}
    }

    @Test func aStoreThatOnlySaysThatItSavedIsFoundOut() async throws {
        let stand = Harness(nil, SessionHarness.signingIn(as: newcomer))
        let session = ChappieAuthSession(credentials: stand.otherManager(store: Forgetful()))
        try await session.startDeviceCodeSignIn()
        #expect(await session.deviceLinkStateUpdates.next { $0.isEnd }?.name == "failed")
        #expect(session.lastStoreError == .notVerified)
    }

    // MARK: Cancelling

    /// The points at which a sign-in can be cancelled.
    enum Stage: CaseIterable {
        case requestingCode, asleepBetweenPolls, polling, exchanging, savingTheCredential
    }

    /// A service that stops at `stage`.
    private func answers(stoppingAt stage: Stage, _ gate: ScriptedGate) -> [String: [ScriptedHTTPAnswer]] {
        var answers = SessionHarness.signingIn(as: newcomer)
        switch stage {
        case .requestingCode: answers[Service.usercode] = [.deviceCode.after(gate), .deviceCode]
        case .asleepBetweenPolls: answers[Service.poll] = [.pending]
        case .polling: answers[Service.poll] = [.approved.after(gate)]
        case .exchanging: answers[Service.token] = [.tokens(newcomer).after(gate)]
        case .savingTheCredential: break
        }
        return answers
    }

    @Test(arguments: Stage.allCases, [true, false])
    func `cancelling ends a sign-in at any moment and leaves the earlier credential`(_ stage: Stage, _ isSignedIn: Bool)
        async throws
    {
        let gate = ScriptedGate()
        let seed = isSignedIn ? person(endingIn: 7200) : nil
        let it = SessionHarness(seed, answers(stoppingAt: stage, gate))
        let before = it.session.state
        if stage == .savingTheCredential { it.stand.store.wait(at: gate, before: .save) }
        let updates = it.session.deviceLinkStateUpdates
        let start = Task { try await it.session.startDeviceCodeSignIn() }
        if stage == .asleepBetweenPolls {
            await it.stand.clock.waitForSleepers(count: 1, due: .seconds(1))
        } else {
            await gate.reached()
        }
        it.session.cancelSignIn()
        #expect(it.session.deviceLinkState == .cancelled)
        #expect(it.session.state == before)
        if stage == .requestingCode {
            await #expect(throws: ChappieAuthError.cancelledSignIn) { try await start.value }
        } else {
            #expect(try await start.value.userCode == "ABCD-12345")
        }
        gate.open()
        #expect(await updates.next { $0.isEnd } == .cancelled)
        if stage == .exchanging || stage == .savingTheCredential {
            await it.session.finishPendingWork()
            #expect(it.stand.service.count(Service.revoke) == (isSignedIn ? 0 : 1))
        }
        #expect(it.stand.storedText.map { !$0.contains("rt_seeded_7") } ?? !isSignedIn)
        #expect(it.session.state == before)
        #expect(it.session.lastError == nil)
        #expect(it.notifier.notifications.isEmpty)
    }

    @Test func `a program that ends in the middle of the exchange waits until its tokens are revoked`() async throws {
        let gate = ScriptedGate()
        let it = SessionHarness(nil, answers(stoppingAt: .exchanging, gate))
        try await it.session.startDeviceCodeSignIn()
        await gate.reached()
        it.session.cancelSignIn()
        gate.open()
        await it.session.finishPendingWork()
        #expect(it.stand.service.requests(Service.revoke).first?.text.contains("rt_seeded_7") == true)
        #expect(it.stand.storedText == nil)
    }

    @Test func cancellingTheCallerCancelsTheSignIn() async {
        let gate = ScriptedGate()
        let it = SessionHarness(nil, answers(stoppingAt: .requestingCode, gate))
        let start = Task { try await it.session.startDeviceCodeSignIn() }
        await gate.reached()
        start.cancel()
        await #expect(throws: ChappieAuthError.cancelledSignIn) { try await start.value }
        #expect(it.session.deviceLinkState == .cancelled)
    }

    @Test func aSecondSignInCancelsTheFirst() async throws {
        let gate = ScriptedGate()
        let it = SessionHarness(nil, answers(stoppingAt: .requestingCode, gate))
        let updates = it.session.deviceLinkStateUpdates
        let first = Task { try await it.session.startDeviceCodeSignIn() }
        await gate.reached()
        try await it.session.startDeviceCodeSignIn()
        await #expect(throws: ChappieAuthError.cancelledSignIn) { try await first.value }
        #expect(
            await updates.all { $0.name == "linked" }.map(\.name) == [
                "idle", "requestingCode", "cancelled", "requestingCode", "awaitingUserCode", "polling", "linked",
            ])
        #expect(it.stand.service.count(Service.token) == 1)
    }

    @Test func `a user whom another session has signed in needs no code any more`() async throws {
        let it = SessionHarness(nil, [Service.usercode: [.deviceCode], Service.poll: [.pending]])
        let other = ChappieAuthSession(credentials: it.stand.manager)
        async let account = it.session.signIn { _ in
            await it.stand.clock.waitForSleepers(count: 1, due: .seconds(1))
            it.stand.service.play(Service.poll, .approved)
            it.stand.service.play(Service.token, .tokens(self.newcomer))
            _ = try await other.signIn { _ in }
        }
        #expect(try await account.email == newcomer.email)
        #expect(it.session.state == .signedIn(expiresAt: newcomer.expiresAt))
        #expect(it.session.deviceLinkState == .cancelled)
        #expect(it.stand.service.count(Service.token) == 1)
        while it.stand.clock.sleeperCount > 0 { await Task.yield() }
    }

    @Test func `signing out while the credential is being saved wins`() async throws {
        let gate = ScriptedGate()
        let it = SessionHarness(nil, SessionHarness.signingIn(as: newcomer))
        it.stand.store.wait(at: gate, before: .save)
        try await it.session.startDeviceCodeSignIn()
        await gate.reached()
        let signOut = Task { try await it.session.signOutAndRevoke() }
        while it.session.state != .signedOut || it.session.deviceLinkState != .idle { await Task.yield() }
        gate.open()
        try await signOut.value
        #expect(it.stand.store[it.stand.slot] == nil)
        #expect(it.session.state == .signedOut)
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        await #expect(throws: ChappieAuthError.missingCredential) { try await it.stand.send() }
    }

    @Test func aSessionThatIsLetGoStopsPolling() async throws {
        let stand = Harness(nil, [Service.usercode: [.deviceCode], Service.poll: [.pending]])
        var session: ChappieAuthSession? = ChappieAuthSession(credentials: stand.manager)
        session?.cancelSignIn()
        #expect(session?.deviceLinkState == .idle, "cancelling without a sign-in does nothing")
        try await session?.startDeviceCodeSignIn()
        await stand.clock.waitForSleepers(count: 1, due: .seconds(1))
        let updates = try #require(session?.deviceLinkStateUpdates)
        session = nil
        #expect(await updates.all { _ in false }.last?.name == "polling")
        while stand.clock.sleeperCount > 0 { await Task.yield() }
    }

    // MARK: A store that can't keep it

    private struct Refusing: CredentialStore {
        func load(_ slot: CredentialSlot) -> Secret? { nil }
        func prepareToSave(in slot: CredentialSlot) throws(CredentialStoreError) { throw .absent("there is no bus") }
        func save(_ secret: Secret, in slot: CredentialSlot) { Issue.record("saved") }
        func delete(_ slot: CredentialSlot) {}
    }

    @Test func theStoreIsAskedBeforeACodeIs() async {
        let stand = Harness(nil, SessionHarness.signingIn(as: newcomer))
        let session = ChappieAuthSession(credentials: stand.otherManager(store: Refusing()))
        await #expect(throws: ChappieAuthError.credentialStoreUnavailable(.absent("there is no bus"))) {
            _ = try await session.signIn { _ in Issue.record("a code is shown") }
        }
        #expect(session.lastStoreError == .absent("there is no bus"))
        #expect(session.state == .failed("No keyring is available: there is no bus."))
        #expect(stand.service.count(Service.usercode) == 0)
        // The message that names another store says how to choose it.
        let advice = session.lastError?.recoverySuggestion ?? ""
        #expect(advice.contains(".encryptedFile(passphrase:)") && !advice.contains("CHAPPIE_"))
    }

    // MARK: A program that ends

    @Test func whatIsUnderWayIsWaitedForButNotForever() async {
        let it = SessionHarness(
            person(endingIn: 7200), [Service.token: [ScriptedHTTPAnswer(beforeHead: [.stall]), .tokens(newcomer)]])
        await it.session.finishPendingWork()
        let renewal = Task { try await it.session.refreshAuth() }
        await it.stand.service.waitForRequests(Service.token, count: 1)
        let finishing = Task { await it.session.finishPendingWork(within: .seconds(5)) }
        // One is the token endpoint's deadline.
        await it.stand.clock.waitForSleepers(count: 2)
        it.stand.clock.advance(by: .seconds(5))
        await finishing.value
        #expect(it.session.state.isSignedIn)
        it.stand.clock.advance(by: .seconds(60))
        await #expect(throws: ChappieAuthError.self) { try await renewal.value }
    }
}
