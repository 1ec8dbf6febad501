@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ResponsesEventTests {
    @Test("reads every shape", arguments: ResponsesEventCase.table)
    func readsEveryShape(_ example: ResponsesEventCase) throws {
        let event = try ResponsesEvent.parse(Array(example.payload.utf8))
        #expect(event == example.event)
        #expect(event?.isTerminal != true)
    }

    @Test func unknownEventsAndItemsKeepEveryDigit() throws {
        for example in ResponsesEventCase.table {
            if case .other(_, let json) = example.event { #expect(json.serialized() == example.payload) }
        }
        let item = ChappieOutputItem(json(ResponsesEventCase.unknownItem))
        #expect(item.json.serialized() == ResponsesEventCase.unknownItem)
        #expect(item.type == "hologram_call" && item.id == "hc_1" && !item.isToolCall && item.text == "")
    }

    @Test(
        "refuses what is no event",
        arguments: [
            "", "null", "[]", "7", #""response.created""#, "{}", #"{"type":7}"#, #"{"type":null}"#, "{",
            #"{"type":"x"}}"#, "[DONE]",
        ])
    func refusesWhatIsNoEvent(_ payload: String) {
        #expect(throws: ChappieJSONError.self) { try ResponsesEvent.parse(Array(payload.utf8)) }
    }

    // MARK: Responses

    @Test func readsCreated() throws {
        let response = try #require(
            try response(
                #"{"type":"response.created","response":{"id":"resp_6901","object":"response","created_at":1795217224,"status":"in_progress","error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"gpt-5.5","output":[],"parallel_tool_calls":true,"reasoning":{"effort":"low","summary":null},"store":false,"temperature":1.0,"tools":[],"usage":null,"metadata":{}},"sequence_number":0}"#
            ))
        #expect(response.id == "resp_6901" && response.model == "gpt-5.5" && response.status == .inProgress)
        #expect(
            response.items == [] && response.usage == nil && response.error == nil && response.incompleteReason == nil)
        #expect(response.raw["created_at"] == 1_795_217_224 && response.raw["temperature"]?.double == 1)
    }

    @Test func readsCompleted() throws {
        let response = try #require(
            try response(
                #"{"type":"response.completed","response":{"id":"resp_6901","status":"completed","model":"gpt-5.5","output":[\#(ResponsesEventCase.reasoning),\#(ResponsesEventCase.message)],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":110}},"sequence_number":17}"#
            ))
        #expect(response.id == "resp_6901" && response.status == .completed)
        #expect(response.items.map(\.type) == ["reasoning", "message"] && response.outputText == "Hello")
        #expect(
            response.usage
                == ChappieTokenUsage(
                    inputTokens: 100, cachedInputTokens: 64, outputTokens: 10, reasoningTokens: 4, totalTokens: 110))
    }

    @Test(
        "completed without much in it",
        arguments: [
            #"{"type":"response.completed"}"#, #"{"type":"response.completed","response":null}"#,
            #"{"type":"response.completed","response":{}}"#,
            #"{"type":"response.completed","response":{"usage":null}}"#,
            #"{"type":"response.completed","response":[1]}"#,
        ])
    func readsABareCompleted(_ payload: String) throws {
        let response = try #require(try response(payload))
        #expect(
            response.id == "" && response.status == .completed && response.usage == nil && response.outputText == "")
    }

    @Test func usageWithoutDetailsIsZeros() throws {
        let response = try #require(
            try response(
                #"{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":3,"output_tokens":4}}}"#))
        #expect(response.usage == ChappieTokenUsage(inputTokens: 3, outputTokens: 4, totalTokens: 7))
    }

    @Test func readsFailed() throws {
        let response = try #require(
            try response(
                #"{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 1.5s."}}}"#
            ))
        #expect(response.status == .failed && response.error?.code == "rate_limit_exceeded")
        #expect(response.error?.message == "Rate limit reached. Please try again in 1.5s.")
    }

    @Test func readsIncomplete() throws {
        let response = try #require(
            try response(
                #"{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#
            ))
        #expect(response.status == .incomplete && response.incompleteReason == "max_output_tokens")
    }

    @Test func aStatusThisVersionDoesNotKnowSurvives() throws {
        let response = try #require(
            try response(#"{"type":"response.completed","response":{"id":"r","status":"half_baked"}}"#))
        #expect(response.status.rawValue == "half_baked")
    }

    private func response(_ payload: String) throws -> ChappieResponse? {
        switch try ResponsesEvent.parse(Array(payload.utf8)) {
        case .created(let response): response
        case .completed(let response), .failed(let response), .incomplete(let response): response
        default: nil
        }
    }

    // MARK: Limits and errors

    @Test func readsRateLimits() throws {
        let event = try ResponsesEvent.parse(
            Array(
                #"{"type":"codex.rate_limits","plan_type":"plus","rate_limits":{"allowed":true,"limit_reached":false,"primary":{"used_percent":42,"window_minutes":60,"reset_at":1700000000},"secondary":null},"code_review_rate_limits":null,"credits":{"has_credits":true,"unlimited":false,"balance":"123"},"promo":null}"#
                    .utf8))
        let expected = ChappieUsageLimitSnapshot(
            primary: ChappieUsageWindow(
                usedPercent: 42, windowMinutes: 60, resetsAt: Date(timeIntervalSince1970: 1_700_000_000)),
            credits: ChappieUsageCredits(hasCredits: true, isUnlimited: false, balance: "123"), plan: .plus)
        #expect(event == .rateLimits(expected))
    }

    @Test func readsAUsageLimitError() throws {
        let error = try #require(
            try error(
                #"{"type":"error","status":429,"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"pro","resets_at":1704067242,"resets_in_seconds":1234,"limit_window_minutes":300},"headers":{"x-codex-primary-used-percent":"100.0"}}"#
            ))
        #expect(error.status == 429 && error.error.type == "usage_limit_reached" && error.error.plan == .pro)
        #expect(
            error.error.resetsAt == Date(timeIntervalSince1970: 1_704_067_242) && error.error.resetsInSeconds == 1234)
        #expect(error.error.limitWindowMinutes == 300)
        #expect(error.headers["x-codex-primary-used-percent"] == "100.0")
    }

    @Test func readsAConnectionLimitErrorWithStatusCode() throws {
        let error = try #require(
            try error(
                #"{"type":"error","status_code":400,"error":{"type":"invalid_request_error","code":"websocket_connection_limit_reached","message":"Create a new connection to continue."}}"#
            ))
        #expect(error.status == 400 && error.error.code == "websocket_connection_limit_reached" && error.headers.isNull)
    }

    @Test func readsAnErrorWithoutAnErrorObject() throws {
        let error = try #require(
            try error(
                #"{"type":"error","code":"server_error","message":"Something broke.","param":null,"sequence_number":3}"#
            ))
        #expect(error.status == nil && error.error.code == "server_error" && error.error.message == "Something broke.")
        // The type of the event is not the type of the error.
        #expect(error.error.type == nil)
    }

    @Test func readsAnErrorThatIsAString() throws {
        let error = try #require(try error(#"{"type":"error","status":500,"error":"overloaded"}"#))
        #expect(error.status == 500 && error.error.message == "overloaded")
    }

    @Test func readsAnErrorWithNothingInIt() throws {
        let error = try #require(try error(#"{"type":"error","error":null}"#))
        #expect(error.status == nil && error.error.type == nil && error.error.code == nil && error.error.message == nil)
    }

    private func error(_ payload: String) throws -> ResponsesErrorEvent? {
        let event = try ResponsesEvent.parse(Array(payload.utf8))
        guard case .error(let error) = event else { return nil }
        #expect(event?.isTerminal == true)
        return error
    }
}
