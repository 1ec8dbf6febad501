import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

/// What the model says while it works is told beside the answer, and a model that wants to go on is asked again.
@Suite struct PhaseTests {
    /// The events of a message in two deltas.
    private static func message(_ text: String, phase: String?, id: String) -> [ChappieJSON] {
        var item: ChappieJSONObject = [
            "id": .string(id), "type": "message", "role": "assistant", "content": [],
        ]
        item["phase"] = phase.map(ChappieJSON.string)
        let added = item
        item["content"] = [["type": "output_text", "text": .string(text)]]
        let half = text.index(text.startIndex, offsetBy: text.count / 2)
        return [["type": "response.output_item.added", "item": .object(added)]]
            + [text[..<half], text[half...]].filter { !$0.isEmpty }.map {
                ["type": "response.output_text.delta", "item_id": .string(id), "delta": .string(String($0))]
            } + [["type": "response.output_item.done", "item": .object(item)]]
    }

    private static func completed(_ id: String, endTurn: ChappieJSON? = nil) -> ChappieJSON {
        var response: ChappieJSONObject = ["id": .string(id), "status": "completed"]
        response["usage"] = ["input_tokens": 10, "output_tokens": 5, "total_tokens": 15]
        response["end_turn"] = endTurn
        return ["type": "response.completed", "response": .object(response)]
    }

    private static func reply(_ events: [ChappieJSON]..., then steps: Reply.Step...) -> Reply {
        Reply(steps: [.events(events.flatMap(\.self).map { $0.serialized() })] + steps)
    }

    // MARK: Commentary

    @Test(arguments: Wire.allCases) func `commentary is separate from the answer and is sent back with its phase`(
        wire: Wire
    ) async throws {
        let harness = ClientHarness(
            wire,
            [
                Self.reply(
                    Self.message("I'll look. ", phase: "commentary", id: "msg_1"),
                    Self.message("It is 4.", phase: "final_answer", id: "msg_2"), [Self.completed("r1")]),
                .answer("next"),
            ], configure: { $0.streamingTransportPolicy = wire == .webSocket ? .default : .httpSSEOnly })
        let seen = await harness.ask()
        #expect(seen.text == "It is 4." && seen.commentary == "I'll look. ")
        #expect(seen.response?.outputText == "It is 4." && seen.response?.commentary == "I'll look. ")
        #expect(seen.response?.items.map(\.phase) == [.commentary, .finalAnswer])
        #expect(try await harness.client.send("go on") == "next")
        let kept = await harness.client.context()
        let phases = kept.items.compactMap { ChappieOutputItem($0).phase }
        #expect(phases == [.commentary, .finalAnswer])
    }

    @Test(arguments: Wire.allCases) func `commentary of all rounds of tools belongs to the turn`(wire: Wire)
        async throws
    {
        let tool = ChappieHostTool(name: "count") { _ in "4" }
        let item: ChappieJSON = ["type": "response.output_item.done", "item": call("count")]
        let harness = ClientHarness(
            wire,
            [
                Self.reply(
                    Self.message("I count.", phase: "commentary", id: "m1"), [item, Self.completed("r1")]),
                Self.reply(
                    Self.message("Counted.", phase: "commentary", id: "m2"),
                    Self.message("Four", phase: "final_answer", id: "m3"), [Self.completed("r2")]),
            ], tools: [tool])
        let seen = await harness.ask()
        #expect(seen.text == "Four" && seen.response?.outputText == "Four")
        #expect(seen.response?.commentary == "I count.\n\nCounted.")
    }

    @Test(arguments: Wire.allCases) func `a turn that ends with only commentary answers with it`(wire: Wire)
        async throws
    {
        let harness = ClientHarness(
            wire, [Self.reply(Self.message("Done.", phase: "commentary", id: "m"), [Self.completed("r")])])
        let seen = await harness.ask()
        #expect(seen.commentary == "Done.")
        #expect(seen.text == "Done.")
        #expect(seen.response?.outputText == "Done.")
    }

