import ChappieCore
import ChappieSimulator
import Testing

/// A simulator in which several accounts can sign in.
@Suite(.timeLimit(.minutes(3)))
struct AccountsTests {
    private static let scenario = """
        {"settings":{"pollInterval":0,"otherAccounts":[{"id":"acct-2","userID":"user-2","email":"<two>@example.com",
         "plan":"pro","primaryUsedPercent":77,"models":["gpt-5.5-mini","no-such-model"]}]}}
        """

    private func begin(_ simulator: Simulator) throws -> ChappieJSON {
        try Curl(
            "POST", "\(simulator.base)/api/accounts/deviceauth/usercode",
            json: ["client_id": .string(Simulator.clientID)]
        ).json
    }

    /// The tokens of an approved sign-in.
    private func finish(_ flow: ChappieJSON, _ simulator: Simulator) throws -> ChappieJSON {
        let grant = try Curl(
            "POST", "\(simulator.base)/api/accounts/deviceauth/token",
            json: ["device_auth_id": flow["device_auth_id"] ?? .null, "user_code": flow["user_code"] ?? .null]
        ).json
        return try Curl(
            "POST", "\(simulator.base)/oauth/token",
            form: "grant_type=authorization_code&client_id=\(Simulator.clientID)"
                + "&redirect_uri=http%3A%2F%2F127.0.0.1%3A\(simulator.port)%2Fdeviceauth%2Fcallback"
                + "&code=\(grant["authorization_code"]?.string ?? "")"
                + "&code_verifier=\(grant["code_verifier"]?.string ?? "")"
        ).json
    }

    private func get(_ simulator: Simulator, _ path: String, _ tokens: ChappieJSON, _ more: [String] = []) throws
        -> Curl
    {
        try Curl(
            "GET", "\(simulator.base)/backend-api/\(path)",
            headers: ["authorization: Bearer \(tokens["access_token"]?.string ?? "")"] + more)
    }

    @Test func thePageOffersThemAndEachSeesItsOwn() async throws {
        try await Simulator.during(scenario: Self.scenario) { simulator in
            let page = try Curl("GET", "\(simulator.base)/codex/device").body
            #expect(page.contains("<label for=\"account\">"))
            #expect(page.contains("<option value=\"acct-2\">&lt;two&gt;@example.com (pro)</option>"))
            let flows = [try begin(simulator), try begin(simulator)]
            try simulator.approve(userCode: flows[0]["user_code"]?.string ?? "")
            let form = "user_code=\(flows[1]["user_code"]?.string ?? "")&action=approve&account="
            #expect(try Curl("POST", "\(simulator.base)/codex/device", form: form + "nobody").status == 400)
            #expect(try Curl("POST", "\(simulator.base)/codex/device", form: form + "acct-2").status == 200)
            let tokens = try flows.map { try finish($0, simulator) }
            let usage = try tokens.map { try get(simulator, "wham/usage", $0).json }
            #expect(usage.map { $0["plan_type"] } == ["plus", "pro"])
            #expect(usage.map { $0["rate_limit"]?["primary_window"]?["used_percent"] } == [12, 77])
            let lists = try tokens.map { try get(simulator, "codex/models", $0) }
            #expect(lists[0].json["models"]?.array?.count == 4)
            #expect(lists[1].json["models"]?.array?.map { $0["slug"] } == ["gpt-5.5-mini"])
            let tags = lists.map { $0.headers["etag"] ?? "" }
            #expect(tags[0] != tags[1])
            #expect(try get(simulator, "codex/models", tokens[1], ["if-none-match: \(tags[1])"]).status == 304)
            #expect(try get(simulator, "codex/models", tokens[1], ["if-none-match: \(tags[0])"]).status == 200)
            let check = try get(simulator, "wham/accounts/check", tokens[1]).json
            #expect(check["default_account_id"] == "acct-2")
        }
    }

    @Test func aTokenSpeaksForItsOwnAccountAloneAndTheLogSaysWhoAsked() async throws {
        let lines = try await Simulator.logged(scenario: Self.scenario) { simulator in
            let flow = try begin(simulator)
            try simulator.approve(userCode: flow["user_code"]?.string ?? "", as: "acct-2")
            let tokens = try finish(flow, simulator)
            let token = tokens["access_token"]?.string ?? ""
            let other = simulator.issueCredential().accountID
            #expect(try get(simulator, "wham/usage", tokens, ["chatgpt-account-id: \(other)"]).status == 403)
            #expect(try get(simulator, "wham/usage", tokens, ["chatgpt-account-id: acct-2"]).status == 200)
            let socket = try TestWebSocket(simulator, token: token, headers: ["session-id: s-1"])
            #expect(socket.header("x-codex-primary-used-percent") == "77.0")
            let limits = socket.ask("reply: hi").first { $0["type"] == "codex.rate_limits" }
            #expect(limits?["plan_type"] == "pro")
            #expect(limits?["rate_limits"]?["primary"]?["used_percent"]?.double == 77)
            let refresh: ChappieJSON = [
                "client_id": .string(Simulator.clientID), "grant_type": "refresh_token",
                "refresh_token": tokens["refresh_token"] ?? .null,
            ]
            #expect(try Curl("POST", "\(simulator.base)/oauth/token", json: refresh).status == 200)
        }
        #expect(lines.contains("GET /backend-api/wham/usage 403 as acct-2"))
        #expect(lines.contains("GET /backend-api/codex/responses 101 as acct-2 in s-1"))
        #expect(
            lines.contains {
                $0.hasPrefix("POST /backend-api/codex/responses 200 (") && $0.hasSuffix(") as acct-2 in s-1")
            })
        #expect(lines.last == "POST /oauth/token 200 as acct-2")
    }

    @Test func anAccountIsNamedByAnIdOfItsOwn() async throws {
        try await Simulator.during(scenario: Self.scenario) { simulator in
            let code = try begin(simulator)["user_code"]?.string ?? ""
            let error = #expect(throws: SimulatorError.self) { try simulator.approve(userCode: code, as: "nobody") }
            #expect(error?.code == .unknownAccount)
            #expect(error?.recoverySuggestion?.isEmpty == false)
            try simulator.approve(userCode: code, as: "acct-2")
        }
        let twice = SimulatorConfiguration(otherAccounts: [SimulatorAccount()])
        await #expect { try await Simulator.start(twice) } throws: {
            ($0 as? SimulatorError)?.code == .invalidConfiguration
        }
        #expect(throws: SimulatorError.self) {
            try SimulatorScenario(parsing: #"{"settings":{"otherAccounts":[{"email":"nobody@example.com"}]}}"#)
        }
    }
}
