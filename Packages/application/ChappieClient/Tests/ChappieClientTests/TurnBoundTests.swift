import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import HTTPTypes
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// A turn's own time limit and header fields.
@Suite(.timeLimit(.minutes(2))) struct TurnBoundTests {
    @Test(arguments: Wire.allCases) func aTurnOverItsTimeLimitLeavesNothingBehind(wire: Wire) async throws {
        let clock = ManualClock()
        let gate = ScriptedGate()
        let harness = ClientHarness(wire, [.half("half", then: .wait(gate)), .answer("next")], clock: clock)
        let request = ChappieResponseRequest(messages: [.user("one")], timeLimit: .seconds(20))
        let asking = Task { await Seen(harness.client.streamResponse(request)) }
        await gate.reached()
        await clock.waitForSleepers(count: 1)
        clock.advance(by: .seconds(20))
        let seen = await asking.value
        #expect(seen.text == "half" && seen.error == .timeLimitExceeded(.seconds(20)))
        if wire == .webSocket { #expect(harness.webSocket.peers[0].isDropped) }
        #expect(try await harness.client.send("two") == "next")
        #expect(try harness.requests.last?["input"]?.array?.count == 2)
    }

    @Test(arguments: Wire.allCases) func anAnswerWithinItsTimeLimitIsWhole(wire: Wire) async throws {
        let harness = ClientHarness(wire, [.answer("one")], clock: ManualClock())
        let request = ChappieResponseRequest(messages: [.user("a")], timeLimit: .seconds(20))
        #expect(try await harness.client.response(request).outputText == "one")
    }

    @Test func aTurnOfAnotherEndKeepsItsOwnError() async throws {
        let harness = ClientHarness(.serverSentEvents, [.refused(400)], clock: ManualClock())
        let request = ChappieResponseRequest(messages: [.user("a")], timeLimit: .seconds(20))
        await #expect(throws: ChappieClientError.httpError(400, "{}")) { try await harness.client.response(request) }
    }

    @Test func headerFieldsAreOfOneTurnOverHTTP() async throws {
        let harness = ClientHarness(.serverSentEvents, [.answer("one"), .answer("two", id: "resp_2")])
        let request = ChappieResponseRequest(messages: [.user("a")], headerFields: ["X-Trace": "7"])
        #expect(try await harness.client.response(request).outputText == "one")
        #expect(try await harness.client.send("b") == "two")
        let name = try #require(HTTPField.Name("x-trace"))
        #expect(harness.http.receivedRequests.map { $0.headerFields[name] } == ["7", nil])
    }

    @Test func `a turn with header fields gets a separate connection`() async throws {
        let answers = (1...4).map { Reply.answer("\($0)", id: "resp_\($0)") }
        let harness = ClientHarness(.webSocket, answers)
        let traced = { (text: String) in
            ChappieResponseRequest(messages: [.user(text)], headerFields: ["x-trace": "7"])
        }
        #expect(try await harness.client.send("a") == "1")
        #expect(try await harness.client.response(traced("b")).outputText == "2")
        #expect(try await harness.client.response(traced("c")).outputText == "3")
        #expect(try await harness.client.send("d") == "4")
        let name = try #require(HTTPField.Name("x-trace"))
        #expect(harness.webSocket.receivedOpenings.map { $0.headerFields[name] } == [nil, "7", nil])
        #expect(harness.webSocket.peers.map(\.sentMessages.count) == [1, 2, 1])
        // A new connection knows nothing of the conversation.
        #expect(try harness.frames(2)[0]["input"]?.array?.count == 8)
    }

    @Test(
        arguments: [
            ("Authorization", "x"), ("chatgpt-account-id", "x"), ("Host", "x"), ("content-length", "1"),
            ("x-codex-turn-state", "x"), ("OpenAI-Beta", "x"), ("sec-websocket-protocol", "x"), ("user-agent", "x"),
            ("originator", "codex"), ("two words", "x"), ("", "x"), ("x-a", "a\r\nb: c"), ("x-a", "a\nb"),
            ("x-a", String(repeating: "a", count: 20_000)),
        ])
    func aFieldThatIsNotTheHostsIsRefused(name: String, value: String) async throws {
        let harness = ClientHarness(.webSocket)
        let request = ChappieResponseRequest(messages: [.user("a")], headerFields: [name: value])
        let error = await #expect(throws: ChappieClientError.self) { try await harness.client.response(request) }
        guard case .unsupportedInput(let words, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(!words.contains("\n") && (value.count < 3 || !words.contains(value)))
        #expect(try harness.requests.isEmpty && harness.webSocket.peers.isEmpty)
    }
}
