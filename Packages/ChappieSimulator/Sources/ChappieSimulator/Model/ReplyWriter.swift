@_spi(ChappieInternals) import ChappieCore

/// Writes a reply as the sequence of events that the Responses API streams.
struct ReplyWriter {
    private let body: ChappieJSON
    private let prompt: Prompt
    private let responseID: String
    private let createdAt: Int
    private var sequenceNumber = 0
    private var events: [StreamedEvent] = []
    private var finishedItems: [ChappieJSON] = []
    private var outputSize = 0
    private var reasoningSize = 0

    private init(body: ChappieJSON, prompt: Prompt, responseID: String, createdAt: Int) {
        self.body = body
        self.prompt = prompt
        self.responseID = responseID
        self.createdAt = createdAt
    }

    /// A reply as it goes out, and what is to be remembered of it.
    struct Written: Sendable {
        let events: [StreamedEvent]
        let responseID: String
        /// The finished output items.
        let items: [ChappieJSON]
    }

    /// - Parameters:
    ///   - body: the request, of which the response object repeats some members.
    ///   - now: Unix seconds.
    static func write(
        _ reply: Reply, body: ChappieJSON, prompt: Prompt, now: Int, identifiers: inout CountedIdentifiers
    ) -> Written {
        var writer = ReplyWriter(
            body: body, prompt: prompt, responseID: identifiers.counted("resp_"), createdAt: now)
        writer.emit("response.created", ["response": writer.response(status: "in_progress")])
        writer.emit("response.in_progress", ["response": writer.response(status: "in_progress")])
        for output in reply.outputs { writer.write(output, identifiers: &identifiers) }
        writer.emit("response.completed", ["response": writer.response(status: "completed")])
        return Written(events: writer.events, responseID: writer.responseID, items: writer.finishedItems)
    }

    // MARK: Items

    private mutating func write(_ output: Reply.Output, identifiers: inout CountedIdentifiers) {
        switch output {
        case .reasoning(let summary): writeReasoning(summary, id: identifiers.counted("rs_"))
        case .message(let pieces): writeMessage(pieces, id: identifiers.counted("msg_"))
        case .functionCall(let name, let namespace, let arguments):
            writeCall(
                .init(
                    type: "function_call", member: "arguments", event: "response.function_call_arguments", name: name,
                    namespace: namespace, payload: arguments), id: identifiers.counted("fc_"),
                callID: identifiers.counted("call_"))
        case .customCall(let name, let namespace, let input):
            writeCall(
                .init(
                    type: "custom_tool_call", member: "input", event: "response.custom_tool_call_input", name: name,
                    namespace: namespace, payload: input), id: identifiers.counted("ctc_"),
                callID: identifiers.counted("call_"))
        case .compaction(let content):
            let item: ChappieJSON = [
                "id": .string(identifiers.counted("cmp_")), "type": "compaction", "encrypted_content": .string(content),
            ]
            emitItem("response.output_item.added", item)
            finish(item)
        }
    }

    private mutating func writeReasoning(_ summary: String, id: String) {
        let place = self.place(id)
        var item = ChappieJSONObject([("id", .string(id)), ("type", "reasoning"), ("summary", [])])
        emitItem("response.output_item.added", .object(item))
        if !summary.isEmpty {
            let index: [(String, ChappieJSON)] = place + [("summary_index", 0)]
            let part: ChappieJSON = ["type": "summary_text", "text": .string(summary)]
            emit("response.reasoning_summary_part.added", index + [("part", ["type": "summary_text", "text": ""])])
            for piece in TextPieces.split(summary) {
                emit("response.reasoning_summary_text.delta", index + [("delta", .string(piece))])
                events[events.count - 1].isPaced = true
            }
            emit("response.reasoning_summary_text.done", index + [("text", .string(summary))])
            emit("response.reasoning_summary_part.done", index + [("part", part)])
            item["summary"] = [part]
        }
        if body["include"]?.array?.contains("reasoning.encrypted_content") == true {
            item["encrypted_content"] = .string(Base64URL.encode(("simulated:" + id).utf8))
        }
        reasoningSize += summary.utf8.count
        finish(.object(item))
    }

    private mutating func writeMessage(_ pieces: [String], id: String) {
        let place = self.place(id) + [("content_index", 0)]
        func message(_ status: String, _ content: ChappieJSON) -> ChappieJSON {
            [
                "id": .string(id), "type": "message", "status": .string(status), "role": "assistant",
                "content": content,
            ]
        }
        func part(_ text: String) -> ChappieJSON {
            ["type": "output_text", "text": .string(text), "annotations": [], "logprobs": []]
        }
        emitItem("response.output_item.added", message("in_progress", []))
        emit("response.content_part.added", place + [("part", part(""))])
        writeDeltas(pieces, place: place)
        let text = pieces.joined()
        outputSize += text.utf8.count
        emit("response.output_text.done", place + [("text", .string(text)), ("logprobs", [])])
        emit("response.content_part.done", place + [("part", part(text))])
        finish(message("completed", [part(text)]))
    }

