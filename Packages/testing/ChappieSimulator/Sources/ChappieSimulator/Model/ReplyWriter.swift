@_spi(ChappieInternals) import ChappieCore

/// A writer that turns a reply into the sequence of events that the Responses API streams.
struct ReplyWriter {
    private typealias Members = KeyValuePairs<String, ChappieJSON>

    private let prompt: Prompt
    private let responseID: String
    private let createdAt: Int
    private let isOlder: Bool
    /// Whether the turn ends. `false` means that the model wants to continue.
    private var endsTurn = true
    private var events: [StreamedEvent] = []
    private var finishedItems: [ChappieJSON] = []
    private var outputSize = 0
    private var reasoningSize = 0

    private init(_ prompt: Prompt, responseID: String, createdAt: Int, isOlder: Bool) {
        self.prompt = prompt
        self.responseID = responseID
        self.createdAt = createdAt
        self.isOlder = isOlder
    }

    /// A reply as events, and the parts of it that the backend remembers.
    struct Written: Sendable {
        let events: [StreamedEvent]
        let responseID: String
        /// The finished output items.
        let items: [ChappieJSON]
    }

    /// Returns the events of a reply.
    ///
    /// - Parameters:
    ///   - prompt: the request. The response object repeats some of its members.
    ///   - isOlder: whether the reply has the form of September, without phases and without a namespace that is
    ///     `functions`.
    ///   - now: the current time in Unix seconds.
    ///   - identifier: returns a new identifier with this prefix.
    static func write(
        _ reply: [ReplyOutput], to prompt: Prompt, isOlder: Bool = false, now: Int, identifier: (String) -> String
    ) -> Written {
        var writer = ReplyWriter(prompt, responseID: identifier("resp_"), createdAt: now, isOlder: isOlder)
        writer.emit("response.created", ["response": writer.response(status: "in_progress")])
        writer.emit("response.in_progress", ["response": writer.response(status: "in_progress")])
        for output in reply {
            switch output {
            case .reasoning(let summary): writer.writeReasoning(summary, id: identifier("rs_"))
            case .message(let pieces, let phase, let cites):
                writer.writeMessage(pieces, phase, cites: cites, id: identifier("msg_"))
            case .refusal(let words): writer.writeRefusal(words, id: identifier("msg_"))
            case .webSearch(let query): writer.writeSearch(query, id: identifier("ws_"))
            case .toolSearch(let arguments):
                writer.writeToolSearch(arguments, id: identifier("tsc_"), callID: identifier("call_"))
            case .unfinishedTurn: writer.endsTurn = false
            case .call(let call):
                let id = identifier(call.kind == .function ? "fc_" : "ctc_")
                writer.writeCall(call, id: id, callID: identifier("call_"))
            case .compaction(let content):
                writer.start([
                    "id": .string(identifier("cmp_")), "type": "compaction", "encrypted_content": .string(content),
                ])
                writer.finish([:])
            }
        }
        writer.emit("response.completed", ["response": writer.response(status: "completed")])
        return Written(events: writer.events, responseID: writer.responseID, items: writer.finishedItems)
    }

    // MARK: Items

    private mutating func writeReasoning(_ summary: String, id: String) {
        start(["id": .string(id), "type": "reasoning", "summary": []])
        var changes: ChappieJSONObject = [:]
        if !summary.isEmpty {
            let place = place(id, "summary_index")
            let part: ChappieJSON = ["type": "summary_text", "text": .string(summary)]
            let name = "response.reasoning_summary"
            emit("\(name)_part.added", at: place, ["part": ["type": "summary_text", "text": ""]])
            emitDeltas("\(name)_text.delta", at: place, TextPieces.split(summary))
            emit("\(name)_text.done", at: place, ["text": .string(summary)])
            emit("\(name)_part.done", at: place, ["part": part])
            changes["summary"] = [part]
        }
        if prompt.body["include"]?.array?.contains("reasoning.encrypted_content") == true {
            changes["encrypted_content"] = .string(SealedContent.seal(id, for: prompt.model))
        }
        reasoningSize += summary.utf8.count
        finish(changes)
    }