    @Test(arguments: Wire.allCases) func commentaryIsShownOnceOverABreak(wire: Wire) async throws {
        let commentary = Self.message("I'll look.", phase: "commentary", id: "msg_1")
        let answer = Self.message("Four", phase: "final_answer", id: "msg_2")
        for (again, shown) in [
            ("I'll look.", "I'll look."), ("Let me see.", "I'll look."), ("I'll look. Well.", "I'll look. Well."),
        ] {
            let replay = Self.message(again, phase: "commentary", id: "msg_9")
            let harness = ClientHarness(
                wire,
                [
                    Self.reply(commentary, Array(answer.prefix(2)), then: .cut),
                    Self.reply(replay, answer, [Self.completed("r2")]),
                ])
            let seen = await harness.ask()
            #expect(seen.failure == nil && seen.text == "Four" && seen.commentary == shown, "\(again)")
        }
    }

    @Test func structuredOutputIsReadFromTheAnswerAlone() async throws {
        let harness = ClientHarness(
            .serverSentEvents,
            [
                Self.reply(
                    Self.message("Let me count.", phase: "commentary", id: "m1"),
                    Self.message(#"{"count":4}"#, phase: "final_answer", id: "m2"), [Self.completed("r")])
            ])
        let schema = ChappieJSONSchema(["type": "object", "properties": ["count": ["type": "integer"]]])
        #expect(try await harness.client.send("How many?", as: [String: Int].self, schema: schema) == ["count": 4])
    }

    // MARK: Going on

    @Test(arguments: Wire.allCases) func `a model that wants to continue is asked again with its earlier output`(
        wire: Wire
    ) async throws {
        let harness = ClientHarness(
            wire,
            [
                Self.reply(
                    Self.message("Working.", phase: "commentary", id: "m1"),
                    Self.message("One, ", phase: "partial_answer", id: "m2"), [Self.completed("r1", endTurn: false)]),
                Self.reply(
                    Self.message("two.", phase: "final_answer", id: "m3"), [Self.completed("r2", endTurn: true)]),
                .answer("next"),
            ])
        let seen = await harness.ask()
        #expect(seen.text == "One, two." && seen.response?.outputText == "One, two.", "\(seen)")
        #expect(seen.response?.commentary == "Working." && seen.response?.usage?.totalTokens == 30)
        let requests = try harness.requests
        #expect(requests.count == 2)
        let said = requests.last?["input"]?.array?.compactMap { ChappieOutputItem($0).phase }
        #expect(said == [.commentary, .partialAnswer])
        let kept = await harness.client.context().items.compactMap { ChappieOutputItem($0).phase }
        #expect(kept == [.commentary, .partialAnswer, .finalAnswer])
    }

    @Test(arguments: Wire.allCases) func goingOnCountsAsARound(wire: Wire) async throws {
        let replies = (1...4).map { Self.reply([Self.completed("r\($0)", endTurn: false)]) }
        let harness = ClientHarness(wire, replies, configure: { $0.toolLoopLimit = 3 })
        #expect(await harness.ask().error == .toolLoopLimitExceeded(3))
        #expect(try harness.requests.count == 4)
    }

    @Test(arguments: [nil, true, .null, 0, "false"] as [ChappieJSON?], Wire.allCases)
    func nothingButFalseGoesOn(endTurn: ChappieJSON?, wire: Wire) async throws {
        let answer = Self.message("Four", phase: nil, id: "m")
        let harness = ClientHarness(wire, [Self.reply(answer, [Self.completed("r", endTurn: endTurn)])])
        #expect(await harness.ask().response?.outputText == "Four")
        #expect(try harness.requests.count == 1)
    }

    @Test(arguments: Wire.allCases) func eventsThatAreCancelledOrUnknownEndNoTurn(wire: Wire) async throws {
        let others: [ChappieJSON] = [
            "response.cancelled", "response.interrupt", "response.interrupted", "response.queued", "keepalive", "",
        ].map { ["type": .string($0), "response": ["id": "r", "status": "cancelled"]] }
        let answer = Self.message("Four", phase: nil, id: "m")
        let harness = ClientHarness(
            wire,
            [Self.reply(others, Array(answer.prefix(2)), others, Array(answer.dropFirst(2)), [Self.completed("r")])])
        let seen = await harness.ask()
        #expect(seen.response?.outputText == "Four" && seen.text == "Four", "\(seen)")
    }

    // MARK: The turn's metadata

    @Test(arguments: ["codex.response.metadata", "response.metadata"], Wire.allCases)
    func theTurnStateComesUnderBothNames(name: String, wire: Wire) async throws {
        let metadata: ChappieJSON = [
            "type": .string(name),
            "headers": ["X-Codex-Turn-State": ["sticky"], "x-models-etag": "\"1\"", "openai-model": "gpt-6-sol"],
        ]
        let harness = ClientHarness(wire, [Self.reply([metadata], then: .cut), .answer("a")])
        #expect(await harness.ask().text == "a")
        let field = try #require(HTTPField.Name("x-codex-turn-state"))
        // The list of models, whose tag is another one, is asked for beside the turn.
        let posted = harness.http.receivedRequests.filter { $0.url.path().hasSuffix("/responses") }
        let echoed =
            wire == .serverSentEvents
            ? posted.map { $0.headerFields[field] }
            : try harness.requests.map { $0["client_metadata"]?["x-codex-turn-state"]?.string }
        #expect(echoed == [nil, "sticky"])
    }

    // MARK: A page in the way

    private static let page = Reply(steps: [
        .raw(.response(status: .forbidden, headerFields: [.contentType: "text/html"], body: "<html>Wait…</html>"))
    ])

    @Test func `a page that blocks requests is a separate error and is not retried`() async throws {
        let harness = ClientHarness(.serverSentEvents, [Self.page, .answer("no")])
        let error = await harness.ask().error
        #expect(error == .blockedByGateway("chatgpt.com"))
        #expect(error?.recoverySuggestion?.contains("another network") == true)
        #expect(error?.recoverySuggestion?.contains("WebSocket") == true)
        #expect(try harness.requests.count == 1)
        // The sign-in is as it was.
        #expect(try await harness.client.send("again") == "no")
    }

    @Test func `a page in place of a handshake leaves the other transport`() async throws {
        let refused = ScriptedHTTPAnswer.response(
            status: .forbidden, headerFields: [.contentType: "text/html"], body: "<html>")
        let harness = ClientHarness(.webSocket, [.answer("yes")], openings: [.refused(refused)])
        let seen = await harness.ask()
        #expect(seen.text == "yes" && seen.events.contains(.fellBack(.serverSentEvents)))
        #expect(harness.webSocket.receivedOpenings.count == 1)
        let both = ClientHarness(.webSocket, [Self.page], openings: [.refused(refused)])
        #expect(await both.ask().error == .blockedByGateway("chatgpt.com"))
        let policy = ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)
        let strict = ClientHarness(.webSocket, openings: [.refused(refused)], policy: policy)
        #expect(await strict.ask().error == .blockedByGateway("chatgpt.com"))
    }

    @Test func theListAndTheUsageNameThePage() async throws {
        let refused = ScriptedHTTPAnswer.response(status: .forbidden, body: "\n<!DOCTYPE html>")
        let harness = ClientHarness(.serverSentEvents, others: [refused, refused])
        await #expect(throws: ChappieClientError.blockedByGateway("chatgpt.com")) { try await harness.client.models() }
        await #expect(throws: ChappieClientError.blockedByGateway("chatgpt.com")) {
            try await harness.client.usageLimits()
        }
    }
}
