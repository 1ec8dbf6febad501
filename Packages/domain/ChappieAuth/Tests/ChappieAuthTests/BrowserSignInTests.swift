@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

/// A session on the route of the user's plan. A test is the browser, and the service.
@MainActor
struct PlanHarness {
    nonisolated static let discovery = "/.well-known/openid-configuration"
    nonisolated static let keys = "/keys"
    nonisolated static let token = "/api/accounts/oauth/token"
    nonisolated static let revoke = "/revocation"
    nonisolated static let backend = "/v1/models"

    let clock = ManualClock()
    let service: Service
    let store: InMemoryCredentialStore
    let listener: InMemoryCallbackListener
    let registrations = InMemoryRegistrationStore(hostID: "urn:uuid:host")
    let manager: CredentialManager
    let session: ChappieAuthSession
    var slot: CredentialSlot { manager.slot }

    init(
        _ seed: SeededAuth? = nil, appName: String = "Test App",
        listener: InMemoryCallbackListener = InMemoryCallbackListener()
    ) {
        let endpoints = Self.endpoints(appName)
        service = Service([
            Self.discovery: [
                .json(
                    #"{"issuer":"https://issuer.test","jwks_uri":"https://issuer.test/keys","revocation_endpoint":"https://issuer.test/revocation"}"#
                )
            ],
            Self.keys: [.json(ToyIssuer.keys("key-1"))], Self.revoke: [.response(status: .ok)],
            Self.backend: [.ok],
        ])
        let slot = CredentialSlot(issuer: endpoints.credentialIssuer)
        store = InMemoryCredentialStore(seed.map { [slot: $0.credential] } ?? [:])
        self.listener = listener
        manager = CredentialManager(
            slot: slot, store: store, transport: service.transport, endpoints: endpoints,
            clock: clock,
            browserSignIn: BrowserSignInPorts(
                listener: listener, registrations: registrations, cryptography: ToyCryptography()))
        session = ChappieAuthSession(credentials: manager)
    }

    static func endpoints(_ appName: String = "Test App") -> ChappieEndpoints {
        var endpoints = ChappieEndpoints.continueWithChatGPT(appName: appName)
        endpoints.issuer = URL(string: "https://issuer.test")!
        endpoints.backend = URL(string: "https://backend.test/v1")!
        return endpoints
    }

    /// A user who is signed in, with an access token for `seconds`.
    static func person(endingIn seconds: TimeInterval, isPlanUseGranted: Bool = true) -> SeededAuth {
        var auth = SeededAuth(expiresAt: start.addingTimeInterval(seconds))
        auth.endpoints = endpoints()
        auth.isPlanUseGranted = isPlanUseGranted
        return auth
    }

    /// The registration of that user.
    static let seeded = ChappieClientRegistration(
        clientID: SeededAuth.issuedClientID, subject: "user-1", email: "person@example.com", appName: "Test App")

    /// The fields of a sign-in's page.
    struct Page {
        let code: ChappieDeviceCode
        let fields: FormFields

        subscript(name: String) -> String { fields.only(name) ?? "" }
    }

