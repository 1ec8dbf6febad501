@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

/// The browser sign-in of the device code's client. A test is the browser, and the service.
@Suite @MainActor struct ClientSignInTests {
    private struct Stand {
        let clock = ManualClock()
        let service: Service
        let store = InMemoryCredentialStore()
        let listener: InMemoryCallbackListener
        let session: ChappieAuthSession

        @MainActor
        init(_ answers: [String: [ScriptedHTTPAnswer]] = [:], taken: Set<Int> = []) {
            let newcomer = person(endingIn: 7200, serial: 7)
            service = Service(
                [Service.token: [.tokens(newcomer)], Service.revoke: [.ok]].merging(answers) { _, new in new })
            listener = InMemoryCallbackListener(taken: taken)
            session = ChappieAuthSession(
                credentials: CredentialManager(
                    slot: CredentialSlot(), store: store, transport: service.transport, endpoints: Service.endpoints,
                    clock: clock,
                    browserSignIn: BrowserSignInPorts(listener: listener, cryptography: ToyCryptography())))
        }

        @MainActor
        func begin() async throws -> (page: ChappieDeviceCode, fields: FormFields) {
            let page = try await session.startBrowserSignIn()
            return (page, try #require(FormFields(page.verificationURL.query() ?? "")))
        }

        @MainActor var stored: ChappieJSON? {
            let slot = session.manager.slot
            return store[slot].flatMap { try? ChappieJSON(parsing: $0.withBytes(Array.init)) }
        }
    }

    @Test func `the page has the fields of the client`() async throws {
        let it = Stand()
        let (page, fields) = try await it.begin()
        #expect(!page.needsCode && page.expiresAt == start.addingTimeInterval(900))
        #expect(page.verificationURL.absoluteString.hasPrefix("https://issuer.test/oauth/authorize?"))
        for (name, value) in [
            ("response_type", "code"), ("client_id", "app_EMoamEEZ73f0CkXaXp7hrann"),
            ("redirect_uri", "http://localhost:1455/auth/callback"),
            ("scope", "openid profile email offline_access api.connectors.read api.connectors.invoke"),
            ("code_challenge_method", "S256"), ("id_token_add_organizations", "true"),
            ("codex_cli_simplified_flow", "true"), ("originator", "chappie"),
        ] {
            #expect(fields.only(name) == value)
        }
        #expect(fields.only("state")?.utf8.count == 43)
        for name in ["id_token_hint", "login_hint", "nonce", "resource"] { #expect(fields.all(name).isEmpty) }
        #expect(it.listener.ports == [1455])
        it.session.cancelSignIn()
        while it.listener.openCount > 0 { await Task.yield() }
    }

    @Test(arguments: ["localhost:1455", "127.0.0.1:1455"])
    func `a sign-in is exchanged and stored as one of the device code's client`(_ host: String) async throws {
        let it = Stand()
        let updates = it.session.deviceLinkStateUpdates
        let (page, fields) = try await it.begin()
        let state = try #require(fields.only("state"))
        let answer = it.listener.get("/auth/callback?code=ac_1&scope=openid&state=\(state)", host: host)
        #expect(answer?.hasPrefix("HTTP/1.1 303") == true)
        let end = ChappieDeviceLinkState.linked(expiresAt: start.addingTimeInterval(7200))
        #expect(
            await updates.all { $0.isEnd } == [.idle, .requestingCode, .awaitingUserCode(page), .polling(page), end])
        let request = try #require(it.service.requests(Service.token).first)
        #expect(request.fields == ["content-type: application/x-www-form-urlencoded", "accept: */*"])
        let form = try #require(FormFields(request.text))
        for (name, value) in [
            ("grant_type", "authorization_code"), ("client_id", "app_EMoamEEZ73f0CkXaXp7hrann"), ("code", "ac_1"),
            ("redirect_uri", "http://localhost:1455/auth/callback"),
        ] {
            #expect(form.only(name) == value)
        }
        let verifier = try #require(form.only("code_verifier"))
        #expect(Base64URL.encode(ToyCryptography().sha256(Array(verifier.utf8))) == fields.only("code_challenge"))
        #expect(form.all("resource").isEmpty)
        #expect(it.stored?["grant"]?.string == "browser" && it.stored?["issued_client_id"] == nil)
        #expect(it.session.grant == .browser && it.session.accountInfo?.email == "person@example.com")
        #expect(it.listener.get("/auth/done", host: host)?.hasPrefix("HTTP/1.1 200") == true)
        await it.session.finishPendingWork()
        #expect(it.listener.openCount == 0)
    }

