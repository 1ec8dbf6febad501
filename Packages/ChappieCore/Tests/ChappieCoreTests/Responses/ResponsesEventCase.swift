@_spi(ChappieInternals) import ChappieCore
import Testing

/// One payload and the event that it is; `nil` for a payload that says nothing.
struct ResponsesEventCase: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let payload: String
    let event: ResponsesEvent?

    init(_ description: String, _ payload: String, _ event: ResponsesEvent?) {
        testDescription = description
        self.payload = payload
        self.event = event
    }

    /// An event that is kept whole.
    static func other(_ type: String, _ payload: String) -> ResponsesEventCase {
        ResponsesEventCase(type, payload, .other(type: type, json(payload)))
    }
}

extension ResponsesEventCase {
    static let table: [ResponsesEventCase] = text + items + rest

    static let message =
        #"{"id":"msg_b49e","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}]}"#
    static let functionCall =
        #"{"id":"fc_680058","type":"function_call","status":"completed","call_id":"call_680e","name":"exec_command","arguments":"{\"cmd\": \"echo hi\"}"}"#
    static let customCall =
        #"{"id":"ctc_272d","type":"custom_tool_call","status":"completed","call_id":"call_5c5d","name":"exec","input":"const r = await run({\"cmd\": \"echo hi\"});\n"}"#
    static let reasoning =
        #"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"**Thinking** hard"}],"encrypted_content":"gAAAAAfake"}"#
    static let compaction = #"{"type":"compaction","id":"cmp_92f3","encrypted_content":"gAAAAAfakecompaction"}"#
    static let unknownItem =
        #"{"type":"hologram_call","id":"hc_1","beams":[1,{"colour":"green"}],"n":12345678901234567890}"#

