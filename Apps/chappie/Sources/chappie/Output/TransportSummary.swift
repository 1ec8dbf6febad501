import ChappieSDK

/// How one answer has travelled, gathered from its events.
struct TransportSummary {
    /// `nil` while nothing has arrived.
    private(set) var kind: ChappieTransportEvent.Kind?
    private(set) var reconnects = 0
    private(set) var hasFallenBack = false

    mutating func received(_ event: ChappieTransportEvent) {
        switch event {
        case .connected(let kind): self.kind = kind
        case .reconnecting: reconnects += 1
        case .fellBack: hasFallenBack = true
        default: break
        }
    }

    var json: ChappieJSON {
        [
            "kind": .optional(kind?.rawValue), "reconnects": .integer(reconnects), "fell_back": .bool(hasFallenBack),
        ]
    }

    /// For people: `websocket, 2 reconnects`.
    var words: String {
        var words = [kind?.rawValue ?? "none", reconnects == 1 ? "1 reconnect" : "\(reconnects) reconnects"]
        if hasFallenBack { words.append("after falling back") }
        return words.joined(separator: ", ")
    }
}
