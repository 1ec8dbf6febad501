import ChappieCore

/// What a rule does to an answer. Everything can be combined; what is missing stays as it was.
struct ScenarioEffect: Sendable, Hashable {
    /// An answer in the place of the real one; the request then changes nothing at the backend.
    var replacement: ScenarioReplacement?
    /// Header fields set on whatever is answered.
    var headers: [ScenarioHeader] = []
    /// How the connection is mishandled.
    var faults = WireFaults()
    /// How the stream of events is changed.
    var edits = EventEdits()
    /// How a WebSocket handshake is answered.
    var handshake = HandshakeFaults()
    /// How the answer to a WebSocket message is put into frames.
    var frames = FrameFaults()
    /// Pieces of the model's text after which it goes on with other words; `nil` for its own words to the end.
    var divergesAfter: Int?
    /// How the device endpoints differ.
    var quirks = DeviceQuirks()

    init() {}

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow(
            ScenarioReplacement.members.union(WireFaults.members).union([
                "headers", "events", "device", "handshake", "frames", "diverge",
            ]))
        replacement = try ScenarioReplacement(reader)
        if let headers = reader["headers"] { self.headers = try ScenarioHeader.list(headers) }
        faults = try WireFaults(reader)
        if let events = reader["events"] { edits = try EventEdits(events) }
        handshake = try reader["handshake"].mapThrowing(HandshakeFaults.init) ?? HandshakeFaults()
        frames = try reader["frames"].mapThrowing(FrameFaults.init) ?? FrameFaults()
        if let diverge = reader["diverge"] {
            try diverge.allow(["afterPieces"])
            divergesAfter = try diverge["afterPieces"]?.integer(in: 0...1_000_000) ?? 0
        }
        if let device = reader["device"] { quirks = try DeviceQuirks(device) }
    }

    /// Applies everything but the faults.
    func changing(_ response: BackendResponse) -> BackendResponse {
        var response = response
        for header in headers { response.setHeader(header.name, header.value) }
        if case .events(let events) = response.body { response.body = .events(edits.applied(to: events)) }
        return response
    }
}

extension DeviceQuirks {
    fileprivate init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow(["interval", "userCodeKey", "pendingStatus"])
        self.init()
        if let interval = reader["interval"] { self.interval = try interval.choice(Interval.self) }
        if let key = reader["userCodeKey"] { userCodeKey = try key.string() }
        if let status = reader["pendingStatus"] { pendingStatus = try status.integer(in: 400...599) }
    }
}
