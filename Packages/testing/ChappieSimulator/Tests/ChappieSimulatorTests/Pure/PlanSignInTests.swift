@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieSimulator

/// The page, the token endpoint, revocation and keys of the plan route, without sockets.
struct PlanSignInTests {
    // MARK: The page

    private static let wrong: [(String, String?)] = [
        ("client_id", nil), ("client_id", "oaiapp_unknown"), ("client_id", ""), ("agent_name_hint", nil),
        ("agent_name_hint", ""), ("agent_name_hint", String(repeating: "n", count: 81)), ("ext_agent_host_id", nil),
        ("ext_agent_host_id", "my-laptop"), ("ext_agent_host_id", "urn:uuid:0b5c1f0e-6b1d-1b7e-9d53-2f1f3c5a7e90"),
        ("ext_agent_host_id", "urn:uuid:0b5c1f0e6b1d4b7e9d532f1f3c5a7e90"), ("ext_agent_host_id", "did:web:a.example"),
        ("response_type", "token"), ("response_type", nil), ("redirect_uri", "http://localhost:54321/auth/callback"),
        ("redirect_uri", "http://127.0.0.1:54321/callback"), ("redirect_uri", "https://127.0.0.1:54321/auth/callback"),
        ("redirect_uri", "http://127.0.0.1/auth/callback"), ("redirect_uri", "http://127.0.0.1:0/auth/callback"),
        ("redirect_uri", "http://127.0.0.1:65536/auth/callback"), ("redirect_uri", "http://[::1]:54321/auth/callback"),
        ("redirect_uri", "http://127.0.0.1:54321/auth/callback?a=b"),
        ("redirect_uri", "http://127.0.0.1:1@evil.example:2/auth/callback"), ("redirect_uri", nil),
        ("scope", "openid profile email"), ("scope", nil), ("scope", PlanFlow.scopes + " more"),
        ("resource", nil), ("resource", "https://api.openai.com/v1/"), ("state", nil), ("state", "short"),
        ("nonce", nil), ("nonce", "short"), ("code_challenge_method", "plain"), ("code_challenge_method", nil),
        ("code_challenge", nil), ("code_challenge", PlanFlow.challenge(of: "x") + "="), ("id_token_hint", "x.y.z"),
        ("login_hint", "ada@example.com"), ("prompt", "consent"), ("prompt", "login"), ("force_reconsent", "true"),
        ("client_secret", "x"),
    ]

    @Test(arguments: wrong) func aWrongParameterIsRefusedOnThePage(name: String, value: String?) throws {
        let flow = try PlanFlow()
        let answer = flow.authorize(flow.parameters([(name, value)]))
        #expect(answer.status == 400)
        #expect(answer.headers["location"] == nil)
        #expect(answer.body.contains("role=\"alert\""))
    }

    @Test(arguments: ["client_id", "state", "redirect_uri", "scope"])
    func aParameterThatComesTwiceIsRefused(name: String) throws {
        let flow = try PlanFlow()
        let fields = flow.parameters()
        let again = fields.filter { $0.name == name }
        #expect(flow.authorize(fields + again).status == 400)
    }

    @Test(arguments: ["state", "nonce", "code_challenge"])
    func aSecretOfAnEarlierAttemptIsRefused(name: String) throws {
        let flow = try PlanFlow()
        let first = flow.parameters()
        #expect(flow.authorize(first).status == 302)
        let old = first.first { $0.name == name }?.value
        #expect(flow.authorize(flow.parameters([(name, old)])).status == 400)
    }

