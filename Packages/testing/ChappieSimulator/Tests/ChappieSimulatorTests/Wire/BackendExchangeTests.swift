import ChappieCore
import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct BackendExchangeTests {

    @Test func `zstd bodies that do not declare their size are read up to a limit`() async throws {
        try await Simulator.during { simulator in
            func post(_ coding: String, _ body: [UInt8]) throws -> Curl {
                try simulator.authorized(
                    "POST", "codex/responses",
                    headers: ["content-encoding: \(coding)", "content-type: application/json"], body: body)
            }
            let text = String(repeating: "Lorem ipsum 👋 ", count: 4000)
            let zipped = try Curl.run(
                ["zstd", "-c", "--no-check"], input: Simulator.turn("reply: \(text)").serializedBytes()
            ).output
            #expect(try post("zstd", zipped).events.text == String(text.dropLast()))
            for noise in [zipped.dropLast(3), Array("not zstd at all".utf8)] {
                #expect(try post("zstd", noise).status == 400)
            }
            #expect(try post("gzip", [1]).status == 415)
            let bomb = try Curl.run(["sh", "-c", "head -c 67108865 /dev/zero | zstd -c -1"]).output
            #expect(bomb.count < 100_000)
            #expect(try post("zstd", bomb).status == 413)
        }
    }

    private static let badRequests: [(String, ChappieJSON?, String)] = [
        ("store", true, "Store must be set to false"), ("store", nil, "Store must be set to false"),
        ("stream", false, "Stream must be set to true"), ("input", [], "Input must not be empty"),
        ("input", "hello", "Input must be a list"), ("input", [1], "Input must be a list of objects"),
        ("model", nil, "Missing required parameter: model"),
        ("max_output_tokens", 5, "Unsupported parameter: max_output_tokens"),
        ("temperature", 0.5, "Unsupported parameter: temperature"),
        ("metadata", [:], "Unsupported parameter: metadata"),
        ("previous_response_id", "resp_1", "Unsupported parameter: previous_response_id"),
    ]

    @Test func checksRequestsAsTheBackendDoes() async throws {
        try await Simulator.during { simulator in
            for (name, value, message) in Self.badRequests {
                var object = try #require(Simulator.turn("Hi").object)
                object[name] = value
                let answer = try simulator.authorized("POST", "codex/responses", json: .object(object))
                #expect(answer.status == 400)
                #expect(answer.json["detail"]?.string == message)
                #expect(answer.json["error"]?["message"]?.string == message)
            }
            let answer = try simulator.ask(
                "Hi", [("instructions", .null), ("model", "gpt-6-sol"), ("temperature", .null)])
            #expect(answer.status == 200)
            #expect(answer.headers["openai-model"] == "gpt-6-sol")
        }
    }

    @Test func refusesRequestsWithoutAToken() async throws {
        try await Simulator.during { simulator in
            for path in ["wham/accounts/check", "wham/usage", "codex/models"] {
                let answer = try Curl("GET", "\(simulator.base)/backend-api/\(path)")
                #expect(answer.status == 401)
                #expect(answer.json["error"]?["code"] == "missing_authorization")
                #expect(answer.json["status"] == 401)
            }
            #expect(
                try Curl("POST", simulator.base + "/backend-api/codex/responses", json: Simulator.turn("Hi")).status
                    == 401)
            #expect(try simulator.authorized("GET", "wham/usage", headers: ["chatgpt-account-id: other"]).status == 403)
        }
    }

    @Test func logsNeitherQueriesNorTokens() async throws {
        let lines = try await Simulator.logged { simulator in
            _ = try Curl("GET", "\(simulator.base)/codex/device?user_code=SECRET")
            _ = try simulator.ask("Hi")
        }
        #expect(lines == ["GET /codex/device 200", "POST /backend-api/codex/responses 200"])
    }
}