    /// The events there are most of: built from bytes, not from values.
    private mutating func writeDeltas(_ pieces: [String], place: [(String, ChappieJSON)]) {
        let name = "response.output_text.delta"
        let whole = (ChappieJSON.object(ChappieJSONObject([("type", .string(name))] + place))).serializedBytes()
        let prefix = whole.dropLast() + Array(",\"delta\":".utf8)
        let suffix = Array(",\"logprobs\":[],\"sequence_number\":".utf8)
        events.reserveCapacity(events.count + pieces.count + 8)
        for piece in pieces {
            var data = Array(prefix)
            data.append(contentsOf: ChappieJSON.string(piece).serializedBytes())
            data.append(contentsOf: suffix)
            data.append(contentsOf: String(sequenceNumber).utf8)
            data.append(UInt8(ascii: "}"))
            sequenceNumber += 1
            events.append(StreamedEvent(name: name, data: data, isPaced: true))
        }
    }

    private struct Call {
        let type: String
        /// The member that holds the payload.
        let member: String
        let event: String
        let name: String
        let namespace: String?
        let payload: String
    }

    private mutating func writeCall(_ call: Call, id: String, callID: String) {
        func item(_ status: String, _ payload: String) -> ChappieJSON {
            var object = ChappieJSONObject([
                ("id", .string(id)), ("type", .string(call.type)), ("status", .string(status)),
                ("call_id", .string(callID)), ("name", .string(call.name)), (call.member, .string(payload)),
            ])
            if let namespace = call.namespace { object["namespace"] = .string(namespace) }
            return .object(object)
        }
        let place = self.place(id)
        emitItem("response.output_item.added", item("in_progress", ""))
        for piece in TextPieces.split(call.payload) { emit(call.event + ".delta", place + [("delta", .string(piece))]) }
        emit(call.event + ".done", place + [(call.member, .string(call.payload))])
        outputSize += call.payload.utf8.count
        finish(item("completed", call.payload))
    }

    // MARK: Parts

    private func place(_ id: String) -> [(String, ChappieJSON)] {
        [("item_id", .string(id)), ("output_index", .integer(finishedItems.count))]
    }

    private mutating func finish(_ item: ChappieJSON) {
        emitItem("response.output_item.done", item)
        finishedItems.append(item)
    }

    private mutating func emitItem(_ name: String, _ item: ChappieJSON) {
        emit(name, [("output_index", .integer(finishedItems.count)), ("item", item)])
    }

    private mutating func emit(_ name: String, _ members: [(String, ChappieJSON)]) {
        let value = [("type", .string(name))] + members + [("sequence_number", ChappieJSON.integer(sequenceNumber))]
        sequenceNumber += 1
        events.append(StreamedEvent(name, .object(ChappieJSONObject(value))))
    }

    private mutating func emit(_ name: String, _ members: KeyValuePairs<String, ChappieJSON>) {
        emit(name, members.map { ($0.key, $0.value) })
    }

    private func response(status: String) -> ChappieJSON {
        let isDone = status == "completed"
        return [
            "id": .string(responseID), "object": "response", "created_at": .integer(createdAt),
            "status": .string(status), "error": nil, "incomplete_details": nil,
            "instructions": body["instructions"] ?? .null, "max_output_tokens": nil, "model": .string(prompt.model),
            "output": .array(isDone ? finishedItems : []),
            "parallel_tool_calls": body["parallel_tool_calls"] ?? true,
            "previous_response_id": body["previous_response_id"] ?? .null,
            "reasoning": [
                "effort": body["reasoning"]?["effort"] ?? .null, "summary": body["reasoning"]?["summary"] ?? .null,
            ],
            "store": false, "temperature": 1.0, "text": body["text"] ?? ["format": ["type": "text"]],
            "tool_choice": prompt.toolChoice, "tools": [], "top_p": 1.0, "truncation": "disabled",
            "usage": isDone ? usage : .null, "user": nil, "metadata": [:],
        ]
    }

    /// About four bytes to a token, and never none.
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

/// Cuts text into the pieces it is streamed in.
enum TextPieces {
    /// A word longer than this is cut, between characters.
    static let lengthLimit = 64

    /// One piece for each word, with the white space after it. Joined they are `text`, and none cuts a character apart.
    static func split(_ text: String) -> [String] {
        var pieces: [String] = []
        var piece = ""
        var length = 0
        var endsWord = false
        for character in text {
            if (endsWord && !character.isWhitespace) || length == lengthLimit {
                pieces.append(piece)
                piece = ""
                length = 0
            }
            piece.append(character)
            length += 1
            endsWord = character.isWhitespace
        }
        if !piece.isEmpty { pieces.append(piece) }
        return pieces
    }
}
