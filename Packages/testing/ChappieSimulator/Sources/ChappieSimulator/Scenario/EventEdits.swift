import ChappieCore

/// One event of an answer, whose data is already JSON text.
struct StreamedEvent: Sendable, Hashable {
    let name: String
    var data: [UInt8]
    /// Whether a rate delays this event. True for the pieces of text.
    var isPaced = false

    init(name: String, data: [UInt8], isPaced: Bool = false) {
        self.name = name
        self.data = data
        self.isPaced = isPaced
    }

    init(_ name: String, _ value: ChappieJSON) { self.init(name: name, data: value.serializedBytes()) }

    /// Returns the event with a changed response.
    fileprivate func changing(_ change: (inout ChappieJSONObject) -> Void) -> StreamedEvent {
        var event = (try? ChappieJSON(parsing: data))?.object ?? [:]
        var response = event["response"]?.object ?? [:]
        change(&response)
        event["response"] = .object(response)
        return StreamedEvent(name, .object(event))
    }
}

/// The changes to the events of an answer, and to their form on the wire.
struct EventEdits: Codable, Sendable, Hashable {
    /// The end of the answer. `none` has none of the events that end a response.
    enum Ending: String, Codable { case completed, failed, incomplete, none }

    var ending: Ending?
    /// The `response.error` of an answer that failed.
    var failure: ChappieJSON?
    /// The `incomplete_details.reason` of an answer that stopped early.
    var incompleteReason: String?
    /// Whether the turn ends, as `end_turn` of the response. False means that the model wants to continue.
    var endTurn: Bool?
    /// The events that are added after the second event. A string is the data of an event that is not JSON.
    var extra: [ChappieJSON]?
    /// The number of bytes of data in one additional event of an unknown type, at most 256 MiB.
    var giantBytes: UInt32?
    var omitCreated: Bool?
    /// Whether `response.completed` contains no items.
    var emptyOutput: Bool?
    var repeatLast: Bool?
    var addDone: Bool?
    // The form of server-sent events as lines. The format allows every variant (WHATWG HTML, 9.2.6) except the missing
    // blank line at the end, after which a strict reader drops the last event.
    var crlf: Bool?
    var bom: Bool?
    var comments: Bool?
    var names: Bool?
    /// Whether data is split into two `data:` lines after its first comma.
    var splitData: Bool?
    var omitFinalBlankLine: Bool?

    func applied(to events: [StreamedEvent]) -> [StreamedEvent] {
        var events = events
        events.insert(contentsOf: insertions, at: min(2, events.count))
        if omitCreated == true {
            events.removeAll { $0.name == "response.created" || $0.name == "response.in_progress" }
        }
        if emptyOutput == true, let last = events.popLast() {
            events.append(last.name == "response.completed" ? last.changing { $0["output"] = [] } : last)
        }
        if let last = events.last, last.name == "response.completed", let ending, ending != .completed {
            events.removeLast()
            if ending != .none { events.append(end(ending, insteadOf: last)) }
        }
        if let endTurn, let last = events.popLast() {
            let isEnd = last.name == "response.completed"
            events.append(isEnd ? last.changing { $0["end_turn"] = .bool(endTurn) } : last)
        }
        if repeatLast == true, let last = events.last { events.append(last) }
        if addDone == true { events.append(StreamedEvent(name: "done", data: Array("[DONE]".utf8))) }
        return events
    }

    private var insertions: [StreamedEvent] {
        var insertions = (extra ?? []).map { value in
            value.string.map { StreamedEvent(name: "response.output_text.delta", data: Array($0.utf8)) }
                ?? StreamedEvent(value["type"]?.string ?? "message", value)
        }
        if let giantBytes {
            let (start, end) = ("{\"type\":\"response.giant\",\"padding\":\"".utf8, "\"}".utf8)
            let size = max(0, min(Int(giantBytes), 256 << 20) - start.count - end.count)
            let data = Array(start) + [UInt8](repeating: UInt8(ascii: "x"), count: size) + Array(end)
            insertions.append(StreamedEvent(name: "response.giant", data: data))
        }
        return insertions
    }

    /// Returns the event that ends the response instead of `response.completed`.
    private func end(_ ending: Ending, insteadOf completed: StreamedEvent) -> StreamedEvent {
        var event = (try? ChappieJSON(parsing: completed.data))?.object ?? [:]
        var response = event["response"]?.object ?? [:]
        response["status"] = .string(ending.rawValue)
        if ending == .failed {
            response["error"] = failure ?? ["code": "server_error", "message": "Something went wrong."]
        } else {
            response["incomplete_details"] = ["reason": .string(incompleteReason ?? "max_output_tokens")]
        }
        event["type"] = .string("response.\(ending.rawValue)")
        event["response"] = .object(response)
        return StreamedEvent("response.\(ending.rawValue)", .object(event))
    }

    /// Returns the bytes of one server-sent event.
    func write(_ event: StreamedEvent, isFirst: Bool, isLast: Bool) -> [UInt8] {
        let lineEnd = Array((crlf == true ? "\r\n" : "\n").utf8)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(event.data.count + event.name.utf8.count + 32)
        func line(_ field: String, _ value: some Sequence<UInt8>) {
            bytes.append(contentsOf: field.utf8)
            bytes.append(contentsOf: value)
            bytes.append(contentsOf: lineEnd)
        }
        if isFirst, bom == true { bytes += [0xEF, 0xBB, 0xBF] }
        if comments == true { line(": ", "keep-alive".utf8) }
        if names != false { line("event: ", event.name.utf8) }
        if splitData == true, let comma = event.data.firstIndex(of: UInt8(ascii: ",")) {
            line("data: ", event.data[...comma])
            line("data: ", event.data[(comma + 1)...])
        } else {
            line("data: ", event.data)
        }
        if !isLast || omitFinalBlankLine != true { bytes.append(contentsOf: lineEnd) }
        return bytes
    }
}
