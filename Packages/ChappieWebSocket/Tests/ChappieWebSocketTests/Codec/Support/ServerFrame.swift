/// Frames as a server writes them, right or wrong.
enum ServerFrame {
    static func text(_ text: String, isFinal: Bool = true) -> [UInt8] {
        frame(0x1, Array(text.utf8), isFinal: isFinal)
    }

    static func binary(_ payload: [UInt8], isFinal: Bool = true) -> [UInt8] { frame(0x2, payload, isFinal: isFinal) }

    static func continuation(_ payload: [UInt8], isFinal: Bool = true) -> [UInt8] {
        frame(0x0, payload, isFinal: isFinal)
    }

    static func close(_ code: UInt16?, _ reason: [UInt8] = []) -> [UInt8] {
        frame(0x8, (code.map { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } ?? []) + reason)
    }

    static func frame(_ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, reserved: UInt8 = 0) -> [UInt8] {
        [(isFinal ? 0x80 : 0) | reserved << 4 | opcode] + length(payload.count) + payload
    }

    static func length(_ count: Int) -> [UInt8] {
        switch count {
        case ...125: [UInt8(count)]
        case ...0xFFFF: [126, UInt8(count >> 8), UInt8(count & 0xFF)]
        default: [127] + (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) }
        }
    }
}
