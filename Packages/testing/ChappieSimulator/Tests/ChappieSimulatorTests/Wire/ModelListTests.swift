import ChappieCore
import ChappieSimulatorServer
import Testing

@testable import ChappieSimulator

@Suite(.timeLimit(.minutes(3)))
struct ModelListTests {
    private static let paid = [
        "gpt-6.1-sol", "gpt-6-astra", "gpt-6-sol", "gpt-6-luna", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna",
        "codex-auto-review",
    ]

    private static func list(_ simulator: Simulator, version: String = "0.163.0") throws -> Curl {
        try simulator.authorized(
            "GET", "codex/models?client_version=\(version)", headers: ["version: \(version)"])
    }

    private static func slugs(_ list: Curl) -> [String] {
        (list.json["models"]?.array ?? []).compactMap { $0["slug"]?.string }
    }

    private static func configuration(plan: String = "plus", models: [String]? = nil) -> SimulatorConfiguration {
        SimulatorConfiguration(account: SimulatorAccount(plan: plan, models: models))
    }

    @Test func anOldClientGetsAShorterListAndAnotherTag() async throws {
        try await Simulator.during(Self.configuration()) { simulator in
            let (new, middle, old) = (
                try Self.list(simulator), try Self.list(simulator, version: "0.153.2"),
                try Self.list(simulator, version: "0.128.0")
            )
            #expect(Self.slugs(middle) == Self.paid.filter { !["gpt-6-sol", "gpt-6-luna"].contains($0) })
            #expect(Self.slugs(old) == ["codex-auto-review"])
            #expect(Set([new, middle, old].map { $0.headers["etag"] }).count == 3)
            let turn = try simulator.post(Simulator.turn("Hi"))
            #expect(turn.status == 200 && turn.headers["x-models-etag"] == new.headers["etag"])
        }
    }

    // MARK: Refusals

    private static let unsupported: @Sendable (String) -> ChappieJSON = {
        ["detail": .string("The '\($0)' model is not supported when using Codex with a ChatGPT account.")]
    }
    private static let notFound: @Sendable (String) -> ChappieJSON = {
        [
            "error": [
                "message": .string("Model not found \($0)"), "type": "invalid_request_error", "param": "model",
                "code": nil,
            ]
        ]
    }

    @Test func aModelIsRefusedInThreeShapes() async throws {
        try await Simulator.during(Self.configuration(plan: "go")) { simulator in
            func refusal(_ model: String, version: String = "0.163.0") throws -> Curl {
                try simulator.authorized(
                    "POST", "codex/responses",
                    headers: ["version: \(version)"],
                    json: Simulator.turn("Hi", [("model", .string(model))]))
            }
            for model in ["gpt-5.5", "gpt-5.4-mini", "gpt-6.1-sol"] {
                let answer = try refusal(model)
                #expect(answer.status == 400 && answer.json == Self.unsupported(model))
            }
            let old = try refusal("gpt-6-luna", version: "0.150.0")
            #expect(old.status == 400)
            #expect(old.json["detail"]?.string?.contains("requires a newer version of Codex") == true)
            let unknown = try refusal("gpt-99")
            #expect(unknown.status == 404 && unknown.json == Self.notFound("gpt-99"))
            #expect(try refusal("gpt-6-luna").status == 200)
        }
    }

    @Test(arguments: [
        ("model-unsupported", 400, "is not supported"), ("model-newer-version", 400, "requires a newer version"),
        ("model-not-found", 404, "Model not found gpt-"),
    ])
    func aScenarioRefusesModelsInTheShapeThatItNames(name: String, status: Int, words: String) async throws {
        try await Simulator.during(Self.configuration(), named: name) { simulator in
            let client = try TestWebSocket(simulator)
            for model in ["gpt-6.1-sol", "gpt-5.5"] {
                let answer = try simulator.post(Simulator.turn("Hi", [("model", .string(model))]))
                #expect(answer.status == status && answer.body.contains(words))
                let frame = client.ask("Hi", [("model", .string(model))])
                #expect(frame.types == ["error"] && frame[0]["status"]?.int == status)
                #expect(frame[0]["error"]?["type"] == "invalid_request_error")
                #expect(frame[0]["error"]?["message"]?.string?.contains(words) == true)
            }
            #expect(try simulator.post(Simulator.turn("Hi", [("model", "gpt-6-sol")])).status == 200)
            #expect(client.ask("Hi", [("model", "gpt-6-sol")]).types.last == "response.completed")
        }
    }

    // MARK: Header fields

    @Test func withoutAVersionOrAHintThereIsNoModel() async throws {
        try await Simulator.during(Self.configuration()) { simulator in
            let list = try simulator.authorized("GET", "codex/models", without: Simulator.versionHeader)
            #expect(list.status == 404)
            let turn = Simulator.turn("Hi")
            let upgrade = [
                "connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13",
                "sec-websocket-key: bHbe8f9S9pJdc7LPufziCw==",
            ]
            for missing in [Simulator.versionHeader, Simulator.routingHint("gpt-6.1-sol")] {
                let answer = try simulator.post(turn, without: missing)
                #expect(answer.status == 404 && answer.json == Self.notFound("gpt-6.1-sol"), "\(missing)")
                let refused = try simulator.authorized("GET", "codex/responses", headers: upgrade, without: missing)
                #expect(refused.status == 404 && refused.json["error"]?["message"] == "Model not found")
            }
        }
    }

    @Test func aHintNamesTheModelOfItsRequest() async throws {
        try await Simulator.during(Self.configuration()) { simulator in
            func post(hint: String) throws -> Curl {
                try simulator.authorized(
                    "POST", "codex/responses", headers: [Simulator.routingHint(hint)], json: Simulator.turn("Hi"))
            }
            let other = try post(hint: "gpt-6-sol")
            #expect(other.status == 400 && other.json["error"]?["param"] == "x-codex-routing-hint")
            #expect(try post(hint: "gpt-6.1-sol;tier=priority").status == 200)
        }
    }
}
