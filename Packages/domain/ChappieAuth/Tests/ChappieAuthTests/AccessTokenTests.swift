import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

/// Sign-ins with an access token that its owner has made.
@MainActor
@Suite struct AccessTokenTests {
    private static let path = "/api/accounts/v1/user-auth-credential/whoami"
    private static let owner = ScriptedHTTPAnswer.json(
        """
        {"email":"owner@example.com","chatgpt_user_id":"user-7","chatgpt_account_id":"account-7",\
        "chatgpt_plan_type":"enterprise","chatgpt_account_is_fedramp":true}
        """)
    private let token = "at-secret_1"

    private func signedIn(_ answers: [String: [ScriptedHTTPAnswer]] = [:]) async throws -> SessionHarness {
        let it = SessionHarness(nil, [Self.path: [Self.owner], Service.backend: [.ok]].merging(answers) { $1 })
        try await it.session.signIn(accessToken: token)
        return it
    }

    private func failure(_ answer: ScriptedHTTPAnswer) async -> ChappieAuthError? {
        let it = SessionHarness(nil, [Self.path: [answer]])
        let error = await #expect(throws: ChappieAuthError.self) { try await it.session.signIn(accessToken: token) }
        #expect(it.stand.store.calls.contains(.save) == false)
        return error
    }

    @Test func theServiceNamesTheOwner() async throws {
        let it = try await signedIn()
        let info = try #require(it.session.accountInfo)
        #expect(info.email == "owner@example.com")
        #expect(info.userID == "user-7")
        #expect(info.accountID == "account-7")
        #expect(info.plan == .enterprise)
        #expect(info.isFedRAMPAccount)
        #expect(it.session.state == .signedIn(expiresAt: nil))
        #expect(it.session.deviceLinkState == .idle)
        #expect(it.session.grant == .accessToken)
        let request = try #require(it.stand.service.requests(Self.path).first)
        #expect(request.method == .get)
        #expect(request.headerFields[.authorization] == "Bearer at-secret_1")
        #expect(request.headerFields[.originator] == "chappie")
    }

    @Test func requestsCarryTheTokenAndTheAccount() async throws {
        let it = try await signedIn()
        try await it.stand.send()
        let request = try #require(it.stand.service.requests(Service.backend).first)
        #expect(request.headerFields[.authorization] == "Bearer at-secret_1")
        #expect(request.headerFields[.chatGPTAccountID] == "account-7")
        #expect(request.headerFields[.fedRAMP] == "true")
    }

    @Test func itIsStoredWithItsOwnerAndIsNeverDue() async throws {
        let it = try await signedIn()
        it.stand.clock.advance(by: .seconds(400 * 24 * 60 * 60))
        let other = it.stand.otherManager()
        let access = try await other.accessToken(.token)
        #expect(access.account == it.session.accountInfo)
        #expect(access.credential.isAccessToken)
        #expect(it.stand.service.count(Service.token) == 0)
    }

    /// A refusal may come from a proxy on the way, so the token stays; it counts again once it is accepted.
    @Test func aRefusedTokenIsNotRenewedAndStays() async throws {
        let it = try await signedIn([Service.backend: [.refused, .ok]])
        let error = await #expect(throws: ChappieAuthError.self) { try await it.stand.send() }
        #expect(error?.requiresReauthentication == true)
        #expect(error?.errorDescription?.contains("can't be renewed") == true)
        #expect(it.stand.service.count(Service.backend) == 1)
        #expect(it.stand.service.count(Service.token) == 0)
        #expect(it.stand.storedText?.contains("at-secret_1") == true)
        let updates = it.session.stateUpdates
        #expect(await updates.next { $0 == .reauthenticationRequired } != nil)
        #expect(try await it.stand.send() == 200)
        #expect(await updates.next { $0.isSignedIn } == .signedIn(expiresAt: nil))
    }

    @Test func `a newer token that another process stored is used instead`() async throws {
        let it = try await signedIn([Service.backend: [.refused, .ok]])
        let other = ChappieAuthSession(credentials: it.stand.otherManager())
        try await other.signIn(accessToken: "at-secret_2")
        #expect(try await it.stand.send() == 200)
        #expect(it.stand.bearers == ["at-secret_1", "at-secret_2"])
    }

    @Test func renewingItIsAnErrorThatChangesNothing() async throws {
        let it = try await signedIn()
        let error = await #expect(throws: ChappieAuthError.self) { try await it.session.refreshAuth() }
        #expect(error?.errorDescription?.hasPrefix("An access token can't be renewed.") == true)
        #expect(it.session.state == .signedIn(expiresAt: nil))
        #expect(try await it.stand.send() == 200)
    }

    @Test func signingOutForgetsItAndRevokesNothing() async throws {
        let it = try await signedIn()
        try await it.session.signOutAndRevoke()
        #expect(it.stand.storedText == nil)
        #expect(it.session.grant == nil)
        #expect(it.stand.service.count(Service.revoke) == 0)
    }

