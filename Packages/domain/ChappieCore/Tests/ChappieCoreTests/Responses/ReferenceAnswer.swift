@_spi(ChappieInternals) import ChappieCore
import TestFixtures

/// A whole answer as the backend streams it, with what such streams may hold between the lines, and what it means.
enum ReferenceAnswer {
    /// Reasoning, two tool calls, text with two, three and four byte characters; CRLF here and there, comments, two
    /// payloads that are not JSON, an unknown event, an unknown item, and bytes after the end.
    static let stream =
        ": connected\n\n" + lines("response.created", created)
        + lines("response.in_progress", inProgress)
        + "data: \(partAdded.replacing("\n", with: "\r\ndata: "))\r\n\r\n"
        + lines(
            "response.reasoning_summary_text.delta",
            #"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","summary_index":0,"delta":"**Plän** 🧭"}"#
        )
        + item(reasoning, 0) + "data: {\"type\":\n\n: keep-alive\r\r"
        + lines("response.function_call_arguments.delta", argumentsDelta)
        + item(functionCall, 1)
        + "data: \(customDelta)\r\rid: 9\rretry: 10\r" + item(customCall, 2)
        + lines("unknown", unknown) + item(unknownItem, 3) + "data: not json\n\n"
        + texts.map { lines("response.output_text.delta", delta($0)) }.joined() + lines("e", delta(""))
        + item(message, 4) + lines("response.completed", completed)
        + "data: [DONE]\n\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"never\"}\n\n"

    static let texts = ["Grüße", " aus ", "東京", " 👩‍👩‍👧", "\\n\\ud83d\\ude00 ", "e\u{301}"]
    static let text = "Grüße aus 東京 👩‍👩‍👧\n😀 e\u{301}"

    static let events: [ResponsesEvent] =
        [
            .created(ChappieResponse(json(created)["response"] ?? .null, .inProgress)),
            .other(type: "response.in_progress", json(inProgress)),
            .other(type: "response.reasoning_summary_part.added", json(partAdded)),
            .reasoningSummaryTextDelta("**Plän** 🧭", itemID: "rs_1", summaryIndex: 0),
            .outputItemDone(ChappieOutputItem(json(reasoning)), outputIndex: 0),
            .toolArgumentsDelta(#"{"cmd":"ls"}"#, itemID: "fc_1", callID: nil),
            .outputItemDone(ChappieOutputItem(json(functionCall)), outputIndex: 1),
            .toolArgumentsDelta("let x = \"é\"", itemID: "ctc_1", callID: nil),
            .outputItemDone(ChappieOutputItem(json(customCall)), outputIndex: 2),
            .other(type: "response.audio.delta", json(unknown)),
            .outputItemDone(ChappieOutputItem(json(unknownItem)), outputIndex: 3),
            .outputTextDelta("Grüße", itemID: "msg_1"), .outputTextDelta(" aus ", itemID: "msg_1"),
            .outputTextDelta("東京", itemID: "msg_1"), .outputTextDelta(" 👩‍👩‍👧", itemID: "msg_1"),
            .outputTextDelta("\n😀 ", itemID: "msg_1"), .outputTextDelta("e\u{301}", itemID: "msg_1"),
            .outputItemDone(ChappieOutputItem(json(message)), outputIndex: 4),
            .completed(ChappieResponse(json(completed)["response"] ?? .null, .completed)),
        ]

    /// Payloads in the stream that are not JSON.
    static let skippedPayloads = 2
    /// Bytes up to the blank line after `response.completed`.
    static let lengthToTheEnd =
        stream.utf8.count
        - "data: [DONE]\n\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"never\"}\n\n".utf8.count

    private static let created =
        #"{"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":"gpt-6-sol","output":[]}}"#
    private static let inProgress = #"{"type":"response.in_progress","response":{"id":"resp_1"}}"#
    private static let reasoning =
        #"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"**Plän** 🧭"}],"encrypted_content":"gAAAA"}"#
    private static let functionCall =
        #"{"id":"fc_1","type":"function_call","call_id":"call_1","name":"exec","arguments":"{\"cmd\":\"ls\"}"}"#
    private static let customCall =
        #"{"id":"ctc_1","type":"custom_tool_call","call_id":"call_2","name":"js","input":"let x = \"é\""}"#
    private static let customDelta =
        #"{"type":"response.custom_tool_call_input.delta","item_id":"ctc_1","delta":"let x = \"é\""}"#
    private static let partAdded =
        "{\"type\":\"response.reasoning_summary_part.added\",\"item_id\":\"rs_1\",\n\"summary_index\":0}"
    private static let argumentsDelta =
        #"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{\"cmd\":\"ls\"}"}"#
    private static let unknown = #"{"type":"response.audio.delta","n":18446744073709551616,"a":[null]}"#
    private static let unknownItem = #"{"type":"aura","hue":"ü"}"#
    private static let message =
        #"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Grüße aus 東京 👩‍👩‍👧\n😀 é"}]}"#
    private static let completed =
        #"{"type":"response.completed","response":{"id":"resp_1","status":"completed","usage":{"input_tokens":5,"output_tokens":7,"total_tokens":12}}}"#

    private static func lines(_ name: String, _ payload: String) -> String { "event: \(name)\ndata: \(payload)\n\n" }

    private static func item(_ item: String, _ index: Int) -> String {
        lines(
            "response.output_item.done",
            #"{"type":"response.output_item.done","output_index":\#(index),"item":\#(item)}"#)
    }

    private static func delta(_ text: String) -> String {
        #"{"type":"response.output_text.delta","item_id":"msg_1","output_index":4,"content_index":0,"delta":"\#(text)","logprobs":[]}"#
    }
}
