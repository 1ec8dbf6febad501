import ChappieCore
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// The items of a conversation as a request carries them.
@Suite struct RequestInputTests {
    private static let lite = RequestInput(isLite: true, namespaces: [])
    private static let full = RequestInput(isLite: false, namespaces: ["files"])

    private func reasoning(_ members: [(String, ChappieJSON)]) -> ChappieJSON {
        .object(ChappieJSONObject([("type", "reasoning"), ("id", "rs_1"), ("summary", [])] + members))
    }

    @Test func reasoningGoesOutWithoutItsContent() {
        let item = reasoning([("content", [["type": "reasoning_text", "text": "Hm."]]), ("encrypted_content", "e")])
        #expect(Self.lite.written([item]) == [reasoning([("encrypted_content", "e")])])
    }

    @Test(arguments: [nil, .null, ""] as [ChappieJSON?]) func reasoningThatNobodyCanReadStays(content: ChappieJSON?) {
        let item = reasoning(content.map { [("encrypted_content", $0)] } ?? [])
        #expect(Self.lite.written([item]).isEmpty && Self.full.written([item]).isEmpty)
    }

    @Test func membersWithoutAValueAreLeftOut() {
        let item = reasoning([("content", .null), ("status", .null), ("encrypted_content", "e")])
        #expect(Self.full.written([item]) == [reasoning([("encrypted_content", "e")])])
    }

    @Test(arguments: [
        ("message", "msg_1", true), ("message", "chatcmpl-123", false), ("function_call", "fc_1", true),
        ("function_call", "call_1", false), ("web_search_call", "ws_1", true), ("new_item", "new_1", true),
    ]) func anIdHasThePrefixOfItsType(type: String, id: String, isKept: Bool) {
        let written = Self.full.written([["type": .string(type), "id": .string(id)]])
        #expect((written[0]["id"] != nil) == isKept && written.count == 1)
    }

    @Test func anIdHasAtMost64Characters() {
        for (count, isKept) in [(64, true), (65, false)] {
            let id = "msg_" + String(repeating: "a", count: count - 4)
            #expect((Self.full.written([["type": "message", "id": .string(id)]])[0]["id"] != nil) == isKept)
        }
        #expect(Self.full.written([["type": "message", "id": 7]])[0]["id"] == nil)
    }

    @Test func theLaterItemLosesAnIdThatWasUsedBefore() {
        let item: ChappieJSON = ["type": "function_call", "id": "fc_same", "call_id": "c"]
        let written = Self.full.written([item, item, ["type": "message", "id": "msg_1"]])
        #expect(written.map { $0["id"] != nil } == [true, false, true])
    }

    @Test func `arguments above the limit are replaced, and the output reports it`() throws {
        let limit = 1_048_576
        for (count, isKept) in [(limit, true), (limit + 1, false)] {
            // Characters count, and not bytes.
            let long = String(repeating: "ü", count: count)
            let call: ChappieJSON = ["type": "function_call", "call_id": "c", "arguments": .string(long)]
            let outputs: [ChappieJSON] = ["done", [["type": "input_text", "text": "done"]]]
            for output in outputs {
                let result: ChappieJSON = ["type": "function_call_output", "call_id": "c", "output": output]
                let other: ChappieJSON = ["type": "function_call_output", "call_id": "d", "output": "done"]
                let written = Self.full.written([call, result, other])
                #expect(written[2] == other)
                #expect((written[0] == call && written[1] == result) == isKept)
                guard !isKept else { continue }
                #expect(written[0]["arguments"] == "{}")
                let said = written[1]["output"]?.string ?? written[1]["output"]?[0]?["text"]?.string
                #expect(said?.contains("too long to be sent again") == true)
                // What was changed once stays as it is.
                #expect(Self.full.written(written) == written)
            }
        }
    }

    @Test func `a call keeps a namespace that the request declares`() {
        func call(_ namespace: String?) -> ChappieJSON {
            var object: ChappieJSONObject = ["type": "function_call", "call_id": "c"]
            object["namespace"] = namespace.map { .string($0) }
            return .object(object)
        }
        let calls = [call("files"), call("functions"), call(nil)]
        #expect(Self.full.written(calls) == [call("files"), call(nil), call(nil)])
        #expect(Self.lite.written(calls) == [call("files"), call("functions"), call("functions")])
        #expect(RequestInput(isLite: false, namespaces: nil).written(calls) == calls)
    }

    @Test func aModelForTextGetsASentenceForEachPicture() {
        let picture: ChappieJSON = ["type": "input_image", "image_url": "data:image/png;base64,AAAA"]
        let items: [ChappieJSON] = [
            ["type": "message", "role": "user", "content": [picture]],
            ["type": "function_call_output", "call_id": "c", "output": [picture]],
        ]
        for isLite in [true, false] {
            let blind = RequestInput(isLite: isLite, namespaces: [], takesPictures: false).written(items)
            #expect(blind[0]["content"]?[0]?["type"] == "input_text" && blind[1]["output"]?[0]?["type"] == "input_text")
            #expect(RequestInput(isLite: isLite, namespaces: []).written(items) == items)
        }
    }
}
