import ChappieCore
import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct TurnTests {
    @Test func theSameQuestionGetsTheSameWordsEveryWay() async throws {
        let question = "A quiet evening 🌙 with äöü\n\nand two lines"
        let more: [(String, ChappieJSON)] = [("reasoning", ["effort": "low", "context": "all_turns"])]
        try await Simulator.during { simulator in
            let post = try simulator.ask(question, more).events
            for offer in [nil, TestWebSocket.deflateOffer] {
                let client = try TestWebSocket(simulator, offer: offer)
                for events in [client.ask(question, more), client.ask(question, more)] {
                    #expect(events.text == post.text)
                    #expect(
                        events.types.filter { !["codex.rate_limits", "codex.response.metadata"].contains($0) }
                            == post.types)
                }
                let message = try #require(simulator.receivedMessages.last)
                #expect((message.wireByteCount < message.body.count) == (offer != nil))
                #expect(simulator.webSocketConnections.last?.isOpen == true)
            }
        }
    }

    @Test func tellsUsageModelAndTurnStateInMessages() async throws {
        let configuration = SimulatorConfiguration(usage: SimulatorUsage(primaryUsedPercent: 42.5))
        try await Simulator.withWebSocket(configuration) { client, _ in
            let state = try #require(client.header("x-codex-turn-state"))
            let first = client.ask("Hi", [("model", "gpt-6-sol")])
            #expect(Array(first.types[2...3]) == ["codex.rate_limits", "codex.response.metadata"])
            #expect(first[2]["plan_type"] == "plus")
            #expect(first[2]["rate_limits"]?["primary"]?["used_percent"]?.double == 42.5)
            #expect(first[2]["rate_limits"]?["primary"]?["window_minutes"] == 300)
            #expect(first[3]["headers"]?["openai-model"] == "gpt-6-sol")
            #expect(first[3]["headers"]?["x-codex-turn-state"]?.string == state)
            let second = client.ask("Hi")
            #expect(second[3]["headers"]?["x-codex-turn-state"]?.string != state)
            let third = client.ask(
                "Hi", [("client_metadata", ["x-codex-turn-state": "sticky", TestWebSocket.liteMarker: "true"])])
            #expect(third[3]["headers"]?["x-codex-turn-state"] == "sticky")
        }
    }

    @Test(
        arguments: [
            ("store", true, "Store must be set to false"), ("input", [], "Input must not be empty"),
            ("model", nil, "Missing required parameter: model"),
            ("max_output_tokens", 5, "Unsupported parameter: max_output_tokens"),
            ("type", "response.append", "Only response.create is understood."),
        ] as [(String, ChappieJSON?, String)])
    func checksMessagesAsItChecksBodies(name: String, value: ChappieJSON?, message: String) async throws {
        try await Simulator.withWebSocket { client, _ in
            var object = try #require(TestWebSocket.create("Hi").object)
            object[name] = value
            client.send(.object(object))
            let answer = client.answer()
            #expect(answer.types == ["error"])
            #expect(answer[0]["status"] == 400)
            #expect(answer[0]["error"]?["message"]?.string == message)
            client.send(text: "no JSON")
            #expect(client.answer().last?["error"]?["message"] == "The body is not a JSON object.")
            #expect(client.ask("Hi").types.last == "response.completed")
        }
    }

    @Test func oneRequestAtATime() async throws {
        try await Simulator.withWebSocket(SimulatorConfiguration(deltasPerSecond: 200)) { client, _ in
            client.send(TestWebSocket.create("repeat 20 words"))
            client.send(TestWebSocket.create("another"))
            let first = client.answer()
            #expect(first.types.last == "response.completed")
            #expect(client.answer().errorCode == "response_in_progress")
            #expect(client.ask("Hi").types.last == "response.completed")
        }
    }

    @Test func logsWhatCameOverWebSocket() async throws {
        let lines = try await Simulator.logged { simulator in
            let client = try TestWebSocket(simulator)
            let first = client.ask("Hi", [("generate", false)])
            _ = client.ask("Hi", [("previous_response_id", .string(try #require(first.responseID)))])
        }
        let path = "/backend-api/codex/responses"
        let sizes = lines.map { $0.replacing(#/[0-9]+ bytes/#, with: "N bytes") }
        #expect(
            sizes == [
                "GET \(path) 101", "PREWARM \(path) 200 (websocket 0, whole, 2 items, N bytes)",
                "POST \(path) 200 (websocket 0, incremental, 1 item, N bytes)",
            ])
    }
}