    @Test func `a returning client gets no new ID, and its hints must be its own`() throws {
        let flow = try PlanFlow()
        let first = flow.signIn()
        let other = flow.signIn()
        func again(_ changes: [(String, String?)]) -> PlanAnswer {
            flow.authorize(flow.parameters(clientID: first.clientID, changes))
        }
        let hints: [(String, String?)] = [("id_token_hint", first.idToken), ("login_hint", "ada@example.com")]
        let answer = again(hints)
        #expect(answer.status == 302)
        #expect(answer["client_id"] == nil)
        #expect(again([("redirect_uri", "http://127.0.0.1:1/auth/callback")]).status == 302)
        #expect(again([("prompt", "consent")]).status == 302)
        let refused: [[(String, String?)]] = [
            [("agent_name_hint", "My App")], [("id_token_hint", other.idToken)], [("id_token_hint", first.accessToken)],
            [("login_hint", "eve@example.com")], [("prompt", "login")],
        ]
        for changes in refused { #expect(again(changes).status == 400) }
        // A sign-out forgets the identity, and keeps the registration.
        #expect(flow.revoke(first.refreshToken, clientID: first.clientID).status == 200)
        #expect(again(hints).status == 400)
        #expect(again([]).status == 302)
    }

    // MARK: Tokens

    private static let wrongExchanges: [(String, String?, String)] = [
        ("grant_type", nil, "unsupported_grant_type"), ("grant_type", "password", "unsupported_grant_type"),
        ("client_id", nil, "invalid_request"), ("client_id", "dynamic_agent_client", "invalid_client"),
        ("client_id", "oaiapp_other", "invalid_client"), ("code", "ac_other", "invalid_grant"),
        ("code_verifier", PlanFlow.verifier, "invalid_grant"), ("code_verifier", nil, "invalid_request"),
        ("redirect_uri", "http://127.0.0.1:1/auth/callback", "invalid_grant"), ("resource", nil, "invalid_request"),
        ("resource", "https://api.openai.com", "invalid_target"), ("scope", PlanFlow.scopes, "invalid_request"),
        ("client_secret", "x", "invalid_request"), ("nonce", "x", "invalid_request"),
    ]

    @Test(arguments: wrongExchanges)
    func aWrongExchangeIsRefusedAndLeavesTheCode(name: String, value: String?, code: String) throws {
        let flow = try PlanFlow()
        let callback = flow.authorize(flow.parameters())
        let refused = flow.exchange(code: callback["code"], clientID: callback["client_id"], [(name, value)])
        #expect(refused.status >= 400)
        #expect(refused.code == code)
        #expect(flow.exchange(code: callback["code"], clientID: callback["client_id"]).status == 200)
    }

    @Test func `another client's code, an old code and another form are refused`() throws {
        let flow = try PlanFlow()
        let other = flow.signIn()
        let callback = flow.authorize(flow.parameters())
        let (code, clientID) = (callback["code"], callback["client_id"])
        #expect(flow.exchange(code: code, clientID: other.clientID).code == "invalid_grant")
        let json: ChappieJSON = ["grant_type": "authorization_code", "code": .string(code ?? "")]
        let path = "/api/accounts/oauth/token"
        #expect(flow.send("POST", path, body: json).code == "invalid_request")
        let basic: PlanFlow.Fields = [("authorization", "Basic eDp5")]
        #expect(flow.send("POST", path, headers: basic, form: [("grant_type", "x")]).code == "invalid_request")
        #expect(flow.send("POST", path, form: [("grant_type", "x"), ("grant_type", "x")]).code == "invalid_request")
        flow.clock.advance(seconds: 600)
        #expect(flow.exchange(code: code, clientID: clientID).code == "invalid_grant")
    }

    @Test func `a refresh token is replaced each time and not before its time`() throws {
        let flow = try PlanFlow()
        let signIn = flow.signIn()
        #expect(flow.refresh(signIn.refreshToken, clientID: signIn.clientID).code == "invalid_grant")
        flow.clock.advance(seconds: 3240)
        for (name, value) in [("scope", "openid"), ("resource", nil), ("client_id", "dynamic_agent_client")] {
            let refused = flow.refresh(signIn.refreshToken, clientID: signIn.clientID, [(name, value)])
            #expect(refused.status >= 400)
        }
        let answer = flow.refresh(signIn.refreshToken, clientID: signIn.clientID)
        #expect(answer.status == 200)
        let second = PlanFlow.SignIn(clientID: signIn.clientID, tokens: answer.json)
        #expect(second.refreshToken != signIn.refreshToken)
        #expect(second.tokens["scope"]?.string == PlanFlow.scopes)
        #expect(second.idTokenParts.last?["nonce"] == nil)
        #expect(second.idTokenParts.last?["sub"] == signIn.idTokenParts.last?["sub"])
        #expect(flow.refresh(signIn.refreshToken, clientID: signIn.clientID).code == "refresh_token_reused")
        flow.clock.advance(seconds: 30 * 86_400)
        #expect(flow.refresh(second.refreshToken, clientID: signIn.clientID).code == "refresh_token_expired")
    }

    @Test func tokensOfTheTwoRoutesAreNotMixed() throws {
        let flow = try PlanFlow()
        let signIn = flow.signIn()
        let device = flow.core.withBackend { backend, now in backend.tokens.signIn(clientID: "app", now: now) }
        flow.clock.advance(seconds: 3300)
        #expect(flow.refresh(device.refreshToken, clientID: signIn.clientID).code == "refresh_token_invalidated")
        let body: ChappieJSON = ["grant_type": "refresh_token", "refresh_token": .string(signIn.refreshToken)]
        #expect(flow.send("POST", "/oauth/token", body: body).status == 401)
        #expect(flow.get("/v1/models", device.accessToken).status == 401)
        #expect(flow.get("/backend-api/wham/usage", signIn.accessToken).status == 401)
        #expect(flow.get("/backend-api/wham/usage", device.accessToken).status == 200)
    }

    // MARK: Discovery and keys

    @Test func aSignatureIsTheOneThatOpenSSLMakes() {
        let signatures = TestSigningKey.all.map { Base64URL.encode($0.signature(of: Array("header.claims".utf8))) }
        #expect(
            signatures == [
                """
                KURLaQhK6wdzTr-cL-nVHBDMPk-BIFuCK6AVbcENzeKNXTMlKxFa8zsnRyIVY8ROOevESROpfGH9fbnyT7cZKWs1Zx\
                -cC1GelQVM_2nJcDXjtEAzW_VKe8I4lRXOJVLRLhud5qZrykrR4hNSDubm_WdQtHwW1IXLIqP3CeVGam0ZVaxltt4D\
                9C1NAVjkQ01neuF-9SqReMZi7gtVaNTWY-H_WIZC9YVi08mrttCSEw1nZBaC8JjdvDWLCtYvsnkQPKGQvROTVF2eTK\
                GfkW1RniZpY9pbeW7pIrDL0eh8WvrAgiFTLalDtaOlUq7qyjQReYexxItFG5S8OaRig7MlfQ
                """,
                """
                2SOuaZknZt6dUDTsmlXk4q2UlsfQd6qd-zchp4tAuPG1Rx8mh46hYgfK2mMCgaAGzDm-2GcZXl2_ykUlazWy4nAzVq\
                oYt22JectyvOcnCch4N3Sv5zmFXFJxaER3z_a-RP9SPDZny5NalUmAtTVw83a5vRaAuFx1879HifLkEDmrVgabMGCt\
                UHe3-oJsIpVLolAyOCafH1rp2_TOHVnBtk74Yub27lemngz9gtg2Op9B0xsSt8J2c0DvX9XQnNrQvSNH9YtdpTeJeD\
                aCHCoedBwq7MZu_pqWElH_cRtl3imVXVV1hvK4YicZC4h3L89wQSJoENpvBskrRv_tAj8mQQ
                """,
            ])
    }
}