    func begin() async throws -> Page {
        let code = try await session.startDeviceCodeSignIn()
        return Page(code: code, fields: try #require(FormFields(code.verificationURL.query() ?? "")))
    }

    /// The fields of the page for a browser that the program starts.
    func ownPage() throws -> FormFields {
        let answer = try #require(session.browserURL().flatMap { listener.get($0.path()) })
        let line = try #require(answer.split(separator: "\r\n").first { $0.hasPrefix("Location: ") })
        return try #require(FormFields(String(line.split(separator: "?").last ?? "")))
    }

    func callback(_ page: Page, code: String = "code-1", clientID: String? = "oaiapp_1") -> String {
        "/auth/callback?code=\(code)&state=\(page["state"])" + (clientID.map { "&client_id=\($0)" } ?? "")
    }

    /// The service grants tokens for the sign-in of `page`.
    func grant(
        _ page: Page, clientID: String = "oaiapp_1", subject: String = "user-1",
        scope: String = "openid profile email offline_access resource.invoke chatgpt.tokens.use.direct",
        refreshToken: String? = "rt_plan_1", change: (inout ToyIssuer) -> Void = { _ in }
    ) {
        var issuer = ToyIssuer(
            audience: .string(clientID), nonce: page["nonce"], subject: subject, at: clock.now)
        change(&issuer)
        service.play(
            Self.token, Self.tokens(issuer.token, serial: 1, refreshToken: refreshToken, scope: scope))
    }

    static func tokens(
        _ idToken: String?, serial: Int, refreshToken: String?, scope: String? = nil
    ) -> ScriptedHTTPAnswer {
        var answer = ChappieJSONObject([
            ("access_token", .string("opaque-access-\(serial)")), ("token_type", "Bearer"), ("expires_in", 3600),
        ])
        answer["id_token"] = idToken.map { .string($0) }
        answer["refresh_token"] = refreshToken.map { .string($0) }
        answer["scope"] = scope.map { .string($0) }
        return .json(ChappieJSON.object(answer).serialized())
    }

    /// Signs in from start to end, and returns how it ended.
    @discardableResult
    func signIn(
        clientID: String? = "oaiapp_1", granted: String = "oaiapp_1", scope: String? = nil,
        change: (inout ToyIssuer) -> Void = { _ in }
    ) async throws -> ChappieDeviceLinkState? {
        let updates = session.deviceLinkStateUpdates
        let page = try await begin()
        if let scope {
            grant(page, clientID: granted, scope: scope, change: change)
        } else {
            grant(page, clientID: granted, change: change)
        }
        #expect(listener.get(callback(page, clientID: clientID))?.hasPrefix("HTTP/1.1 303") == true)
        return await updates.next { $0.isEnd }
    }

    @discardableResult
    func send() async throws -> Int {
        let url = try #require(URL(string: "https://backend.test\(Self.backend)"))
        return try await manager.authorization.ask(HTTPExchangeRequest(url: url), over: service.transport)
    }

    /// The fields of the newest request to `path`.
    func form(_ path: String) throws -> FormFields {
        let text = try #require(service.requests(path).last).text
        return try #require(FormFields(text))
    }

    var stored: ChappieJSON? {
        store[slot].flatMap { try? ChappieJSON(parsing: $0.withBytes(Array.init)) }
    }
}

@MainActor
@Suite struct BrowserSignInTests {
    private let invalidGrant = ScriptedHTTPAnswer.json(#"{"error":"invalid_grant"}"#, status: .badRequest)

    // MARK: The way it goes

    @Test func `a first sign-in requests a separate registration for the app`() async throws {
        let it = PlanHarness()
        let page = try await it.begin()
        #expect(!page.code.needsCode)
        #expect(page.code.userCode.isEmpty)
        #expect(page.code.instructions == "Open \(page.code.verificationURL) and come back.")
        #expect(page.code.expiresAt == start.addingTimeInterval(900))
        #expect(page.code.verificationURL.absoluteString.hasPrefix("https://issuer.test/api/accounts/authorize?"))
        for (name, value) in [
            ("client_id", "dynamic_agent_client"), ("agent_name_hint", "Test App"),
            ("ext_agent_host_id", "urn:uuid:host"), ("response_type", "code"),
            ("redirect_uri", "http://127.0.0.1:50001/auth/callback"),
            ("scope", "openid profile email offline_access resource.invoke chatgpt.tokens.use.direct"),
            ("resource", "https://api.openai.com/v1"), ("code_challenge_method", "S256"),
        ] {
            #expect(page[name] == value)
        }
        for name in ["state", "nonce"] { #expect(page[name].utf8.count == 43) }
        for name in ["id_token_hint", "login_hint", "prompt"] { #expect(page.fields.all(name).isEmpty) }
        it.session.cancelSignIn()
        while it.listener.openCount > 0 { await Task.yield() }
    }

    @Test func aSignInIsExchangedCheckedAndStored() async throws {
        let it = PlanHarness()
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        it.grant(page)
        it.listener.get(it.callback(page))
        let end = ChappieDeviceLinkState.linked(expiresAt: start.addingTimeInterval(3600))
        #expect(
            await updates.all { $0.isEnd } == [
                .idle, .requestingCode, .awaitingUserCode(page.code), .polling(page.code), end,
            ])
        let form = try it.form(PlanHarness.token)
        for (name, value) in [
            ("grant_type", "authorization_code"), ("client_id", "oaiapp_1"), ("code", "code-1"),
            ("redirect_uri", page["redirect_uri"]), ("resource", "https://api.openai.com/v1"),
        ] {
            #expect(form.only(name) == value)
        }
        let verifier = try #require(form.only("code_verifier"))
        #expect(Base64URL.encode(ToyCryptography().sha256(Array(verifier.utf8))) == page["code_challenge"])
        let info = try #require(it.session.accountInfo)
        #expect(info == ChappieAccountInfo(email: "user-1@example.com", userID: "user-1", planUse: .granted))
        #expect(it.stored?["issued_client_id"]?.string == "oaiapp_1")
        #expect(it.stored?["client_id"]?.string == "dynamic_agent_client")
        #expect(it.stored?["grant"]?.string == "continue_with_chatgpt")
        #expect(it.stored?["scopes"]?.array?.count == 6)
        #expect(it.registrations.saved.map(\.subject) == [nil, "user-1"])
        #expect(it.registrations[it.slot]?.clientID == "oaiapp_1")
    }

    @Test func requestsHaveNoFieldsOfAnAccount() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 7200))
        #expect(try await it.send() == 200)
        let names = try #require(it.service.requests(PlanHarness.backend).last).headerFields.map(\.name.canonicalName)
        #expect(names.sorted() == ["authorization", "user-agent"])
    }

