import ChappieCore

/// Which requests a rule is about. A member that is missing matches everything.
struct ScenarioMatch: Sendable, Hashable {
    /// What carries a request.
    enum Carrier: String, Sendable, Hashable, CaseIterable { case http, websocket }

    /// In capitals. A WebSocket message that asks for a turn is a `POST`, one that only warms up is a `PREWARM`.
    var method: String?
    /// Requests of HTTP, upgrades too, or messages of WebSocket.
    var carrier: Carrier?
    /// The path without the query; a `*` at the end stands for anything.
    var path: String?
    /// Text that the body, as it was sent, must hold.
    var bodyContains: String?
    /// Which of the requests that fit the above, counted from 1.
    var nth: [Int]?
    /// From this one on.
    var from: Int?
    /// Up to and with this one.
    var to: Int?

    init() {}

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow(["method", "over", "path", "bodyContains", "nth", "from", "to"])
        method = try reader["method"]?.string().uppercased()
        carrier = try reader["over"]?.choice(Carrier.self)
        path = try reader["path"]?.string()
        bodyContains = try reader["bodyContains"]?.string()
        let counts = 1...1_000_000
        if let nth = reader["nth"] {
            self.nth =
                nth.value.array == nil
                ? [try nth.integer(in: counts)]
                : try nth.elements { (element) throws(SimulatorError) in try element.integer(in: counts) }
        }
        from = try reader["from"]?.integer(in: counts)
        to = try reader["to"]?.integer(in: counts)
    }

    /// Whether a request is one of those that are counted.
    func isAbout(_ request: BackendRequest) -> Bool {
        if let method, method != request.method { return false }
        if let carrier, carrier != request.carrier { return false }
        if let bodyContains, !request.received.body.contains(text: bodyContains) { return false }
        guard let path else { return true }
        return path.hasSuffix("*") ? request.path.hasPrefix(path.dropLast()) : request.path == path
    }

    /// Whether the rule applies to the request with this count.
    func includes(count: Int) -> Bool {
        if let nth, !nth.contains(count) { return false }
        return count >= from ?? 1 && count <= to ?? .max
    }
}

extension [UInt8] {
    /// Whether these bytes occur in a row.
    fileprivate func contains(text: String) -> Bool {
        let wanted = Array(text.utf8)
        guard let first = wanted.first else { return true }
        guard wanted.count <= count else { return false }
        return (0...(count - wanted.count)).contains {
            self[$0] == first && self[$0..<($0 + wanted.count)].elementsEqual(wanted)
        }
    }
}
