public import ChappieCore

/// Frames as a server sends them (RFC 6455, 5.2), right or wrong.
public enum WebSocketFrames {
    /// One frame, unmasked.
    ///
    /// - Parameters:
    ///   - opcode: 0 continuation, 1 text, 2 binary, 8 close, 9 ping, 10 pong.
    ///   - reserved: the three reserved bits as a number.
    public static func frame(
        _ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, reserved: UInt8 = 0
    ) -> [UInt8] {
        let first = (isFinal ? 0x80 : 0) | reserved << 4 | opcode
        let length: [UInt8] =
            switch payload.count {
            case ..<126: [UInt8(payload.count)]
            case ..<65_536: [126] + bigEndian(UInt64(payload.count), bytes: 2)
            default: [127] + bigEndian(UInt64(payload.count), bytes: 8)
            }
        return [first] + length + payload
    }

    /// A whole text message in one frame.
    public static func text(_ text: String) -> [UInt8] { frame(1, Array(text.utf8)) }
    /// A ping; the peer's pong repeats its payload.
    public static func ping(_ payload: String = "") -> [UInt8] { frame(9, Array(payload.utf8)) }

    /// A message as a server frames it.
    public static func message(_ message: WebSocketMessage) -> [UInt8] {
        switch message {
        case .text(let text): self.text(text)
        case .binary(let bytes): frame(2, bytes)
        }
    }

    /// - Parameter code: `nil` for a close frame without a body.
    public static func close(_ code: UInt16?, reason: String = "") -> [UInt8] {
        frame(8, code.map { bigEndian(UInt64($0), bytes: 2) + Array(reason.utf8) } ?? [])
    }

    private static func bigEndian(_ value: UInt64, bytes: Int) -> [UInt8] {
        (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }
}