    @Test func `a browser is started with a local address that leads to the page`() async throws {
        let it = PlanHarness()
        #expect(it.session.browserURL() == nil)
        let page = try await it.begin()
        let first = try #require(it.session.browserURL())
        #expect(first.absoluteString.hasPrefix("http://127.0.0.1:50001/auth/start/") && first.query() == nil)
        #expect(it.session.browserURL() != first)
        let answer = try #require(it.listener.get(first.path()))
        #expect(answer.contains("\r\nLocation: \(page.code.verificationURL.absoluteString)\r\n"))
        it.session.cancelSignIn()
        #expect(it.session.browserURL() == nil)
    }

    @Test func `a program that ends waits until the browser has its last page`() async throws {
        let it = PlanHarness()
        #expect(try await it.signIn()?.name == "linked")
        #expect(it.listener.openCount == 1)
        #expect(it.listener.get("/auth/done")?.hasPrefix("HTTP/1.1 200") == true)
        await it.session.finishPendingWork()
        #expect(it.listener.openCount == 0)
    }

    @Test func `the listener stays for a moment if the browser requests no last page`() async throws {
        let it = PlanHarness()
        #expect(try await it.signIn()?.name == "linked")
        while it.listener.openCount > 0 {
            it.clock.advance(by: .seconds(2))
            await Task.yield()
        }
    }

