/// One event of a Responses stream, over server-sent events or WebSocket.
///
/// Everything the backend sends arrives here: what is not listed, or does not have the expected shape, is ``other``.
public enum ResponsesEvent: Sendable, Hashable {
    // The rare, large payloads are indirect, so that the thousands of deltas are small to move.

    /// `response.created`; followed by anything.
    indirect case created(ChappieResponse)
    /// `response.output_item.added`: an item begins.
    case outputItemAdded(ChappieOutputItem, outputIndex: Int?)
    /// `response.output_item.done`: the item as it is to be kept.
    case outputItemDone(ChappieOutputItem, outputIndex: Int?)
    /// `response.output_text.delta`; never empty.
    case outputTextDelta(String, itemID: String?)
    /// `response.reasoning_summary_part.added`: a new paragraph of the summary.
    case reasoningSummaryPartAdded(summaryIndex: Int)
    /// `response.reasoning_summary_text.delta`; never empty.
    case reasoningSummaryTextDelta(String, itemID: String?, summaryIndex: Int)
    /// `response.reasoning_summary_text.done`.
    case reasoningSummaryTextDone(String, itemID: String?, summaryIndex: Int)
    /// `response.reasoning_text.delta`; never empty.
    case reasoningTextDelta(String, itemID: String?, contentIndex: Int)
    /// `response.function_call_arguments.delta`; never empty.
    case functionCallArgumentsDelta(String, itemID: String?)
    /// `response.custom_tool_call_input.delta`; never empty. The id is `item_id`, else `call_id`.
    case customToolCallInputDelta(String, itemID: String?)
    /// `response.metadata`: header-like values that came late, and notes.
    case metadata(headers: ChappieJSON, metadata: ChappieJSON)
    /// `codex.rate_limits`.
    indirect case rateLimits(ChappieUsageLimitSnapshot)
    /// `response.completed`. Terminal.
    indirect case completed(ChappieResponse)
    /// `response.failed`. Terminal.
    indirect case failed(ChappieResponse)
    /// `response.incomplete`. Terminal.
    indirect case incomplete(ChappieResponse)
    /// `error`: the request failed as a whole. Terminal.
    indirect case error(ResponsesErrorEvent)
    /// Every other event, whole.
    case other(type: String, ChappieJSON)

    /// Whether nothing of the response follows.
    public var isTerminal: Bool {
        switch self {
        case .completed, .failed, .incomplete, .error: true
        default: false
        }
    }
}

/// An `error` event: the HTTP error that the request would have had.
public struct ResponsesErrorEvent: Sendable, Hashable {
    /// `status`, else `status_code`; `nil` when the event has neither.
    public var status: Int?
    /// The error that the backend reports.
    public var error: ChappieResponseError
    /// `headers`, for usage limits and `retry-after`.
    public var headers: ChappieJSON
    /// The whole event.
    public var raw: ChappieJSON

    init(_ json: ChappieJSON) {
        status = json["status"]?.int ?? json["status_code"]?.int
        if let error = json["error"], !error.isNull {
            self.error = ChappieResponseError(error)
        } else {
            error = ChappieResponseError(json)
            // `error` is the type of the event, not of what went wrong.
            error.type = nil
        }
        headers = json["headers"] ?? .null
        raw = json
    }
}

// MARK: Reading

extension ResponsesEvent {
    /// Reads one event from its JSON payload.
    ///
    /// - Returns: `nil` for an event without content: an empty delta.
    /// - Throws: ``ChappieJSONError`` when the payload is not JSON or not an object with a `type`.
    public static func parse(_ payload: [UInt8]) throws(ChappieJSONError) -> ResponsesEvent? {
        let result = payload.withUnsafeBufferPointer { buffer in
            Result { () throws(ChappieJSONError) in try parse(buffer) }
        }
        return try result.get()
    }

