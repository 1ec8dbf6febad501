import ChappieCore

@testable import ChappieWebSocket

extension CodecCase {
    private static let small = WebSocketLimits(maximumFrameBytes: 200, maximumMessageBytes: 300)

    /// RFC 6455, 5.7, but for those examples that only a client may send.
    static let examples: [CodecCase] = [
        .init("a single-frame text message", [WireBytes.hex("81 05 48 65 6c 6c 6f")], messages: [.text("Hello")]),
        .init(
            "a fragmented text message", [WireBytes.hex("01 03 48 65 6c"), WireBytes.hex("80 02 6c 6f")],
            messages: [.text("Hello")]),
        .init(
            "a ping", [WireBytes.hex("89 05 48 65 6c 6c 6f")], sent: WireBytes.hex("8a 85 37 fa 21 3d 7f 9f 4d 51 58")),
        .init(
            "256 bytes of binary", [WireBytes.hex("82 7e 01 00"), .init(repeating: 7, count: 256)],
            messages: [.binary(.init(repeating: 7, count: 256))]),
    ]

    static let lengths: [CodecCase] =
        [0, 1, 2, 124, 125, 126, 127, 128, 254, 255, 256, 1000].map { count in
            let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) }
            return .init("\(count) bytes", [ServerFrame.binary(payload)], messages: [.binary(payload)])
        } + [
            .init("126 for 125 bytes", [WireBytes.hex("82 7e 00 7d")], fails: .invalidLength, 1002),
            .init("126 for none", [WireBytes.hex("82 7e 00 00")], fails: .invalidLength, 1002),
            .init(
                "127 for 65,535 bytes", [WireBytes.hex("82 7f 00 00 00 00 00 00 ff ff")], fails: .invalidLength, 1002),
            .init("127 for none", [WireBytes.hex("82 7f 00 00 00 00 00 00 00 00")], fails: .invalidLength, 1002),
            .init("2⁶³ bytes", [WireBytes.hex("82 7f 80 00 00 00 00 00 00 00")], fails: .invalidLength, 1002),
            .init(
                "2⁶³ − 1 bytes", [WireBytes.hex("82 7f 7f ff ff ff ff ff ff ff")],
                fails: .frameTooLarge(limitBytes: 16 << 20), 1009),
            .init(
                "one byte over 16 MiB", [WireBytes.hex("82 7f 00 00 00 00 01 00 00 01")],
                fails: .frameTooLarge(limitBytes: 16 << 20), 1009),
        ]

    static let reserved: [CodecCase] =
        [0x1, 0x2, 0x4].flatMap { bit in
            [0x0, 0x1, 0x2, 0x8, 0x9, 0xA].map { opcode in
                .init(
                    "reserved bit \(bit) on \(opcode)", [ServerFrame.frame(opcode, [], reserved: bit)],
                    fails: .reservedBitSet, 1002)
            }
        }
        + [0x3, 0x4, 0x5, 0x6, 0x7, 0xB, 0xC, 0xD, 0xE, 0xF].map { opcode in
            .init(
                "opcode \(opcode)", [ServerFrame.text("a"), ServerFrame.frame(opcode, [])], messages: [.text("a")],
                fails: .unknownOpcode(opcode), 1002)
        }
        + [0x1, 0x2, 0x8, 0x9, 0xA].map { opcode in
            .init("a mask on \(opcode)", [[0x80 | opcode, 0x80, 1, 2, 3, 4]], fails: .maskedFrame, 1002)
        }

    static let control: [CodecCase] = [
        .init("an empty ping", [ServerFrame.frame(0x9, [])], sent: CodecRun.clientFrame(0x8A, [])),
        .init(
            "a ping of 125 bytes", [ServerFrame.frame(0x9, .init(repeating: 3, count: 125))],
            sent: CodecRun.clientFrame(0x8A, .init(repeating: 3, count: 125))),
        .init("a pong without a ping", [ServerFrame.frame(0xA, [1, 2, 3])]),
        .init("a ping of 126 bytes", [WireBytes.hex("89 7e 00 7e")], fails: .controlFrameTooLong, 1002),
        .init(
            "a close of 65,536 bytes", [WireBytes.hex("88 7f 00 00 00 00 00 01 00 00")], fails: .controlFrameTooLong,
            1002),
        .init(
            "a ping in fragments", [ServerFrame.frame(0x9, [], isFinal: false)], fails: .fragmentedControlFrame, 1002),
        .init(
            "a pong in fragments", [ServerFrame.frame(0xA, [], isFinal: false)], fails: .fragmentedControlFrame, 1002),
        .init(
            "a close in fragments", [ServerFrame.frame(0x8, [], isFinal: false)], fails: .fragmentedControlFrame, 1002),
        .init(
            "pings between messages, each answered",
            [ServerFrame.text("a"), ServerFrame.frame(0x9, [1]), ServerFrame.text("b"), ServerFrame.frame(0x9, [2])],
            messages: [.text("a"), .text("b")],
            sent: CodecRun.clientFrame(0x8A, [1]) + CodecRun.clientFrame(0x8A, [2])),
    ]

    static let fragments: [CodecCase] = [
        .init(
            "a ping between fragments",
            [
                ServerFrame.text("He", isFinal: false), ServerFrame.frame(0x9, [9]), ServerFrame.continuation([]),
                ServerFrame.text("!"),
            ], messages: [.text("He"), .text("!")], sent: CodecRun.clientFrame(0x8A, [9])),
        .init(
            "empty fragments",
            [
                ServerFrame.binary([], isFinal: false), ServerFrame.continuation([], isFinal: false),
                ServerFrame.continuation([]),
            ], messages: [.binary([])]),
        .init(
            "one byte a fragment",
            [
                ServerFrame.binary([1], isFinal: false), ServerFrame.continuation([2], isFinal: false),
                ServerFrame.continuation([3]),
            ], messages: [.binary([1, 2, 3])]),
        .init("a continuation of nothing", [ServerFrame.continuation([1])], fails: .unexpectedContinuation, 1002),
        .init(
            "a continuation after the end",
            [
                ServerFrame.text("a", isFinal: false), ServerFrame.continuation([]), ServerFrame.continuation([]),
            ], messages: [.text("a")], fails: .unexpectedContinuation, 1002),
        .init(
            "a message inside a message", [ServerFrame.text("a", isFinal: false), ServerFrame.text("b")],
            fails: .expectedContinuation, 1002),
        .init(
            "a close between fragments", [ServerFrame.text("a", isFinal: false), ServerFrame.close(1000)],
            sent: CodecRun.close(1000), ending: .peerClosed(.normal)),
        .init(
            "a frame over its limit", [ServerFrame.binary(.init(repeating: 0, count: 201))], limits: small,
            fails: .frameTooLarge(limitBytes: 200), 1009),
        .init(
            "a frame and a message at their limits",
            [
                ServerFrame.binary(.init(repeating: 1, count: 200), isFinal: false),
                ServerFrame.continuation(.init(repeating: 1, count: 100)),
            ], limits: small, messages: [.binary(.init(repeating: 1, count: 300))]),
        .init(
            "a message over its limit",
            [
                ServerFrame.binary(.init(repeating: 1, count: 200), isFinal: false),
                ServerFrame.continuation(.init(repeating: 1, count: 101)),
            ], limits: small, fails: .messageTooLarge(limitBytes: 300), 1009),
    ]
}
