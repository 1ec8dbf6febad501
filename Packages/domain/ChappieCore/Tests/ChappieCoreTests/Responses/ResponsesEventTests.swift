@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import TestFixtures
import Testing

@Suite struct ResponsesEventTests {
    private static let message =
        #"{"id":"msg_b49e","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}"#
    private static let unknownItem =
        #"{"type":"hologram_call","id":"hc_1","beams":[1,{"colour":"green"}],"n":12345678901234567890}"#

    /// Payloads and their events; `nil` for a payload without content.
    static let table: [(String, ResponsesEvent?)] = [
        (
            #"{"type":"response.output_text.delta","item_id":"msg_b49e","output_index":0,"content_index":0,"delta":"Hello","logprobs":[],"sequence_number":4}"#,
            .outputTextDelta("Hello", itemID: "msg_b49e")
        ),
        (#"{"type":"response.output_text.delta","delta":"x"}"#, .outputTextDelta("x", itemID: nil)),
        (
            #"{"delta":"é😀","item_id":"msg_1","type":"response.output_text.delta"}"#,
            .outputTextDelta("é😀", itemID: "msg_1")
        ),
        (
            #"{"type":"response.output_text.delta","delta":"\ud83d\ude00\n\"\u0000\\","item_id":null}"#,
            .outputTextDelta("😀\n\"\0\\", itemID: nil)
        ),
        (
            #"{"type":"response.output_text.delta","delta":"x","item_id":"m","safety_buffering":{"use_cases":[],"reasons":["r"]}}"#,
            .outputTextDelta("x", itemID: "m")
        ),
        (#"{"type":"response.output_text.delta","item_id":"msg_1","delta":""}"#, nil),
        (#"{"delta":"","type":"response.output_text.delta"}"#, nil),
        (
            #"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":2,"delta":"**Thinking** hard"}"#,
            .reasoningSummaryTextDelta("**Thinking** hard", itemID: "rs_1", summaryIndex: 2)
        ),
        (
            #"{"type":"response.reasoning_summary_text.delta","delta":"x"}"#,
            .reasoningSummaryTextDelta("x", itemID: nil, summaryIndex: 0)
        ),
        (#"{"type":"response.reasoning_summary_text.delta","delta":""}"#, nil),
        (
            #"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{\"cmd\":"}"#,
            .toolArgumentsDelta(#"{"cmd":"#, itemID: "fc_1", callID: nil)
        ),
        (
            #"{"type":"response.custom_tool_call_input.delta","call_id":"call_1","delta":"const"}"#,
            .toolArgumentsDelta("const", itemID: nil, callID: "call_1")
        ),
        (#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":""}"#, nil),
        (
            #"{"type":"response.output_item.done","output_index":1,"item":\#(message),"sequence_number":5}"#,
            .outputItemDone(ChappieOutputItem(json(message)), outputIndex: 1)
        ),
        (
            #"{"type":"response.output_item.done","item":\#(unknownItem)}"#,
            .outputItemDone(ChappieOutputItem(json(unknownItem)), outputIndex: nil)
        ),
        (
            #"{"type":"response.metadata","headers":{"x-codex-turn-state":"ts-1"},"metadata":{"openai_verification_recommendation":["trusted_access_for_cyber"]}}"#,
            .metadata(
                headers: ["x-codex-turn-state": "ts-1"],
                metadata: ["openai_verification_recommendation": ["trusted_access_for_cyber"]])
        ),
        (
            #"{"type":"codex.response.metadata","headers":{"x-codex-turn-state":"ts-1","x-models-etag":"\"1\""}}"#,
            .metadata(headers: ["x-codex-turn-state": "ts-1", "x-models-etag": "\"1\""], metadata: .null)
        ),
        (
            #"{"type":"response.output_item.added","item":\#(message),"output_index":2}"#,
            .outputItemAdded(ChappieOutputItem(json(message)), outputIndex: 2)
        ),
        (#"{"type":"response.metadata"}"#, .metadata(headers: .null, metadata: .null)),
        (#"{"type":"response.output_text.delta","delta":"a\ud83d"}"#, .outputTextDelta("a\u{FFFD}", itemID: nil)),
        (#"{"delta":"\ude00b","type":"response.output_text.delta"}"#, .outputTextDelta("\u{FFFD}b", itemID: nil)),
        (
            #"{"type":"response.created","response":{"id":"\ud83d"}}"#,
            .created(ChappieResponse(["id": "\u{FFFD}"], .inProgress))
        ),
    ]

    @Test(arguments: table)
    func readsEveryShape(_ payload: String, _ event: ResponsesEvent?) throws {
        #expect(try ResponsesEvent.parse(payload) == event)
        #expect(event?.isTerminal != true)
    }

    /// Some gateways end every response with this event.
    static let ends: [(String, ResponsesEvent)] = [
        (
            #"{"type":"response.done","response":{"id":"r"}}"#,
            .completed(ChappieResponse(["id": "r"], .completed))
        ),
        (
            #"{"type":"response.done","response":{"status":"incomplete"}}"#,
            .incomplete(ChappieResponse(["status": "incomplete"], .completed))
        ),
        (
            #"{"type":"response.done","response":{"status":"failed"}}"#,
            .failed(ChappieResponse(["status": "failed"], .completed))
        ),
        (#"{"type":"response.done"}"#, .completed(ChappieResponse(.null, .completed))),
    ]

    @Test(arguments: ends) func `the status of response.done says how the response ended`(
        _ payload: String, _ event: ResponsesEvent
    ) throws {
        #expect(try ResponsesEvent.parse(payload) == event && event.isTerminal)
    }

    /// Events that are unknown, useless to a reader, or in an unexpected form are kept whole, with every digit.
    @Test(arguments: [
        #"{"type":"response.output_text.delta","item_id":"msg_1"}"#,
        #"{"type":"response.output_text.delta","delta":7}"#,
        #"{"type":"response.reasoning_summary_text.delta","delta":null}"#,
        #"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","summary_index":1}"#,
        #"{"type":"response.reasoning_summary_text.done","item_id":"rs_1","text":"All of it"}"#,
        #"{"type":"response.reasoning_text.delta","item_id":"rs_1","content_index":3,"delta":"hm"}"#,
        #"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":{"cmd":1}}"#,
        #"{"type":"response.custom_tool_call_input.done","call_id":"call_1","input":"const"}"#,
        #"{"type":"response.output_item.added","item":null}"#,
        #"{"type":"response.output_item.done","output_index":0}"#,
        #"{"type":"response.output_item.done","item":"text"}"#,
        #"{"type":"response.in_progress","response":{"id":"resp_1","status":"in_progress"},"sequence_number":1}"#,
        #"{"type":"responsesapi.websocket_timing","timing_metrics":{"a":1.5}}"#,
        #"{"type":"response.telepathy.delta","n":123456789012345678901234567890,"deep":[{"x":null}]}"#, #"{"type":""}"#,
        #"{"type":"response.created"}"#, #"{"type":"response.created","response":null}"#,
    ])
    func keepsOtherEventsWhole(_ payload: String) throws {
        guard case .other(let type, let json) = try ResponsesEvent.parse(payload) else {
            Issue.record("\(payload) was understood")
            return
        }
        #expect(json.serialized() == payload && json["type"]?.string == type)
    }

    @Test func unknownItemsKeepEveryDigit() {
        let item = ChappieOutputItem(json(Self.unknownItem))
        #expect(item.json.serialized() == Self.unknownItem)
        #expect(item.type == "hologram_call")
        #expect(item.id == "hc_1")
        #expect(!item.isToolCall)
        #expect(item.text == "")
    }

    @Test(
        "refuses what is no event",
        arguments: [
            "", "null", "[]", "7", #""response.created""#, "{}", #"{"type":7}"#, #"{"type":null}"#, "{",
            #"{"type":"x"}}"#, "[DONE]",
        ])
    func refusesWhatIsNoEvent(_ payload: String) {
        #expect(throws: ChappieJSONError.self) { try ResponsesEvent.parse(payload) }
    }

    // MARK: Responses

    @Test func readsCreated() throws {
        let response = try response(
            #"{"type":"response.created","response":{"id":"resp_6901","created_at":1795217224,"status":"in_progress","error":null,"incomplete_details":null,"model":"gpt-6-sol","output":[],"temperature":1.0,"usage":null,"metadata":{}},"sequence_number":0}"#
        )
        #expect(response.id == "resp_6901")
        #expect(response.model == "gpt-6-sol")
        #expect(response.status == .inProgress)
        #expect(response.items == [])
        #expect(response.usage == nil)
        #expect(response.error == nil)
        #expect(response.incompleteReason == nil)
        #expect(response.raw["created_at"] == 1_795_217_224 && response.raw["temperature"]?.double == 1)
    }

    @Test func readsCompleted() throws {
        let response = try response(
            #"{"type":"response.completed","response":{"id":"resp_6901","status":"half_baked","output":[{"type":"reasoning"},\#(Self.message)],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":110}},"sequence_number":17}"#
        )
        #expect(response.status.rawValue == "half_baked", "a status that this version does not know survives")
        #expect(response.items.map(\.type) == ["reasoning", "message"] && response.outputText == "Hello")
        let usage = ChappieTokenUsage(
            inputTokens: 100, cachedInputTokens: 64, outputTokens: 10, reasoningTokens: 4, totalTokens: 110)
        #expect(response.usage == usage)
    }

    @Test(
        "completed without much in it",
        arguments: [
            #"{"type":"response.completed"}"#, #"{"type":"response.completed","response":null}"#,
            #"{"type":"response.completed","response":{"usage":null}}"#,
            #"{"type":"response.completed","response":[1]}"#,
        ])
    func readsABareCompleted(_ payload: String) throws {
        let response = try response(payload)
        #expect(response.id == "")
        #expect(response.status == .completed)
        #expect(response.usage == nil)
        #expect(response.outputText == "")
    }

    @Test func usageWithoutDetailsIsZeros() throws {
        let response = try response(
            #"{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":3,"output_tokens":4}}}"#)
        #expect(response.usage == ChappieTokenUsage(inputTokens: 3, outputTokens: 4, totalTokens: 7))
    }

    @Test func countsOfTokensAreBounded() throws {
        let most = Int.max
        let response = try response(
            #"{"type":"response.completed","response":{"usage":{"input_tokens":\#(most),"output_tokens":-1,"total_tokens":\#(most)}}}"#
        )
        #expect(response.usage == ChappieTokenUsage(inputTokens: 1 << 40, outputTokens: 0, totalTokens: 1 << 40))
    }

    @Test func readsFailedAndIncomplete() throws {
        let failed = try response(
            #"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Please try again in 1.5s."}}}"#
        )
        #expect(failed.status == .failed && failed.error?.code == "rate_limit_exceeded")
        #expect(failed.error?.message == "Please try again in 1.5s.")
        let incomplete = try response(
            #"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#)
        #expect(incomplete.status == .incomplete && incomplete.incompleteReason == "max_output_tokens")
    }

    private func response(_ payload: String) throws -> ChappieResponse {
        let response: ChappieResponse? =
            switch try ResponsesEvent.parse(payload) {
            case .created(let response), .completed(let response): response
            case .failed(let response), .incomplete(let response): response
            default: nil
            }
        return try #require(response)
    }

    // MARK: Limits and errors

    @Test func readsRateLimits() throws {
        let event = try ResponsesEvent.parse(#"{"type":"codex.rate_limits","plan_type":"plus","rate_limits":{}}"#)
        #expect(event == .rateLimits(ChappieUsageLimitSnapshot(plan: .plus)))
    }

    @Test(
        arguments: [
            (
                #"{"status":429,"error":{"type":"usage_limit_reached","message":"Reached"},"headers":{"retry-after":"1"},"type":"error"}"#,
                429, ChappieResponseError(type: "usage_limit_reached", message: "Reached"), ["retry-after": "1"]
            ),
            (
                #"{"status_code":400,"error":{"code":"websocket_connection_limit_reached"},"type":"error"}"#,
                400, ChappieResponseError(code: "websocket_connection_limit_reached"), .null
            ),
            // The type of the event is not the type of the error.
            (
                #"{"code":"server_error","message":"Something broke.","param":null,"type":"error"}"#,
                nil, ChappieResponseError(code: "server_error", message: "Something broke."), .null
            ),
            (
                #"{"status":500,"error":"overloaded","type":"error"}"#, 500,
                ChappieResponseError(message: "overloaded"), .null
            ),
            (#"{"type":"error","error":null}"#, nil, ChappieResponseError(), .null),
        ] as [(String, Int?, ChappieResponseError, ChappieJSON)])
    func readsErrors(_ payload: String, _ status: Int?, _ expected: ChappieResponseError, _ headers: ChappieJSON) throws
    {
        let event = try #require(try ResponsesEvent.parse(payload))
        guard case .error(var error) = event else {
            Issue.record("\(event)")
            return
        }
        #expect(event.isTerminal)
        #expect(error.status == status)
        #expect(error.headers == headers)
        #expect(error.raw == json(payload))
        error.error.raw = .null
        #expect(error.error == expected)
    }

    @Test func readsAUsageLimitError() {
        let error = ChappieResponseError(
            json(
                #"{"type":"usage_limit_reached","plan_type":"pro","resets_at":1704067242,"resets_in_seconds":1234}"#
            ))
        #expect(error.type == "usage_limit_reached" && error.plan == .pro)
        #expect(error.resetsAt == Date(timeIntervalSince1970: 1_704_067_242) && error.resetsInSeconds == 1234)
    }
}
