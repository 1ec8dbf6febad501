@_spi(ChappieInternals) import ChappieCore

/// What the model is shown: the harness first, then everything said so far, byte for byte the same from turn to turn.
struct Transcript: Sendable {
    private(set) var items: [ChappieJSON] = []
    private let harnessItem: ChappieJSON?

    init(harness: ChappieHarness) { harnessItem = harness.inputItem }

    /// The input of a request that asks `messages` next.
    func input(asking messages: [ChappieInputMessage]) -> [ChappieJSON] {
        (harnessItem.map { [$0] } ?? []) + items + messages.map(\.inputItem)
    }

    /// Keeps a finished turn.
    mutating func append(_ messages: [ChappieInputMessage], answer: ChappieResponse) {
        items += messages.map(\.inputItem)
        var answered = answer.items.filter { Self.sentBack.contains($0.type) }
        if answer.status != .completed {
            // The backend refuses reasoning without the item that it led to.
            while answered.last?.type == "reasoning" { answered.removeLast() }
        }
        items += answered.map(\.json)
        if !answer.outputText.isEmpty, !answered.contains(where: { $0.type == "message" }) {
            // The stream delivered text but no message (it ended early, or the server has none): keep what the person saw.
            items.append(ChappieInputMessage.assistant(answer.outputText).inputItem)
        }
    }

    /// Item types that the backend takes back as input; others are shown to the host and dropped here.
    private static let sentBack: Set<String> = [
        "message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "tool_search_call",
        "web_search_call", "image_generation_call", "compaction", "context_compaction",
    ]
}
