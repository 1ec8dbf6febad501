@_spi(ChappieInternals) import ChappieCore
import ChappieSDK

/// The transport of one answer, collected from its events.
struct TransportSummary {
    /// The kind of transport. `nil` while nothing has arrived.
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

    /// Returns the text for a summary in JSON: `websocket, 2 reconnects`.
    static func words(_ json: ChappieJSON) -> String {
        let reconnects = json["reconnects"]?.int ?? 0
        let fellBack = json["fell_back"]?.bool == true ? ", after falling back" : ""
        return "\(json["kind"]?.string ?? "none"), \(reconnects) reconnect\(reconnects == 1 ? "" : "s")\(fellBack)"
    }
}
