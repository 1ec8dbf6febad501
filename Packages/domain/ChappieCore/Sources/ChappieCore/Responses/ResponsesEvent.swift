/// One event of a Responses stream, over server-sent events or WebSocket.
///
/// Everything that the backend sends arrives here. Events that are not listed, or that have an unexpected form, are
/// ``other(type:_:)``.
public enum ResponsesEvent: Sendable, Hashable {
    // The rare, large payloads are indirect, so that the thousands of deltas are cheap to move.

    /// `response.created`. Any event may follow.
    indirect case created(ChappieResponse)
    /// `response.output_item.added`, with the item that begins, including the phase of a message.
    case outputItemAdded(ChappieOutputItem, outputIndex: Int?)
    /// `response.output_item.done`, with the final form of the item.
    case outputItemDone(ChappieOutputItem, outputIndex: Int?)
    /// `response.output_text.delta`, never empty.
    case outputTextDelta(String, itemID: String?)
    /// `response.reasoning_summary_text.delta`, never empty.
    case reasoningSummaryTextDelta(String, itemID: String?, summaryIndex: Int)
    /// `response.function_call_arguments.delta` or `response.custom_tool_call_input.delta`, never empty. The call is
    /// identified by its item's id or by its own id.
    case toolArgumentsDelta(String, itemID: String?, callID: String?)
    /// `codex.response.metadata` or `response.metadata`, with late values that resemble headers, and with notes.
    case metadata(headers: ChappieJSON, metadata: ChappieJSON)
    /// `codex.rate_limits`.
    indirect case rateLimits(ChappieUsageLimitSnapshot)
    /// `response.completed`, or `response.done`, with which some gateways end every response. Terminal.
    indirect case completed(ChappieResponse)
    /// `response.failed`. Terminal.
    indirect case failed(ChappieResponse)
    /// `response.incomplete`. Terminal.
    indirect case incomplete(ChappieResponse)
    /// `error`. The entire request failed. Terminal.
    indirect case error(ResponsesErrorEvent)
    /// Any other event, with its type and its complete JSON.
    case other(type: String, ChappieJSON)

    /// Whether the response ends with this event.
    public var isTerminal: Bool {
        switch self {
        case .completed, .failed, .incomplete, .error: true
        default: false
        }
    }

    /// Reads one event from its JSON text, the payload of a WebSocket message.
    ///
    /// - Returns: The event, or `nil` for an empty delta, which has no content.
    /// - Throws: ``ChappieJSONError`` if the payload is not JSON or not an object with a `type`.
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
        return event(type, json)
    }

    private static func event(_ type: String, _ json: ChappieJSON) -> ResponsesEvent? {
        func response(_ status: ChappieResponseStatus) -> ChappieResponse {
            ChappieResponse(json["response"] ?? .null, status)
        }
        let itemID = json["item_id"]?.string
        switch type {
        case "response.created" where json["response"]?.object != nil: return .created(response(.inProgress))
        case "response.completed": return .completed(response(.completed))
        case "response.done":
            let response = response(.completed)
            switch response.status {
            case .failed: return .failed(response)
            case .incomplete, .cancelled: return .incomplete(response)
            default: return .completed(response)
            }
        case "response.failed": return .failed(response(.failed))
        case "response.incomplete": return .incomplete(response(.incomplete))
        case "response.output_item.added":
            guard let item = json["item"], item.object != nil else { break }
            return .outputItemAdded(ChappieOutputItem(item), outputIndex: json["output_index"]?.int)
        case "response.output_item.done":
            guard let item = json["item"], item.object != nil else { break }
            return .outputItemDone(ChappieOutputItem(item), outputIndex: json["output_index"]?.int)
        case "response.output_text.delta":
            guard let delta = json["delta"]?.string else { break }
            return delta.isEmpty ? nil : .outputTextDelta(delta, itemID: itemID)
        case "response.reasoning_summary_text.delta":
            guard let delta = json["delta"]?.string else { break }
            let index = json["summary_index"]?.int ?? 0
            return delta.isEmpty ? nil : .reasoningSummaryTextDelta(delta, itemID: itemID, summaryIndex: index)
        case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
            guard let delta = json["delta"]?.string else { break }
            return delta.isEmpty
                ? nil : .toolArgumentsDelta(delta, itemID: itemID, callID: json["call_id"]?.string)
        case "codex.response.metadata", "response.metadata":
            return .metadata(headers: json["headers"] ?? .null, metadata: json["metadata"] ?? .null)
        case "codex.rate_limits": return .rateLimits(ChappieUsageLimitSnapshot(rateLimitsEvent: json))
        case "error": return .error(ResponsesErrorEvent(json))
        default: break
        }
        return .other(type: type, json)
    }
}

/// An `error` event, which reports that the entire request failed. HTTP would report this by its status.
public struct ResponsesErrorEvent: Sendable, Hashable {
    /// The value of `status`, or else of `status_code`. `nil` if the event has neither.
    public var status: Int?
    /// The error that the backend reports.
    public var error: ChappieResponseError
    /// The value of `headers`, for usage limits and `retry-after`.
    public var headers: ChappieJSON
    /// The complete event.
    public var raw: ChappieJSON

    init(_ json: ChappieJSON) {
        status = PeerNumber.integer(json["status"]) ?? PeerNumber.integer(json["status_code"])
        headers = json["headers"] ?? .null
        raw = json
        if let error = json["error"], !error.isNull {
            self.error = ChappieResponseError(error)
        } else {
            error = ChappieResponseError(json)
            // `error` is the type of the event, not of the failure.
            error.type = nil
        }
    }
}
