import ChappieCore

/// How a WebSocket handshake is answered, and how the connection it opens behaves.
struct HandshakeFaults: Sendable, Hashable {
    enum Accept: String, Sendable, Hashable, CaseIterable { case right, wrong, absent }

    struct Closure: Sendable, Hashable {
        var code: UInt16?
        var reason = ""
        /// From the handshake on.
        var delay = Duration.zero
    }

    /// The field that proves the server understood.
    var accept = Accept.right
    /// Whether compression may be agreed; `nil` leaves that to the settings.
    var deflate: Bool?
    var deflateWish = DeflateWish()
    /// The value of `Sec-WebSocket-Extensions` in the place of what was agreed.
    var extensions: String?
    /// The value of `Sec-WebSocket-Protocol`, asked for or not.
    var subprotocol: String?
    /// Turns before the connection says that its time is over.
    var requestLimit: Int?
    var answersPings = true
    /// Seconds; 0 for no pings; `nil` leaves that to the settings.
    var pingInterval: Duration?
    var closure: Closure?

    init() {}

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow([
            "accept", "deflate", "extensions", "subprotocol", "requestLimit", "pongs", "pingInterval", "close",
        ])
        accept = try reader["accept"]?.choice(Accept.self) ?? .right
        if let deflate = reader["deflate"] {
            if deflate.value.object == nil {
                self.deflate = try deflate.bool()
            } else {
                self.deflate = true
                deflateWish = try DeflateWish(deflate)
            }
        }
        extensions = try reader["extensions"].mapThrowing(ScenarioHeader.value)
        subprotocol = try reader["subprotocol"].mapThrowing(ScenarioHeader.value)
        requestLimit = try reader["requestLimit"]?.integer(in: 0...1_000_000)
        answersPings = try reader["pongs"]?.bool() ?? true
        pingInterval = try reader["pingInterval"]?.duration()
        if let close = reader["close"] {
            try close.allow(["code", "reason", "after"])
            closure = Closure(
                code: try close.closeCode(), reason: try close.closeReason(),
                delay: try close["after"]?.duration() ?? .zero)
        }
    }
}

extension DeflateWish {
    fileprivate init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow([
            "serverNoContextTakeover", "clientNoContextTakeover", "serverMaxWindowBits", "clientMaxWindowBits",
        ])
        self.init(
            serverNoContextTakeover: try reader["serverNoContextTakeover"]?.bool() ?? false,
            clientNoContextTakeover: try reader["clientNoContextTakeover"]?.bool() ?? false,
            serverMaxWindowBits: try reader["serverMaxWindowBits"]?.integer(in: 9...15),
            clientMaxWindowBits: try reader["clientMaxWindowBits"]?.integer(in: DeflateTerms.bitBounds))
    }
}

extension ScenarioReader {
    /// The member `code`: any number that fits, so that wrong ones can be sent; `nil` for a close frame without one.
    func closeCode() throws(SimulatorError) -> UInt16? {
        guard let code = self["code"], !code.value.isNull else { return nil }
        return UInt16(try code.integer(in: 0...65_535))
    }

    func closeReason() throws(SimulatorError) -> String {
        let reason = try self["reason"]?.string() ?? ""
        guard reason.utf8.count <= 123 else { throw wrong("has a reason of more than 123 bytes") }
        return reason
    }
}
