import ChappieCore
import ChappieSimulatorServer
import Testing

@testable import ChappieSimulator

@Suite(.timeLimit(.minutes(3)))
struct LiteFormTests {
    private static let configuration = SimulatorConfiguration()
    private static let lookUp: ChappieJSON = [
        "type": "namespace", "name": "functions", "description": "",
        "tools": [["type": "function", "name": "look_up", "parameters": ["type": "object"]]],
    ]
    private static let tools: ChappieJSON = ["type": "additional_tools", "role": "developer", "tools": []]
    private static let question: ChappieJSON = ["role": "user", "content": "Hi"]

    private static func image(_ members: ChappieJSONObject) -> ChappieJSON {
        var part: ChappieJSONObject = ["type": "input_image"]
        for member in members.members { part[member.name] = member.value }
        return .object(part)
    }

    private static func asking(with image: ChappieJSONObject) -> ChappieJSON {
        [tools, ["role": "user", "content": [Self.image(image)]]]
    }

    private static func declaring(_ tools: ChappieJSON) -> ChappieJSON {
        [["type": "additional_tools", "role": "developer", "tools": tools], question]
    }

    /// A member that is set, `nil` to take it away; `error.param`; words of the sentence.
    private static let violations: [(String, ChappieJSON?, String, String)] = [
        ("tools", [], "tools", "additional_tools"), ("instructions", "Be brief.", "instructions", "developer message"),
        ("instructions", "", "instructions", "developer message"),
        ("parallel_tool_calls", true, "parallel_tool_calls", "must be false"),
        ("parallel_tool_calls", nil, "parallel_tool_calls", "must be false"),
        ("tool_choice", "required", "tool_choice", "must be auto"), ("tool_choice", nil, "tool_choice", "must be auto"),
        ("reasoning", nil, "reasoning.context", "all_turns"),
        ("reasoning", ["effort": "low"], "reasoning.context", "all_turns"),
        ("reasoning", ["effort": "ultra", "context": "all_turns"], "reasoning.effort", "'ultra'"),
        ("reasoning", ["effort": "minimal", "context": "all_turns"], "reasoning.effort", "'low', 'medium'"),
        ("reasoning", ["effort": "none", "context": "all_turns"], "reasoning.effort", "'none'"),
        ("include", nil, "include", "reasoning.encrypted_content"),
        ("store", true, "store", "Store must be set to false"),
        ("input", [question], "input[0]", "also if there is no tool"),
        ("input", [question, tools], "input[0]", "the first item"),
        ("input", [tools, tools, question], "input[1]", "comes once"),
        ("input", [["type": "additional_tools", "tools": []], question], "input[0].role", "developer"),
        ("input", [["type": "additional_tools", "role": "developer"], question], "input[0].tools", "list of tools"),
        (
            "input", declaring([["type": "function", "name": "look_up"]]), "input[0].tools[0]",
            "\"name\":\"functions\""
        ),
        ("input", declaring([lookUp, ["type": "custom", "name": "exec"]]), "input[0].tools[1]", "inside a namespace"),
        (
            "input", declaring([["type": "namespace", "name": "functions", "tools": []]]),
            "input[0].tools[0].description", "description"
        ),
        (
            "input", asking(with: ["image_url": "data:image/png;base64,AA", "detail": "high"]),
            "input[1].content[0].detail", "no detail"
        ),
        ("input", asking(with: ["image_url": "https://example.com/a.png"]), "input[1].content[0].image_url", "data:"),
        (
            "input",
            [
                tools, question,
                [
                    "type": "function_call_output", "call_id": "c1",
                    "output": [image(["image_url": "data:,", "detail": "low"])],
                ],
            ], "input[2].output[0].detail", "no detail"
        ),
    ]

    @Test func `the answer names the part of the form that a request lacks`() async throws {
        try await Simulator.during(Self.configuration) { simulator in
            let client = try TestWebSocket(simulator)
            for (name, value, parameter, words) in Self.violations {
                var object = try #require(Simulator.turn("Hi").object)
                object[name] = value
                let answer = try simulator.post(.object(object))
                client.send(TestWebSocket.message(.object(object)))
                let frame = client.answer()
                #expect(answer.status == 400 && frame[0]["status"] == 400, "\(name) \(value ?? .null)")
                for error in [answer.json["error"], frame[0]["error"]] {
                    #expect(error?["param"]?.string == parameter, "\(name) \(value ?? .null)")
                    #expect(error?["message"]?.string?.contains(words) == true, "\(error ?? .null)")
                }
            }
            #expect(try simulator.post(Simulator.turn("Hi")).status == 200)
        }
    }

