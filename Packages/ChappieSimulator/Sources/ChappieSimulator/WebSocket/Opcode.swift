/// What a frame is (RFC 6455, 11.8).
enum Opcode {
    static let continuation: UInt8 = 0x0
    static let text: UInt8 = 0x1
    static let binary: UInt8 = 0x2
    static let close: UInt8 = 0x8
    static let ping: UInt8 = 0x9
    static let pong: UInt8 = 0xA

    static func isControl(_ opcode: UInt8) -> Bool { opcode & 0x8 != 0 }
    static func isKnown(_ opcode: UInt8) -> Bool { opcode <= binary || (close...pong).contains(opcode) }
}
