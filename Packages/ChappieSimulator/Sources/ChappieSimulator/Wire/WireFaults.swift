/// How an answer is mishandled on its way out.
struct WireFaults: Sendable, Hashable {
    enum Parting: String, Sendable, Hashable, CaseIterable { case fin, rst }

    enum Framing: String, Sendable, Hashable, CaseIterable {
        /// `Transfer-Encoding: chunked`; what events use by default.
        case chunked
        /// `Content-Length`; what everything else uses by default.
        case length
        /// Neither: the end of the connection is the end of the body.
        case close
    }

    /// A place in an answer.
    enum Place: Sendable, Hashable {
        case beforeHead
        /// After this many bytes: of the body, its framing not counted; over WebSocket of the answer's frames; of a
        /// handshake's head.
        case bytes(Int)
        /// After this many events.
        case events(Int)
        /// After this many pieces of the answer's text.
        case deltas(Int)
    }

    struct Cut: Sendable, Hashable {
        var place: Place
        var parting: Parting
    }

    struct Drip: Sendable, Hashable {
        /// Bytes of the body in each write.
        var bytes: Int
        var pause: Duration
    }

    static let members: Set<String> = ["delayBeforeHead", "delayBeforeBody", "cut", "stall", "drip", "framing"]

    var delayBeforeHead: Duration?
    var delayBeforeBody: Duration?
    var cut: Cut?
    var stall: Place?
    var drip: Drip?
    var framing: Framing?

    init() {}

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        delayBeforeHead = try reader["delayBeforeHead"]?.duration()
        delayBeforeBody = try reader["delayBeforeBody"]?.duration()
        framing = try reader["framing"]?.choice(Framing.self)
        if let cut = reader["cut"] {
            try cut.allow(["beforeHead", "afterBytes", "afterEvents", "afterDeltas", "with"])
            self.cut = Cut(place: try Place(cut), parting: try cut["with"]?.choice(Parting.self) ?? .fin)
        }
        if let stall = reader["stall"] {
            try stall.allow(["beforeHead", "afterBytes", "afterEvents", "afterDeltas"])
            self.stall = try Place(stall)
        }
        if let drip = reader["drip"] {
            try drip.allow(["bytes", "pause"])
            self.drip = Drip(
                bytes: try drip["bytes"]?.integer(in: 1...1_048_576) ?? 1, pause: try drip["pause"]?.duration() ?? .zero
            )
        }
        if cut != nil, stall != nil { throw reader.wrong("can have a cut or a stall, not both") }
    }
}

extension WireFaults.Place {
    fileprivate init(_ reader: ScenarioReader) throws(SimulatorError) {
        var places: [WireFaults.Place] = []
        if try reader["beforeHead"]?.bool() == true { places.append(.beforeHead) }
        if let bytes = reader["afterBytes"] { places.append(.bytes(try bytes.integer(in: 0...Int(Int32.max)))) }
        if let events = reader["afterEvents"] { places.append(.events(try events.integer(in: 0...1_000_000))) }
        if let deltas = reader["afterDeltas"] { places.append(.deltas(try deltas.integer(in: 0...1_000_000))) }
        guard let place = places.first, places.count == 1 else {
            throw reader.wrong("needs one of beforeHead, afterBytes, afterEvents and afterDeltas")
        }
        self = place
    }
}
