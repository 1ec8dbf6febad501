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
