import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieSimulatorServer
import ChappieTesting
import Testing

/// Exchanges of a host with its own loop, over real sockets, in the form that the service takes today.
@Suite(.timeLimit(.minutes(3))) struct ExchangeTests {
    private static let policies = [ChappieStreamingTransportPolicy.httpSSEOnly, Tenant.webSocketOnly]
    private static let weather = ChappieHarnessTool(
        name: "weather", description: "Reports the weather.",
        inputSchema: ["type": "object", "properties": ["town": ["type": "string"]], "required": ["town"]])

    private func exchange(_ text: String) -> ChappieExchange {
        var exchange = ChappieExchange(instructions: "Be short.", input: [], tools: [Self.weather])
        exchange.append(.user(text))
        return exchange
    }

    @Test(arguments: policies.indices)
    func `an agent's loop beside a conversation`(policy: Int) async throws {
        try await Loopback.run { loopback in
            let client = loopback.client(Self.policies[policy])
            var exchange = ChappieExchange(instructions: "Be short.", input: [], tools: [Self.weather])
            await client.prewarm(exchange)
            exchange.append(.user("call weather {\"town\": \"Oslo\"}\ncall weather {\"town\": \"Rome\"}"))
            for _ in 0..<2 {
                let seen = await SeenTurn(client.stream(exchange))
                let response = try #require(seen.response, "\(seen)")
                exchange.append(response)
                let calls = response.toolCalls
                #expect(calls.map(\.arguments) == seen.calls)
                for (call, output) in zip(calls, ["It rains.", "The sun shines."]) {
                    exchange.append("\(output)", of: call)
                }
                if calls.isEmpty {
                    #expect(
                        response.outputText.contains("It rains.") && response.outputText.contains("The sun shines."))
                }
            }
            #expect(try await client.send("reply: a turn") == "a turn")
            exchange.append(.user("reply: the end"))
            #expect(await SeenTurn(client.stream(exchange)).text == "the end")
            #expect(await client.context().messageCount == 2)

            let turns = try ReceivedTurn.all(loopback.simulator)
            #expect(Set(turns.map(\.sessionID)).count == 2)
            guard policy == 1 else { return }
            let exchanges = turns.filter { $0.sessionID == turns[0].sessionID }
            // The prewarm, the question, two results, and the next question.
            #expect(exchanges.map { $0.previousResponseID != nil } == [false, true, true, true])
            #expect(exchanges.map(\.inputCount) == [2, 1, 2, 1])
            #expect(Set(turns.map(\.webSocket)).count == 2)
        }
    }

    @Test(arguments: policies.indices)
    func `an answer has the form of the schema`(policy: Int) async throws {
        try await Loopback.run { loopback in
            var exchange = exchange(#"reply: {"town": "Oslo"}"#)
            exchange.outputSchema = ChappieJSONSchema(Self.weather.inputSchema)
            let seen = await SeenTurn(loopback.client(Self.policies[policy]).stream(exchange))
            #expect(seen.text == #"{"town": "Oslo"}"#)
            let turns = try ReceivedTurn.all(loopback.simulator)
            #expect(turns[0].body["text"]?["format"]?["strict"] == true)
        }
    }

    private static let repaired = [
        "cut", "unauthorized-once", "rate-limit-retry-after", "model-unsupported", "ws-cut", "ws-426", "ws-401-once",
        "goes-on",
    ]

    @Test(arguments: repaired) func `a fault leaves the complete answer, once`(scenario: String) async throws {
        try await Loopback.run(SimulatorScenario(named: scenario)) { loopback in
            let policy: ChappieStreamingTransportPolicy = scenario.hasPrefix("ws-") ? .default : .httpSSEOnly
            let seen = await SeenTurn(loopback.client(policy).stream(exchange("reply: one whole answer, and no more")))
            #expect(seen.text.contains("one whole answer, and no more") && seen.failure == nil, "\(seen)")
            #expect(seen.response?.outputText == seen.text, "\(seen)")
        }
    }

    private static let failures: [(String, @Sendable (ChappieClientError?) -> Bool)] = [
        ("usage-limit", { if case .usageLimitReached(let limit) = $0 { limit.resetsAt != nil } else { false } }),
        ("failed-context-length", { $0 == .contextWindowExceeded }),
        ("unauthorized-storm", { if case .reauthenticationRequired = $0 { true } else { false } }),
        ("cut-forever", { if case .transportFailed = $0 { true } else { false } }),
        ("goes-on-forever", { if case .toolLoopLimitExceeded = $0 { true } else { false } }),
    ]

    @Test(arguments: failures.indices) func `a fault is the error that a turn has`(index: Int) async throws {
        let (scenario, isExpected) = Self.failures[index]
        try await Loopback.run(SimulatorScenario(named: scenario)) { loopback in
            let seen = await SeenTurn(
                loopback.client(.httpSSEOnly).stream(exchange("reply: as many words as a cut needs")))
            #expect(isExpected(seen.error) && seen.response == nil, "\(seen)")
        }
    }

    @Test(arguments: policies.indices)
    func `cancelling in the middle of an answer leaves the client usable`(policy: Int) async throws {
        try await Loopback.run { loopback in
            let client = loopback.client(Self.policies[policy])
            let reading = Task {
                for try await event in client.stream(exchange("repeat 200000 words")) {
                    if case .textDelta = event { withUnsafeCurrentTask { $0?.cancel() } }
                }
            }
            await #expect(throws: CancellationError.self) { try await reading.value }
            #expect(await SeenTurn(client.stream(exchange("reply: next"))).text == "next")
        }
    }
}
