import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import Testing

/// An answer with everything in it, cut after each of its events and in the middle of each.
///
/// The decoders' own tests cut at every byte; TurnAccumulatorTests cut the text at every character.
@Suite(.timeLimit(.minutes(2))) struct CutTests {
    private static let text = "Zürich 👩‍👩‍👧: 21 °C. Bern: “18 °C” — e\u{301}t voilà."
    private static let reasoning = "**Two cities** — ask for both."
    private static let calls = [#"{"city":"Zürich"}"#, #"{"city":"Bern"}"#]

    /// - Parameter serial: goes into the ids and the size of the pieces: both differ each time the backend answers.
    private static func answer(_ serial: Int, _ text: String = text) -> [String] {
        // By Unicode scalars: a backend cuts inside what a person sees as one character.
        func deltas(_ kind: String, of text: String, by size: Int) -> [ChappieJSON] {
            let scalars = Array(text.unicodeScalars)
            return stride(from: 0, to: scalars.count, by: size).map { start in
                let piece = String(String.UnicodeScalarView(scalars[start..<min(start + size, scalars.count)]))
                return ["type": .string("response.\(kind).delta"), "delta": .string(piece)]
            }
        }
        let items: [ChappieJSON] = [
            ["type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(text)]]]
        ]
        let calls = calls.enumerated().map { index, arguments -> ChappieJSON in
            [
                "type": "function_call", "call_id": .string("call_\(serial)_\(index)"), "name": "weather",
                "arguments": .string(arguments),
            ]
        }
        let events: [ChappieJSON] =
            [["type": "response.created", "response": ["id": .string("resp_\(serial)")]]]
            + deltas("reasoning_summary_text", of: reasoning, by: 9)
            + deltas("output_text", of: text, by: 3 + serial)
            + (items + calls).map { ["type": "response.output_item.done", "item": $0] }
            + [["type": "response.completed", "response": ["id": .string("resp_\(serial)"), "status": "completed"]]]
        return events.map { $0.serialized() }
    }

    /// The first answer, cut at all places.
    private static let cuts: [Reply] = answer(1).indices.flatMap { index -> [Reply] in
        let whole = Reply.Step.events(Array(answer(1)[..<index]))
        return [Reply(steps: [whole, .cut]), Reply(steps: [whole, .half(of: answer(1)[index]), .cut])]
    }

    private static let whole = Reply(steps: [.events(answer(2))])

    /// A tool that the answers don't call: after a message the model could call a tool, so that a message is no end.
    private static let tools = [ChappieHostTool(name: "time") { _ in "noon" }]

    private static func policy(_ wire: Wire, _ attempts: Int) -> ChappieStreamingTransportPolicy {
        ChappieStreamingTransportPolicy(
            prefersWebSocket: wire == .webSocket, maxWebSocketReconnectionAttempts: attempts,
            fallsBackToHTTPSSE: attempts == 0, maxHTTPSSEReconnectionAttempts: attempts)
    }

    /// It ends in the error for tools that the program does not have.
    private func isWhole(_ seen: Seen, _ text: String = CutTests.text) -> Bool {
        Array(seen.text.utf8) == Array(text.utf8) && seen.reasoning == Self.reasoning && seen.executed == Self.calls
            && seen.error == .missingToolHandler("weather")
    }

    @Test(arguments: Wire.allCases) func cutOnceTheAnswerIsWhole(wire: Wire) async {
        for (place, cut) in Self.cuts.enumerated() {
            let seen = await ClientHarness(
                wire, [cut, Self.whole], policy: Self.policy(wire, 2), clock: HastyClock(), tools: Self.tools
            ).ask()
            #expect(isWhole(seen), "place \(place): \(seen)")
        }
    }

    @Test(arguments: Wire.allCases) func `the error is typed and the text is exact if every attempt is cut`(wire: Wire)
        async
    {
        for (place, cut) in Self.cuts.enumerated() {
            let seen = await ClientHarness(
                wire, [cut, cut, cut], policy: Self.policy(wire, 2), clock: HastyClock(), tools: Self.tools
            ).ask()
            guard case .transportFailed(let error)? = seen.error, error.code == .connectionLost else {
                Issue.record("place \(place): \(seen)")
                return
            }
            #expect(Array(Self.text.utf8).starts(with: Array(seen.text.utf8)))
            #expect(Self.reasoning.hasPrefix(seen.reasoning) && Self.calls.starts(with: seen.executed))
        }
    }

    @Test func aBreakOverWebSocketIsWholeOverHTTP() async {
        for (place, cut) in Self.cuts.enumerated() {
            let seen = await ClientHarness(
                .webSocket, [cut, Self.whole], policy: Self.policy(.webSocket, 0), clock: HastyClock(),
                tools: Self.tools
            ).ask()
            #expect(isWhole(seen), "place \(place): \(seen)")
            #expect(seen.events.last == .connected(.serverSentEvents))
        }
    }

    @Test(arguments: Wire.allCases) func `another answer after the cut starts again and is complete`(wire: Wire) async {
        let other = "It rains everywhere."
        var restarts = 0
        for (place, cut) in Self.cuts.enumerated() {
            let replies = [cut, Reply(steps: [.events(Self.answer(2, other))])]
            let seen = await ClientHarness(
                wire, replies, clock: HastyClock(), tools: Self.tools, configure: { $0.replayDivergence = .restart }
            ).ask()
            #expect(isWhole(seen, other), "place \(place): \(seen)")
            #expect(seen.discarded.count <= 1 && seen.discarded.allSatisfy { Self.text.utf8.starts(with: $0.utf8) })
            restarts += seen.discarded.count
        }
        #expect(restarts > Self.cuts.count / 3)
    }

    @Test func anotherAnswerAfterTheCutIsFoundOut() async {
        let other = "It rains everywhere."
        var divergences = 0
        for (place, cut) in Self.cuts.enumerated() {
            let replies = [cut, Reply(steps: [.events(Self.answer(2, other))])]
            let seen = await ClientHarness(.serverSentEvents, replies, clock: HastyClock(), tools: Self.tools).ask()
            if seen.error == .streamingTransportReplayDiverged(seen.text), !seen.text.isEmpty {
                divergences += 1
            } else {
                #expect(isWhole(seen, other), "place \(place): \(seen)")
            }
        }
        #expect(divergences > Self.cuts.count / 3)
    }
}