    private mutating func writeMessage(_ pieces: [String], _ phase: ReplyOutput.Phase, cites: Bool, id: String) {
        func part(_ text: String) -> ChappieJSON {
            let annotations = cites ? Citation.all(in: text) : []
            return ["type": "output_text", "text": .string(text), "annotations": .array(annotations), "logprobs": []]
        }
        let (place, text) = (place(id, "content_index"), pieces.joined())
        var item: ChappieJSONObject = [
            "id": .string(id), "type": "message", "status": "in_progress", "role": "assistant", "content": [],
        ]
        if !isOlder { item["phase"] = .string(phase.rawValue) }
        start(item)
        emit("response.content_part.added", at: place, ["part": part("")])
        emitDeltas("response.output_text.delta", at: place, pieces, more: ",\"logprobs\":[]")
        emit("response.output_text.done", at: place, ["text": .string(text), "logprobs": []])
        emit("response.content_part.done", at: place, ["part": part(text)])
        outputSize += text.utf8.count
        finish(["status": "completed", "content": [part(text)]])
    }

    private mutating func writeRefusal(_ words: String, id: String) {
        func part(_ text: String) -> ChappieJSON { ["type": "refusal", "refusal": .string(text)] }
        let place = place(id, "content_index")
        start(["id": .string(id), "type": "message", "status": "in_progress", "role": "assistant", "content": []])
        emit("response.content_part.added", at: place, ["part": part("")])
        emitDeltas("response.refusal.delta", at: place, TextPieces.split(words))
        emit("response.refusal.done", at: place, ["refusal": .string(words)])
        emit("response.content_part.done", at: place, ["part": part(words)])
        outputSize += words.utf8.count
        finish(["status": "completed", "content": [part(words)]])
    }

    private mutating func writeSearch(_ query: String, id: String) {
        start(["id": .string(id), "type": "web_search_call", "status": "in_progress"])
        for state in ["in_progress", "searching", "completed"] {
            emit("response.web_search_call.\(state)", at: place(id), [:])
        }
        finish([
            "status": "completed", "action": ["type": "search", "query": .string(query), "queries": [.string(query)]],
        ])
    }

    private mutating func writeToolSearch(_ arguments: ChappieJSON, id: String, callID: String) {
        start([
            "id": .string(id), "type": "tool_search_call", "status": "in_progress", "call_id": .string(callID),
            "execution": "client", "arguments": [:],
        ])
        finish(["status": "completed", "arguments": arguments])
    }

    private mutating func writeCall(_ call: ReplyOutput.Call, id: String, callID: String) {
        let (type, member) = call.kind == .function ? ("function_call", "arguments") : ("custom_tool_call", "input")
        var item: ChappieJSONObject = [
            "id": .string(id), "type": .string(type), "status": "in_progress", "call_id": .string(callID),
            "name": .string(call.name), member: "",
        ]
        if !isOlder || call.namespace != "functions" { item["namespace"] = call.namespace.map(ChappieJSON.string) }
        let place = place(id)
        start(item)
        emitDeltas("response.\(type)_\(member).delta", at: place, TextPieces.split(call.payload))
        emit("response.\(type)_\(member).done", at: place, [member: .string(call.payload)])
        outputSize += call.payload.utf8.count
        finish(["status": "completed", member: .string(call.payload)])
    }

    // MARK: Events

    /// The item that is being written.
    private var item: ChappieJSONObject = [:]

    private mutating func start(_ item: ChappieJSONObject) {
        self.item = item
        emit("response.output_item.added", ["output_index": .integer(finishedItems.count), "item": .object(item)])
    }

    private mutating func finish(_ changes: ChappieJSONObject) {
        for member in changes.members { item[member.name] = member.value }
        emit("response.output_item.done", ["output_index": .integer(finishedItems.count), "item": .object(item)])
        finishedItems.append(.object(item))
    }

