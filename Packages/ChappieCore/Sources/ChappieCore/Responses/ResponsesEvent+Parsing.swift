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