    private static let text: [ResponsesEventCase] = [
        .init(
            "text",
            #"{"type":"response.output_text.delta","item_id":"msg_b49e","output_index":0,"content_index":0,"delta":"Hello","logprobs":[],"sequence_number":4}"#,
            .outputTextDelta("Hello", itemID: "msg_b49e")),
        .init("text, bare", #"{"type":"response.output_text.delta","delta":"x"}"#, .outputTextDelta("x", itemID: nil)),
        .init(
            "text, members in another order", #"{"delta":"é😀","item_id":"msg_1","type":"response.output_text.delta"}"#,
            .outputTextDelta("é😀", itemID: "msg_1")),
        .init(
            "text with escapes",
            #"{"type":"response.output_text.delta","delta":"\ud83d\ude00\n\"\u0000\\","item_id":null}"#,
            .outputTextDelta("😀\n\"\0\\", itemID: nil)),
        .init(
            "text with a note beside it",
            #"{"type":"response.output_text.delta","delta":"x","item_id":"m","safety_buffering":{"use_cases":[],"reasons":["r"]}}"#,
            .outputTextDelta("x", itemID: "m")),
        .init("empty text", #"{"type":"response.output_text.delta","item_id":"msg_1","delta":""}"#, nil),
        .init("empty text, odd order", #"{"delta":"","type":"response.output_text.delta"}"#, nil),
        .other("response.output_text.delta", #"{"type":"response.output_text.delta","item_id":"msg_1"}"#),
        .other("response.output_text.delta", #"{"type":"response.output_text.delta","delta":7}"#),
        .init(
            "a part of the summary begins",
            #"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":1,"part":{"type":"summary_text","text":""}}"#,
            .reasoningSummaryPartAdded(summaryIndex: 1)),
        .init(
            "a part of the summary without an index", #"{"type":"response.reasoning_summary_part.added"}"#,
            .reasoningSummaryPartAdded(summaryIndex: 0)),
        .init(
            "summary text",
            #"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":2,"delta":"**Thinking** hard"}"#,
            .reasoningSummaryTextDelta("**Thinking** hard", itemID: "rs_1", summaryIndex: 2)),
        .init(
            "the summary's text is done",
            #"{"type":"response.reasoning_summary_text.done","item_id":"rs_1","text":"All of it","summary_index":1}"#,
            .reasoningSummaryTextDone("All of it", itemID: "rs_1", summaryIndex: 1)),
        .other(
            "response.reasoning_summary_text.done", #"{"type":"response.reasoning_summary_text.done","item_id":"rs_1"}"#
        ),
        .init(
            "reasoning text",
            #"{"type":"response.reasoning_text.delta","item_id":"rs_1","content_index":3,"delta":"hm"}"#,
            .reasoningTextDelta("hm", itemID: "rs_1", contentIndex: 3)),
        .init("empty reasoning text", #"{"type":"response.reasoning_text.delta","delta":""}"#, nil),
        .init(
            "arguments of a function call",
            #"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"cmd\":","sequence_number":3}"#,
            .functionCallArgumentsDelta("{\"cmd\":", itemID: "fc_1")),
        .init(
            "input of a custom call",
            #"{"type":"response.custom_tool_call_input.delta","item_id":"ctc_1","call_id":"call_1","delta":"const"}"#,
            .customToolCallInputDelta("const", itemID: "ctc_1")),
        .init(
            "input of a custom call by its call id",
            #"{"type":"response.custom_tool_call_input.delta","call_id":"call_1","delta":"const"}"#,
            .customToolCallInputDelta("const", itemID: "call_1")),
    ]

    private static let items: [ResponsesEventCase] = [
        .init(
            "a message begins",
            #"{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_b49e","type":"message","status":"in_progress","role":"assistant","content":[]},"sequence_number":2}"#,
            .outputItemAdded(
                ChappieOutputItem(
                    json(#"{"id":"msg_b49e","type":"message","status":"in_progress","role":"assistant","content":[]}"#)),
                outputIndex: 0)),
        done("a message", message, index: 0), done("a function call", functionCall, index: 1),
        done("a custom call", customCall, index: 2),
        done("reasoning", reasoning, index: 3), done("a compaction", compaction, index: nil),
        done("an unknown item", unknownItem, index: 4),
        done("an item without a type", #"{"a":1}"#, index: 0),
        .other("response.output_item.done", #"{"type":"response.output_item.done","output_index":0}"#),
        .other("response.output_item.done", #"{"type":"response.output_item.done","item":"text"}"#),
        .other("response.output_item.added", #"{"type":"response.output_item.added","item":null}"#),
    ]

    private static func done(_ description: String, _ item: String, index: Int?) -> ResponsesEventCase {
        let member = index.map { #""output_index":\#($0),"# } ?? ""
        return .init(
            description, #"{"type":"response.output_item.done",\#(member)"item":\#(item),"sequence_number":5}"#,
            .outputItemDone(ChappieOutputItem(json(item)), outputIndex: index))
    }

    private static let rest: [ResponsesEventCase] = [
        .init(
            "late headers",
            #"{"type":"response.metadata","headers":{"openai-model":"gpt-5.5","x-codex-turn-state":"ts-1"},"metadata":{"openai_verification_recommendation":["trusted_access_for_cyber"]}}"#,
            .metadata(
                headers: ["openai-model": "gpt-5.5", "x-codex-turn-state": "ts-1"],
                metadata: ["openai_verification_recommendation": ["trusted_access_for_cyber"]])),
        .init("late headers without any", #"{"type":"response.metadata"}"#, .metadata(headers: .null, metadata: .null)),
        .other(
            "response.in_progress",
            #"{"type":"response.in_progress","response":{"id":"resp_1","status":"in_progress"},"sequence_number":1}"#),
        .other(
            "response.content_part.added",
            #"{"type":"response.content_part.added","item_id":"msg_b49e","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]},"sequence_number":3}"#
        ),
        .other(
            "response.content_part.done",
            #"{"type":"response.content_part.done","item_id":"msg_1","part":{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}}"#
        ),
        .other("response.output_text.done", #"{"type":"response.output_text.done","item_id":"msg_1","text":"Hello"}"#),
        .other(
            "response.function_call_arguments.done",
            #"{"type":"response.function_call_arguments.done","item_id":"fc_1","arguments":"{}"}"#),
        .other(
            "response.custom_tool_call_input.done",
            #"{"type":"response.custom_tool_call_input.done","item_id":"ctc_1","input":"x"}"#),
        .other(
            "response.reasoning_summary_part.done",
            #"{"type":"response.reasoning_summary_part.done","item_id":"rs_1","summary_index":0}"#),
        .other(
            "responsesapi.websocket_timing", #"{"type":"responsesapi.websocket_timing","timing_metrics":{"a":1.5}}"#),
        .other(
            "response.telepathy.delta",
            #"{"type":"response.telepathy.delta","delta":"?","n":123456789012345678901234567890,"deep":[{"x":null}]}"#),
        .other("", #"{"type":""}"#),
        .other("response.created", #"{"type":"response.created"}"#),
        .other("response.created", #"{"type":"response.created","response":null}"#),
    ]
}
