import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes

/// A signed-in client over scripted WebSockets, with scripted HTTP answers to fall back to. Pauses pass at once.
struct WebSocketStage {
    let webSocket: ScriptedWebSocketTransport
    let http: ScriptedHTTPTransport
    let clock = HastyClock()
    let client: ChappieClient

    init(
        _ openings: [ScriptedWebSocketOpening], http answers: [ScriptedHTTPAnswer] = [],
        policy: ChappieStreamingTransportPolicy = .default, profile: ChappieWebSocketProfile? = .chatGPT,
        harness: ChappieHarness = "Be brief."
    ) {
        // The receivers' deadlines are on a clock that stands still: silence is scripted.
        let stillClock = ManualClock()
        webSocket = ScriptedWebSocketTransport(clock: stillClock, openings: openings)
        http = ScriptedHTTPTransport(clock: stillClock, answers: answers)
        var endpoints = ChappieEndpoints.chatGPT
        endpoints.profile.webSocket = profile
        // So are those of the sign-in: a deadline that passes at once is no deadline.
        let seed = SeededAuth(expiresAt: clock.now.addingTimeInterval(86_400))
        client = ChappieClient(
            configuration: ChappieConfiguration(
                harness: harness, streamingTransportPolicy: policy, endpoints: endpoints), transport: http,
            webSocket: webSocket,
            credentials: seed.manager(transport: http, endpoints: endpoints, clock: stillClock), clock: clock,
            entropy: FixedEntropy())
    }

    /// What was sent on connection `index`, as JSON.
    func frames(_ index: Int) throws -> [ChappieJSON] {
        try webSocket.peers[index].sentMessages.map { message in
            guard case .text(let text) = message else { return .null }
            return try ChappieJSON(parsing: Array(text.utf8))
        }
    }

    /// Asks, and gives the text as it was shown, the transport's events and the error.
    func ask(_ text: String = "Hi") async -> (text: String, events: [ChappieTransportEvent], error: ChappieClientError?)
    {
        var shown = ""
        var events: [ChappieTransportEvent] = []
        do {
            for try await event in client.stream(text) {
                if case .textDelta(let delta) = event { shown += delta }
                if case .transport(let event) = event { events.append(event) }
            }
        } catch { return (shown, events, error as? ChappieClientError) }
        return (shown, events, nil)
    }
}

/// The messages that answer `text`.
func messages(answering text: String, id: String = "resp_1") -> [String] {
    let item: ChappieJSON = [
        "id": .string("msg_\(id)"), "type": "message", "role": "assistant", "status": "completed",
        "content": [["type": "output_text", "text": .string(text)]],
    ]
    let all: [ChappieJSON] = [
        ["type": "response.created", "response": ["id": .string(id)]],
        ["type": "response.output_text.delta", "item_id": .string("msg_\(id)"), "delta": .string(text)],
        ["type": "response.output_item.done", "output_index": 0, "item": item],
        ["type": "response.completed", "response": ["id": .string(id), "status": "completed"]],
    ]
    return all.map { $0.serialized() }
}

/// An answer that breaks off after `text`.
func messages(breakingOffAfter text: String) -> [String] { Array(messages(answering: text).prefix(2)) }
