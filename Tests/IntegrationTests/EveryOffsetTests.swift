import ChappieClient
import ChappieCore
import ChappieSimulator
import ChappieTesting
import FoundationEssentials
import Testing

/// An answer with text, reasoning and two tool calls, cut over real sockets at 200 offsets spread over its bytes.
@Suite struct EveryOffsetTests {
    private static let offsets = 200
    /// - Parameter mark: what a rule of the scenario knows the turn by.
    private static func question(_ mark: Int) -> String {
        """
        mark \(mark);
        force call weather {"city":"Zürich"}
        force call weather {"city":"Bern"}
        reply: Zürich 👩‍👩‍👧: 21 °C. Bern: “18 °C” — e\u{301}t voilà, and some more words so that there is something to cut.
        """
    }

    private func witness(_ client: ChappieClient, mark: Int) async -> WitnessedTurn {
        await WitnessedTurn(
            client,
            asking: ChappieInputMessage(
                role: .user, parts: [.text(Self.question(mark))], options: ChappieMessageOptions(reasoningEffort: .low))
        )
    }

    /// The first request of the turn with mark `n` is cut after the `n`th of `offsets` bytes.
    private func scenario(_ offsets: [Int], with ending: String) throws -> SimulatorScenario {
        let rules = offsets.enumerated().map { mark, offset in
            """
            {"match":{"method":"POST","path":"/backend-api/codex/responses","bodyContains":"mark \(mark);","to":1},\
            "effect":{"cut":{"afterBytes":\(offset),"with":"\(ending)"}}}
            """
        }
        return try SimulatorScenario(parsing: "{\"rules\":[\(rules.joined(separator: ","))]}")
    }

    /// Plays a turn for each offset; gives what was seen of each, and whether it took a second request.
    private func turns(
        _ offsets: [Int], with ending: String, _ policy: ChappieStreamingTransportPolicy
    ) async throws -> [(witness: WitnessedTurn, wasCut: Bool)] {
        var turns: [(WitnessedTurn, Bool)] = []
        try await Loopback.run(try scenario(offsets, with: ending), policy: policy, clock: HastyClock()) { loopback in
            for mark in offsets.indices {
                let before = loopback.turns
                let witness = await witness(loopback.newClient(), mark: mark)
                turns.append((witness, loopback.turns - before > 1))
            }
        }
        return turns
    }

    @Test(arguments: ["sse", "websocket"], ["fin", "rst"])
    func theAnswerIsWholeAndNoCallIsMadeTwice(kind: String, ending: String) async throws {
        let policy: ChappieStreamingTransportPolicy =
            kind == "sse" ? .httpSSEOnly : ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)
        let whole = try #require(try await turns([1 << 30], with: "fin", policy).first?.witness)
        #expect(whole.text.hasSuffix("something to cut."))
        #expect(!whole.reasoning.isEmpty)
        #expect(whole.executed == [#"{"city":"Zürich"}"#, #"{"city":"Bern"}"#])
        #expect(whole.error == .missingToolHandler("weather"))

        // The size of the answer on the wire, to within a 64th: where a cut is no cut any more. A reset behind the last
        // byte still takes what was not read yet, so that FIN measures it.
        var size = 0
        for step in [16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64] {
            if try await turns([size + step], with: "fin", policy)[0].wasCut { size += step }
        }
        let offsets = (0..<Self.offsets).map { size * $0 / Self.offsets }
        var seen: [(witness: WitnessedTurn, wasCut: Bool)] = []
        // A simulator looks at every rule for every request: few rules at a time.
        for start in stride(from: 0, to: offsets.count, by: 20) {
            seen += try await turns(Array(offsets[start..<min(start + 20, offsets.count)]), with: ending, policy)
        }
        for (offset, turn) in zip(offsets, seen) where !turn.witness.hasSameContent(as: whole) {
            Issue.record("cut after \(offset) bytes: \(turn)")
        }
        let cut = seen.count(where: \.wasCut)
        #expect(cut >= Self.offsets - 2)
        print(
            "measured: \(kind), \(ending): \(seen.count) offsets over \(size) bytes of the answer, \(cut) cut, all whole in the end"
        )
    }
}
