import ChappieCore
import ChappieTesting

@testable import ChappieWebSocket

/// Bytes as a test writes them down: hexadecimal digits; everything else is decoration.
func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue).map(UInt8.init)
    precondition(digits.count.isMultiple(of: 2), "half a byte in \(text)")
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

/// Calls `body` with the bytes whole, byte by byte, and cut in two at every point.
func forEachChunking(_ bytes: [UInt8], _ body: (_ chunks: [[UInt8]], _ label: String) -> Void) {
    body([bytes], "whole")
    body(bytes.map { [$0] }, "byte by byte")
    for cut in 0...bytes.count { body([Array(bytes[..<cut]), Array(bytes[cut...])], "cut at \(cut)") }
}

/// A small generator with a fixed seed, so that generated input is the same everywhere (Steele, Lea, Flood 2014).
struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// Frames of ours, written and read slowly and by the letter of RFC 6455, 5.2, independently of the code under test.
struct ClientFrame: Hashable {
    let first: UInt8
    let payload: [UInt8]

    /// The key of RFC 6455, 5.7.
    static let maskingKey: UInt32 = 0x37FA_213D

    var bytes: [UInt8] {
        var frame = WebSocketFrames.frame(first & 0xF, payload, reserved: first >> 4 & 7)
        frame[1] |= 0x80
        let key: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        return frame.dropLast(payload.count) + key + payload.enumerated().map { $0.element ^ key[$0.offset % 4] }
    }

    static func pong(_ payload: [UInt8]) -> [UInt8] { ClientFrame(first: 0x8A, payload: payload).bytes }

    static func close(_ code: UInt16?) -> [UInt8] {
        ClientFrame(first: 0x88, payload: code.map { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } ?? []).bytes
    }

    /// - Returns: `nil` when the bytes are not whole, masked frames with the shortest lengths.
    static func read(_ bytes: [UInt8]) -> [ClientFrame]? {
        var rest = bytes[...]
        var frames: [ClientFrame] = []
        while let first = rest.popFirst() {
            guard let second = rest.popFirst(), second & 0x80 != 0 else { return nil }
            var length = Int(second & 0x7F)
            let extended = length == 126 ? 2 : length == 127 ? 8 : 0
            if extended > 0 {
                guard rest.count >= extended else { return nil }
                length = rest.prefix(extended).reduce(0) { $0 << 8 | Int($1) }
                rest = rest.dropFirst(extended)
                guard length > (extended == 2 ? 125 : 0xFFFF) else { return nil }
            }
            guard rest.count >= 4 + length else { return nil }
            let key = Array(rest.prefix(4))
            let payload = rest.dropFirst(4).prefix(length).enumerated().map { $0.element ^ key[$0.offset % 4] }
            rest = rest.dropFirst(4 + length)
            frames.append(ClientFrame(first: first, payload: payload))
        }
        return frames
    }
}

extension WebSocketCodec {
    /// One with the RFC's masking key.
    static func test(limits: WebSocketLimits = WebSocketLimits(), compression: DeflateParameters? = nil) -> Self {
        WebSocketCodec(limits: limits, compression: compression, nextMaskingKey: { ClientFrame.maskingKey })
    }

    /// Everything that comes of some chunks.
    mutating func receive(_ chunks: [UInt8]...) -> Output { receive(chunks) }

    mutating func receive(_ chunks: [[UInt8]]) -> Output {
        var whole = Output()
        for chunk in chunks {
            let output = chunk.withUnsafeBytes { receivedBytes($0) }
            whole.messages += output.messages
            whole.bytes += output.bytes
            whole.end = whole.end ?? output.end
        }
        return whole
    }
}