    @Test(arguments: [-10_000.0, 10_000]) func `a wrong clock of this machine does not block a sign-in`(
        _ seconds: TimeInterval
    ) async throws {
        let it = PlanHarness()
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        let token = ToyIssuer(audience: "oaiapp_1", nonce: page["nonce"], at: start).token
        it.service.play(
            PlanHarness.token,
            .response(
                headerFields: [.contentType: "application/json", .date: "Fri, 20 Nov 2026 12:00:00 GMT"],
                body: #"{"access_token":"at_1","refresh_token":"rt_1","id_token":"\#(token)","expires_in":3600}"#))
        it.clock.setWall(to: start.addingTimeInterval(seconds))
        it.listener.get(it.callback(page))
        #expect(await updates.next { $0.isEnd }?.name == "linked")
    }

    @Test func `without the servers time the message names the clock`() async throws {
        let it = PlanHarness()
        let page = try await it.begin()
        it.grant(page)
        let updates = it.session.deviceLinkStateUpdates
        it.clock.setWall(to: start.addingTimeInterval(-400))
        it.listener.get(it.callback(page))
        let end = await updates.next { $0.isEnd }
        guard case .failed(let error)? = end else { return #expect(Bool(false), "\(end as Any)") }
        #expect(error.errorDescription?.contains("Set this machine's clock") == true)
    }

    // MARK: Strangers

    @Test func aWrongStateDoesNotUseTheSignInUp() async throws {
        let it = PlanHarness()
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        it.grant(page)
        #expect(it.listener.get("/auth/callback?code=x&state=guess")?.hasPrefix("HTTP/1.1 400") == true)
        #expect(it.listener.get(it.callback(page), host: "evil.example:50001")?.hasPrefix("HTTP/1.1 400") == true)
        #expect(it.listener.get(it.callback(page))?.hasPrefix("HTTP/1.1 303") == true)
        #expect(it.listener.get(it.callback(page, code: "code-2"))?.hasPrefix("HTTP/1.1 400") == true)
        #expect(await updates.next { $0.isEnd }?.name == "linked")
        #expect(it.service.count(PlanHarness.token) == 1)
        #expect(try it.form(PlanHarness.token).only("code") == "code-1")
    }

    @Test func anAddressThatIsPastedEndsTheSignInToo() async throws {
        let it = PlanHarness()
        #expect(throws: ChappieAuthError.noCallbackAwaited) { try it.session.completeSignIn(pasting: "x") }
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        it.grant(page)
        #expect(throws: ChappieAuthError.self) {
            try it.session.completeSignIn(pasting: "http://127.0.0.1:50001/auth/callback?code=c&state=x")
        }
        #expect(it.session.deviceLinkState.name == "awaitingUserCode")
        try it.session.completeSignIn(pasting: "http://127.0.0.1:50001" + it.callback(page))
        #expect(await updates.next { $0.isEnd }?.name == "linked")
    }

    // MARK: Endings

    @Test func `a user who refuses is not signed in, and no code is exchanged`() async throws {
        let it = PlanHarness()
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        it.listener.get("/auth/callback?error=access_denied&state=\(page["state"])")
        let end = await updates.next { $0.isEnd }
        #expect(end == .failed(.authorizationDenied("The sign-in was not allowed in the browser.")))
        #expect(it.service.count(PlanHarness.token) == 0)
    }

    @Test func `a browser that never returns ends the sign-in after fifteen minutes`() async throws {
        let it = PlanHarness()
        let updates = it.session.deviceLinkStateUpdates
        _ = try await it.begin()
        await it.clock.waitForSleepers(count: 1)
        it.clock.advance(by: .seconds(15 * 60))
        #expect(await updates.next { $0.isEnd } == .failed(.callbackTimeout))
        while it.listener.openCount > 0 { await Task.yield() }
    }

    @Test func withoutAPortThereIsASentence() async throws {
        let it = PlanHarness(listener: InMemoryCallbackListener(failingWith: DesktopError("No port is free.")))
        await #expect {
            try await it.begin()
        } throws: {
            ($0 as? ChappieAuthError)?.errorDescription?.contains("No port is free.") == true
        }
    }

    @Test(arguments: ["", String(repeating: "a", count: 81), "App\u{202E}"])
    func anAppNeedsANameOfItsOwn(_ name: String) async throws {
        let it = PlanHarness(appName: name)
        await #expect(throws: ChappieAuthError.self) { try await it.begin() }
        #expect(it.listener.ports.isEmpty)
    }

    @Test func aProgramForAccessTokensIsToldWhatToCall() async throws {
        var endpoints = Service.endpoints
        endpoints.grant = .accessToken
        let service = Service()
        let manager = CredentialManager(
            slot: CredentialSlot(), store: InMemoryCredentialStore(), transport: service.transport,
            endpoints: endpoints, clock: ManualClock())
        await #expect {
            try await ChappieAuthSession(credentials: manager).startDeviceCodeSignIn()
        } throws: {
            ($0 as? ChappieAuthError)?.errorDescription?.contains("signIn(accessToken:)") == true
        }
    }

    // MARK: The registration

