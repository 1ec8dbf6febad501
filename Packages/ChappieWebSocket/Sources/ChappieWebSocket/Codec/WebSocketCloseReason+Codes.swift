import ChappieCore

extension WebSocketCloseReason {
    /// Whether the code may stand in a close frame: assigned for that purpose, or in the ranges for libraries and
    /// applications (RFC 6455, 7.4; 1012 to 1014 by IANA's registry). 1004 to 1006 and 1015 never travel.
    static func mayTravel(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// Reads the payload of a close frame (RFC 6455, 5.5.1).
    init(closePayload payload: [UInt8]) throws(WebSocketCodecError) {
        guard !payload.isEmpty else {
            self.init()
            return
        }
        guard payload.count >= 2 else { throw .invalidClose }
        let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
        guard Self.mayTravel(code) else { throw .invalidClose }
        guard let reason = String(validating: payload[2...], as: UTF8.self) else { throw .invalidUTF8 }
        self.init(code: code, reason: reason)
    }
}