    private func place(_ id: String, _ index: String? = nil) -> [(String, ChappieJSON)] {
        let place: [(String, ChappieJSON)] = [
            ("item_id", .string(id)), ("output_index", .integer(finishedItems.count)),
        ]
        return index.map { place + [($0, 0)] } ?? place
    }

    private mutating func emit(_ name: String, at place: [(String, ChappieJSON)] = [], _ members: Members) {
        let value =
            [("type", .string(name))] + place + members.map { ($0.key, $0.value) }
            + [("sequence_number", ChappieJSON.integer(events.count))]
        events.append(StreamedEvent(name, .object(ChappieJSONObject(value))))
    }

    /// Adds an event for each piece. These are the most frequent events, so they are built from bytes and not from
    /// values.
    private mutating func emitDeltas(
        _ name: String, at place: [(String, ChappieJSON)], _ pieces: [String], more: String = ""
    ) {
        let start = ChappieJSON.object(ChappieJSONObject([("type", .string(name))] + place)).serializedBytes()
            .dropLast()
        events.reserveCapacity(events.count + pieces.count + 8)
        for piece in pieces {
            var data = start + Array(",\"delta\":".utf8)
            data.append(contentsOf: ChappieJSON.string(piece).serializedBytes())
            data.append(contentsOf: "\(more),\"sequence_number\":\(events.count)}".utf8)
            events.append(StreamedEvent(name: name, data: Array(data), isPaced: true))
        }
    }

    private func response(status: String) -> ChappieJSON {
        let isDone = status == "completed"
        var response: ChappieJSONObject = [
            "id": .string(responseID), "object": "response", "created_at": .integer(createdAt),
            "status": .string(status), "error": nil, "incomplete_details": nil,
            "instructions": prompt.body["instructions"] ?? .null, "max_output_tokens": nil,
            "model": .string(prompt.model),
            "output": .array(isDone ? finishedItems : []),
            "parallel_tool_calls": prompt.body["parallel_tool_calls"] ?? true,
            "previous_response_id": prompt.body["previous_response_id"] ?? .null,
            "reasoning": [
                "effort": prompt.body["reasoning"]?["effort"] ?? .null,
                "summary": prompt.body["reasoning"]?["summary"] ?? .null,
            ],
            "store": false, "temperature": 1.0, "text": prompt.body["text"] ?? ["format": ["type": "text"]],
            "tool_choice": prompt.toolChoice, "tools": [], "top_p": 1.0, "truncation": "disabled",
            "usage": isDone ? usage : .null, "user": nil, "metadata": [:],
        ]
        if isDone, !endsTurn { response["end_turn"] = false }
        return .object(response)
    }

    /// The usage, estimated at about four bytes per token. Input and output have at least one token.
    private var usage: ChappieJSON {
        let input = prompt.inputSize / 4 + 1
        let reasoning = reasoningSize / 4
        let output = outputSize / 4 + reasoning + 1
        return [
            "input_tokens": .integer(input), "input_tokens_details": ["cached_tokens": 0],
            "output_tokens": .integer(output), "output_tokens_details": ["reasoning_tokens": .integer(reasoning)],
            "total_tokens": .integer(input + output),
        ]
    }
}

/// The annotations of a text's citations, which are its Markdown links.
private enum Citation {
    static func all(in text: String) -> [ChappieJSON] {
        var (found, rest) = ([ChappieJSON](), text[...])
        while let start = rest.firstIndex(of: "[") {
            rest = rest[start...].dropFirst()
            guard let close = rest.firstIndex(of: "]"), rest[close...].hasPrefix("]("),
                let end = rest[close...].firstIndex(of: ")")
            else { continue }
            let (title, url) = (rest[..<close], rest[close...].dropFirst(2).prefix { $0 != ")" })
            found.append([
                "type": "url_citation", "start_index": .integer(text.distance(from: text.startIndex, to: start)),
                "end_index": .integer(text.distance(from: text.startIndex, to: end) + 1), "url": .string(String(url)),
                "title": .string(String(title)),
            ])
            rest = rest[end...].dropFirst()
        }
        return found
    }
}