    @Test(arguments: [nil, "dynamic_agent_client", "a%20b", ""])
    func `a first sign-in without an issued client is incomplete`(_ clientID: String?) async throws {
        let it = PlanHarness()
        let end = try await it.signIn(clientID: clientID)
        guard case .failed(.authorizationDenied(let words))? = end else { return #expect(Bool(false), "\(end as Any)") }
        #expect(words.contains("registration is incomplete"))
        #expect(it.registrations.saved.isEmpty)
        #expect(it.service.count(PlanHarness.token) == 0)
    }

    @Test func `a code is not redeemed if its registration cannot be stored`() async throws {
        let it = PlanHarness()
        it.registrations.failSaving(with: .failed("the disk is full"))
        #expect(try await it.signIn() == .failed(.credentialStoreUnavailable(.failed("the disk is full"))))
        #expect(it.service.count(PlanHarness.token) == 0)
    }

    @Test func `a registration lost between callback and exchange is stored again`() async throws {
        let it = PlanHarness()
        let gate = ScriptedGate()
        it.service.play(PlanHarness.keys, ScriptedHTTPAnswer.json(ToyIssuer.keys("key-1")).after(gate))
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        it.grant(page)
        it.listener.get(it.callback(page))
        await gate.reached()
        #expect(it.registrations[it.slot]?.clientID == "oaiapp_1")
        it.registrations[it.slot] = nil
        gate.open()
        #expect(await updates.next { $0.isEnd }?.name == "linked")
        #expect(it.registrations[it.slot]?.subject == "user-1")
    }

    @Test func `a code that is refused leaves the registration for the next sign-in`() async throws {
        let it = PlanHarness()
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        it.service.play(PlanHarness.token, invalidGrant)
        it.listener.get(it.callback(page))
        #expect(await updates.next { $0.isEnd }?.name == "failed")
        let next = try await it.begin()
        #expect(next["client_id"] == "oaiapp_1")
        #expect(next.fields.all("agent_name_hint").isEmpty)
        #expect(next["state"] != page["state"])
    }

    @Test func `a client that the service turns out not to know is not used again`() async throws {
        let it = PlanHarness()
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        it.service.play(PlanHarness.token, .json(#"{"error":"invalid_client"}"#, status: .unauthorized))
        it.listener.get(it.callback(page))
        #expect(await updates.next { $0.isEnd }?.name == "failed")
        #expect(it.registrations[it.slot] == nil)
        #expect(try await it.begin()["client_id"] == "dynamic_agent_client")
    }

    @Test func `a returning user needs no new client and is named to the service`() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: -60))
        it.registrations[it.slot] = PlanHarness.seeded
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        #expect(page["client_id"] == SeededAuth.issuedClientID)
        // The address that is shown, and that a script may log, has no token in it.
        #expect(page.fields.all("id_token_hint").isEmpty)
        #expect(try it.ownPage().only("id_token_hint") == PlanHarness.person(endingIn: -60).idToken)
        #expect(page["login_hint"] == "person@example.com")
        #expect(page.fields.all("agent_name_hint").isEmpty && page.fields.all("prompt").isEmpty)
        it.grant(page, clientID: SeededAuth.issuedClientID)
        it.listener.get(it.callback(page, clientID: nil))
        #expect(await updates.next { $0.isEnd }?.name == "linked")
        // The earlier session is not revoked: its end might end the new one.
        #expect(it.service.count(PlanHarness.revoke) == 0)
    }

    @Test func aMovedCredentialBringsItsClientAlong() async throws {
        let it = PlanHarness()
        let updates = it.session.stateUpdates
        _ = try await it.manager.importCredential(PlanHarness.person(endingIn: 7200).credential)
        #expect(await updates.next { $0.isSignedIn } != nil)
        #expect(it.registrations[it.slot] == PlanHarness.seeded)
        let page = try await it.begin()
        #expect(page["client_id"] == SeededAuth.issuedClientID)
        #expect(page["ext_agent_host_id"] == "urn:uuid:host")
    }