    /// Reads one event from its JSON text, as a WebSocket message brings it. See ``parse(_:)-([UInt8])``.
    public static func parse(_ payload: String) throws(ChappieJSONError) -> ResponsesEvent? {
        var payload = payload
        let result = payload.withUTF8 { buffer in
            Result { () throws(ChappieJSONError) in try parse(buffer) }
        }
        return try result.get()
    }

    static func parse(_ payload: UnsafeBufferPointer<UInt8>) throws(ChappieJSONError) -> ResponsesEvent? {
        if let delta = TextDeltaScanner.scan(payload) {
            return delta.text.isEmpty ? nil : .outputTextDelta(delta.text, itemID: delta.itemID)
        }
        let json = try ChappieJSON(parsing: payload)
        guard let type = json["type"]?.string else {
            throw ChappieJSONError(reason: "the event has no type", offset: 0)
        }
        return interpret(type: type, json)
    }

    private static func interpret(type: String, _ json: ChappieJSON) -> ResponsesEvent? {
        let other = ResponsesEvent.other(type: type, json)
        switch type {
        case "response.created": return withResponse(json, ResponsesEvent.created) ?? other
        case "response.completed": return .completed(ChappieResponse(json["response"] ?? .null, .completed))
        case "response.failed": return .failed(ChappieResponse(json["response"] ?? .null, .failed))
        case "response.incomplete": return .incomplete(ChappieResponse(json["response"] ?? .null, .incomplete))
        case "response.output_item.added": return withItem(json, ResponsesEvent.outputItemAdded) ?? other
        case "response.output_item.done": return withItem(json, ResponsesEvent.outputItemDone) ?? other
        case "response.metadata":
            return .metadata(headers: json["headers"] ?? .null, metadata: json["metadata"] ?? .null)
        case "codex.rate_limits": return .rateLimits(ChappieUsageLimitSnapshot(rateLimitsEvent: json))
        case "error": return .error(ResponsesErrorEvent(json))
        default: return interpretText(type: type, json, other: other)
        }
    }

    /// The events that carry a piece of text. An empty delta is no event at all.
    private static func interpretText(
        type: String, _ json: ChappieJSON, other: ResponsesEvent
    ) -> ResponsesEvent? {
        let itemID = json["item_id"]?.string
        let summaryIndex = json["summary_index"]?.int ?? 0
        if type == "response.reasoning_summary_part.added" {
            return .reasoningSummaryPartAdded(summaryIndex: summaryIndex)
        }
        if type == "response.reasoning_summary_text.done" {
            guard let text = json["text"]?.string else { return other }
            return .reasoningSummaryTextDone(text, itemID: itemID, summaryIndex: summaryIndex)
        }
        let event: (String) -> ResponsesEvent
        switch type {
        case "response.output_text.delta": event = { .outputTextDelta($0, itemID: itemID) }
        case "response.reasoning_summary_text.delta":
            event = { .reasoningSummaryTextDelta($0, itemID: itemID, summaryIndex: summaryIndex) }
        case "response.reasoning_text.delta":
            event = { .reasoningTextDelta($0, itemID: itemID, contentIndex: json["content_index"]?.int ?? 0) }
        case "response.function_call_arguments.delta":
            event = { .functionCallArgumentsDelta($0, itemID: itemID) }
        case "response.custom_tool_call_input.delta":
            event = { .customToolCallInputDelta($0, itemID: itemID ?? json["call_id"]?.string) }
        default: return other
        }
        guard let delta = json["delta"]?.string else { return other }
        return delta.isEmpty ? nil : event(delta)
    }

    private static func withResponse(
        _ json: ChappieJSON, _ event: (ChappieResponse) -> ResponsesEvent
    ) -> ResponsesEvent? {
        guard let response = json["response"], response.object != nil else { return nil }
        return event(ChappieResponse(response, .inProgress))
    }

    private static func withItem(
        _ json: ChappieJSON, _ event: (ChappieOutputItem, Int?) -> ResponsesEvent
    ) -> ResponsesEvent? {
        guard let item = json["item"], item.object != nil else { return nil }
        return event(ChappieOutputItem(item), json["output_index"]?.int)
    }
}
