import ChappieCore
import ChappieSimulatorServer
import FoundationEssentials
import Testing

/// Signing in, with one account and with several.
@Suite(.timeLimit(.minutes(3)))
struct SignInExchangeTests {
    private struct Flow {
        let simulator: Simulator
        let start: Curl

        var userCode: String { start.json["user_code"]?.string ?? "" }

        init(_ simulator: Simulator) throws {
            self.simulator = simulator
            start = try Curl(
                "POST", "\(simulator.base)/api/accounts/deviceauth/usercode",
                json: ["client_id": .string(Simulator.clientID)])
        }

        func poll() throws -> Curl {
            try Curl(
                "POST", "\(simulator.base)/api/accounts/deviceauth/token",
                json: ["device_auth_id": start.json["device_auth_id"] ?? .null, "user_code": .string(userCode)])
        }

        func exchange(_ approved: Curl, redirect: String? = nil) throws -> Curl {
            let escaped = redirect ?? "http%3A%2F%2F127.0.0.1%3A\(simulator.port)%2Fdeviceauth%2Fcallback"
            let form =
                "grant_type=authorization_code&client_id=\(Simulator.clientID)"
                + "&code=\(approved.json["authorization_code"]?.string ?? "")&redirect_uri=\(escaped)"
                + "&code_verifier=\(approved.json["code_verifier"]?.string ?? "")"
            return try Curl("POST", "\(simulator.base)/oauth/token", form: form)
        }

        func refresh(_ token: ChappieJSON?) throws -> Curl {
            try Curl(
                "POST", "\(simulator.base)/oauth/token",
                json: [
                    "client_id": .string(Simulator.clientID), "grant_type": "refresh_token",
                    "refresh_token": token ?? .null,
                ])
        }

        func get(_ path: String, _ tokens: Curl, _ headers: [String] = []) throws -> Curl {
            let bearer = "authorization: Bearer \(tokens.json["access_token"]?.string ?? "")"
            return try Curl(
                "GET", "\(simulator.base)/backend-api/\(path)", headers: [bearer, Simulator.versionHeader] + headers)
        }
    }

    @Test func aWholeLifeOfACredential() async throws {
        try await Simulator.during { simulator in
            let flow = try Flow(simulator)
            #expect(flow.start.json["interval"] == "1")
            #expect(flow.start.json["expires_at"]?.string?.hasSuffix("Z") == true)
            let pending = try flow.poll()
            #expect(pending.status == 403)
            #expect(pending.json["error"]?["code"] == "deviceauth_authorization_pending")
            try simulator.approve(userCode: flow.userCode.lowercased())
            let approved = try flow.poll()
            #expect(approved.json["code_challenge"] == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")

            #expect(try flow.exchange(approved, redirect: "http://evil.example/deviceauth/callback").status == 400)
            let tokens = try flow.exchange(approved)
            #expect(tokens.status == 200)
            #expect(tokens.headers["cache-control"] == "no-store")
            #expect(try flow.exchange(approved).json["error"] == "invalid_grant")

            #expect(try flow.get("wham/usage", tokens).json["plan_type"] == "plus")
            let refreshed = try flow.refresh(tokens.json["refresh_token"])
            #expect(refreshed.status == 200)
            let reused = try flow.refresh(tokens.json["refresh_token"])
            #expect(reused.status == 401)
            #expect(reused.json["error"]?["code"] == "refresh_token_reused")

            let revocation: ChappieJSON = ["token": refreshed.json["refresh_token"] ?? .null]
            #expect(try Curl("POST", "\(simulator.base)/oauth/revoke", json: revocation).status == 200)
            let refused = try flow.refresh(refreshed.json["refresh_token"])
            #expect(refused.json["error"]?["code"] == "refresh_token_invalidated")
            let rejected = try flow.get("wham/usage", refreshed)
            #expect(rejected.status == 401)
            #expect(rejected.json["error"]?["code"] == "token_revoked")
        }
    }

    @Test func codesAndTokensExpireByTheClock() async throws {
        let clock = StillClock()
        let configuration = SimulatorConfiguration(accessTokenLifetime: .seconds(60), clock: clock)
        try await Simulator.during(configuration) { simulator in
            let flow = try Flow(simulator)
            try simulator.approve(userCode: flow.userCode)
            let tokens = try flow.exchange(try flow.poll())
            let late = try Flow(simulator)
            #expect(try flow.get("wham/usage", tokens).status == 200)
            clock.advance(seconds: 60)
            #expect(try flow.get("wham/usage", tokens).json["error"]?["code"] == "token_expired")
            clock.advance(seconds: 840)
            #expect(try late.poll().json["error"]?["code"] == "expired_token")
        }
    }

    @Test func refusesWhatIsNoGrant() async throws {
        try await Simulator.during { simulator in
            let url = "\(simulator.base)/oauth/token"
            for form in ["grant_type=password", "x=y", "grant_type=authorization_code", "grant_type=refresh_token"] {
                let answer = try Curl("POST", url, form: form)
                #expect(answer.status == 400)
                #expect(answer.json["error"]?.string?.isEmpty == false)
            }
            #expect(try Curl("POST", url, headers: ["content-type: application/json"], body: [0x7B]).status == 400)
            #expect(try Curl("GET", url).status == 405)
        }
    }

    // MARK: Several accounts

    private static let scenario = """
        {"settings":{"pollInterval":0,"otherAccounts":[{"id":"acct-2","userID":"user-2","email":"<two>@example.com",
         "plan":"pro","primaryUsedPercent":77,"models":["gpt-6-luna","no-such-model"]}]}}
        """

    @Test func `a token is valid only for its own account, and the log names who asked`() async throws {
        let lines = try await Simulator.logged(scenario: Self.scenario) { simulator in
            let flow = try Flow(simulator)
            let error = #expect(throws: SimulatorError.self) {
                try simulator.approve(userCode: flow.userCode, as: "nobody")
            }
            #expect(error?.code == .unknownAccount)
            try simulator.approve(userCode: flow.userCode, as: "acct-2")
            let tokens = try flow.exchange(try flow.poll())
            let other = SimulatorAccount().id
            #expect(try flow.get("wham/usage", tokens, ["chatgpt-account-id: \(other)"]).status == 403)
            #expect(try flow.get("wham/usage", tokens, ["chatgpt-account-id: acct-2"]).status == 200)
            let token = tokens.json["access_token"]?.string
            let socket = try TestWebSocket(simulator, token: token, headers: ["session-id: s-1"])
            #expect(socket.header("x-codex-primary-used-percent") == "77.0")
            let limits = socket.ask("reply: hi", [("model", "gpt-6-luna")]).first { $0["type"] == "codex.rate_limits" }
            #expect(limits?["rate_limits"]?["primary"]?["used_percent"]?.double == 77)
            #expect(try flow.refresh(tokens.json["refresh_token"]).status == 200)
        }
        #expect(lines.contains("GET /backend-api/wham/usage 403 as acct-2"))
        #expect(lines.contains("GET /backend-api/codex/responses 101 as acct-2 in s-1"))
        #expect(
            lines.contains {
                $0.hasPrefix("POST /backend-api/codex/responses 200 (") && $0.hasSuffix(") as acct-2 in s-1")
            })
        #expect(lines.last == "POST /oauth/token 200 as acct-2")
    }
}
