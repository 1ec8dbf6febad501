@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieSimulator

/// The browser sign-in of the device code's client.
@Suite struct ClientSignInTests {
    private static let verifier = String(repeating: "v", count: 43)
    private static let redirect = "http://localhost:1455/auth/callback"
    private static let right: [(name: String, value: String)] = [
        ("response_type", "code"), ("client_id", "app_1"), ("redirect_uri", redirect),
        ("scope", "openid profile email offline_access api.connectors.read api.connectors.invoke"),
        ("code_challenge", Base64URL.encode(SHA256.digest(Array(verifier.utf8)))), ("code_challenge_method", "S256"),
        ("id_token_add_organizations", "true"), ("codex_cli_simplified_flow", "true"),
        ("state", String(repeating: "s", count: 43)), ("originator", "chappie"),
    ]

    private func page(_ flow: PlanFlow, _ changes: [(String, String?)] = []) -> PlanAnswer {
        let query = PlanFlow.changed(Self.right, changes)
            .map { "\($0.name)=\($0.value.replacing(" ", with: "%20").replacing("/", with: "%2F"))" }
        return flow.send("GET", "/oauth/authorize?" + query.joined(separator: "&"))
    }

    private func exchange(_ flow: PlanFlow, _ code: String, _ changes: [(String, String?)] = []) -> PlanAnswer {
        flow.send(
            "POST", "/oauth/token",
            form: PlanFlow.changed(
                [
                    ("grant_type", "authorization_code"), ("client_id", "app_1"), ("code", code),
                    ("redirect_uri", Self.redirect), ("code_verifier", Self.verifier),
                ], changes))
    }

    @Test func `an approved sign-in comes back with a code that works once`() throws {
        let flow = try PlanFlow()
        let answer = page(flow)
        #expect(answer.status == 302 && answer.headers["location"]?.hasPrefix(Self.redirect + "?") == true)
        #expect(answer["state"] == String(repeating: "s", count: 43))
        let code = try #require(answer["code"])
        let tokens = exchange(flow, code)
        #expect(tokens.status == 200)
        for name in ["id_token", "access_token", "refresh_token"] { #expect(tokens.json[name]?.string != nil) }
        #expect(exchange(flow, code).status == 400)
        let refreshed = flow.send(
            "POST", "/oauth/token",
            body: [
                "grant_type": "refresh_token", "client_id": "app_1",
                "refresh_token": tokens.json["refresh_token"] ?? "",
            ])
        #expect(refreshed.status == 200)
    }

    @Test(
        arguments: [
            ("response_type", "token"), ("client_id", nil), ("redirect_uri", "http://127.0.0.1:1456/auth/callback"),
            ("redirect_uri", "http://localhost:1456/auth/callback"), ("scope", "openid"), ("code_challenge", "x"),
            ("code_challenge_method", "plain"), ("id_token_add_organizations", nil), ("state", "short"),
            ("codex_cli_simplified_flow", nil), ("originator", nil),
        ] as [(String, String?)])
    func `a request with one fault is shown to the user and not sent back`(_ name: String, _ value: String?) throws {
        let answer = page(try PlanFlow(), [(name, value)])
        #expect(answer.status == 400)
        #expect(answer.headers["location"] == nil)
        #expect(answer.body.contains("invalid_request"))
    }

    @Test(arguments: [
        ("code_verifier", String(repeating: "w", count: 43)), ("client_id", "app_2"),
        ("redirect_uri", "http://localhost:1457/auth/callback"),
    ])
    func `an exchange with one fault is refused and does not use the code up`(_ name: String, _ value: String) throws {
        let flow = try PlanFlow()
        let code = try #require(page(flow)["code"])
        #expect(exchange(flow, code, [(name, value)]).code == "invalid_grant")
        #expect(exchange(flow, code).status == 200)
    }

    @Test(arguments: ["approve", "deny"]) func `the user decides on the page`(_ action: String) throws {
        let flow = try PlanFlow(autoApprove: false)
        let shown = page(flow)
        #expect(shown.status == 200 && shown.headers["content-security-policy"]?.contains("localhost:1455") == true)
        let id = try #require(shown.body.firstMatch(of: /name="request" value="([^"]+)"/)?.output.1)
        let answer = flow.send("POST", "/oauth/authorize", form: [("request", String(id)), ("action", action)])
        #expect(answer.status == 302 && answer["state"] == String(repeating: "s", count: 43))
        #expect((answer["code"] != nil) == (action == "approve"))
        #expect((answer["error"] == "access_denied") == (action == "deny"))
        #expect(
            flow.send("POST", "/oauth/authorize", form: [("request", String(id)), ("action", action)]).status == 400)
    }
}
