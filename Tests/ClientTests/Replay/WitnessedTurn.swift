import ChappieClient
import ChappieCore

/// What a host saw of one turn, and what it did.
struct WitnessedTurn {
    var text = ""
    var reasoning = ""
    /// The tool calls as they were carried out, by their arguments.
    var executed: [String] = []
    var error: (any Error)?
    var transportEvents: [ChappieTransportEvent] = []

    init(_ client: ChappieClient) async {
        do {
            for try await event in client.stream("weather?") {
                switch event {
                case .textDelta(let delta): text += delta
                case .reasoningSummaryDelta(let delta): reasoning += delta
                // A host that carries a call out the moment it is told.
                case .item(let item) where item.isToolCall: executed.append(item.json["arguments"]?.string ?? "")
                case .transport(let event): transportEvents.append(event)
                default: break
                }
            }
        } catch { self.error = error }
    }

    /// Whether this is the whole reference answer. It ends in the error for tools that nobody has given.
    func isWhole(_ reference: ReferenceAnswer) -> Bool {
        Array(text.utf8) == Array(reference.text.utf8) && reasoning == ReferenceAnswer.reasoning
            && executed == ReferenceAnswer.calls && error as? ChappieClientError == .missingToolHandler("weather")
    }
}
