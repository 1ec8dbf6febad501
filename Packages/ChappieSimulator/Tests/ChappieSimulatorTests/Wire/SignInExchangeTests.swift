import ChappieCore
import ChappieSimulator
import FoundationEssentials
import Testing

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
    }

    private func usage(_ simulator: Simulator, _ accessToken: ChappieJSON?) throws -> Curl {
        try Curl(
            "GET", "\(simulator.base)/backend-api/wham/usage",
            headers: ["authorization: Bearer \(accessToken?.string ?? "")"])
    }

    @Test func aWholeLifeOfACredential() async throws {
        try await Simulator.during { simulator in
            let flow = try Flow(simulator)
            #expect(flow.start.status == 200)
            #expect(flow.start.json["interval"] == "1")
            #expect(flow.start.json["expires_at"]?.string?.hasSuffix("Z") == true)
            let pending = try flow.poll()
            #expect(pending.status == 403)
            #expect(pending.json["error"]?["code"] == "deviceauth_authorization_pending")
            try simulator.approve(userCode: flow.userCode.lowercased())
            let approved = try flow.poll()
            #expect(approved.status == 200)
            #expect(approved.json["code_challenge"]?.string?.count == 43)

            #expect(try flow.exchange(approved, redirect: "http://evil.example/deviceauth/callback").status == 400)
            let tokens = try flow.exchange(approved)
            #expect(tokens.status == 200)
            #expect(tokens.headers["cache-control"] == "no-store")
            for name in ["id_token", "access_token"] {
                #expect(tokens.json[name]?.string?.split(separator: ".").count == 3)
            }
            let again = try flow.exchange(approved)
            #expect(again.status == 400)
            #expect(again.json["error"] == "invalid_grant")

            #expect(try usage(simulator, tokens.json["access_token"]).json["plan_type"] == "plus")
            let refreshed = try flow.refresh(tokens.json["refresh_token"])
            #expect(refreshed.status == 200)
            let reused = try flow.refresh(tokens.json["refresh_token"])
            #expect(reused.status == 401)
            #expect(reused.json["error"]?["code"] == "refresh_token_reused")

            let revocation = try Curl(
                "POST", "\(simulator.base)/oauth/revoke",
                json: [
                    "token": refreshed.json["refresh_token"] ?? .null, "token_type_hint": "refresh_token",
                    "client_id": .string(Simulator.clientID),
                ])
            #expect(revocation.status == 200)
            let refused = try flow.refresh(refreshed.json["refresh_token"])
            #expect(refused.status == 401)
            #expect(refused.json["error"]?["code"] == "refresh_token_invalidated")
            let rejected = try usage(simulator, refreshed.json["access_token"])
            #expect(rejected.status == 401)
            #expect(rejected.json["error"]?["code"] == "token_revoked")
        }
    }

    @Test func theClaimsAreTheOnesClientsRead() async throws {
        try await Simulator.during { simulator in
            let credential = simulator.issueCredential()
            for token in [credential.idToken, credential.accessToken] {
                let part = token.split(separator: ".")[1].map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }
                let padded = String(part) + String(repeating: "=", count: (4 - part.count % 4) % 4)
                let claims = try ChappieJSON(parsing: Array(try #require(Data(base64Encoded: padded))))
                let auth = claims["https://api.openai.com/auth"]
                #expect(auth?["chatgpt_account_id"]?.string == credential.accountID)
                #expect(auth?["chatgpt_plan_type"] == "plus")
                #expect(auth?["chatgpt_user_id"] == "user-simulated")
                let exp = try #require(claims["exp"]?.int)
                #expect(Double(exp) == credential.expiresAt.timeIntervalSince1970)
                #expect(claims["iss"]?.string == simulator.issuer.absoluteString)
            }
            #expect(!"\(credential)".contains(credential.accessToken))
        }
    }

    @Test func autoApprovalNeedsNobodyAndARefusalEndsThePolling() async throws {
        try await Simulator.during(SimulatorConfiguration(autoApprove: true)) { simulator in
            let flow = try Flow(simulator)
            #expect(try flow.poll().status == 403)
            #expect(try flow.poll().status == 200)
        }
        try await Simulator.during { simulator in
            let flow = try Flow(simulator)
            try simulator.refuse(userCode: flow.userCode)
            let answer = try flow.poll()
            #expect(answer.status == 400)
            #expect(answer.json["error"]?["code"] == "access_denied")
            let error = #expect(throws: SimulatorError.self) { try simulator.approve(userCode: flow.userCode) }
            #expect(error?.code == .unknownUserCode)
        }
    }

    @Test func codesAndTokensExpireByTheClock() async throws {
        let clock = StillClock()
        try await Simulator.during(SimulatorConfiguration(accessTokenLifetime: .seconds(60), clock: clock)) {
            simulator in
            let flow = try Flow(simulator)
            let token = ChappieJSON.string(simulator.issueCredential().accessToken)
            #expect(try usage(simulator, token).status == 200)
            clock.advance(seconds: 60)
            let expired = try usage(simulator, token)
            #expect(expired.status == 401)
            #expect(expired.json["error"]?["code"] == "token_expired")
            clock.advance(seconds: 840)
            #expect(try flow.poll().json["error"]?["code"] == "expired_token")
        }
    }

    @Test func toleratesAFormForRefreshAndRefusesWhatIsNeither() async throws {
        try await Simulator.during { simulator in
            let credential = simulator.issueCredential()
            let url = "\(simulator.base)/oauth/token"
            let form =
                "grant_type=refresh_token&refresh_token=\(credential.refreshToken)&client_id=\(Simulator.clientID)"
            #expect(try Curl("POST", url, form: form).status == 200)
            for form in ["grant_type=password", "x=y", "grant_type=authorization_code", "grant_type=refresh_token"] {
                let answer = try Curl("POST", url, form: form)
                #expect(answer.status == 400)
                #expect(answer.json["error"]?.string?.isEmpty == false)
            }
            #expect(try Curl("POST", url, headers: ["content-type: application/json"], body: [0x7B]).status == 400)
            #expect(try Curl("GET", url).status == 405)
        }
    }

    @Test(arguments: [
        ("device-off", 404, ChappieJSON?.none), ("device-interval-number", 200, 1),
        ("device-interval-absent", 200, nil), ("device-interval-null", 200, .null),
    ])
    func theStartCanDiffer(name: String, status: Int, interval: ChappieJSON?) async throws {
        let start = try await Simulator.during(named: name) { try Flow($0).start }
        #expect(start.status == status)
        #expect(start.json["interval"] == interval)
    }

    @Test func theCodeCanHaveAnotherName() async throws {
        let start = try await Simulator.during(named: "device-usercode-alias") { try Flow($0).start }
        #expect(start.json["usercode"]?.string?.count == 10)
        #expect(start.json["user_code"] == nil)
    }

    @Test(arguments: [
        ("device-pending-404", 404), ("device-poll-400", 400), ("device-poll-429", 429), ("device-poll-500", 500),
    ])
    func aPollCanDiffer(name: String, status: Int) async throws {
        #expect(try await Simulator.during(named: name) { try Flow($0).poll() }.status == status)
    }

    @Test(arguments: [
        ("refresh-expired", "refresh_token_expired"), ("refresh-reused", "refresh_token_reused"),
        ("refresh-invalidated", "refresh_token_invalidated"),
    ])
    func aRefreshCanBeRefused(name: String, code: String) async throws {
        try await Simulator.during(named: name) { simulator in
            let credential = simulator.issueCredential()
            #expect(credential.expiresAt.timeIntervalSinceNow < 61)
            let answer = try Flow(simulator).refresh(.string(credential.refreshToken))
            #expect(answer.status == 401)
            #expect(answer.json["error"]?["code"]?.string == code)
        }
    }
}
