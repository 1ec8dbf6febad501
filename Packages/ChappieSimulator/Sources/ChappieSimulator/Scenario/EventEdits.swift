import ChappieCore

/// One event of an answer, its data already JSON text.
struct StreamedEvent: Sendable, Hashable {
    let name: String
    var data: [UInt8]
    /// Whether a rate holds this event back: true for the pieces of text.
    var isPaced = false

    init(name: String, data: [UInt8], isPaced: Bool = false) {
        self.name = name
        self.data = data
        self.isPaced = isPaced
    }

    init(_ name: String, _ value: ChappieJSON) { self.init(name: name, data: value.serializedBytes()) }
}

/// How the events of an answer are changed, and how they are written down.
struct EventEdits: ScenarioPart {
    /// How the answer ends; `none` is without any of the events that end a response.
    enum Ending: String, ScenarioChoice { case completed, failed, incomplete, none }

    /// An event as the scenario has it.
    struct Extra: Decodable, Sendable, Hashable {
        let event: StreamedEvent

        init(from decoder: any Decoder) throws {
            let here = try ScenarioDecoder.of(decoder)
            guard let type = here.value["type"]?.string else { throw here.wrong("needs a string \"type\"") }
            event = StreamedEvent(type, here.value)
        }
    }

    var ending: Ending?
    /// `response.error` of an answer that failed.
    var failure: ChappieJSON?
    /// `incomplete_details.reason` of an answer that stopped early.
    var incompleteReason: String?
    var addUnknown: Bool?
    /// Adds one event of an unknown type with this many bytes of data.
    var giantBytes: Int?
    var addMalformed: Bool?
    var omitCreated: Bool?
    var repeatLast: Bool?
    var addDone: Bool?
    /// Added as they are, after the second event.
    var extra: [Extra]?
    // How server-sent events become lines. Every variant is allowed by the format (WHATWG HTML, 9.2.6) except the missing
    // blank line at the end, after which a strict reader drops the last event.
    var crlf: Bool?
    var bom: Bool?
    var comments: Bool?
    var names: Bool?
    var ids: Bool?
    /// Breaks data after its first comma into two `data:` lines.
    var splitData: Bool?
    var omitFinalBlankLine: Bool?

    static let bounds: [String: ClosedRange<Double>] = ["giantBytes": 0...Double(256 * 1024 * 1024)]

    func applied(to events: [StreamedEvent]) -> [StreamedEvent] {
        var events = events
        events.insert(contentsOf: insertions, at: min(2, events.count))
        if omitCreated == true {
            events.removeAll { $0.name == "response.created" || $0.name == "response.in_progress" }
        }
        if let last = events.last, last.name == "response.completed" {
            events.removeLast()
            if let end = end(instead: last) { events.append(end) }
        }
        if repeatLast == true, let last = events.last { events.append(last) }
        if addDone == true { events.append(StreamedEvent(name: "done", data: Array("[DONE]".utf8))) }
        return events
    }

    private var insertions: [StreamedEvent] {
        var insertions = (extra ?? []).map(\.event)
        if addUnknown == true {
            let item: ChappieJSON = ["id": "xy_1", "type": "hologram_call", "status": "completed", "shape": [1, 2, 3]]
            insertions += [
                StreamedEvent("response.hologram.delta", ["type": "response.hologram.delta", "delta": ["x": 1]]),
                StreamedEvent(
                    "response.output_item.done",
                    ["type": "response.output_item.done", "output_index": 99, "item": item]),
            ]
        }
        if addMalformed == true {
            insertions.append(StreamedEvent(name: "response.output_text.delta", data: Array("{\"type\":".utf8)))
        }
        if let giantBytes {
            let (start, end) = ("{\"type\":\"response.giant\",\"padding\":\"".utf8, "\"}".utf8)
            let size = max(0, giantBytes - start.count - end.count)
            let data = Array(start) + [UInt8](repeating: UInt8(ascii: "x"), count: size) + Array(end)
            insertions.append(StreamedEvent(name: "response.giant", data: data))
        }
        return insertions
    }

    /// The event that ends the response in the place of `response.completed`.
    private func end(instead completed: StreamedEvent) -> StreamedEvent? {
        guard let ending, ending != .completed else { return completed }
        guard ending != .none, let value = try? ChappieJSON(parsing: completed.data), var changed = value.object,
            var response = changed["response"]?.object
        else { return nil }
        response["status"] = .string(ending.rawValue)
        if ending == .failed {
            response["error"] = failure ?? ["code": "server_error", "message": "Something went wrong."]
        } else {
            response["incomplete_details"] = ["reason": .string(incompleteReason ?? "max_output_tokens")]
        }
        let name = "response.\(ending.rawValue)"
        changed["type"] = .string(name)
        changed["response"] = .object(response)
        return StreamedEvent(name, .object(changed))
    }

    /// The bytes of one server-sent event.
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
        if ids == true {
            line("id: ", "1".utf8)
            line("retry: ", "3000".utf8)
        }
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
