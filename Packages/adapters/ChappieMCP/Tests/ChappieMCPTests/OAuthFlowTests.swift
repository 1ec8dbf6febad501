@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieMCP

/// A sign-in without a network: answers go in, requests come out.
struct OAuthFlowTests {
    static let server = "https://a.example/mcp"
    static let resource: ChappieJSON = [
        "resource": .string(server), "authorization_servers": ["https://b.example"], "scopes_supported": ["all"],
    ]
    static let issuer: ChappieJSON = [
        "issuer": "https://b.example", "authorization_endpoint": "https://b.example/authorize?tenant=1",
        "token_endpoint": "https://b.example/token", "registration_endpoint": "https://b.example/register",
        "revocation_endpoint": "https://b.example/revoke", "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["all", "offline_access"], "authorization_response_iss_parameter_supported": true,
    ]
    static let client: ChappieJSON = ["client_id": "client-1"]
    static let tokens: ChappieJSON = [
        "access_token": "access-1", "token_type": "bearer", "expires_in": 3600, "refresh_token": "refresh-1",
    ]
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    static func answer(
        _ json: ChappieJSON? = nil, _ status: Int = 200, _ fields: HTTPFields = [:]
    ) -> IssuerResponse {
        IssuerResponse(status: status, headerFields: fields, body: json?.serializedBytes() ?? [])
    }

    static func challenge(_ parameters: String = "") -> IssuerResponse {
        answer(nil, 401, [.wwwAuthenticate: "Bearer \(parameters)"])
    }

    /// Runs a sign-in over these answers. Returns its requests, the page, and the sign-in if it has come to its end.
    private func run(
        _ answers: [IssuerResponse], clientID: String? = nil, scopes: [String] = [],
        visiting: (URL) -> Void = { _ in }
    ) throws -> (requests: [HTTPExchangeRequest], page: URL?, issuer: CallbackRequests.Issuer?, grant: OAuthGrant?) {
        let url = try #require(URL(string: Self.server))
        var flow = try OAuthFlow(server: url, clientID: clientID, clientName: "Test", scopes: scopes)
        var step = flow.start()
        var rest = answers[...]
        var requests: [HTTPExchangeRequest] = []
        var page: URL?
        var issuer: CallbackRequests.Issuer?
        while true {
            switch step {
            case .fetch(let request):
                requests.append(request)
                visiting(request.url)
                guard let answer = rest.popFirst() else { return (requests, page, issuer, nil) }
                step = try flow.received(answer, at: Self.now)
            case .listen(let named):
                issuer = named
                step = try flow.listening(
                    RedirectBinding(
                        redirectURI: "http://127.0.0.1:9/callback", state: Secret("state"),
                        verifier: Secret("verifier"), challenge: "AQID"))
            case .show(let url):
                page = url
                visiting(url)
                step = try flow.approved(Secret("code-1"))
            case .finish(let grant): return (requests, page, issuer, grant)
            }
        }
    }

    private func reason(_ answers: [IssuerResponse], clientID: String? = nil) -> String {
        do {
            return "no error, but \(try run(answers, clientID: clientID).requests.count) requests"
        } catch {
            return (error as? OAuthRefusal)?.reason ?? "\(error)"
        }
    }

    private func form(_ request: HTTPExchangeRequest) -> String {
        String(decoding: request.body?.bytes ?? [], as: UTF8.self)
    }

