@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// A sans-IO state machine that turns the events of a turn's attempts into events for the host, each only once.
///
/// When a connection breaks, the request is sent again in full, and the model usually writes another answer. The part
/// of it that repeats the text that was shown is held back, and so is a tool call that was handed out. If the text or
/// the calls differ, the answer starts again with an event, or the turn ends with
/// ``ChappieClientError/streamingTransportReplayDiverged(_:)``, the only error of the methods here. Commentary and
/// summaries of reasoning are only for reading. As long as the answer is the same, the part of them that was shown is
/// held back, and text that differs from it is held back entirely. The same applies to arguments of calls while the
/// model writes them.
struct TurnAccumulator {
    /// Receives each new event as it arrives. The receiver only queues it.
    private let emit: (ChappieStreamEvent) -> Void
    /// Whether an answer that differs from the text that was shown starts again. Otherwise it is an error.
    private let restarts: Bool
    /// The events of the present attempt, if it repeats an answer and may restart it.
    private var repetition: [ResponsesEvent]?
    private var text = DeliveredText()
    private var commentary = DeliveredAside()
    private var reasoning = DeliveredAside()
    private var arguments = DeliveredArguments()
    /// The possible beginnings of source marks in the text and in the commentary.
    private var marks = (text: SourceMarks(), commentary: SourceMarks())
    /// The items of the present attempt that have begun and are not complete.
    private var open: [OpenItem] = []
    /// The id of the present attempt's response.
    private var responseID: String?
    /// The messages of the present attempt that began as commentary.
    private var commentaryIDs: Set<String> = []
    /// The open message, and the number of its bytes that have arrived in deltas. The number is `nil` if messages are
    /// interleaved.
    private var message: (id: String?, isCommentary: Bool, said: Int?) = (nil, false, 0)
    private var delivered = DeliveredItems()
    /// The items of the present attempt in the form that the host knows.
    private var items: [ChappieOutputItem] = []
    /// The items of the present attempt in the form that the backend sent.
    private(set) var rawItems: [ChappieOutputItem] = []
    /// The indices of these items in the response's output.
    private var places: [Int] = []
    /// Whether the present attempt has delivered any event.
    private(set) var hasBegun = false
    /// Sticky routing: the first value that the backend gave in this turn.
    private(set) var turnState: String?
    /// The tag of the backend's current model list, from the latest answer of this turn.
    private(set) var modelsETag: String?
    private var hasNotedReview = false
    /// The id of the present attempt's exchange, or of its connection, at the server.
    private(set) var requestID: String?
    private var facts: AnsweredFacts
    /// The notices about answers of this turn that the user has seen.
    var told: Set<ChappieNotice> = []
    var observer: (any ChappieObserver)?
    /// The request as its observer follows it.
    var observed: RequestObservation?

    /// Whether the host has been shown anything that another attempt would show again.
    var hasDelivered: Bool {
        !text.isEmpty || !commentary.isEmpty || !reasoning.isEmpty || !arguments.isEmpty || !delivered.isEmpty
    }

    /// Creates an accumulator for one turn.
    ///
    /// - Parameter body: the request. Default: an empty one, with which no answer is compared.
    init(
        asking body: ChappieJSONObject = ChappieJSONObject(), restarts: Bool = false,
        emit: @escaping (ChappieStreamEvent) -> Void
    ) {
        self.restarts = restarts
        self.emit = emit
        facts = AnsweredFacts(asking: body)
    }

    /// Prepares for a request that is sent, for the first time or again.
    mutating func attemptBegan() {
        text.attemptBegan()
        commentary.attemptBegan()
        reasoning.attemptBegan()
        arguments.attemptBegan()
        forgetItems()
        repetition = restarts && hasDelivered ? [] : nil
        hasBegun = false
        responseID = nil
        requestID = nil
        facts.attemptBegan()
    }

