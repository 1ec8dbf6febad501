import ChappieCore

@testable import ChappieWebSocket

extension CodecCase {
    /// Everything that may be text, with the edges of every length.
    static let text: [CodecCase] = [
        "é", "κόσμε", "€", "😀", "\0", "\u{7F}\u{80}", "\u{7FF}\u{800}", "\u{D7FF}\u{E000}", "\u{FFFD}\u{FFFE}\u{FFFF}",
        "\u{10000}\u{10FFFF}", "a\u{FEFF}b", String(repeating: "plain ", count: 20) + "é",
        String(repeating: "日本語", count: 15),
    ].flatMap { text in
        let bytes = Array(text.utf8)
        // Frames may end inside a character (RFC 6455, 5.6).
        return [
            CodecCase("text \(text.debugDescription)", [ServerFrame.text(text)], messages: [.text(text)]),
            CodecCase(
                "text \(text.debugDescription), a byte a frame",
                [ServerFrame.frame(0x1, [], isFinal: false)]
                    + bytes.map { ServerFrame.continuation([$0], isFinal: false) } + [ServerFrame.continuation([])],
                messages: [.text(text)]),
        ]
    }

    static let notText: [CodecCase] = invalidUTF8.flatMap { bytes in
        [
            CodecCase("not text: \(bytes)", [ServerFrame.frame(0x1, bytes)], fails: .invalidUTF8, 1007),
            CodecCase(
                "not text, after some: \(bytes)",
                [ServerFrame.text("good"), ServerFrame.frame(0x1, Array("more of it ".utf8) + bytes)],
                messages: [.text("good")], fails: .invalidUTF8, 1007),
            CodecCase(
                "not text, in fragments: \(bytes)",
                [ServerFrame.frame(0x1, [], isFinal: false)]
                    + bytes.map { ServerFrame.continuation([$0], isFinal: false) } + [ServerFrame.continuation([])],
                fails: .invalidUTF8, 1007),
        ]
    }

    static let invalidUTF8: [[UInt8]] = [
        [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC2], [0xC2, 0x41], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF],
        [0xE2, 0x82], [0xE2, 0x82, 0x41], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80],
        [0xF0, 0x8F, 0xBF, 0xBF], [0xF0, 0x9F, 0x98], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFE],
        [0xFF], [0xF8, 0x88, 0x80, 0x80, 0x80], [0x61, 0xE2, 0x28, 0xA1],
    ]
}
