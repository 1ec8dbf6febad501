import ChappieClient
import ChappieCore
import ChappieSimulator
import FoundationEssentials
import Testing

/// A conversation of 200 turns, all questions and answers of one size.
@Suite struct LongConversationTests {
    private static let turns = 200

    private func question(_ turn: Int) -> String {
        let number = String(1000 + turn)
        return "turn \(number)\nreply: \(String(repeating: "answer \(number) ", count: 20))"
    }

    @Test func overWebSocketTheTwoHundredthTurnIsAsSmallAsTheSecond() async throws {
        try await Loopback.run(policy: ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)) { loopback in
            for turn in 1...Self.turns {
                let text = try await loopback.client.send(question(turn))
                try #require(text.hasPrefix("answer \(1000 + turn)"))
            }
            let messages = loopback.simulator.receivedMessages
            try #require(messages.count == Self.turns)
            #expect(loopback.simulator.webSocketConnections.count == 1)
            let (second, last) = (messages[1], messages[Self.turns - 1])
            #expect(Double(last.body.count) <= 1.2 * Double(second.body.count))
            #expect(Double(last.wireByteCount) <= 1.2 * Double(second.wireByteCount))
            print(
                """
                measured: 200 turns over WebSocket, 1 connection: turn 2 sent \(second.wireByteCount) bytes on the wire \
                (\(second.body.count) before compression), turn 200 \(last.wireByteCount) (\(last.body.count))
                """)
        }
    }

    /// For comparison: there every turn says everything again.
    @Test func overHTTPItGrowsWithTheConversation() async throws {
        try await Loopback.run(policy: .httpSSEOnly) { loopback in
            for turn in 1...Self.turns { _ = try await loopback.client.send(question(turn)) }
            let sizes = loopback.simulator.receivedRequests.filter { $0.target.hasSuffix("/codex/responses") }.map {
                $0.body.count
            }
            try #require(sizes.count == Self.turns)
            #expect(sizes[Self.turns - 1] > 2 * sizes[1])
            print(
                "measured: 200 turns over HTTP: turn 2 sent \(sizes[1]) bytes of body, turn 200 \(sizes[Self.turns - 1]) (zstd)"
            )
        }
    }
}