    /// Removes the items of the present attempt.
    private mutating func forgetItems() {
        marks = (SourceMarks(), SourceMarks())
        open = []
        commentaryIDs = []
        message = (nil, false, 0)
        delivered.attemptBegan()
        items = []
        rawItems = []
        places = []
    }

    /// Takes the name of the answering model from a header field of the answer.
    mutating func received(model name: String?) { facts.received(model: name) }

    /// Reports answers that differ from the request, only once in a turn.
    private mutating func tellDifferences() {
        for notice in facts.takeNotices() where told.insert(notice).inserted { emit(.notice(notice)) }
    }

    /// Starts the answer again, as if nothing of it had been shown.
    private mutating func restart() {
        observed?.diverged()
        emit(.restarted(discarded: text.text))
        text = DeliveredText()
        commentary = DeliveredAside()
        reasoning = DeliveredAside()
        arguments = DeliveredArguments()
        delivered = DeliveredItems()
        forgetItems()
        repetition = nil
    }

    mutating func received(requestID value: String?) { requestID = value ?? requestID }

    /// Takes the turn state. Only the first value counts (protocol of `x-codex-turn-state`).
    mutating func received(turnState value: String?) { turnState = turnState ?? value }

    mutating func received(modelsETag value: String?) { modelsETag = value ?? modelsETag }

    func received(limitsIn fields: HTTPFields) {
        if let limits = ChappieUsageLimitSnapshot(headerFields: fields) { show(limits) }
    }

    private func show(_ limits: ChappieUsageLimitSnapshot) {
        observer?.reports(limits)
        emit(.usageLimits(limits))
    }

    /// Reports to the host, only once in a turn, that the service reviews the answer.
    mutating func noteReview(_ notice: ChappieNotice) {
        if !hasNotedReview { emit(.notice(notice)) }
        hasNotedReview = true
    }

    /// Sends the host an event that is not part of the answer.
    func tell(_ event: ChappieStreamEvent) { emit(event) }

    /// The kinds of deltas. Consecutive deltas of one kind are joined.
    private enum Kind: Equatable {
        case text, commentary
        /// The number of the call.
        case arguments(Int)
    }

    /// Takes the events that arrived together. Consecutive pieces of text are joined into one delta, so that a screen
    /// is not redrawn for each word of a burst.
    ///
    /// - Returns: the end that they contain, if any: `.completed` (also for a response that ended early) and `.failed`
    ///   with the items and the text of the entire turn, or `.error`.
    mutating func received(_ events: [ResponsesEvent]) throws(ChappieClientError) -> ResponsesEvent? {
        if !events.isEmpty { hasBegun = true }
        repetition?.append(contentsOf: events)
        // Only the end of an answer shows that it lacks a call that was handed out. That would be too late, because the
        // text before it would be shown twice.
        let restartsAtOnce =
            repetition != nil && delivered.items.contains(where: \.isToolCall) && events.contains(where: \.isShown)
        do {
            if !restartsAtOnce { return try read(events) }
        } catch {
            guard repetition != nil else { throw error }
        }
        let answer = repetition ?? []
        restart()
        return try read(answer)
    }

    private mutating func read(_ events: [ResponsesEvent]) throws(ChappieClientError) -> ResponsesEvent? {
        var burst = ""
        var kind = Kind.text
        func flush() {
            guard !burst.isEmpty else { return }
            switch kind {
            case .text: emit(.textDelta(burst))
            case .commentary: emit(.commentaryDelta(burst))
            case .arguments(let call): emit(.toolArgumentsDelta(arguments.shown(burst, of: call)))
            }
            burst = ""
        }
        func change(to next: Kind) {
            guard next != kind else { return }
            flush()
            kind = next
        }
        defer { flush() }
        for event in events {
            if case .toolArgumentsDelta(let delta, let itemID, let callID) = event {
                guard let call = arguments.call(itemID: itemID, callID: callID) else { continue }
                change(to: .arguments(call))
                burst += arguments.said(delta, of: call)
                continue
            }
            if case .outputTextDelta(let delta, let itemID) = event {
                let isCommentary = isCommentary(itemID)
                change(to: isCommentary ? .commentary : .text)
                let said = isCommentary ? marks.commentary.append(delta) : marks.text.append(delta)
                message.said? += said.utf8.count
                if isCommentary {
                    burst += commentary.said(said)
                } else {
                    guard let new = text.said(said) else { throw divergence }
                    burst += new
                }
                continue
            }
            flush()
            if let end = try take(event) { return end }
        }
        return nil
    }

