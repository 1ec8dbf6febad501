/// A frame as a server sends it: unmasked, unless it is to break the rules (RFC 6455, 5.1).
struct ServerFrame: Sendable, Hashable {
    var opcode: UInt8
    var payload: [UInt8]
    var isFinal = true
    /// The three reserved bits as a number: 4 is RSV1, which says "compressed" when that was agreed (RFC 7692, 6).
    var reservedBits: UInt8 = 0
    var isMasked = false

    static func ping(_ payload: [UInt8]) -> ServerFrame { ServerFrame(opcode: Opcode.ping, payload: payload) }
    static func pong(_ payload: [UInt8]) -> ServerFrame { ServerFrame(opcode: Opcode.pong, payload: payload) }

    /// - Parameter code: `nil` for a close frame without a body.
    static func close(_ code: UInt16?, reason: String = "") -> ServerFrame {
        guard let code else { return ServerFrame(opcode: Opcode.close, payload: []) }
        let payload = [UInt8(truncatingIfNeeded: code >> 8), UInt8(truncatingIfNeeded: code)] + Array(reason.utf8)
        return ServerFrame(opcode: Opcode.close, payload: payload)
    }

    var bytes: [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(payload.count + 14)
        output.append((isFinal ? FrameHeader.finalBit : 0) | reservedBits << 4 | opcode)
        let mask = isMasked ? FrameHeader.maskBit : 0
        switch payload.count {
        case ..<126: output.append(mask | UInt8(payload.count))
        case ..<65_536: output += [mask | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default:
            output.append(mask | 127)
            for shift in stride(from: 56, through: 0, by: -8) {
                output.append(UInt8(truncatingIfNeeded: payload.count >> shift))
            }
        }
        // A key of zeros leaves the payload as it is; what counts is that the bit is set.
        if isMasked { output += [0, 0, 0, 0] }
        output.append(contentsOf: payload)
        return output
    }
}
