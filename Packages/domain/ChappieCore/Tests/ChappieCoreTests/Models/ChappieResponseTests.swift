@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import TestFixtures
import Testing

@Suite struct ChappieResponseTests {
    private static func message(_ text: String) -> ChappieOutputItem {
        ChappieOutputItem([
            "type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(text)]],
        ])
    }

    @Test func joinsTheTextOfItsMessages() {
        let response = ChappieResponse(
            json(
                #"{"output":[{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"refusal","text":"no"},{"type":"output_text"},{"type":"output_text","text":"b"}]},{"type":"reasoning","content":[{"type":"output_text","text":"hidden"}]},{"type":"message","content":null},{"type":"message","content":[{"type":"output_text","text":"c"}]}]}"#
            ), .completed)
        #expect(response.outputText == "abc" && response.items.count == 4)
    }

    @Test func streamedItemsWinOverListedOnes() {
        let listed = ChappieResponse(["id": "r", "output": [Self.message("listed").json]], .completed)
        let streamed = listed.with(items: [Self.message("streamed")], text: "deltas")
        #expect(streamed.items == [Self.message("streamed")])
        #expect(streamed.outputText == "streamed")
        #expect(streamed.id == "r")
        #expect(listed.with(items: [], text: "deltas").outputText == "listed")
    }

    @Test func deltasAreTheTextWhereNoItemHasAny() {
        let bare = ChappieResponse(["id": "r"], .completed)
        #expect(bare.with(items: [], text: "deltas").outputText == "deltas")
        #expect(bare.with(items: [ChappieOutputItem(["type": "reasoning"])], text: "deltas").outputText == "deltas")
    }

    @Test func hostileNumbersDoNotTrap() {
        let response = ChappieResponse(
            json(
                #"{"usage":{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807,"total_tokens":1e400,"input_tokens_details":[],"output_tokens_details":{"reasoning_tokens":-1}},"error":{"resets_at":1e308,"resets_in_seconds":-1e308}}"#
            ), .failed)
        #expect(response.usage?.inputTokens == 1 << 40)
        #expect(response.usage?.outputTokens == 1 << 40)
        #expect(response.usage?.cachedInputTokens == 0)
        #expect(response.usage?.reasoningTokens == 0)
        #expect(response.error?.resetsAt == nil)
    }

    @Test func survivesARoundTrip() throws {
        let response = ChappieResponse(
            json(
                #"{"id":"r","status":"incomplete","model":"m","output":[{"type":"new","n":1}],"usage":{"input_tokens":1},"error":{"code":"c"},"incomplete_details":{"reason":"content_filter"}}"#
            ), .completed)
        #expect(response.incompleteReason == "content_filter" && response.error?.code == "c")
        let again = try JSONDecoder().decode(ChappieResponse.self, from: JSONEncoder().encode(response))
        #expect(again.id == response.id)
        #expect(again.status == .incomplete)
        #expect(again.usage == response.usage)
        #expect(again.items.map(\.type) == ["new"] && again.incompleteReason == "content_filter")
    }

    // MARK: Error bodies

    @Test(
        "error bodies in the shapes seen",
        arguments: [
            (#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, "t", "c", "m"),
            (#"{"error":{"code":"c"},"message":"outside"}"#, nil, "c", "outside"),
            (#"{"error":"invalid_grant","error_description":"expired"}"#, nil, "invalid_grant", "expired"),
            (#"{"detail":"Not Found"}"#, nil, nil, "Not Found"), (#"{"error":null,"detail":"d"}"#, nil, nil, "d"),
            (#"{"type":"t","code":"c","message":"m"}"#, "t", "c", "m"), (#"{"detail":["a"]}"#, nil, nil, "a"),
            (#"{"detail":{"type":"t","code":"c","message":"m"}}"#, "t", "c", "m"),
            (#"{"detail":{"code":"c"}}"#, nil, "c", nil), (#"{"detail":{"error_code":"c"}}"#, nil, "c", nil),
            (#"{"errors":[{"code":"c","message":"m"}]}"#, nil, "c", "m"),
            (#"{"detail":[{"loc":["body",0],"msg":"m"},{"msg":"n"}]}"#, nil, nil, "body.0: m; n"),
            ("{}", nil, nil, nil),
            ("null", nil, nil, nil), (#""text""#, nil, nil, "text"),
        ] as [(String, String?, String?, String?)])
    func readsErrorBodies(_ body: String, _ type: String?, _ code: String?, _ message: String?) {
        let error = ChappieResponseError(body: json(body))
        #expect(error.type == type)
        #expect(error.code == code)
        #expect(error.message == message)
    }

    @Test func anErrorsMessageIsFitToBeShown() throws {
        let long = String(repeating: "a", count: 5000)
        for body in [
            #"{"error":{"message":"\u001b[2J\#(long)"}}"#, #"{"error":"\u001b[2J\#(long)"}"#,
            #"{"detail":"\u001b[2J\#(long)"}"#, #"{"error":"code","error_description":"\u001b[2J\#(long)"}"#,
        ] {
            let message = try #require(ChappieResponseError(body: ChappieJSON(parsing: body)).message)
            #expect(message.hasPrefix("\u{FFFD}[2Ja"))
            #expect(message.unicodeScalars.count == ChappieResponseError.messageLimit)
        }
    }
}
