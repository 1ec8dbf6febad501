import ChappieCore
import ChappieTesting
import TestFixtures
import Testing

@testable import ChappieWebSocket

/// Frames of a server without compression (RFC 6455, 5 and 7.4), each case in every chunking.
@Suite(.byItself) struct FrameTests {
    private typealias Wire = WebSocketFrames

    @Test(arguments: examples + lengths + reserved + control + fragments + text + notText + closing)
    func reads(_ example: CodecCase) { example.verify() }

    /// Of RFC 6455, 5.7, but for those examples that only a client may send.
    static let examples: [CodecCase] = [
        .init("a single-frame text message", hex("81 05 48 65 6c 6c 6f"), messages: [.text("Hello")]),
        .init("a fragmented one", hex("01 03 48 65 6c  80 02 6c 6f"), messages: [.text("Hello")]),
        .init("a ping", hex("89 05 48 65 6c 6c 6f"), sends: hex("8a 85 37 fa 21 3d 7f 9f 4d 51 58")),
        .init(
            "256 bytes of binary", hex("82 7e 01 00") + [UInt8](repeating: 7, count: 256),
            messages: [.binary([UInt8](repeating: 7, count: 256))]),
    ]

    static let lengths: [CodecCase] =
        [0, 1, 2, 124, 125, 126, 127, 128, 254, 255, 256, 1000].map { count in
            let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) }
            return .init("\(count) bytes", Wire.frame(2, payload), messages: [.binary(payload)])
        }
        + [
            "7e 00 7d", "7e 00 00", "7f 00 00 00 00 00 00 ff ff", "7f 00 00 00 00 00 00 00 00",
            "7f 80 00 00 00 00 00 00 00",
        ].map {
            .init($0, hex("82" + $0), fails: .violation("the server sent a frame whose length can't be read"))
        }
        + ["7f 7f ff ff ff ff ff ff ff", "7f 00 00 00 00 01 00 00 01"].map {
            .init($0, hex("82" + $0), fails: .tooLarge("the server sent a frame", limit: 16 << 20))
        }

    static let reserved: [CodecCase] =
        [0x1, 0x2, 0x4].flatMap { bit in
            [0x0, 0x1, 0x2, 0x8, 0x9, 0xA].map { opcode in
                .init(
                    "reserved bit \(bit) on \(opcode)", Wire.frame(opcode, [], reserved: bit),
                    fails: .violation("the server set a reserved bit in a frame"))
            }
        }
        + [0x3, 0x4, 0x5, 0x6, 0x7, 0xB, 0xC, 0xD, 0xE, 0xF].map { opcode in
            .init(
                "opcode \(opcode)", Wire.text("a") + Wire.frame(opcode, []), messages: [.text("a")],
                fails: .violation("the server sent a frame of the unknown kind \(opcode)"))
        }
        + [0x1, 0x2, 0x8, 0x9, 0xA].map { opcode in
            .init(
                "a mask on \(opcode)", [0x80 | opcode, 0x80, 1, 2, 3, 4],
                fails: .violation("the server sent a masked frame"))
        }

    static let control: [CodecCase] =
        [
            .init("an empty ping", Wire.ping(), sends: ClientFrame.pong([])),
            .init(
                "a ping of 125 bytes", Wire.frame(9, [UInt8](repeating: 3, count: 125)),
                sends: ClientFrame.pong([UInt8](repeating: 3, count: 125))),
            .init("a pong without a ping", Wire.frame(0xA, [1, 2, 3])),
            .init(
                "pings between messages, each answered",
                Wire.text("a") + Wire.frame(9, [1]) + Wire.text("b") + Wire.frame(9, [2]),
                messages: [.text("a"), .text("b")], sends: ClientFrame.pong([1]) + ClientFrame.pong([2])),
        ]
        + ["89 7e 00 7e", "88 7f 00 00 00 00 00 01 00 00"].map {
            .init($0, hex($0), fails: .violation("the server sent a control frame of more than 125 bytes"))
        }
        + [0x8, 0x9, 0xA].map {
            .init(
                "fragments of \($0)", Wire.frame($0, [], isFinal: false),
                fails: .violation("the server sent a control frame in fragments"))
        }

    private static let small = WebSocketLimits(frameBytes: 200, messageBytes: 300)
    private static func ones(_ count: Int) -> [UInt8] { [UInt8](repeating: 1, count: count) }
    private static func begun(_ text: String) -> [UInt8] { Wire.frame(1, Array(text.utf8), isFinal: false) }
    private static let unexpected = WebSocketError.violation("the server continued a message that it had not begun")

    static let fragments: [CodecCase] = [
        .init(
            "a ping between fragments", begun("He") + Wire.frame(9, [9]) + Wire.frame(0, []) + Wire.text("!"),
            messages: [.text("He"), .text("!")], sends: ClientFrame.pong([9])),
        .init(
            "empty fragments",
            Wire.frame(2, [], isFinal: false) + Wire.frame(0, [], isFinal: false) + Wire.frame(0, []),
            messages: [.binary([])]),
        .init(
            "one byte a fragment",
            Wire.frame(2, [1], isFinal: false) + Wire.frame(0, [2], isFinal: false) + Wire.frame(0, [3]),
            messages: [.binary([1, 2, 3])]),
        .init("a continuation of nothing", Wire.frame(0, [1]), fails: unexpected),
        .init(
            "a continuation after the end", begun("a") + Wire.frame(0, []) + Wire.frame(0, []),
            messages: [.text("a")], fails: unexpected),
        .init(
            "a message inside a message", begun("a") + Wire.text("b"),
            fails: .violation("the server began a message inside another one")),
        .init("a close between fragments", begun("a") + Wire.close(1000), closes: .normal),
        .init(
            "a frame over its limit", Wire.frame(2, ones(201)), limits: small,
            fails: .tooLarge("the server sent a frame", limit: 200)),
        .init(
            "a frame and a message at their limits",
            Wire.frame(2, ones(200), isFinal: false) + Wire.frame(0, ones(100)),
            limits: small, messages: [.binary(ones(300))]),
        .init(
            "a message over its limit", Wire.frame(2, ones(200), isFinal: false) + Wire.frame(0, ones(101)),
            limits: small, fails: .tooLarge("the server sent a message", limit: 300)),
    ]

    /// Frames may end inside a character (RFC 6455, 5.6).
    private static func aByteAFrame(_ bytes: [UInt8]) -> [UInt8] {
        Wire.frame(1, [], isFinal: false) + bytes.flatMap { Wire.frame(0, [$0], isFinal: false) } + Wire.frame(0, [])
    }

    /// Everything that may be text, with the edges of every length.
    static let text: [CodecCase] = [
        "é", "κόσμε", "€", "😀", "\0", "\u{7F}\u{80}", "\u{7FF}\u{800}", "\u{D7FF}\u{E000}", "\u{FFFD}\u{FFFE}\u{FFFF}",
        "\u{10000}\u{10FFFF}", "a\u{FEFF}b", String(repeating: "plain ", count: 20) + "é",
        String(repeating: "日本語", count: 15),
    ].flatMap { text in
        [
            CodecCase("text \(text.debugDescription)", Wire.text(text), messages: [.text(text)]),
            CodecCase(
                "\(text.debugDescription), a byte a frame", aByteAFrame(Array(text.utf8)), messages: [.text(text)]),
        ]
    }

    static let notText: [CodecCase] = invalidUTF8.flatMap { bytes in
        [
            CodecCase("not text: \(bytes)", Wire.frame(1, bytes), fails: .invalidUTF8),
            CodecCase(
                "not text, after some: \(bytes)", Wire.text("good") + Wire.frame(1, Array("more of it ".utf8) + bytes),
                messages: [.text("good")], fails: .invalidUTF8),
            CodecCase("not text, in fragments: \(bytes)", aByteAFrame(bytes), fails: .invalidUTF8),
        ]
    }

    static let invalidUTF8: [[UInt8]] = [
        [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC2], [0xC2, 0x41], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF],
        [0xE2, 0x82], [0xE2, 0x82, 0x41], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80],
        [0xF0, 0x8F, 0xBF, 0xBF], [0xF0, 0x9F, 0x98], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFE],
        [0xFF], [0xF8, 0x88, 0x80, 0x80, 0x80], [0x61, 0xE2, 0x28, 0xA1],
    ]

    private static let unreadable = WebSocketError.violation("the server sent a close frame that can't be read")

    static let closing: [CodecCase] =
        [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999].map {
            (code: UInt16) in
            .init(
                "close \(code)", Wire.close(code, reason: "why é"),
                closes: WebSocketCloseReason(code: code, reason: "why é"))
        }
        + [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535].map { (code: UInt16) in
            .init("close \(code)", Wire.close(code), fails: unreadable)
        }
        + [
            .init("close without a code", Wire.close(nil), closes: WebSocketCloseReason()),
            .init("close with half a code", Wire.frame(8, [3]), fails: unreadable),
            .init(
                "close with a reason that is not UTF-8", Wire.frame(8, [0x03, 0xE8, 0x61, 0xC3]), fails: .invalidUTF8),
            .init(
                "close with the longest reason", Wire.close(1000, reason: String(repeating: "a", count: 123)),
                closes: WebSocketCloseReason(code: 1000, reason: String(repeating: "a", count: 123))),
            .init(
                "what follows a close",
                Wire.text("a") + Wire.close(1001) + Wire.text("b") + Wire.ping() + [0xFF, 0xFF],
                messages: [.text("a")], closes: .goingAway),
            .init(
                "what follows an error", Wire.frame(3, []) + Wire.text("b") + Wire.close(1000),
                fails: .violation("the server sent a frame of the unknown kind 3")),
        ]

    @Test("text is refused at the first wrong byte, inside its frame", arguments: invalidUTF8)
    func refusesTextEarly(_ bytes: [UInt8]) {
        // An ASCII byte behind it makes half a character wrong; the frame promises a hundred bytes more.
        var codec = WebSocketCodec.test()
        #expect(codec.receive([0x81, UInt8(bytes.count + 101)] + bytes + [0x61]).end == .failure(.invalidUTF8))
    }

    @Test("a frame is refused by its first two bytes", arguments: ["b1 7f", "83 7f", "81 ff", "89 7e"])
    func refusesAFrameEarly(_ bytes: String) {
        var codec = WebSocketCodec.test()
        #expect(codec.receive(hex(bytes)).bytes == ClientFrame.close(1002))
    }

    @Test func takesAnotherKeyForEachFrame() {
        var keys: [UInt32] = [0x0102_0304, 0x0506_0708]
        var codec = WebSocketCodec(compression: nil, nextMaskingKey: { keys.removeFirst() })
        #expect(codec.receive(hex("89 01 00 89 01 00")).bytes == hex("8a 81 01020304 01 8a 81 05060708 05"))
    }
}