    @Test func theMarkerIsDemandedBesideTheBody() async throws {
        try await Simulator.during(Self.configuration) { simulator in
            let answer = try simulator.post(Simulator.turn("Hi"), without: Simulator.liteMarker)
            #expect(answer.status == 400)
            #expect(answer.json["error"]?["param"] == "x-openai-internal-codex-responses-lite")
            let client = try TestWebSocket(simulator)
            let frame = client.ask("Hi", [("client_metadata", [:])])
            #expect(frame[0]["error"]?["param"] == "x-openai-internal-codex-responses-lite")
        }
    }

    // MARK: Chains

    @Test func onlyWhatIsNewGoesWithThePreviousResponse() async throws {
        try await Simulator.during(Self.configuration) { simulator in
            let client = try TestWebSocket(simulator)
            let warm = client.ask("one", [("generate", false), ("input", [Self.tools])])
            let previous = ("previous_response_id", ChappieJSON.string(try #require(warm.responseID)))
            let question: ChappieJSON = ["id": "msg_1", "role": "user", "content": "call look_up {}"]
            let repeated = client.ask("", [previous, ("input", [Self.tools, question])])
            #expect(repeated[0]["error"]?["param"] == "input[0]")
            #expect(repeated[0]["error"]?["message"]?.string?.contains("only new items") == true)
            let turn = client.ask("", [previous, ("input", [question])])
            #expect(turn.types.last == "response.completed")
            let next = ("previous_response_id", ChappieJSON.string(try #require(turn.responseID)))
            let again = client.ask("", [next, ("input", [question])])
            #expect(again[0]["error"]?["param"] == "input[0]")
        }
    }

    // MARK: What comes back

    @Test func aCallHasItsNamespaceAndKeepsIt() async throws {
        try await Simulator.during(Self.configuration) { simulator in
            let asked = Simulator.turn("call look_up {}", tools: [Self.lookUp])
            let call = try #require(
                try simulator.post(asked).events.first { $0["type"] == "response.output_item.done" }?["item"])
            #expect(call["namespace"] == "functions")
            func next(_ call: ChappieJSON) throws -> Curl {
                let output: ChappieJSON = [
                    "type": "function_call_output", "call_id": call["call_id"] ?? .null, "output": "3 left",
                ]
                let input = (asked["input"]?.array ?? []) + [call, output]
                return try simulator.post(
                    Simulator.turn("", [("input", .array(input))], tools: [Self.lookUp]))
            }
            #expect(try next(call).events.text.contains("3 left"))
            var bare = try #require(call.object)
            bare["namespace"] = nil
            let refused = try next(.object(bare))
            #expect(refused.status == 400 && refused.json["error"]?["param"] == "input[2].namespace")
        }
    }

    @Test func whatAnotherKindOfModelEncryptedIsRefused() async throws {
        try await Simulator.during(Self.configuration) { simulator in
            func answer(sealedFor model: String) throws -> Curl {
                let content = ChappieJSON.string(SealedContent.seal("compacted:x", for: model))
                let item: ChappieJSON = ["type": "compaction", "encrypted_content": content]
                return try simulator.post(Simulator.turn("", [("input", [Self.tools, item, Self.question])]))
            }
            #expect(try answer(sealedFor: "gpt-5.6-sol").status == 200)
            let refused = try answer(sealedFor: "gpt-5.5")
            #expect(refused.status == 400 && refused.json["error"]?["code"] == "invalid_encrypted_content")
            #expect(refused.json["error"]?["param"] == "input[1].encrypted_content")
        }
    }

    @Test func `a lenient service checks no form but still checks its models`() async throws {
        try await Simulator.during(Self.configuration, named: "lenient") { simulator in
            let flat = try simulator.bare(
                Simulator.flatTurn("Hi", [("model", "gpt-6.1-sol"), ("instructions", "Be brief.")]))
            let retired = try simulator.bare(Simulator.flatTurn("Hi"))
            let list = try simulator.authorized("GET", "codex/models", without: Simulator.versionHeader)
            #expect([flat.status, retired.status, list.status] == [200, 400, 200])
        }
    }
}

extension Simulator {
    /// A turn without the header fields of November.
    fileprivate func bare(_ turn: ChappieJSON) throws -> Curl {
        try Curl("POST", "\(base)/backend-api/codex/responses", headers: [bearer], json: turn)
    }
}