    @Test func aDeviceSignInReplacesIt() async throws {
        let it = try await signedIn(SessionHarness.signingIn(as: person(endingIn: 7200)))
        #expect(try await it.signIn() == .linked(expiresAt: start.addingTimeInterval(7200)))
        #expect(it.session.grant == .deviceCode)
        #expect(it.stand.service.count(Service.revoke) == 0)
    }

    @Test(arguments: [HTTPResponse.Status.unauthorized, .forbidden])
    func aTokenThatIsNotAcceptedIsDenied(status: HTTPResponse.Status) async {
        let error = await failure(.error(status, "invalid_token", "Unknown token at-secret_1."))
        guard case .authorizationDenied(let sentence) = error else {
            return #expect(Bool(false), "\(String(describing: error))")
        }
        #expect(sentence.hasPrefix("The access token is not accepted (status \(status.code)"))
        #expect(!sentence.contains("at-secret_1"))
    }

    @Test(arguments: [
        "", "{}", "[]", #"{"chatgpt_account_id":7}"#, #"{"chatgpt_account_id":"a\nb"}"#,
    ])
    func anAnswerWithoutAnOwnerIsNotUnderstood(body: String) async {
        #expect(await failure(.json(body)) == .invalidResponse)
    }

    @Test(
        arguments: [
            (#"{"email":"a@b.c","chatgpt_compute_residency":"eu"}"#, nil),
            (#"{"chatgpt_user_id":"user-7","chatgpt_data_residency":"eu"}"#, nil),
            (#"{"account_id":"account-7","chatgpt_compute_residency":"eu"}"#, "account-7"),
        ] as [(String, String?)])
    func `an owner without an account can sign in`(_ owner: String, _ account: String?) async throws {
        let it = try await signedIn([Self.path: [.json(owner)]])
        #expect(try await it.stand.send() == 200)
        let fields = try #require(it.stand.service.requests(Service.backend).first?.headerFields)
        #expect(fields[.chatGPTAccountID] == account && fields[.residency] == "eu")
        #expect(try await it.stand.otherManager().accountInfo() == it.session.accountInfo)
    }

    @Test func aServiceThatFailsIsNoVerdictOnTheToken() async {
        let error = await failure(.error(.internalServerError, "server_error"))
        #expect(error?.requiresReauthentication == false)
        guard case .tokenExchangeFailed(500, _) = error else {
            return #expect(Bool(false), "\(String(describing: error))")
        }
    }

    @Test(arguments: ["sk-proj-1", "", "at-a b", "at-\u{7}", "at-ü"])
    func whatCanNotBeAnAccessTokenIsNotSent(text: String) async {
        let it = SessionHarness(nil, [Self.path: [Self.owner]])
        let error = await #expect(throws: ChappieAuthError.self) {
            try await it.session.signIn(accessToken: text)
        }
        guard case .authorizationDenied = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(it.stand.service.count(Self.path) == 0)
    }

    @Test(arguments: [
        "at-one\n", "  at-one\r\n", "\"at-one\"", "'at-one'", "Bearer at-one", "\u{FEFF}at-one", "\"Bearer at-one\"\n",
        "bearer  'at-one'", "“at-one”",
    ])
    func `what is copied with a token is left out`(text: String) throws {
        #expect(try PastedToken.secret(in: text) == Secret("at-one"))
    }

    @Test(arguments: ["at-ab==", "eyJ-x=y", "1=2", "a.b=c"])
    func `a sign of equality alone makes no assignment`(text: String) throws {
        #expect(try PastedToken.secret(in: text) == Secret(text))
    }

    @Test(arguments: [
        "at-s3cret\nat-other", "TOKEN=at-s3cret", "export TOKEN='at-s3cret'", "at-s3cret\r\n# of the job",
        "\"CODEX_ACCESS_TOKEN=at-s3cret\"",
    ])
    func `another text is told what is expected and not repeated`(text: String) throws {
        let error = try #require(throws: ChappieAuthError.self) { _ = try PastedToken.secret(in: text) }
        #expect(error.explanation.contains("one token on one line is expected"))
        #expect(!error.explanation.contains("s3cret") && !"\(error)".contains("s3cret"))
    }

    @Test func `a stored sign-in stays if the token is not accepted`() async throws {
        let seed = person(endingIn: 7200)
        let it = SessionHarness(seed, [Self.path: [.error(.unauthorized, "invalid_token")]])
        await #expect(throws: ChappieAuthError.self) { try await it.session.signIn(accessToken: token) }
        #expect(it.session.state == .signedIn(expiresAt: seed.expiresAt))
        #expect(it.session.grant == .deviceCode)
    }

    @Test func aStoredOwnerMayBeHostile() async throws {
        let it = try await signedIn()
        let text = try #require(it.stand.storedText)
        for hostile in ["7", "[]", "null", #"{"email":7,"chatgpt_user_id":["x"]}"#] {
            let start = try #require(text.firstRange(of: #""owner":"#)?.upperBound)
            let end = try #require(text[start...].firstIndex(of: "}"))
            let document = text[..<start] + hostile + text[text.index(after: end)...]
            let credential = try Credential(
                serialized: Secret(String(document)), for: CredentialOrigin(Service.endpoints))
            #expect(credential.accountID == "account-7")
            #expect(credential.info.email == nil)
        }
    }
}
