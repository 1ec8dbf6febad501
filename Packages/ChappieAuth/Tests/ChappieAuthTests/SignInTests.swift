import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@MainActor
@Suite struct SignInTests {
    let newcomer = person(endingIn: 7200, serial: 7)

    private func text(_ request: HTTPExchangeRequest?) -> String {
        String(decoding: request?.body?.bytes ?? [], as: UTF8.self)
    }

    // MARK: The way it goes

    @Test func aSignInGoesThroughEveryStateAndIsStored() async throws {
        let it = SessionHarness(nil, SessionHarness.signingIn(pending: 2, as: newcomer))
        let service = it.stand.service
        let updates = it.session.deviceLinkStateUpdates
        let states = it.session.stateUpdates
        let code = try await it.session.startDeviceCodeSignIn()
        #expect(code.userCode == "ABCD-12345")
        #expect(code.verificationURL.absoluteString == "https://issuer.test/codex/device")
        #expect(code.pollInterval == .seconds(5))
        #expect(code.expiresAt == start.addingTimeInterval(900))
        for polls in 1...2 {
            await it.stand.clock.waitForSleepers(count: 1)
            #expect(service.count(Service.poll) == polls)
            it.stand.clock.advance(by: .seconds(5))
        }
        let end = try #require(newcomer.expiresAt)
        #expect(
            await it.linkStates(from: updates) == [
                .idle, .requestingCode, .awaitingUserCode(code), .polling(code), .linked(expiresAt: end),
            ])
        #expect(it.session.state == .signedIn(expiresAt: end))
        #expect(it.session.accountInfo?.email == "person@example.com")
        #expect(it.session.accountInfo?.plan?.displayName == "Plus")
        #expect(it.session.lastError == nil)
        var seen: [ChappieAuthState] = []
        for await state in states {
            seen.append(state)
            if case .signedIn = state { break }
        }
        #expect(
            seen == [
                .signedOut, .signingIn,
                .awaitingDeviceCode(userCode: "ABCD-12345", verificationURL: code.verificationURL),
                .signedIn(expiresAt: end),
            ])
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
        let updates = it.session.deviceLinkStateUpdates
        try await it.session.startDeviceCodeSignIn()
        #expect(await it.linkStates(from: updates).last?.name == "linked")
        let service = it.stand.service
        #expect(text(service.requests(Service.usercode).first) == #"{"client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}"#)
        #expect(
            text(service.requests(Service.poll).first) == #"{"device_auth_id":"deviceauth_1","user_code":"ABCD-12345"}"#
        )
        #expect(
            text(service.requests(Service.token).first)
                == "grant_type=authorization_code&client_id=app_EMoamEEZ73f0CkXaXp7hrann&code=ac_secret_1"
                + "&redirect_uri=https%3A%2F%2Fissuer.test%2Fdeviceauth%2Fcallback&code_verifier=verifier_0123456789abcdefghijklmnopqrstuvwxyz_secret"
        )
        for path in [Service.usercode, Service.poll, Service.token] {
            let request = try #require(service.requests(path).first)
            #expect(request.method == .post)
            let fields = request.headerFields.map { "\($0.name.canonicalName): \($0.value)" }
            let type = path == Service.token ? "application/x-www-form-urlencoded" : "application/json"
            #expect(fields == ["content-type: \(type)", "accept: */*"])
        }
    }

    @Test func severalWatchersEachSeeEverything() async throws {
        let it = SessionHarness(nil, SessionHarness.signingIn(as: newcomer))
        let streams = (0..<3).map { _ in it.session.deviceLinkStateUpdates }
        try await it.session.startDeviceCodeSignIn()
        for stream in streams {
            #expect(
                await it.linkStates(from: stream).map(\.name)
                    == ["idle", "requestingCode", "awaitingUserCode", "polling", "linked"])
        }
    }

    @Test func theSupersededCredentialIsRevokedAfterwards() async throws {
        let it = SessionHarness(person(endingIn: 7200), SessionHarness.signingIn(as: newcomer))
        let updates = it.session.deviceLinkStateUpdates
        try await it.session.startDeviceCodeSignIn()
        #expect(await it.linkStates(from: updates).last?.name == "linked")
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        #expect(text(it.stand.service.requests(Service.revoke).first).contains("rt_seeded_1"))
        #expect(it.stand.storedText?.contains("rt_seeded_7") == true)
    }

    // MARK: No code

    @Test func deviceSignInThatIsSwitchedOffSaysWhereToSwitchItOn() async throws {
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

    @Test(arguments: [
        (ScriptedHTTPAnswer.lost, "networkFailure"), (.error(.badRequest, "bad"), "tokenExchangeFailed 400"),
        (.error(.internalServerError, "x"), "tokenExchangeFailed 500"), (.page(.forbidden), "networkFailure"),
        (.page(.ok), "invalidResponse"), (.json("{}"), "invalidResponse"), (.json("[1]"), "invalidResponse"),
        (.json(#"{"device_auth_id":"d","user_code":""}"#), "invalidResponse"),
        (.json(#"{"device_auth_id":"d","user_code":"\u001b[2J"}"#), "invalidResponse"),
        (.json(#"{"device_auth_id":7,"user_code":"A"}"#), "invalidResponse"),
    ])
    func noCodeIsAnErrorOfItsOwn(_ answer: ScriptedHTTPAnswer, _ expected: String) async throws {
        let it = SessionHarness(nil, [Service.usercode: [answer]])
        await #expect {
            try await it.session.startDeviceCodeSignIn()
        } throws: { name(of: $0) == expected }
        #expect(it.session.deviceLinkState.name == "failed")
        #expect(it.stand.service.count(Service.usercode) == 1)
    }

    @Test func anAnswerWithoutAnEndIsCutOff() async throws {
        let it = SessionHarness(nil, [Service.usercode: [.response(body: String(repeating: " ", count: 2 << 20))]])
        await #expect {
            try await it.session.startDeviceCodeSignIn()
        } throws: { name(of: $0) == "networkFailure" }
    }

    private func name(of error: any Error) -> String {
        switch error as? ChappieAuthError {
        case .networkFailure?: "networkFailure"
        case .invalidResponse?: "invalidResponse"
        case .authorizationDenied(let words)?: "authorizationDenied \(words)"
        case .tokenExchangeFailed(let status, _)?: "tokenExchangeFailed \(status)"
        case .missingRefreshToken?: "missingRefreshToken"
        case .unknown?: "unknown"
        default: "\(error)"
        }
    }

    // MARK: No approval

    @Test func theServersLifetimeEndsTheCode() async throws {
        let expires = #"{"device_auth_id":"d1","user_code":"A","interval":5,"expires_at":"2026-11-20T12:00:12Z"}"#
        let it = SessionHarness(nil, [Service.usercode: [.json(expires)], Service.poll: [.pending]])
        let updates = it.session.deviceLinkStateUpdates
        try await it.session.startDeviceCodeSignIn()
        // The wall jumps about; only the time that has passed counts.
        for (seconds, wall) in [(5, 1e9), (5, -1e9), (2, 0)] as [(Int, TimeInterval)] {
            await it.stand.clock.waitForSleepers(count: 1)
            it.stand.clock.setWall(to: start.addingTimeInterval(wall))
            it.stand.clock.advance(by: .seconds(seconds))
        }
        #expect(await it.linkStates(from: updates).last == .expired)
        #expect(it.session.lastError == .expiredDeviceCode)
        #expect(it.session.state == .signedOut)
        #expect(it.stand.service.count(Service.poll) == 4)
    }

    @Test func pollingStopsAfterFifteenMinutes() async throws {
        let it = SessionHarness(nil, [Service.usercode: [.deviceCode], Service.poll: [.pending]])
        let updates = it.session.deviceLinkStateUpdates
        try await it.session.startDeviceCodeSignIn()
        for _ in 0..<180 {
            await it.stand.clock.waitForSleepers(count: 1)
            it.stand.clock.advance(by: .seconds(5))
        }
        #expect(await it.linkStates(from: updates).last == .failed(.pollingTimeout))
        #expect(it.stand.service.count(Service.poll) == 181)
    }

    @Test func aRefusalIsTheServersSentence() async throws {
        let it = SessionHarness(
            nil,
            [
                Service.usercode: [.deviceCode],
                Service.poll: [.error(.badRequest, "access_denied", "The person refused.")],
            ])
        let updates = it.session.deviceLinkStateUpdates
        try await it.session.startDeviceCodeSignIn()
        #expect(await it.linkStates(from: updates).last == .failed(.authorizationDenied("The person refused.")))
    }

    // MARK: No tokens

    @Test(arguments: [
        (ScriptedHTTPAnswer.lost, "networkFailure"), (.error(.badRequest, "invalid_grant"), "tokenExchangeFailed 400"),
        (.error(.unauthorized, "x"), "tokenExchangeFailed 401"), (.json("{}"), "invalidResponse"),
        (.json(#"{"id_token":"a.b.c","access_token":"at_1"}"#), "missingRefreshToken"),
        (.json(#"{"access_token":"at_1","refresh_token":"rt_1"}"#), "invalidResponse"),
        (.page(.badRequest), "networkFailure"),
    ])
    func aFailedExchangeLeavesAnExistingCredentialAlone(_ answer: ScriptedHTTPAnswer, _ expected: String) async throws {
        let seed = person(endingIn: 7200)
        let it = SessionHarness(
            seed, [Service.usercode: [.deviceCode], Service.poll: [.approved], Service.token: [answer]])
        let updates = it.session.deviceLinkStateUpdates
        try await it.session.startDeviceCodeSignIn()
        guard case .failed(let error)? = await it.linkStates(from: updates).last else {
            return #expect(Bool(false), "\(it.session.deviceLinkState)")
        }
        #expect(name(of: error) == expected)
        #expect(it.session.lastError == error)
        #expect(it.session.state == .signedIn(expiresAt: seed.expiresAt))
        #expect(it.stand.store[it.stand.slot] == seed.credential)
        #expect(it.session.accountInfo != nil)
    }

    // MARK: No place to keep it

    @Test func aStoreThatDoesNotTakeTheCredentialFailsTheSignIn() async throws {
        let seed = person(endingIn: 7200)
        let it = SessionHarness(seed, SessionHarness.signingIn(as: newcomer))
        it.stand.store.fail(.save, with: .locked("the keyring is locked"))
        let updates = it.session.deviceLinkStateUpdates
        try await it.session.startDeviceCodeSignIn()
        #expect(await it.linkStates(from: updates).last?.name == "failed")
        #expect(it.session.lastStoreError == .locked("the keyring is locked"))
        #expect(it.session.state == .signedIn(expiresAt: seed.expiresAt))
        #expect(it.stand.store[it.stand.slot] == seed.credential)
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        #expect(text(it.stand.service.requests(Service.revoke).first).contains("rt_seeded_7"))
    }

    /// Says "saved", and keeps what it had.
    private struct Forgetful: CredentialStore {
        func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? { nil }
        func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {}
        func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {}
    }

    @Test func aStoreThatOnlySaysThatItSavedIsFoundOut() async throws {
        let service = Service(SessionHarness.signingIn(as: newcomer))
        let manager = CredentialManager(
            slot: CredentialSlot(), store: Forgetful(), transport: service.transport, endpoints: Service.endpoints,
            lock: NoCredentialLock(), clock: ManualClock())
        let session = ChappieAuthSession(credentials: manager)
        try await session.startDeviceCodeSignIn()
        let last = await session.deviceLinkStateUpdates.next { $0.name == "failed" || $0.name == "linked" }
        #expect(last?.name == "failed")
        #expect(session.lastStoreError == .notVerified)
    }
}
