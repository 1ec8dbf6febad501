@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import HTTPTypes
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// Answers of another model, another tier or another effort than the request's.
@Suite struct AnsweredFactsTests {
    /// Where the service names the model that answers.
    enum Place: CaseIterable, Sendable {
        case response, metadata, header
    }

    private func reply(_ model: String, in place: Place, id: String = "resp_1") -> Reply {
        let named = #""response":{"model":"\#(model)","#
        var events = answering("Hello", id: id)
        switch place {
        case .response: events = events.map { $0.replacing(#""response":{"#, with: named) }
        case .metadata:
            events.insert(#"{"type":"codex.response.metadata","headers":{"OpenAI-Model":"\#(model)"}}"#, at: 1)
        case .header:
            let answer = ScriptedHTTPAnswer.response(
                headerFields: [.contentType: "text/event-stream", .answeringModel: model],
                body: events.map { "data: \($0)\n\n" }.joined())
            return Reply(steps: [.raw(answer)])
        }
        return Reply(steps: [.events(events)])
    }

    @Test(arguments: Wire.allCases, Place.allCases)
    func `another model that answers is named in one notice and in the response`(
        wire: Wire, place: Place
    ) async throws {
        // Over a WebSocket the header field comes with the handshake.
        guard wire == .serverSentEvents || place != .header else { return }
        let harness = ClientHarness(wire, [reply("gpt-4o", in: place)])
        let seen = await harness.ask()
        #expect(seen.notices == [ChappieNotice(.otherModel, "gpt-4o answered instead of flat.")])
        #expect(seen.text == "Hello" && seen.response?.model == "gpt-4o")
    }

    @Test func `all places together make one notice`() async throws {
        let events = answering("Hello").map { $0.replacing(#""response":{"#, with: #""response":{"model":"gpt-4o","#) }
        let metadata = #"{"type":"codex.response.metadata","headers":{"openai-model":"gpt-4o"}}"#
        let harness = ClientHarness(.webSocket, [Reply(steps: [.events([metadata] + events + [metadata])])])
        #expect(await harness.ask().notices.count == 1)
    }

    @Test func `a turn with tool calls has one notice`() async throws {
        let tool = ChappieHostTool(name: "t") { _ in .init(output: "x") }
        let named = #"{"type":"response.created","response":{"id":"r","model":"gpt-4o"}}"#
        let harness = ClientHarness(
            .serverSentEvents,
            [Reply(steps: [.events([named] + items([call("t")]))]), reply("gpt-4o", in: .response, id: "resp_2")],
            tools: [tool])
        #expect(await harness.ask().notices.map(\.kind) == [.otherModel])
    }

    @Test(arguments: [
        "flat", "FLAT", "flat-2026-09-01", "flat-20260901", "flat-0901", "flat-latest", "openai/flat", "two words",
        "", "\u{1B}[2J",
    ])
    func `names that differ only by the date of a snapshot are the same`(name: String) {
        var facts = AnsweredFacts(asking: ["model": "flat"])
        facts.received(model: name)
        #expect(facts.takeNotices().isEmpty && facts.otherModel == nil)
    }

    @Test(arguments: [
        ("gpt-6.1-sol", "gpt-6-sol"), ("gpt-5", "gpt-4"), ("gpt-5-2025-08-07", "gpt-5-mini-2025-08-07"),
        ("gpt-6.1-sol", "gpt-6.1-sol-mini"), ("2026-09-01", "2026-09-02"),
    ])
    func `other names are other models`(asked: String, answered: String) {
        var facts = AnsweredFacts(asking: ["model": .string(asked)])
        facts.received(model: answered)
        #expect(facts.takeNotices().map(\.message) == ["\(answered) answered instead of \(asked)."])
    }

    @Test(
        arguments: [
            (#"{"service_tier":"default"}"#, "The service answered in the tier \"default\" instead of \"priority\"."),
            (#"{"service_tier":"priority"}"#, nil), (#"{"service_tier":"auto"}"#, nil),
            (#"{"service_tier":null}"#, nil),
            ("{}", nil), (#"{"reasoning":{"effort":"high"}}"#, nil), (#"{"reasoning":{"effort":null}}"#, nil),
            (#"{"reasoning":{"effort":"low"}}"#, "The model answered with the effort \"low\" instead of \"high\"."),
        ] as [(String, String?)])
    func `a tier or an effort that was not granted is reported`(response: String, notice: String?) throws {
        var facts = AnsweredFacts(asking: ["service_tier": "priority", "reasoning": ["effort": "high"]])
        facts.received(ChappieResponse(try ChappieJSON(parsing: response), .completed))
        #expect(facts.takeNotices().map(\.message) == [notice].compactMap(\.self))
        // Nothing is compared with what was not asked for.
        var other = AnsweredFacts(asking: ["model": "m"])
        other.received(ChappieResponse(try ChappieJSON(parsing: response), .completed))
        #expect(other.takeNotices().isEmpty)
    }
}