    @Test func anAccessTokenOfTheOtherServiceIsNotSent() async throws {
        let it = PlanHarness()
        await #expect(throws: ChappieAuthError.self) { try await it.session.signIn(accessToken: "at-secret_1") }
        #expect(it.service.count("/api/accounts/v1/user-auth-credential/whoami") == 0)
        #expect(it.session.lastError?.errorDescription?.contains("takes no access token") == true)
    }

    @Test func anotherAppsRegistrationIsNotUsed() async throws {
        let it = PlanHarness(appName: "Other App")
        it.registrations[it.slot] = PlanHarness.seeded
        let page = try await it.begin()
        #expect(page["client_id"] == "dynamic_agent_client")
        #expect(page["agent_name_hint"] == "Other App")
    }

    @Test func anotherClientForAReturningUserIsRefused() async throws {
        let it = PlanHarness()
        it.registrations[it.slot] = PlanHarness.seeded
        #expect(try await it.signIn(clientID: "oaiapp_2")?.name == "failed")
        #expect(it.registrations[it.slot] == PlanHarness.seeded)
        #expect(it.service.count(PlanHarness.token) == 0)
    }

    @Test func `another account for a returning user is refused and replaces nothing`() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 7200))
        it.registrations[it.slot] = PlanHarness.seeded
        let before = it.stored
        let end = try await it.signIn(clientID: nil, granted: SeededAuth.issuedClientID) { $0["sub"] = "user-2" }
        guard case .failed(.authorizationDenied(let words))? = end else { return #expect(Bool(false), "\(end as Any)") }
        #expect(words.contains("another ChatGPT account"))
        #expect(it.stored == before)
        #expect(it.session.state.isSignedIn)
        #expect(it.registrations[it.slot] == PlanHarness.seeded)
    }

    // MARK: The identity token

    @Test func anUnsignedTokenSignsNobodyIn() async throws {
        let it = PlanHarness()
        let end = try await it.signIn { $0.header[0].1 = "none" }
        guard case .failed(.authorizationDenied(let words))? = end else { return #expect(Bool(false), "\(end as Any)") }
        #expect(words == "The sign-in service's identity token is not valid (it is not signed with RS256).")
        #expect(it.stored == nil)
    }

    @Test func keysThatHaveChangedAreReadOnceMore() async throws {
        let it = PlanHarness()
        it.service.play(PlanHarness.keys, .json(ToyIssuer.keys("key-0")), .json(ToyIssuer.keys("key-1")))
        #expect(try await it.signIn()?.name == "linked")
        #expect(it.service.count(PlanHarness.keys) == 2)
    }

    @Test func aKeyThatIsNowhereIsLookedForOnlyOnceMore() async throws {
        let it = PlanHarness()
        it.service.play(PlanHarness.keys, .json(ToyIssuer.keys("key-0")))
        #expect(try await it.signIn()?.name == "failed")
        #expect(it.service.count(PlanHarness.keys) == 2)
        #expect(it.stored == nil)
    }

    @Test(arguments: [PlanHarness.discovery, PlanHarness.keys])
    func anOutageIsNoBadIdentityAndUsesNoCodeUp(_ path: String) async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 7200))
        it.registrations[it.slot] = PlanHarness.seeded
        let before = it.stored
        it.service.play(path, .response(status: .serviceUnavailable))
        let end = try await it.signIn(clientID: nil, granted: SeededAuth.issuedClientID)
        guard case .failed(.networkFailure(let words))? = end else { return #expect(Bool(false), "\(end as Any)") }
        #expect(words.contains("try again later"))
        #expect(it.service.count(PlanHarness.token) == 0)
        #expect(it.stored == before)
        #expect(it.session.state.isSignedIn)
    }

    @Test func discoveryOfAnotherIssuerIsRefused() async throws {
        let it = PlanHarness()
        it.service.play(PlanHarness.discovery, .json(#"{"issuer":"https://other.test"}"#))
        #expect(try await it.signIn() == .failed(.invalidResponse))
    }

    @Test func addressesAtAnotherOriginAreNotAsked() async throws {
        let it = PlanHarness()
        it.service.play(
            PlanHarness.discovery,
            .json(#"{"issuer":"https://issuer.test","jwks_uri":"https://other.test/keys"}"#))
        it.service.play("/.well-known/jwks.json", .json(ToyIssuer.keys("key-1")))
        #expect(try await it.signIn()?.name == "linked")
        #expect(it.service.count(PlanHarness.keys) == 0)
    }

    // MARK: Plan use

    @Test func `without plan use, nothing is sent and the next sign-in asks for it`() async throws {
        let it = PlanHarness()
        #expect(try await it.signIn(scope: "openid profile email offline_access")?.name == "linked")
        #expect(it.session.accountInfo?.planUse == .notGranted)
        await #expect(throws: ChappieAuthError.planUseNotGranted) { try await it.send() }
        #expect(it.service.count(PlanHarness.backend) == 0)
        #expect(try await it.begin()["prompt"] == "consent")
    }

    // MARK: The life of a sign-in

    @Test func `a renewal rotates the tokens and keeps the scopes`() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 100))
        it.service.play(
            PlanHarness.token,
            PlanHarness.tokens(
                ToyIssuer(audience: .string(SeededAuth.issuedClientID), nonce: "n", subject: "user-1").token, serial: 2,
                refreshToken: "rt_plan_2"))
        let updates = it.session.stateUpdates
        #expect(try await it.send() == 200)
        #expect(await updates.next { $0 == .signedIn(expiresAt: start.addingTimeInterval(3600)) } != nil)
        let form = try it.form(PlanHarness.token)
        #expect(form.only("grant_type") == "refresh_token")
        #expect(form.only("client_id") == SeededAuth.issuedClientID)
        #expect(form.only("refresh_token") == "rt_seeded_1")
        #expect(form.only("resource") == "https://api.openai.com/v1")
        #expect(form.all("scope").isEmpty)
        #expect(it.stored?["tokens"]?["refresh_token"]?.string == "rt_plan_2")
        #expect(it.stored?["scopes"]?.array?.count == 6)
        #expect(it.session.accountInfo?.userID == "user-1")
    }

    /// OpenID Connect Core, 12.2: the tokens of another user don't take the place of this one's.
    @Test func anotherUsersTokensAreKeptAsideAtARenewal() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 100))
        it.service.play(
            PlanHarness.token,
            PlanHarness.tokens(
                ToyIssuer(audience: .string(SeededAuth.issuedClientID), nonce: "n", subject: "user-2").token, serial: 2,
                refreshToken: "rt_plan_2"))
        #expect(try await it.send() == 200)
        #expect(it.session.accountInfo?.userID == "user-1")
        #expect(it.stored?["tokens"]?["id_token"]?.string == PlanHarness.person(endingIn: 100).idToken)
        #expect(it.stored?["tokens"]?["refresh_token"] == nil)
        #expect(it.stored?["set_aside"]?["refresh_token"]?.string == "rt_plan_2")
        #expect(it.session.renewalRefusal?.contains("another account") == true)
    }

    /// The service may refuse every renewal: the sign-in then lasts as long as its access token.
    @Test func aSignInWhoseRenewalIsRefusedLastsItsHour() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 3600))
        it.registrations[it.slot] = PlanHarness.seeded
        it.service.play(PlanHarness.token, invalidGrant)
        it.clock.advance(by: .seconds(3400))
        #expect(try await it.send() == 200)
        #expect(try await it.send() == 200)
        #expect(it.service.count(PlanHarness.token) == 1)
        #expect(it.session.state.isSignedIn)
        it.clock.advance(by: .seconds(201))
        let updates = it.session.stateUpdates
        await #expect {
            try await it.send()
        } throws: {
            ($0 as? ChappieAuthError)?.requiresReauthentication == true
        }
        #expect(await updates.next { $0 == .reauthenticationRequired } != nil)
        #expect(it.service.count(PlanHarness.token) == 1)
        let page = try await it.begin()
        #expect(try it.ownPage().only("id_token_hint") == PlanHarness.person(endingIn: 3600).idToken)
        it.grant(page, clientID: SeededAuth.issuedClientID)
        it.listener.get(it.callback(page, clientID: nil))
        #expect(await updates.next { $0.isSignedIn } != nil)
        #expect(try await it.send() == 200)
    }

    @Test func `an expired sign-in without a refresh token has ended at the next start`() async throws {
        var seed = PlanHarness.person(endingIn: -1)
        seed.refreshToken = nil
        let it = PlanHarness(seed)
        #expect(it.session.state == .reauthenticationRequired)
        _ = try await it.begin()
        #expect(try it.ownPage().only("id_token_hint") == seed.idToken)
    }

    @Test func `a sign-in without a refresh token lasts as long as its access token`() async throws {
        let it = PlanHarness()
        let updates = it.session.deviceLinkStateUpdates
        let page = try await it.begin()
        it.grant(page, refreshToken: nil)
        it.listener.get(it.callback(page))
        #expect(await updates.next { $0.isEnd }?.name == "linked")
        it.clock.advance(by: .seconds(3590))
        #expect(try await it.send() == 200)
        it.clock.advance(by: .seconds(11))
        await #expect(throws: ChappieAuthError.self) { try await it.send() }
        #expect(it.service.count(PlanHarness.token) == 1)
    }

    @Test func `a refused token that the issuer does not renew ends the sign-in`() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 3600))
        it.service.play(PlanHarness.backend, .refused)
        it.service.play(PlanHarness.token, invalidGrant)
        let updates = it.session.stateUpdates
        await #expect(throws: ChappieAuthError.self) { try await it.send() }
        #expect(await updates.next { $0 == .reauthenticationRequired } != nil)
        #expect(it.stored?["tokens"]?["refresh_token"] == nil)
        #expect(it.stored?["tokens"]?["id_token"] != nil)
    }

    @Test func aClientThatIsNotAcceptedEndsNoSignIn() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: -1))
        let before = it.stored
        it.service.play(PlanHarness.token, .json(#"{"error":"invalid_client"}"#, status: .unauthorized))
        await #expect {
            try await it.send()
        } throws: {
            ($0 as? ChappieAuthError)?.errorDescription?.contains("registration (invalid_client)") == true
        }
        #expect(it.stored == before)
        #expect(it.session.state.isSignedIn)
    }

    @Test func aSignOutRevokesAndKeepsTheRegistration() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 7200))
        it.registrations[it.slot] = PlanHarness.seeded
        try await it.session.signOutAndRevoke()
        let form = try it.form(PlanHarness.revoke)
        #expect(form.only("token") == "rt_seeded_1")
        #expect(form.only("token_type_hint") == "refresh_token")
        #expect(form.only("client_id") == SeededAuth.issuedClientID)
        #expect(it.stored == nil)
        let page = try await it.begin()
        #expect(page["client_id"] == SeededAuth.issuedClientID)
        #expect(page.fields.all("id_token_hint").isEmpty && page.fields.all("login_hint").isEmpty)
    }

    @Test func `a sign-out that the service doesn't confirm names where to disconnect`() async throws {
        let it = PlanHarness(PlanHarness.person(endingIn: 7200))
        it.service.play(PlanHarness.revoke, .response(status: .serviceUnavailable))
        await #expect {
            try await it.session.signOutAndRevoke()
        } throws: {
            ($0 as? ChappieAuthError)?.errorDescription?.contains("ChatGPT's settings") == true
        }
        #expect(it.session.state == .signedOut)
        #expect(it.stored == nil)
    }

    @Test func theTwoRoutesHaveSlotsOfTheirOwn() {
        let issuers = [
            ChappieEndpoints.chatGPT, .continueWithChatGPT(appName: "A"), .continueWithChatGPT(appName: "B"),
        ]
        .map(\.credentialIssuer)
        #expect(issuers[0] == nil)
        #expect(issuers[1] == "https://auth.openai.com https://api.openai.com dynamic_agent_client")
        #expect(issuers[1] == issuers[2])
        let simulators = [
            ChappieEndpoints.simulator(), .simulator(grant: .continueWithChatGPT(appName: "A")),
        ]
        #expect(Set(simulators.map(\.credentialIssuer)).count == 2)
        #expect(simulators[1].responsesURL.absoluteString == "http://127.0.0.1:8080/v1/responses")
    }
}
