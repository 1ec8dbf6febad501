import ChappieCore

@testable import ChappieWebSocket

extension CodecCase {
    private static let small = WebSocketLimits(maximumFrameBytes: 125, maximumMessageBytes: 125)
    private static let deltas = ["Hello", ", world", "é€😀"].map {
        WebSocketMessage.text(#"{"type":"response.output_text.delta","delta":"\#($0)"}"#)
    }

    /// RFC 7692, 7.2.3.
    static let compressionExamples: [CodecCase] = [
        .init(
            "one compressed frame", [WireBytes.hex("c1 07 f2 48 cd c9 c9 07 00")], compression: DeflateParameters(),
            messages: [.text("Hello")]),
        .init(
            "two compressed fragments", [WireBytes.hex("41 03 f2 48 cd"), WireBytes.hex("80 04 c9 c9 07 00")],
            compression: DeflateParameters(), messages: [.text("Hello")]),
        .init(
            "a sliding window over two messages",
            [WireBytes.hex("c1 07 f2 48 cd c9 c9 07 00"), WireBytes.hex("c1 05 f2 00 11 00 00")],
            compression: DeflateParameters(), messages: [.text("Hello"), .text("Hello")]),
        .init(
            "the same message without a window",
            [WireBytes.hex("c1 07 f2 48 cd c9 c9 07 00"), WireBytes.hex("c1 07 f2 48 cd c9 c9 07 00")],
            compression: DeflateParameters(serverNoContextTakeover: true), messages: [.text("Hello"), .text("Hello")]),
        .init(
            "a stored block", [WireBytes.hex("c1 0b 00 05 00 fa ff 48 65 6c 6c 6f 00")],
            compression: DeflateParameters(), messages: [.text("Hello")]),
        .init(
            "a final block", [WireBytes.hex("c1 08 f3 48 cd c9 c9 07 00 00")], compression: DeflateParameters(),
            messages: [.text("Hello")]),
        .init(
            "two blocks", [WireBytes.hex("c1 0d f2 48 05 00 00 00 ff ff ca c9 c9 07 00")],
            compression: DeflateParameters(), messages: [.text("Hello")]),
        .init(
            "an empty message", [WireBytes.hex("c1 01 00")], compression: DeflateParameters(), messages: [.text("")]),
    ]

    /// Made with zlib at level 9 by another program.
    static let compression: [CodecCase] = [
        .init(
            "messages that refer to each other",
            [
                WireBytes.hex(
                    """
                    c133aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d25182d0564a1ea93939f9\
                    4ab50000c10eaa2649938e42797e514e8a522d00c110224ddbe1958f9ad67c983fa341a91600
                    """)
            ], compression: DeflateParameters(), messages: deltas),
        .init(
            "the same with the smallest window",
            [
                WireBytes.hex(
                    """
                    c133aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d25182d0564a1ea93939f9\
                    4ab50000c10eaa2649938e42797e514e8a522d00c110224ddbe1958f9ad67c983fa341a91600
                    """)
            ], compression: DeflateParameters(serverMaxWindowBits: 8), messages: deltas),
        .init(
            "messages compressed each by itself",
            [
                WireBytes.hex(
                    """
                    c133aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d25182d0564a1ea93939f9\
                    4ab50000c135aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d25182d0564a3a\
                    0ae5f94539294ab50000c138aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d2\
                    5182d0564a87573e6a5af361fe8c06a55a0000
                    """)
            ], compression: DeflateParameters(serverNoContextTakeover: true), messages: deltas),
        .init(
            "plain messages between compressed ones",
            [
                WireBytes.hex("c1 07 f2 48 cd c9 c9 07 00"), ServerFrame.text("plain"),
                WireBytes.hex("c1 05 f2 00 11 00 00"),
            ], compression: DeflateParameters(), messages: [.text("Hello"), .text("plain"), .text("Hello")]),
        .init(
            "a ping between compressed fragments",
            [
                WireBytes.hex("41 03 f2 48 cd"), ServerFrame.frame(0x9, [1]), WireBytes.hex("80 04 c9 c9 07 00"),
            ], compression: DeflateParameters(), messages: [.text("Hello")], sent: CodecRun.clientFrame(0x8A, [1])),
        .init(
            "no bytes at all, and the window lives on",
            [
                WireBytes.hex("c1 07 f2 48 cd c9 c9 07 00"), WireBytes.hex("c2 00"),
                WireBytes.hex("c1 05 f2 00 11 00 00"),
            ], compression: DeflateParameters(), messages: [.text("Hello"), .binary([]), .text("Hello")]),
        .init(
            "a final block without the byte behind it, and the window lives on",
            [
                WireBytes.hex("c1 07 f3 48 cd c9 c9 07 00"), WireBytes.hex("c1 05 f2 00 11 00 00"),
            ], compression: DeflateParameters(), messages: [.text("Hello"), .text("Hello")]),
        .init(
            "compression on a continuation", [WireBytes.hex("41 03 f2 48 cd"), WireBytes.hex("c0 04 c9 c9 07 00")],
            compression: DeflateParameters(), fails: .reservedBitSet, 1002),
        .init(
            "compression on a ping", [WireBytes.hex("c9 00")], compression: DeflateParameters(), fails: .reservedBitSet,
            1002),
        .init(
            "other reserved bits beside it", [WireBytes.hex("e1 00")], compression: DeflateParameters(),
            fails: .reservedBitSet, 1002),
        .init(
            "200 bytes within 125", [WireBytes.hex("c1 06 4a 4c 1c 1e 00 00")], limits: small,
            compression: DeflateParameters(), fails: .messageTooLarge(limitBytes: 125), 1009),
        .init(
            "a block of the forbidden kind", [WireBytes.hex("c1 02 06 00")], compression: DeflateParameters(),
            fails: .invalidCompression, 1007),
        .init(
            "a stored block whose lengths disagree", [WireBytes.hex("c1 06 00 05 00 00 00 41")],
            compression: DeflateParameters(), fails: .invalidCompression, 1007),
        .init(
            "a message that ends inside a block", [WireBytes.hex("c2 08 00 64 00 9b ff 48 65 6c")],
            compression: DeflateParameters(), fails: .invalidCompression, 1007),
        .init(
            "a reference to before the beginning", [WireBytes.hex("c1 05 f2 00 11 00 00")],
            compression: DeflateParameters(), fails: .invalidCompression, 1007),
        .init(
            "a reference to before a message that is for itself",
            [WireBytes.hex("c1 07 f2 48 cd c9 c9 07 00"), WireBytes.hex("c1 05 f2 00 11 00 00")],
            compression: DeflateParameters(serverNoContextTakeover: true), messages: [.text("Hello")],
            fails: .invalidCompression, 1007),
        .init(
            "compressed bytes that are not UTF-8", [WireBytes.hex("c1 07 00 02 00 fd ff c3 28 00")],
            compression: DeflateParameters(), fails: .invalidUTF8, 1007),
        .init(
            "half a character at the end of a compressed message", [WireBytes.hex("c1 07 00 01 00 fe ff c3 00")],
            compression: DeflateParameters(), fails: .invalidUTF8, 1007),
    ]
}
