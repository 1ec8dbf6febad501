import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials

/// A client over scripted answers, signed in, on a clock that the test moves.
struct Stage {
    let transport: ScriptedHTTPTransport
    let clock = ManualClock()
    let client: ChappieClient

    /// No second attempts: those have tests of their own.
    static let firstFailureCounts = ChappieConfiguration(
        streamingTransportPolicy: ChappieStreamingTransportPolicy(
            prefersWebSocket: false, maxHTTPSSEReconnectionAttempts: 0))

    init(
        _ answers: [ScriptedHTTPAnswer], configuration: ChappieConfiguration = Stage.firstFailureCounts,
        signedIn: Bool = true
    ) {
        transport = ScriptedHTTPTransport(clock: clock, answers: answers)
        let seed = SeededAuth(expiresAt: clock.now.addingTimeInterval(86_400))
        let manager =
            signedIn
            ? seed.manager(transport: transport, clock: clock)
            : CredentialManager(
                slot: CredentialSlot(), store: InMemoryCredentialStore(), transport: transport,
                lock: NoCredentialLock(), clock: clock)
        client = ChappieClient(
            configuration: configuration, transport: transport, credentials: manager, clock: clock,
            entropy: FixedEntropy())
    }

    /// The input items of each Responses request so far.
    var inputs: [[ChappieJSON]] {
        get throws {
            try transport.receivedRequests.filter { $0.url.path().hasSuffix("/codex/responses") }.map {
                try ChappieJSON(parsing: $0.body?.bytes ?? [])["input"]?.array ?? []
            }
        }
    }
}

/// An event stream that answers `text` in one message item.
func events(answering text: String, id: String = "resp_1") -> String {
    let item: ChappieJSON = [
        "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [["type": "output_text", "text": .string(text)]],
    ]
    let all: [ChappieJSON] = [
        ["type": "response.created", "response": ["id": .string(id)]],
        ["type": "response.output_text.delta", "item_id": "msg_1", "delta": .string(text)],
        ["type": "response.output_item.done", "output_index": 0, "item": item],
        ["type": "response.completed", "response": ["id": .string(id), "status": "completed"]],
    ]
    return all.map { "data: \($0.serialized())\n\n" }.joined()
}

func stream(_ events: String) -> ScriptedHTTPAnswer {
    .response(headerFields: [.contentType: "text/event-stream"], body: events)
}
