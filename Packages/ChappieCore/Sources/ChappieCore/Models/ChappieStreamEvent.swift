/// What a stream tells while a turn runs. New cases may come: switch with a `default`.
///
/// The large, rare cases are indirect, so that the thousands of text deltas stay small.
public enum ChappieStreamEvent: Sendable, Hashable {
    /// The backend has accepted the request.
    case created(String)
    /// A piece of the answer; never empty. Pieces that arrive together may be joined.
    case textDelta(String)
    /// A piece of the summary of the model's reasoning; never empty.
    case reasoningSummaryDelta(String)
    /// The account's limits, as the answer's headers or an event say.
    indirect case usageLimits(ChappieUsageLimitSnapshot)
    /// What the transport does.
    case transport(ChappieTransportEvent)
    /// An item is complete; unknown kinds included.
    case item(ChappieOutputItem)
    /// The turn is over; always the last event of a stream that did not throw.
    indirect case completed(ChappieResponse)
}
