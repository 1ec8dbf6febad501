import ChappieCore
import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct PhaseTests {
    private static let configuration = SimulatorConfiguration()

    private func phases(_ events: [ChappieJSON]) -> [String] {
        events.filter { $0["type"] == "response.output_item.done" }.compactMap { $0["item"]?["phase"]?.string }
    }

    @Test func theTurnStateAndTheTagOfTheListComeInOneMessage() async throws {
        try await Simulator.withWebSocket(Self.configuration) { client, _ in
            let metadata = client.ask("Hi")[3]
            #expect(metadata["type"] == "codex.response.metadata")
            #expect(metadata["headers"]?["openai-model"] == "gpt-6.1-sol")
            #expect(metadata["headers"]?["x-codex-turn-state"]?.string == client.header("x-codex-turn-state"))
            #expect(metadata["headers"]?["x-models-etag"]?.string == client.header("x-models-etag"))
        }
    }

    @Test(arguments: [
        ("reply: yes", ["final_answer"]), ("comment: I look.\nreply: yes", ["commentary", "final_answer"]),
    ])
    func aMessageSaysWhatItIs(text: String, expected: [String]) async throws {
        try await Simulator.withWebSocket(Self.configuration) { client, simulator in
            let answers = [client.ask(text), try simulator.post(Simulator.turn(text)).events]
            for events in answers {
                #expect(phases(events) == expected)
                let added = events.filter { $0["type"] == "response.output_item.added" }
                #expect(added.compactMap { $0["item"]?["phase"]?.string } == expected)
            }
        }
    }

    @Test func aScenarioLetsTheModelSpeakFirst() async throws {
        try await Simulator.withWebSocket(Self.configuration, named: "commentary") { client, _ in
            #expect(phases(client.ask("reply: yes")) == ["commentary", "final_answer"])
        }
    }

    @Test func aTurnGoesOnUntilTheModelIsDone() async throws {
        try await Simulator.withWebSocket(Self.configuration) { client, _ in
            let first = client.ask("take 1 step\nreply: done")
            #expect(first.last?["response"]?["end_turn"] == false && first.text == "Step 1 of 1.")
            let input = (Simulator.turn("take 1 step\nreply: done")["input"]?.array ?? [])
            let said = first.last?["response"]?["output"]?.array ?? []
            let second = client.ask("", [("input", .array(input + said))])
            #expect(second.last?["response"]?["end_turn"] == nil && second.text == "done")
        }
    }

    @Test func aScenarioLetsTheModelGoOn() async throws {
        try await Simulator.withWebSocket(Self.configuration, named: "goes-on") { client, _ in
            #expect(client.ask("reply: a").last?["response"]?["end_turn"] == false)
            #expect(client.ask("reply: b").last?["response"]?["end_turn"] == nil)
        }
    }

    @Test func olderEventsHaveNeitherPhasesNorTheNamespaceOfFunctions() async throws {
        try await Simulator.withWebSocket(Self.configuration, named: "older-events") { client, _ in
            let tools: ChappieJSON = [
                "type": "namespace", "name": "functions", "description": "",
                "tools": [["type": "custom", "name": "exec"]],
            ]
            let events = client.ask("call exec ls\nreply: I look.", tools: [tools])
            #expect(events[3]["type"] == "response.metadata")
            #expect(phases(events).isEmpty)
            let items = events.last?["response"]?["output"]?.array ?? []
            #expect(items.map { $0["type"] } == ["message", "custom_tool_call"])
            #expect(items.last?["namespace"] == nil)
        }
    }
}
