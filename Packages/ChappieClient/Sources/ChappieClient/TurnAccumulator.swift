@_spi(ChappieInternals) import ChappieCore

/// Turns the events of a turn's attempts into what the host sees, each thing once; sans-IO.
///
/// `emit` is told each new thing as it comes; the receiver only queues it.
struct TurnAccumulator {
    /// The end that an event brings.
    enum Outcome: Sendable {
        /// The response is whole.
        case completed(ChappieResponse)
        /// The response ended in an error, of whatever kind.
        case failed(ChappieResponse)
        /// The request was answered with an error inside the stream.
        case rejected(ResponsesErrorEvent)
    }

    /// The items of the present attempt, as the host knows them.
    private var items: [ChappieOutputItem] = []
    /// The items of the present attempt, as the backend sent them.
    private(set) var rawItems: [ChappieOutputItem] = []
    private var filter = ReplayFilter()
    private let emit: (ChappieStreamEvent) -> Void
    /// Whether the present attempt has brought any event.
    private(set) var hasBegun = false
    /// Sticky routing: the first value that the backend gave in this turn.
    private(set) var turnState: String?

    /// Whether the host has been shown anything that another attempt would show again.
    var hasDelivered: Bool { filter.hasDelivered }

    init(emit: @escaping (ChappieStreamEvent) -> Void) { self.emit = emit }

    /// The request goes out, for the first time or again.
    mutating func attemptBegan() {
        items = []
        rawItems = []
        hasBegun = false
        filter.attemptBegan()
    }

    /// The first value counts (protocol of `x-codex-turn-state`).
    mutating func received(turnState value: String?) { turnState = turnState ?? value }

    /// Tells the host of something that is no part of the answer.
    func tell(_ event: ChappieStreamEvent) { emit(event) }

    /// Takes the events that arrived together. Text that follows on text is joined into one delta: a screen is not
    /// redrawn for each word of a burst.
    mutating func received(_ events: [ResponsesEvent]) throws(ReplayDivergence) -> Outcome? {
        if !events.isEmpty { hasBegun = true }
        var burst = ""
        let emit = emit
        func flush() {
            guard !burst.isEmpty else { return }
            emit(.textDelta(burst))
            burst = ""
        }
        defer { flush() }
        for event in events {
            if case .outputTextDelta(let delta, _) = event {
                burst += try filter.said(delta)
                continue
            }
            flush()
            if let outcome = try take(event) { return outcome }
        }
        return nil
    }

    private mutating func take(_ event: ResponsesEvent) throws(ReplayDivergence) -> Outcome? {
        switch event {
        case .created(let response): emit(.created(response.id))
        case .reasoningSummaryTextDelta(let delta, _, _):
            let new = filter.reasoned(delta)
            if !new.isEmpty { emit(.reasoningSummaryDelta(new)) }
        case .outputItemDone(let item, _):
            let (known, isNew) = try filter.completed(item)
            rawItems.append(item)
            items.append(known)
            if isNew { emit(.item(known)) }
        case .rateLimits(let snapshot): emit(.usageLimits(snapshot))
        case .metadata(let headers, _): received(turnState: headers["x-codex-turn-state"]?.string)
        case .completed(let response), .incomplete(let response):
            // An answer may come in items alone; a reader of the deltas sees it all the same.
            let rest = filter.concluded(response.with(items: items, text: "").outputText)
            if !rest.isEmpty { emit(.textDelta(rest)) }
            try filter.attemptCompleted()
            return .completed(response.with(items: items, text: filter.text.text))
        case .failed(let response): return .failed(response.with(items: items, text: filter.text.text))
        case .error(let error): return .rejected(error)
        default: break
        }
        return nil
    }
}
