import ChappieCore

/// An answer with everything in it: reasoning, text beyond ASCII, a message item, two tool calls.
struct ReferenceAnswer: Sendable {
    /// The prefix of the ids: each time the backend answers, they are others.
    let serial: Int
    var text = "Zürich 👩‍👩‍👧: 21 °C. Bern: “18 °C” — e\u{301}t voilà."

    static let reasoning = "**Two cities** — ask for both."
    static let calls = [#"{"city":"Zürich"}"#, #"{"city":"Bern"}"#]

    var events: [ChappieJSON] {
        let id = ChappieJSON.string("resp_\(serial)")
        var events: [ChappieJSON] = [["type": "response.created", "response": ["id": id, "status": "in_progress"]]]
        events.append([
            "type": "response.reasoning_summary_part.added", "summary_index": 0, "item_id": .string("rs_\(serial)"),
        ])
        for piece in pieces(of: Self.reasoning, by: 9) {
            events.append([
                "type": "response.reasoning_summary_text.delta", "item_id": .string("rs_\(serial)"), "summary_index": 0,
                "delta": .string(piece),
            ])
        }
        events.append(
            done([
                "type": "reasoning", "id": .string("rs_\(serial)"), "encrypted_content": .string("gAAA\(serial)"),
                "summary": [["type": "summary_text", "text": .string(Self.reasoning)]],
            ]))
        // Another cutting each time, as a backend's own: what counts is the text.
        for piece in pieces(of: text, by: 3 + serial % 4) {
            events.append([
                "type": "response.output_text.delta", "item_id": .string("msg_\(serial)"), "delta": .string(piece),
            ])
        }
        events.append(
            done([
                "type": "message", "id": .string("msg_\(serial)"), "role": "assistant", "status": "completed",
                "content": [["type": "output_text", "text": .string(text)]],
            ]))
        for (index, arguments) in Self.calls.enumerated() {
            events.append(
                done([
                    "type": "function_call", "id": .string("fc_\(serial)_\(index)"),
                    "call_id": .string("call_\(serial)_\(index)"),
                    "name": "weather", "arguments": .string(arguments), "status": "completed",
                ]))
        }
        events.append(["type": "response.completed", "response": ["id": id, "status": "completed", "usage": .null]])
        return events
    }

    /// As the body of an HTTP answer.
    var serverSentEvents: [UInt8] {
        Array(events.map { "event: \($0["type"]?.string ?? "")\ndata: \($0.serialized())\n\n" }.joined().utf8)
    }

    private func done(_ item: ChappieJSON) -> ChappieJSON { ["type": "response.output_item.done", "item": item] }

    private func pieces(of text: String, by size: Int) -> [String] {
        // By Unicode scalars: a backend cuts inside what a person sees as one character.
        let scalars = Array(text.unicodeScalars)
        return stride(from: 0, to: scalars.count, by: size).map { start in
            var view = String.UnicodeScalarView()
            view.append(contentsOf: scalars[start..<min(start + size, scalars.count)])
            return String(view)
        }
    }
}
