import ChappieCore

/// How the events of an answer are changed, and how they are written down.
struct EventEdits: Sendable, Hashable {
    /// How the answer ends.
    enum Ending: String, Sendable, Hashable, CaseIterable {
        case completed, failed, incomplete
        /// Without any of the events that end a response.
        case none
    }

    var ending = Ending.completed
    /// `response.error` of an answer that failed.
    var failure: ChappieJSON = ["code": "server_error", "message": "Something went wrong."]
    /// `incomplete_details.reason` of an answer that stopped early.
    var incompleteReason = "max_output_tokens"
    /// Puts in an event type and an output item type nobody knows.
    var addsUnknown = false
    /// Puts in one event of an unknown type with this many bytes of data.
    var giantBytes: Int?
    /// Puts in one event whose data is not JSON.
    var addsMalformed = false
    /// Leaves out `response.created` and `response.in_progress`.
    var omitsCreated = false
    /// Sends the last event twice.
    var repeatsLast = false
    /// Ends with `data: [DONE]`.
    var addsDone = false
    /// Events put in as they are, after the second one.
    var extra: [ChappieJSON] = []
    /// How the events become lines.
    var format = EventFormat()

    init() {}

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow(
            EventFormat.members.union([
                "ending", "failure", "incompleteReason", "addUnknown", "giantBytes", "addMalformed", "omitCreated",
                "repeatLast", "addDone", "extra",
            ]))
        if let ending = reader["ending"] { self.ending = try ending.choice(Ending.self) }
        if let failure = reader["failure"] { self.failure = failure.value }
        if let reason = reader["incompleteReason"] { incompleteReason = try reason.string() }
        addsUnknown = try reader["addUnknown"]?.bool() ?? false
        giantBytes = try reader["giantBytes"]?.integer(in: 0...(256 * 1024 * 1024))
        addsMalformed = try reader["addMalformed"]?.bool() ?? false
        omitsCreated = try reader["omitCreated"]?.bool() ?? false
        repeatsLast = try reader["repeatLast"]?.bool() ?? false
        addsDone = try reader["addDone"]?.bool() ?? false
        if let extra = reader["extra"] {
            self.extra = try extra.elements { (element) throws(SimulatorError) in
                guard element.value["type"]?.string != nil else { throw element.wrong("needs a string \"type\"") }
                return element.value
            }
        }
        format = try EventFormat(reader)
    }

    func applied(to events: [StreamedEvent]) -> [StreamedEvent] {
        var events = events
        let insertions = self.insertions
        events.insert(contentsOf: insertions, at: min(2, events.count))
        if omitsCreated { events.removeAll { $0.name == "response.created" || $0.name == "response.in_progress" } }
        if let last = events.last, last.name == "response.completed" {
            events.removeLast()
            if let end = end(instead: last) { events.append(end) }
        }
        if repeatsLast, let last = events.last { events.append(last) }
        if addsDone { events.append(StreamedEvent(name: "done", data: Array("[DONE]".utf8))) }
        return events
    }

    private var insertions: [StreamedEvent] {
        var insertions = extra.map { StreamedEvent($0["type"]?.string ?? "", $0) }
        if addsUnknown {
            let item: ChappieJSON = ["id": "xy_1", "type": "hologram_call", "status": "completed", "shape": [1, 2, 3]]
            insertions += [
                StreamedEvent("response.hologram.delta", ["type": "response.hologram.delta", "delta": ["x": 1]]),
                StreamedEvent(
                    "response.output_item.done",
                    ["type": "response.output_item.done", "output_index": 99, "item": item]),
            ]
        }
        if addsMalformed {
            insertions.append(StreamedEvent(name: "response.output_text.delta", data: Array("{\"type\":".utf8)))
        }
        if let giantBytes {
            let (start, end) = (Array("{\"type\":\"response.giant\",\"padding\":\"".utf8), Array("\"}".utf8))
            let size = max(0, giantBytes - start.count - end.count)
            var data = start
            data.reserveCapacity(giantBytes)
            data.append(contentsOf: [UInt8](repeating: UInt8(ascii: "x"), count: size))
            insertions.append(StreamedEvent(name: "response.giant", data: data + end))
        }
        return insertions
    }

    /// The event that ends the response in the place of `response.completed`.
    private func end(instead completed: StreamedEvent) -> StreamedEvent? {
        guard ending != .completed else { return completed }
        guard ending != .none, let value = try? ChappieJSON(parsing: completed.data), let object = value.object,
            var response = object["response"]?.object
        else { return nil }
        response["status"] = .string(ending.rawValue)
        if ending == .failed { response["error"] = failure }
        if ending == .incomplete { response["incomplete_details"] = ["reason": .string(incompleteReason)] }
        let name = "response.\(ending.rawValue)"
        var changed = object
        changed["type"] = .string(name)
        changed["response"] = .object(response)
        return StreamedEvent(name, .object(changed))
    }
}