    /// Returns whether a delta of the message `itemID` is commentary. A message whose beginning was not announced is an
    /// answer. A delta without an id belongs to the open message.
    private mutating func isCommentary(_ itemID: String?) -> Bool {
        // Ids are compared only in an attempt that has commentary, and looked up only when the id changes.
        if !commentaryIDs.isEmpty, let itemID, itemID != message.id {
            message = (itemID, commentaryIDs.contains(itemID), nil)
        }
        return message.isCommentary
    }

    private mutating func take(_ event: ResponsesEvent) throws(ChappieClientError) -> ResponsesEvent? {
        switch event {
        case .created(let response):
            responseID = response.id
            emit(.created(response.id))
            facts.received(model: response.model)
            // A notice in the middle of the text would break it.
            if !hasDelivered { tellDifferences() }
        case .reasoningSummaryTextDelta(let delta, _, _):
            let new = reasoning.said(delta)
            if !new.isEmpty { emit(.reasoningSummaryDelta(new)) }
        case .outputItemAdded(let item, _):
            if item.isToolCall { arguments.began(item) }
            open.append(OpenItem(item))
            message = (item.id, item.phase == .commentary, 0)
            if message.isCommentary { commentaryIDs.insert(item.id ?? "") }
        case .outputItemDone(let item, let index): try completed(item, at: index)
        case .rateLimits(let snapshot): show(snapshot)
        case .metadata(let headers, _):
            let fields = HeaderValues(headers)
            received(turnState: fields["x-codex-turn-state"])
            received(modelsETag: fields["x-models-etag"])
            received(requestID: RequestID.of { fields[$0] })
            facts.received(model: fields["openai-model"])
            if !hasDelivered { tellDifferences() }
        case .other(let type, let json) where OpenItem.argumentsEnded.contains(type):
            let index = open.firstIndex { $0.item.isToolCall && $0.isMeant(by: json) }
            if let index { open[index].arguments = json["arguments"]?.string ?? json["input"]?.string }
        case .completed(let response), .incomplete(let response):
            if response.status == .completed { try completeMissing(from: response) }
            try endText()
            // An answer may come only in items. A reader of the deltas sees it anyway.
            let rest = text.concluded(
                response.with(items: items, text: "", commentary: commentary.text).outputText)
            if !rest.isEmpty { emit(.textDelta(rest)) }
            try checkCompleteness()
            facts.received(response)
            tellDifferences()
            return .completed(whole(response))
        case .failed(let response): return .failed(whole(response))
        case .error: return event
        default: break
        }
        return nil
    }

    private mutating func completed(_ item: ChappieOutputItem, at index: Int? = nil) throws(ChappieClientError) {
        if let index = open.firstIndex(where: { $0.isBeginning(of: item) }) { open.remove(at: index) }
        if item.phase == .commentary {
            // Commentary may arrive without deltas.
            let said = message.id == nil || message.id == item.id ? message.said : 0
            let held = marks.commentary.finish()
            let rest = commentary.said(
                said.map { String(decoding: item.text.utf8.dropFirst($0), as: UTF8.self) } ?? held)
            if !rest.isEmpty { emit(.commentaryDelta(rest)) }
        } else if item.type == "message" {
            try endText()
        }
        if item.type == "message" { message = (nil, false, 0) }
        // Items are ordered by their place in the output: a message may be complete before the reasoning that led to
        // it.
        let place = index.flatMap { index in places.firstIndex { $0 > index } } ?? places.count
        places.insert(index ?? places.last ?? 0, at: place)
        rawItems.insert(item, at: place)
        switch delivered.match(item) {
        case .known(let known): items.insert(known, at: place)
        case .different: throw divergence
        case .new:
            let item = arguments.named(item)
            delivered.add(item)
            items.insert(item, at: place)
            emit(.item(item))
        }
    }

