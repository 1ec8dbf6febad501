import ChappieCore

/// How the messages of one answer are put into frames.
struct FrameFaults: Sendable, Hashable {
    /// The name of the member that holds an error message's status.
    enum StatusMember: String, Sendable, Hashable, CaseIterable {
        case status
        case statusCode = "status_code"
        case none
    }

    struct Closure: Sendable, Hashable {
        var code: UInt16?
        var reason = ""
        /// Events that are sent before it; `nil` for all.
        var afterEvents: Int?
    }

    var statusMember = StatusMember.status
    var close: Closure?
    /// Sends this answer uncompressed although compression was agreed.
    var omitsCompression = false
    /// Payload bytes of each frame; `nil` for whole messages.
    var fragmentBytes: Int?
    /// Puts a ping between any two fragments.
    var pingsInside = false
    /// Which message of the answer the members below are about, counted from 0.
    var position = 2
    /// 2 is binary; 3 to 7 and 11 to 15 are reserved.
    var opcode: UInt8?
    /// The three bits as a number: 4, 2 and 1 for RSV1, RSV2 and RSV3.
    var reservedBits: UInt8 = 0
    var isMasked = false
    var isInvalidUTF8 = false
    /// Put on the wire as they are, before that message.
    var bytes: [UInt8] = []
    /// Text messages put in before that message.
    var texts: [String] = []
    /// Messages that follow the one that ends the response.
    var after: [ChappieJSON] = []

    init() {}

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow([
            "statusMember", "close", "compress", "fragmentBytes", "pingsInside", "at", "opcode", "reservedBits",
            "masked", "invalidUTF8", "bytes", "texts", "after",
        ])
        statusMember = try reader["statusMember"]?.choice(StatusMember.self) ?? .status
        if let close = reader["close"] {
            try close.allow(["code", "reason", "afterEvents"])
            self.close = Closure(
                code: try close.closeCode(), reason: try close.closeReason(),
                afterEvents: try close["afterEvents"]?.integer(in: 0...1_000_000))
        }
        omitsCompression = try reader["compress"]?.bool() == false
        fragmentBytes = try reader["fragmentBytes"]?.integer(in: 1...Int(Int32.max))
        pingsInside = try reader["pingsInside"]?.bool() ?? false
        position = try reader["at"]?.integer(in: 0...1_000_000) ?? 2
        opcode = try reader["opcode"].mapThrowing { (opcode) throws(SimulatorError) in
            UInt8(try opcode.integer(in: 0...15))
        }
        reservedBits = UInt8(try reader["reservedBits"]?.integer(in: 0...7) ?? 0)
        isMasked = try reader["masked"]?.bool() ?? false
        isInvalidUTF8 = try reader["invalidUTF8"]?.bool() ?? false
        if let bytes = reader["bytes"] { self.bytes = try bytes.hexadecimal() }
        if let texts = reader["texts"] {
            self.texts = try texts.elements { (element) throws(SimulatorError) in try element.string() }
        }
        after = try reader["after"]?.elements { $0.value } ?? []
    }
}

extension ScenarioReader {
    /// Pairs of hexadecimal digits, white space between them forgiven.
    fileprivate func hexadecimal() throws(SimulatorError) -> [UInt8] {
        let digits = try string().filter { !$0.isWhitespace }.map(\.hexDigitValue)
        guard digits.count.isMultiple(of: 2) else { throw wrong("must be pairs of hexadecimal digits") }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else {
                throw wrong("must be pairs of hexadecimal digits")
            }
            bytes.append(UInt8(high << 4 | low))
        }
        return bytes
    }
}
