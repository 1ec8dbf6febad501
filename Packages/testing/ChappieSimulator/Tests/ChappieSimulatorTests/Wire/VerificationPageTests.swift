import ChappieCore
import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct VerificationPageTests {
    private func begin(_ simulator: Simulator) throws -> String {
        let start = try Curl(
            "POST", "\(simulator.base)/api/accounts/deviceauth/usercode", json: ["client_id": "app"])
        return try #require(start.json["user_code"]?.string)
    }

    private func submit(_ simulator: Simulator, _ form: String, _ headers: [String] = []) throws -> Curl {
        try Curl("POST", "\(simulator.base)/codex/device", headers: headers, form: form)
    }

    @Test func showsAFormThatNeedsNoScript() async throws {
        try await Simulator.during { simulator in
            let page = try Curl("GET", "\(simulator.base)/codex/device?user_code=%22%3E%3Cscript%3E")
            #expect(page.status == 200)
            #expect(page.headers["content-type"] == "text/html; charset=utf-8")
            #expect(page.headers["content-security-policy"]?.contains("default-src 'none'") == true)
            #expect(page.body.contains("<label for=\"user_code\">"))
            #expect(page.body.contains("lang=\"en\""))
            #expect(page.body.contains("prefers-color-scheme:dark"))
            #expect(!page.body.contains("<script"))
            #expect(page.body.contains("value=\"&quot;&gt;&lt;script&gt;\""))
        }
    }

    @Test func approvesACodeHoweverItIsTypedAndOnlyOnce() async throws {
        try await Simulator.during { simulator in
            let code = try begin(simulator).lowercased().replacing("-", with: "+%20")
            let done = try submit(simulator, "user_code=\(code)&action=approve")
            #expect(done.status == 200)
            #expect(done.body.contains("You can close this page and return to the app."))
            let again = try submit(simulator, "user_code=\(code)&action=approve")
            #expect(again.status == 400)
            #expect(again.body.contains("role=\"alert\""))
        }
    }

    @Test func refusesAndSaysSo() async throws {
        try await Simulator.during { simulator in
            let done = try submit(simulator, "user_code=\(try begin(simulator))&action=refuse")
            #expect(done.status == 200)
            #expect(done.body.contains("did not get access"))
        }
    }

    @Test func aWrongCodeIsAFriendlyErrorThatKeepsWhatWasTyped() async throws {
        try await Simulator.during { simulator in
            let wrong = try submit(simulator, "user_code=WR%3CNG&action=approve")
            #expect(wrong.status == 400)
            #expect(wrong.body.contains("value=\"WR&lt;NG\""))
            #expect(wrong.body.contains("No sign-in waits under this code."))
            #expect(try submit(simulator, "action=approve").body.contains("Please enter the code."))
            let code = try begin(simulator)
            #expect(try submit(simulator, "user_code=\(code)").body.contains("Please choose Approve or Refuse."))
        }
    }

    @Test func takesNoFormFromAnotherPage() async throws {
        try await Simulator.during { simulator in
            let form = "user_code=\(try begin(simulator))&action=approve"
            #expect(try submit(simulator, form, ["origin: https://evil.example"]).status == 403)
            #expect(try submit(simulator, form, ["origin: null"]).status == 403)
            #expect(try submit(simulator, form, ["sec-fetch-site: cross-site"]).status == 403)
            #expect(try submit(simulator, form, ["host: evil.example:\(simulator.port)"]).status == 421)
            let page = try submit(simulator, form, ["origin: http://127.0.0.1:\(simulator.port)"])
            #expect(page.status == 200)
        }
    }
}