    @Test func `the second port is used if the first is taken`() async throws {
        let it = Stand(taken: [1455])
        let (_, fields) = try await it.begin()
        #expect(fields.only("redirect_uri") == "http://localhost:1457/auth/callback")
    }

    @Test func `two taken ports are named with what may listen there`() async throws {
        let it = Stand(taken: [1455, 1457])
        await #expect {
            _ = try await it.begin()
        } throws: { error in
            guard case .callbackUnavailable(let words)? = error as? ChappieAuthError else { return false }
            return words.contains("1455 or 1457") && words.contains("Codex CLI")
        }
    }

    @Test func `a browser that this program starts gets an address of this machine`() async throws {
        let it = Stand()
        let (page, _) = try await it.begin()
        let start = try #require(it.session.browserURL())
        #expect(start.absoluteString.hasPrefix("http://127.0.0.1:1455/auth/start/") && start.query() == nil)
        let answer = try #require(it.listener.get(start.path()))
        #expect(answer.contains("\r\nLocation: \(page.verificationURL.absoluteString)\r\n"))
    }

    @Test func `a pasted address completes its own sign-in only`() async throws {
        let it = Stand()
        let updates = it.session.deviceLinkStateUpdates
        let (_, fields) = try await it.begin()
        for wrong in [
            "http://localhost:1455/auth/callback?code=c&state=x", "http://localhost:1457/auth/callback?code=c",
        ] {
            #expect(throws: ChappieAuthError.self) { try it.session.completeSignIn(pasting: wrong) }
        }
        let state = fields.only("state") ?? ""
        try it.session.completeSignIn(pasting: " http://localhost:1455/auth/callback?code=ac_1&state=\(state)\n")
        #expect(await updates.next { $0.isEnd }?.name == "linked")
    }

    @Test(arguments: [
        ("error=access_denied", "not allowed in the browser"),
        ("error=access_denied&error_description=missing_codex_entitlement", "administrator"),
        ("error=unsupported_country_region_territory", "where this machine's connection comes from"),
        ("error=server_error&error_description=Later.", "Later. (server_error)"),
    ])
    func `a refusal in the browser ends the sign-in with its reason`(_ query: String, _ reason: String) async throws {
        let it = Stand()
        let updates = it.session.deviceLinkStateUpdates
        let (_, fields) = try await it.begin()
        it.listener.get("/auth/callback?\(query)&state=\(fields.only("state") ?? "")")
        let end = await updates.next { $0.isEnd }
        guard case .failed(let error)? = end else { return #expect(Bool(false), "\(end as Any)") }
        #expect(error.errorDescription?.contains(reason) == true)
        #expect(it.service.count(Service.token) == 0)
    }

    @Test func `a browser that never comes back ends the sign-in after fifteen minutes`() async throws {
        let it = Stand()
        let updates = it.session.deviceLinkStateUpdates
        _ = try await it.begin()
        await it.clock.waitForSleepers(count: 1)
        it.clock.advance(by: .seconds(15 * 60))
        #expect(await updates.next { $0.isEnd } == .failed(.callbackTimeout))
        while it.listener.openCount > 0 { await Task.yield() }
    }

    @Test func `endpoints may have the browser as their own grant`() async throws {
        let listener = InMemoryCallbackListener()
        var endpoints = Service.endpoints
        endpoints.grant = .browser
        let service = Service([Service.token: [.tokens(person(endingIn: 7200))]])
        let session = ChappieAuthSession(
            credentials: CredentialManager(
                slot: CredentialSlot(), store: InMemoryCredentialStore(),
                transport: service.transport, endpoints: endpoints, clock: ManualClock(),
                browserSignIn: BrowserSignInPorts(listener: listener, cryptography: ToyCryptography())))
        let account = try await session.signIn { page in
            let fields = FormFields(page.verificationURL.query() ?? "")
            listener.get("/auth/callback?code=ac_1&state=\(fields?.only("state") ?? "")")
        }
        #expect(account.email == "person@example.com")
        #expect(service.count(Service.token) == 1)
    }

    @Test func `a session says whether it can sign in with a browser`() async throws {
        #expect(Stand().session.canSignInWithBrowser)
        let other = SessionHarness().session
        #expect(!other.canSignInWithBrowser)
        await #expect(throws: ChappieAuthError.self) { try await other.startBrowserSignIn() }
        #expect(!PlanHarness().session.canSignInWithBrowser)
        await #expect(throws: ChappieAuthError.self) {
            try await PlanHarness().session.signIn(by: .deviceCode) { _ in }
        }
    }

    @Test func `the grant has its own word`() {
        #expect(ChappieGrant(rawValue: "browser") == .browser && ChappieGrant.browser.rawValue == "browser")
    }
}