    /// Emits the text that was held back and turned out not to be a mark.
    private mutating func endText() throws(ChappieClientError) {
        guard let rest = text.said(marks.text.finish()) else { throw divergence }
        if !rest.isEmpty { emit(.textDelta(rest)) }
    }

    /// Adds the items that the response has and the stream did not complete: calls whose arguments have arrived, and
    /// the items of the response itself.
    private mutating func completeMissing(from response: ChappieResponse) throws(ChappieClientError) {
        for item in open.compactMap(\.call) { try completed(item) }
        let known = Set(rawItems.filter(\.isToolCall).map { $0.json["call_id"] })
        let missing =
            rawItems.isEmpty
            ? response.items : response.items.filter { $0.isToolCall && !known.contains($0.json["call_id"]) }
        for item in missing { try completed(item) }
    }

    /// Ends an answer of which only the last event is missing.
    ///
    /// Without that event, only a complete message shows that the model has ended its answer: one that is marked as the
    /// final answer, or any other if the model could not call a tool after it.
    ///
    /// - Returns: the response, or `nil` if more of it may be missing, or if it differs from the text that was shown.
    mutating func endedEarly(offersTools: Bool) -> ChappieResponse? {
        guard open.isEmpty, let last = items.last, !last.text.isEmpty,
            last.phase == .finalAnswer || last.phase == nil && !offersTools
        else { return nil }
        let end = ResponsesEvent.completed(ChappieResponse(id: responseID ?? "", status: .completed))
        guard case .completed(let response)? = try? received([end]) else { return nil }
        return response
    }

    private func whole(_ response: ChappieResponse) -> ChappieResponse {
        var response = response.with(items: items, text: text.text, commentary: commentary.text)
        response.requestID = requestID
        if let other = facts.otherModel { response.model = other }
        return response
    }

    /// The part of the answer that the host was shown, in the form of an interrupted answer: the complete items, and
    /// the text. It is `nil` if there is neither. Encrypted items of a broken attempt are left out, because they belong
    /// to another response.
    var interrupted: ChappieResponse? {
        let isPresent = text.isCaughtUp && items.count >= delivered.items.count
        let items = isPresent ? items : delivered.items.filter { !ChappieClientContext.isEncrypted($0.json) }
        guard !text.isEmpty || !items.isEmpty else { return nil }
        var response = ChappieResponse(
            status: .incomplete, model: facts.otherModel, items: items, incompleteReason: ChappieResponse.interruption,
            requestID: requestID)
        if !text.isEmpty { response.outputText = text.text }
        if response.commentary.isEmpty { response.commentary = commentary.text }
        return response
    }

    /// Throws an error if a complete answer has not repeated all text and calls that were shown.
    private func checkCompleteness() throws(ChappieClientError) {
        guard text.isCaughtUp, delivered.hasAllCalls else { throw divergence }
    }

    private var divergence: ChappieClientError { .streamingTransportReplayDiverged(text.text) }
}

extension ResponsesEvent {
    /// Whether the host is shown a part of the answer, or its end.
    fileprivate var isShown: Bool {
        switch self {
        case .outputTextDelta, .completed, .incomplete: true
        case .outputItemDone(let item, _): item.type != "reasoning"
        default: false
        }
    }
}

/// Header-like values in an event. Their names may have any case, and a value may be a list.
private struct HeaderValues {
    private let members: [ChappieJSONObject.Member]

    init(_ json: ChappieJSON) { members = json.object?.members ?? [] }

    subscript(name: String) -> String? {
        let value = members.first { $0.name.lowercased() == name.lowercased() }?.value
        return value?.string ?? value?[0]?.string
    }
}
