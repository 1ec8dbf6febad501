import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieClient

@Suite struct TranscriptTests {
    private func answer(
        _ items: [ChappieJSON], text: String = "", status: ChappieResponseStatus = .completed
    ) -> ChappieResponse {
        ChappieResponse(["id": "resp_1"], status).with(items: items.map(ChappieOutputItem.init), text: text)
    }

    private static let reasoning: ChappieJSON = [
        "type": "reasoning", "id": "rs_1", "encrypted_content": "opaque", "summary": [],
    ]
    private static let message: ChappieJSON = [
        "type": "message", "id": "msg_1", "role": "assistant", "content": [["type": "output_text", "text": "whole"]],
    ]

    @Test func theHarnessComesFirstAndThePrefixNeverChanges() {
        var transcript = Transcript(harness: "Be brief.")
        let first = transcript.input(asking: [.user("one")])
        #expect(first.first?["role"]?.string == "developer")
        #expect(first.first?["content"]?[0]?["text"]?.string == "Be brief.")
        let reasoning: ChappieJSON = ["type": "reasoning", "id": "rs_1", "encrypted_content": "opaque", "summary": []]
        let message: ChappieJSON = [
            "id": "msg_1", "type": "message", "role": "assistant", "unknown_member": 12_345_678_901_234,
            "content": [["type": "output_text", "text": "1"]],
        ]
        transcript.append([.user("one")], answer: answer([reasoning, message]))
        let second = transcript.input(asking: [.user("two")])
        let firstBytes = ChappieJSON.array(first).serialized().dropLast()
        #expect(ChappieJSON.array(second).serialized().hasPrefix(firstBytes))
        #expect(Array(second[2...3]) == [reasoning, message])
        #expect(second.count == 5)
    }

    @Test func aHarnessWithoutWordsSendsNoItem() {
        #expect(Transcript(harness: .none).input(asking: [.user("x")]).count == 1)
    }

    @Test func unknownItemsAreNotSentBack() {
        var transcript = Transcript(harness: .none)
        transcript.append([.user("x")], answer: answer([["type": "hologram"]], text: "seen"))
        let input = transcript.input(asking: [.user("y")])
        #expect(input.map { $0["role"]?.string } == ["user", "assistant", "user"])
        #expect(input[1]["content"]?[0]?["text"]?.string == "seen")
    }

    /// The types of what is kept of `answer`, and the last text.
    private func kept(_ answer: ChappieResponse) -> (types: [String?], text: String?) {
        var transcript = Transcript(harness: .none)
        transcript.append([.user("x")], answer: answer)
        let items = transcript.items.dropFirst()
        return (items.map { $0["type"]?.string }, items.last?["content"]?[0]?["text"]?.string)
    }

    @Test func theTextOfAnAnswerThatEndedEarlyIsKeptAndItsReasoningIsNot() {
        let (types, text) = kept(answer([Self.reasoning], text: "half", status: .incomplete))
        #expect(types == ["message"])
        #expect(text == "half")
        #expect(kept(answer([Self.reasoning, Self.reasoning], status: .incomplete)).types == [])
    }

    @Test func reasoningThatLedToSomethingStays() {
        let (types, text) = kept(answer([Self.reasoning, Self.message, Self.reasoning], status: .incomplete))
        #expect(types == ["reasoning", "message"])
        #expect(text == "whole")
        #expect(kept(answer([Self.reasoning, Self.message])).types == ["reasoning", "message"])
    }

    @Test func textWithoutAMessageFollowsTheReasoningOfAWholeAnswer() {
        let (types, text) = kept(answer([Self.reasoning], text: "seen"))
        #expect(types == ["reasoning", "message"])
        #expect(text == "seen")
    }

    @Test func theBodyCarriesWhatTheBackendWantsAndNothingItRefuses() {
        var profile = ChappieEndpoints.chatGPT.profile
        profile.forbiddenBodyFields.insert("tool_choice")
        let builder = ResponsesRequestBuilder(profile: profile, sessionID: "s", threadID: "t")
        let body = builder.body(
            model: "gpt-5.5", input: [], options: ChappieMessageOptions(fastMode: true, verbosity: .low))
        #expect(
            body.names == [
                "model", "stream", "input", "tools", "parallel_tool_calls", "reasoning", "store", "include",
                "prompt_cache_key", "text",
            ])
        #expect(body["store"] == false)
        #expect(body["reasoning"]?["effort"]?.string == "low")
        let request = builder.request(body: [UInt8](repeating: 32, count: 4096), turnState: "sticky", isCoded: true)
        #expect(request.url.absoluteString == "https://chatgpt.com/backend-api/codex/responses")
        #expect(
            request.headerFields.map(\.name.canonicalName).sorted() == [
                "accept", "content-type", "session-id", "thread-id", "x-codex-turn-state",
            ])
        #expect(request.body?.coding == .zstd)
        #expect(builder.request(body: [32], turnState: nil, isCoded: true).body?.coding == .identity)
    }

    @Test func idsAreVersionSeven() throws {
        struct Fixed: Entropy {
            func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: 0xFF, count: count) }
        }
        let id = UUIDv7.make(now: Date(timeIntervalSince1970: 1_645_557_742), entropy: Fixed())
        #expect(id == "017f22e2-79b0-7fff-bfff-ffffffffffff")
        #expect(UUID(uuidString: id) != nil)
    }
}
