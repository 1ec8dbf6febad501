import ChappieCore
import ChappieSimulatorServer
import Testing

@testable import ChappieSimulator

struct ReplyWriterTests {
    private func events(_ reply: [ReplyOutput], _ more: [(String, ChappieJSON)] = []) throws -> [ChappieJSON] {
        var count = 0
        let body = Simulator.turn("Hi", more)
        let written = ReplyWriter.write(reply, to: Prompt(body), now: 1_795_000_000) { prefix in
            count += 1
            return "\(prefix)\(count)"
        }
        return try written.events.map { event in
            let value = try ChappieJSON(parsing: event.data)
            #expect(value["type"]?.string == event.name)
            return value
        }
    }

    @Test func aMessageHasTheWholeSequenceInOrder() throws {
        let events = try events([.message(pieces: ["Hi ", "👩‍👩‍👧 \"q\""])])
        #expect(
            events.types == [
                "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                "response.output_text.delta", "response.output_text.delta", "response.output_text.done",
                "response.content_part.done", "response.output_item.done", "response.completed",
            ])
        #expect(events.compactMap { $0["sequence_number"]?.int } == Array(0..<10))
        #expect(events.text == "Hi 👩‍👩‍👧 \"q\"")
        #expect(events[6]["text"]?.string == events.text)
        #expect(events[8]["item"]?["content"]?[0]?["text"]?.string == events.text)
        #expect(events[4]["item_id"] == events[8]["item"]?["id"])
        let response = try #require(events[9]["response"])
        #expect(response["id"] == events[0]["response"]?["id"])
        #expect(response["status"] == "completed")
        #expect(response["output"] == .array([try #require(events[8]["item"])]))
        #expect(response["usage"]?["total_tokens"]?.int ?? 0 > 0)
        #expect(events[0]["response"]?["usage"] == .null)
    }

    @Test func reasoningComesFirstWithItsSummaryInPieces() throws {
        let events = try events(
            [.reasoning(summary: "**Well** then"), .message(pieces: ["Hi"])],
            [("include", ["reasoning.encrypted_content"])])
        let summary = events.filter { $0["type"] == "response.reasoning_summary_text.delta" }
        #expect(summary.compactMap { $0["delta"]?.string }.joined() == "**Well** then")
        let done = events.filter { $0["type"] == "response.output_item.done" }
        #expect(done.compactMap { $0["output_index"]?.int } == [0, 1])
        #expect(done[0]["item"]?["summary"]?[0]?["text"] == "**Well** then")
        #expect(done[0]["item"]?["encrypted_content"]?.string?.isEmpty == false)
        #expect(events.last?["response"]?["usage"]?["output_tokens_details"]?["reasoning_tokens"]?.int == 3)
    }

    @Test func callsCarryTheirPayloadInPiecesAndWhole() throws {
        let events = try events([
            .call(.init(kind: .function, name: "f", namespace: "n", payload: "{\"a\": \"b c\"}")),
            .call(.init(kind: .custom, name: "x", namespace: nil, payload: "text here")),
        ])
        let done = events.filter { $0["type"] == "response.output_item.done" }.compactMap { $0["item"] }
        #expect(done[0]["type"] == "function_call")
        #expect(done[0]["arguments"] == "{\"a\": \"b c\"}")
        #expect(done[0]["namespace"] == "n")
        #expect(done[1]["type"] == "custom_tool_call")
        #expect(done[1]["input"] == "text here")
        #expect(done[0]["call_id"] != done[1]["call_id"])
        for (name, whole) in [("function_call_arguments", "{\"a\": \"b c\"}"), ("custom_tool_call_input", "text here")]
        {
            let deltas = events.filter { $0["type"]?.string == "response.\(name).delta" }
            #expect(deltas.compactMap { $0["delta"]?.string }.joined() == whole)
        }
    }
}
