public import ChappieClient
import ChappieCore
import HTTPTypes
import Synchronization

extension ScriptedHTTPTransport {
    /// Returns a backend that answers with these texts, turn by turn. The last text also answers every later turn. Any
    /// other request gets a 404.
    ///
    /// ```swift
    /// let transport = ScriptedHTTPTransport.answering("Hello", "Goodbye")
    /// ```
    public static func answering(_ text: String, _ later: String...) -> ScriptedHTTPTransport {
        answering([text] + later)
    }

    fileprivate static func answering(_ texts: [String]) -> ScriptedHTTPTransport {
        let rest = Mutex(texts[...])
        return ScriptedHTTPTransport { request in
            guard request.url.path().hasSuffix("/responses") else { return .response(status: .notFound) }
            return .answer(rest.withLock { $0.count > 1 ? $0.removeFirst() : $0.first ?? "" })
        }
    }
}

extension ScriptedHTTPAnswer {
    /// Returns a complete answer of the model with `text` in one message, as server-sent events.
    public static func answer(_ text: String, id: String = "resp_1") -> ScriptedHTTPAnswer {
        let item: ChappieJSON = [
            "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [["type": "output_text", "text": .string(text)]],
        ]
        let events: [ChappieJSON] = [
            ["type": "response.created", "response": ["id": .string(id)]],
            ["type": "response.output_text.delta", "item_id": "msg_1", "delta": .string(text)],
            ["type": "response.output_item.done", "output_index": 0, "item": item],
            ["type": "response.completed", "response": ["id": .string(id), "status": "completed"]],
        ]
        return .response(
            headerFields: [.contentType: "text/event-stream"],
            body: events.map { "data: \($0.serialized())\n\n" }.joined())
    }
}

extension ChappieClient {
    /// Returns a client that is signed in and answers with these texts, turn by turn. The last text also answers every
    /// later turn.
    ///
    /// ```swift
    /// #expect(try await ChappieClient.answering("Hello").send("Hi") == "Hello")
    /// ```
    public static func answering(_ text: String, _ later: String...) -> ChappieClient {
        let transport = ScriptedHTTPTransport.answering([text] + later)
        return ChappieClient(
            configuration: ChappieConfiguration(streamingTransportPolicy: .httpSSEOnly), transport: transport,
            credentials: SeededAuth().manager(transport: transport))
    }
}