    @Test func aSignInAsksEachPartyForItsPart() throws {
        let run = try run([
            Self.challenge(), Self.answer(nil, 404), Self.answer(Self.resource), Self.answer(nil, 404),
            Self.answer(Self.issuer), Self.answer(Self.client, 201), Self.answer(Self.tokens),
        ])
        #expect(
            run.requests.map(\.url.absoluteString) == [
                Self.server, "https://a.example/.well-known/oauth-protected-resource/mcp",
                "https://a.example/.well-known/oauth-protected-resource",
                "https://b.example/.well-known/oauth-authorization-server",
                "https://b.example/.well-known/openid-configuration", "https://b.example/register",
                "https://b.example/token",
            ])
        #expect(
            run.page?.absoluteString == "https://b.example/authorize?tenant=1&response_type=code&client_id=client-1"
                + "&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&state=state&code_challenge=AQID"
                + "&code_challenge_method=S256&resource=https%3A%2F%2Fa.example%2Fmcp&scope=all%20offline_access")
        #expect(
            form(run.requests[5])
                == #"{"client_name":"Test","redirect_uris":["http://127.0.0.1:9/callback"],"grant_types":["authorization_code","#
                + #""refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","application_type":"native","#
                + #""scope":"all offline_access"}"#)
        #expect(
            form(run.requests[6]) == "grant_type=authorization_code&code=code-1"
                + "&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&code_verifier=verifier"
                + "&resource=https%3A%2F%2Fa.example%2Fmcp&client_id=client-1")
        let grant = try #require(run.grant)
        #expect(grant.accessToken == Secret("access-1") && grant.refreshToken == Secret("refresh-1"))
        #expect(grant.scopes == ["all", "offline_access"] && grant.resource == Self.server)
        #expect(grant.renewAt == Self.now.addingTimeInterval(3540))
        #expect(run.requests.allSatisfy { $0.headerFields[.authorization] == nil })
    }

    @Test func `a description that claims the complete host is taken from the root of the host only`() throws {
        var claim = try #require(Self.resource.object)
        claim["resource"] = "https://a.example"
        let document = Self.answer(.object(claim))
        // At the server's own place it is passed over, and the root's is read.
        let run = try run([
            Self.challenge(), document, document, Self.answer(Self.issuer), Self.answer(Self.client, 201),
            Self.answer(Self.tokens),
        ])
        #expect(run.grant?.resource == "https://a.example")
        let named = Self.challenge(#"resource_metadata="https://a.example/.well-known/oauth-protected-resource/mcp""#)
        #expect(!reason([named, document, document]).contains("claims"))
        let words = reason([named, document, Self.answer(nil, 404)])
        #expect(words.contains("claims more than its own address (https://a.example)"), "\(words)")
        #expect(words.contains("https://a.example/mcp"), "\(words)")
    }

    @Test func `the server's challenge decides where to ask and what to ask for`() throws {
        let named = #"resource_metadata="https://meta.example/x", scope="read write""#
        let run = try run(
            [Self.challenge(named), Self.answer(Self.resource), Self.answer(Self.issuer)], clientID: "mine",
            scopes: ["extra"])
        #expect(run.requests.dropFirst().first?.url.absoluteString == "https://meta.example/x")
        #expect(run.page?.query()?.hasSuffix("scope=read%20write%20extra%20offline_access") == true, "\(run)")
        #expect(run.page?.query()?.contains("client_id=mine") == true)
        // No registration: the next request is for the tokens.
        #expect(run.requests.last?.url.absoluteString == "https://b.example/token")
    }

    @Test(arguments: [("client_secret_post", "client_secret=s%3A1"), ("client_secret_basic", "Basic YzoxOnMlM0Ex")])
    func aServerThatWantsAProofGetsIt(method: String, proof: String) throws {
        var issuer = try #require(Self.issuer.object)
        issuer["token_endpoint_auth_methods_supported"] = [.string(method), "private_key_jwt"]
        let client: ChappieJSON = [
            "client_id": "c", "client_secret": "s:1", "token_endpoint_auth_method": .string(method),
        ]
        let run = try run([
            Self.challenge(), Self.answer(Self.resource), Self.answer(.object(issuer)), Self.answer(client),
        ])
        let last = try #require(run.requests.last)
        let shown = form(last) + " " + (last.headerFields[.authorization] ?? "")
        let expected = method == "client_secret_basic" ? "Basic \(Data("c:s%3A1".utf8).base64EncodedString())" : proof
        #expect(shown.contains(expected), "\(shown)")
        #expect(form(run.requests[3]).contains(#""token_endpoint_auth_method":"\#(method)""#))
    }

    private static func changed(_ json: ChappieJSON, _ name: String, _ value: ChappieJSON?) -> IssuerResponse {
        var object = json.object ?? [:]
        object[name] = value
        return answer(.object(object))
    }

    @Test(
        arguments: [
            (answer(nil, 200), "it wants no sign-in"), (answer(nil, 500), "it answers with status 500"),
            (challenge(#"resource_metadata="http://a.example/x""#), "description can't be used"),
            (challenge(#"resource_metadata="http://127.0.0.1/x""#), "description can't be used"),
            (challenge(#"resource_metadata="https://localhost/x""#), "description can't be used"),
        ])
    func aServerThatSendsTheClientAstrayIsRefused(first: IssuerResponse, words: String) {
        #expect(reason([first]).contains(words), "\(reason([first]))")
    }

    @Test(
        arguments: [
            (changed(resource, "resource", "https://other.example/mcp"), "of another server"),
            (changed(resource, "resource", nil), "of another server"),
            (changed(resource, "resource", "https://a.example/mcp/deeper"), "of another server"),
            (changed(resource, "authorization_servers", nil), "names no authorization server"),
            (changed(resource, "authorization_servers", []), "names no authorization server"),
            (changed(resource, "authorization_servers", ["http://b.example"]), "must have TLS"),
            (changed(resource, "authorization_servers", ["https://127.0.0.1:8443"]), "must have TLS"),
            (answer("not an object"), "does not specify where"), (answer(nil, 302), "does not specify where"),
            (answer(nil, 500), "does not specify where"),
        ])
    func aDescriptionOfTheServerThatDoesNotFitIsRefused(document: IssuerResponse, words: String) {
        // At both of its places.
        #expect(reason([Self.challenge(), document, document]).contains(words))
    }

    @Test(
        arguments: [
            ("issuer", "https://evil.example", "is another one's"), ("issuer", nil, "is another one's"),
            ("issuer", "https://b.example/tenant", "is another one's"),
            ("authorization_endpoint", "http://b.example/authorize", "must have TLS"),
            ("authorization_endpoint", "javascript:alert(1)", "must have TLS"),
            ("token_endpoint", "http://127.0.0.1:22/", "must have TLS"), ("token_endpoint", nil, "must have TLS"),
            ("code_challenge_methods_supported", nil, "PKCE with S256"),
            ("code_challenge_methods_supported", ["plain"], "PKCE with S256"),
            ("response_types_supported", ["token"], "has no sign-in through a browser"),
            ("grant_types_supported", ["client_credentials"], "has no sign-in through a browser"),
            ("registration_endpoint", nil, "registers no programs"),
            ("registration_endpoint", "http://b.example/register", "registers no programs"),
            ("token_endpoint_auth_methods_supported", ["private_key_jwt"], "registers no programs"),
        ] as [(String, ChappieJSON?, String)])
    func anAuthorizationServerThatIsNotSafeIsRefused(member: String, value: ChappieJSON?, words: String) {
        let document = Self.changed(Self.issuer, member, value)
        let found = reason([Self.challenge(), Self.answer(Self.resource), document, document])
        #expect(found.contains(words), "\(found)")
    }

    @Test(
        arguments: [
            (
                answer(["error": "invalid_redirect_uri", "error_description": "no\u{1B}[2J"], 400),
                "no [2J (invalid_redirect_uri)"
            ),
            (answer(nil, 503), "status 503"), (answer(["client_id": ""]), "without a usable name"),
            (answer(["client_id": "a b"]), "without a usable name"),
            (answer(["client_id": "c", "token_endpoint_auth_method": "private_key_jwt"]), "can't be used"),
            (answer(["client_id": "c", "token_endpoint_auth_method": "client_secret_post"]), "can't be used"),
        ])
    func aRegistrationThatFailsIsASentence(registration: IssuerResponse, words: String) {
        let found = reason([Self.challenge(), Self.answer(Self.resource), Self.answer(Self.issuer), registration])
        #expect(found.contains(words), "\(found)")
    }

    @Test(
        arguments: [
            (
                answer(["error": "invalid_grant", "error_description": "code-1 with verifier is old"], 400),
                "(invalid_grant)"
            ),
            (answer(["access_token": "a b"]), "no token that can be used"), (answer([:]), "no token that can be used"),
            (answer(["access_token": "a", "token_type": "mac"]), "no token that can be used"),
            (answer("access-1"), "gave no token: status 200"),
        ])
    func anAnswerWithoutATokenIsASentenceWithoutSecrets(answer: IssuerResponse, words: String) {
        let found = reason([
            Self.challenge(), Self.answer(Self.resource), Self.answer(Self.issuer), Self.answer(Self.client), answer,
        ])
        #expect(found.contains(words) && !found.contains("code-1") && !found.contains("verifier"), "\(found)")
    }

    /// Answers with bytes changed, members exchanged and parts missing: nothing traps, no request goes to this machine or
    /// without TLS, and what is said can be shown.
    @Test func `no answer makes the client contact a forbidden address`() throws {
        var random = Seeded(state: 0x9E37_79B9_7F4A_7C15)
        let whole = [
            Self.challenge(#"resource_metadata="https://a.example/x", scope="read""#), Self.answer(Self.resource),
            Self.answer(Self.issuer), Self.answer(Self.client), Self.answer(Self.tokens),
        ]
        let words = [
            "http://127.0.0.1/", "https://localhost/", "\"", "null", "[]", "{", "https://evil.example", "\u{1B}[2J",
            "\u{202E}",
            "S256", "1e999", "-1", "file:///", "\\ud800",
        ]
        var endings: Set<Bool> = []
        for _ in 0..<5000 {
            var answers = whole
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<answers.count, using: &random)
                let old = answers[index]
                var body = old.body
                if !body.isEmpty {
                    let start = Int.random(in: 0..<body.count, using: &random)
                    let end = min(body.count, start + Int.random(in: 0...12, using: &random))
                    body.replaceSubrange(start..<end, with: Array((words.randomElement(using: &random) ?? "").utf8))
                }
                let status = [old.status, old.status, 200, 401, 404].randomElement(using: &random) ?? 200
                answers[index] = IssuerResponse(status: status, headerFields: old.headerFields, body: body)
            }
            var sent: [URL] = []
            do {
                let run = try run(answers) { sent.append($0) }
                endings.insert(run.grant != nil)
            } catch let refusal as OAuthRefusal {
                #expect(UntrustedText.line(refusal.reason, limit: 1000) != nil, "\(refusal)")
            }
            for url in sent {
                let origin = try #require(Origin(url))
                #expect(origin.scheme == .https && !origin.isLoopback, "\(url)")
            }
        }
        // Some changes do no harm.
        #expect(endings.contains(true))
    }

    /// The same numbers in every run.
    private struct Seeded: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return state
        }
    }

    @Test func `an address whose scheme is not allowed begins nothing`() {
        #expect(throws: OAuthRefusal.self) {
            _ = try OAuthFlow(
                server: try #require(URL(string: "http://a.example/mcp")), clientID: nil, clientName: "", scopes: [])
        }
    }
}
