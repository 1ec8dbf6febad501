import ChappieCore
import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct ChainTests {
    private func after(_ events: [ChappieJSON]) throws -> (String, ChappieJSON) {
        ("previous_response_id", .string(try #require(events.responseID)))
    }

    @Test func warmingUpAnswersWithAnIDAndNothingElse() async throws {
        try await Simulator.withWebSocket { client, _ in
            let warm = client.ask(
                "You are brief.", [("generate", false), ("reasoning", ["effort": "low", "context": "all_turns"])])
            #expect(warm.types == ["response.created", "response.completed"])
            #expect(warm[1]["response"]?["output"] == [])
            let turn = client.ask("Hi", [try after(warm)])
            #expect(turn.last?["response"]?["previous_response_id"]?.string == warm.responseID)
        }
    }

    @Test func theModelSeesTheWholeConversation() async throws {
        try await Simulator.withWebSocket { client, _ in
            var last = client.ask("one")
            #expect(last.text.contains("- Turn: 1\n"))
            let alone = last.last?["response"]?["usage"]?["input_tokens"]?.int ?? 0
            for turn in 2...5 {
                last = client.ask("turn number \(turn)", [try after(last)])
                #expect(last.text.contains("- Turn: \(turn)\n"))
            }
            #expect(last.last?["response"]?["usage"]?["input_tokens"]?.int ?? 0 > 4 * alone)
            #expect(client.ask("one again").text.contains("- Turn: 1\n"))
        }
    }

    @Test func `only the last response of the same connection is known`() async throws {
        try await Simulator.withWebSocket { client, simulator in
            let first = client.ask("one")
            let second = client.ask("two", [try after(first)])
            let stale = client.ask("three", [try after(first)])
            let id = try #require(first.responseID)
            #expect(
                stale == [
                    [
                        "type": "error", "status": 400,
                        "error": [
                            "message": .string("Previous response with id '\(id)' not found."),
                            "type": "invalid_request_error", "param": "previous_response_id",
                            "code": "previous_response_not_found",
                        ],
                    ]
                ])
            let other = try TestWebSocket(simulator)
            #expect(other.ask("three", [try after(second)]).errorCode == "previous_response_not_found")
            #expect(client.ask("x", [("previous_response_id", 5)]).errorCode == "previous_response_not_found")
            #expect(client.ask("three", [try after(second)]).text.contains("- Turn: 3\n"))
        }
    }

    @Test(arguments: [("failed", false), ("none", false), ("incomplete", true)])
    func aResponseThatFailedIsNoneToStartFrom(ending: String, isKnown: Bool) async throws {
        let scenario =
            "{\"rules\":[{\"match\":{\"method\":\"POST\",\"nth\":2},\"effect\":{\"events\":{\"ending\":\"\(ending)\"},"
            + "\"frames\":{\"after\":[{\"type\":\"error\"}]}}}]}"
        try await Simulator.withWebSocket(scenario: scenario) { client, _ in
            let first = client.ask("one")
            let second = client.ask("two", [try after(first)])
            if ending != "none" { #expect(client.answer().types == ["error"]) }
            let secondID = try #require(second.first?["response"]?["id"]?.string)
            let next = client.ask("three", [("previous_response_id", .string(secondID))])
            #expect((next.errorCode == nil) == isKnown)
            if !isKnown { #expect(client.ask("three", [try after(first)]).text.contains("- Turn: 2\n")) }
        }
    }

}
