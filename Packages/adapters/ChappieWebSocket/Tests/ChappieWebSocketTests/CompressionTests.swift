import ChappieCore
import ChappieTesting
import TestFixtures
import Testing

@testable import ChappieWebSocket

/// permessage-deflate (RFC 7692). The bytes in these tables are the RFC's, or made with zlib at level 9 by another
/// program.
@Suite(.byItself) struct CompressionTests {
    @Test(arguments: examples + context + violations)
    func decompresses(_ example: CodecCase) { example.verify() }

    private static let hello = hex("c1 07 f2 48 cd c9 c9 07 00")
    /// It refers to the one before.
    private static let helloAgain = hex("c1 05 f2 00 11 00 00")
    private static let plain = DeflateParameters()
    private static let byItself = DeflateParameters(serverNoContextTakeover: true)

    /// Of RFC 7692, 7.2.3.
    static let examples: [CodecCase] = [
        .init("one frame", hello, compression: plain, messages: [.text("Hello")]),
        .init(
            "two fragments", hex("41 03 f2 48 cd  80 04 c9 c9 07 00"), compression: plain, messages: [.text("Hello")]),
        .init(
            "a window over two messages", hello + helloAgain, compression: plain,
            messages: [.text("Hello"), .text("Hello")]),
        .init(
            "without a window", hello + hello, compression: byItself, messages: [.text("Hello"), .text("Hello")]),
        .init(
            "a stored block", hex("c1 0b 00 05 00 fa ff 48 65 6c 6c 6f 00"), compression: plain,
            messages: [.text("Hello")]),
        .init("a final block", hex("c1 08 f3 48 cd c9 c9 07 00 00"), compression: plain, messages: [.text("Hello")]),
        .init(
            "two blocks", hex("c1 0d f2 48 05 00 00 00 ff ff ca c9 c9 07 00"), compression: plain,
            messages: [.text("Hello")]),
        .init("an empty message", hex("c1 01 00"), compression: plain, messages: [.text("")]),
    ]

    private static let deltas = ["Hello", ", world", "é€😀"].map {
        WebSocketMessage.text(#"{"type":"response.output_text.delta","delta":"\#($0)"}"#)
    }
    private static let deltasTogether = hex(
        """
        c133aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d25182d0564a1ea93939f9\
        4ab50000c10eaa2649938e42797e514e8a522d00c110224ddbe1958f9ad67c983fa341a91600
        """)

    static let context: [CodecCase] = [
        .init("messages that refer to each other", deltasTogether, compression: plain, messages: deltas),
        .init(
            "the same with the smallest window", deltasTogether, compression: DeflateParameters(serverMaxWindowBits: 8),
            messages: deltas),
        .init(
            "messages compressed each by itself",
            hex(
                """
                c133aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d25182d0564a1ea93939f9\
                4ab50000c135aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d25182d0564a3a\
                0ae5f94539294ab50000c138aa562aa92c4855b2522a4a2d2ec8cf2b4ed5cb2f2d29282d892f49ad28d14b49cd294954d2\
                5182d0564a87573e6a5af361fe8c06a55a0000
                """), compression: byItself, messages: deltas),
        .init(
            "plain messages between compressed ones", hello + WebSocketFrames.text("plain") + helloAgain,
            compression: plain, messages: [.text("Hello"), .text("plain"), .text("Hello")]),
        .init(
            "a ping between compressed fragments", hex("41 03 f2 48 cd  89 01 01  80 04 c9 c9 07 00"),
            compression: plain, messages: [.text("Hello")], sends: ClientFrame.pong([1])),
        .init(
            "no bytes at all, and the window lives on", hello + hex("c2 00") + helloAgain, compression: plain,
            messages: [.text("Hello"), .binary([]), .text("Hello")]),
        .init(
            "a final block without the byte behind it, and the window lives on",
            hex("c1 07 f3 48 cd c9 c9 07 00") + helloAgain, compression: plain,
            messages: [.text("Hello"), .text("Hello")]),
    ]

    private static let invalid = WebSocketError.violation(
        "the server sent a message that can't be decompressed", closeCode: 1007)

    static let violations: [CodecCase] =
        ["41 03 f2 48 cd  c0 04 c9 c9 07 00", "c9 00", "e1 00"].map {
            .init(
                "reserved bits: \($0)", hex($0), compression: plain,
                fails: .violation("the server set a reserved bit in a frame"))
        }
        + [
            ("a block of the forbidden kind", "c1 02 06 00"),
            ("a stored block whose lengths disagree", "c1 06 00 05 00 00 00 41"),
            ("a message that ends inside a block", "c2 08 00 64 00 9b ff 48 65 6c"),
            ("a reference to before the beginning", "c1 05 f2 00 11 00 00"),
        ].map { .init($0, hex($1), compression: plain, fails: invalid) }
        + [
            ("bytes that are not UTF-8", "c1 07 00 02 00 fd ff c3 28 00"),
            ("half a character at the end", "c1 07 00 01 00 fe ff c3 00"),
        ].map { .init($0, hex($1), compression: plain, fails: .invalidUTF8) }
        + [
            .init(
                "a reference to before a message that is for itself", hello + helloAgain, compression: byItself,
                messages: [.text("Hello")], fails: invalid),
            .init(
                "200 bytes within 125", hex("c1 06 4a 4c 1c 1e 00 00"), limits: WebSocketLimits(messageBytes: 125),
                compression: plain, fails: .tooLarge("the server sent a message", limit: 125)),
        ]

    @Test func refusesTextEarlyInACompressedFragment() {
        // A stored block of two bytes, flushed; the message goes on.
        var codec = WebSocketCodec.test(compression: Self.plain)
        #expect(codec.receive(hex("41 08 00 02 00 fd ff c3 28 00")).end == .failure(.invalidUTF8))
    }

    /// A fuzzer found it: zlib looks only now and then whether a distance is inside the window.
    @Test func `a peer that exceeds its window is treated alike however its bytes arrive`() throws {
        var generator = SplitMix64(seed: 3)
        let noise = (0..<2000).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let wire = WebSocketFrames.frame(2, try compressed(noise + noise), reserved: 4)
        let negotiated = DeflateParameters(serverMaxWindowBits: 9)
        for chunks in [[wire], wire.map { [$0] }] {
            var codec = WebSocketCodec.test(compression: negotiated)
            #expect(codec.receive(chunks).messages == [.binary(noise + noise)])
        }
    }

    // MARK: Sizes

    private func compressed(_ payload: [UInt8]) throws -> [UInt8] {
        var deflater = try #require(Deflater(windowBits: 15))
        return try #require(payload.withUnsafeBytes { deflater.compress($0) })
    }

    @Test func aDeflateBombIsStoppedAtTheLimit() throws {
        let bomb = try compressed([UInt8](repeating: 0x61, count: 4 << 20))
        #expect(bomb.count < 64 << 10)
        var codec = WebSocketCodec.test(limits: WebSocketLimits(messageBytes: 1 << 20), compression: Self.plain)
        let output = codec.receive(WebSocketFrames.frame(1, bomb, reserved: 4))
        #expect(output.end == .failure(.tooLarge("the server sent a message", limit: 1 << 20)))
        #expect(output.messages.isEmpty)
    }

    @Test(arguments: [125, Inflater.bufferBytes - 1, Inflater.bufferBytes, Inflater.bufferBytes + 1, 1 << 20])
    func decompressesToExactlyTheLimit(_ size: Int) throws {
        let wire = WebSocketFrames.frame(1, try compressed([UInt8](repeating: 0x61, count: size)), reserved: 4)
        var exact = WebSocketCodec.test(limits: WebSocketLimits(messageBytes: size), compression: Self.plain)
        #expect(exact.receive(wire).messages == [.text(String(repeating: "a", count: size))])
        var short = WebSocketCodec.test(limits: WebSocketLimits(messageBytes: size - 1), compression: Self.plain)
        #expect(short.receive(wire).end == .failure(.tooLarge("the server sent a message", limit: size - 1)))
    }

    @Test(arguments: [Inflater.bufferBytes - 1, Inflater.bufferBytes, 2 * Inflater.bufferBytes])
    func aFinalBlockMayEndWhereTheBufferDoes(_ size: Int) {
        let payload = [UInt8](repeating: 0x61, count: size)
        let (low, high) = (UInt8(size & 0xFF), UInt8(size >> 8))
        let stored = [0x01, low, high, ~low, ~high] + payload
        let wire = WebSocketFrames.frame(2, stored, reserved: 4) + WebSocketFrames.frame(2, stored, reserved: 4)
        for chunks in [[wire], wire.map { [$0] }] {
            var codec = WebSocketCodec.test(compression: Self.plain)
            #expect(codec.receive(chunks).messages == [.binary(payload), .binary(payload)])
        }
    }

    // MARK: Sending

    /// The content of all our messages on one connection.
    private func contents(of frames: [UInt8], windowBits: Int = 15) throws -> [UInt8] {
        let inflater = try Inflater(windowBits: windowBits)
        var contents: [UInt8] = []
        for frame in try #require(ClientFrame.read(frames)) {
            #expect(frame.first == 0xC2)
            try frame.payload.withUnsafeBytes {
                try inflater.decompress($0, endsMessage: true, into: &contents, limit: .max)
            }
        }
        return contents
    }

    @Test("compressed messages of every window", arguments: 9...15)
    func compressesWithEveryWindow(_ bits: Int) throws {
        var codec = WebSocketCodec.test(compression: DeflateParameters(clientMaxWindowBits: bits))
        var generator = SplitMix64(seed: UInt64(bits))
        // Long repetitions at every distance, so that a window too large would be found out.
        let noise = (0..<600).map { _ in UInt8.random(in: 0x20...0x7E, using: &generator) }
        let messages = (0..<20).map { Array(noise[..<(30 * $0 + 1)]) + noise.reversed() }
        var frames: [UInt8] = []
        for message in messages { frames += try codec.send(.binary(message)) }
        #expect(try contents(of: frames, windowBits: bits) == messages.flatMap(\.self))
    }

    @Test(
        "compressed noise of every size stays in its bound", arguments: [1, 125, 126, 20_000, 65_530, 66_000, 1 << 20])
    func compressesNoise(_ size: Int) throws {
        var generator = SplitMix64(seed: 7)
        let noise = (0..<size).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        var codec = WebSocketCodec.test(compression: Self.plain)
        let frames = try codec.send(.binary(noise)) + codec.send(.binary(noise))
        #expect(try contents(of: frames) == noise + noise)
    }

    @Test func `a message that is sent again shrinks to a reference`() throws {
        let text = WebSocketMessage.text((0..<200).map(String.init).joined(separator: " "))
        var codec = WebSocketCodec.test(compression: Self.plain)
        let first = try codec.send(text)
        #expect(try codec.send(text).count < first.count / 10)
    }

    @Test func messagesForThemselvesAreAlwaysTheSame() throws {
        let message = WebSocketMessage.binary(Array("again and again and again".utf8))
        var codec = WebSocketCodec.test(compression: DeflateParameters(clientNoContextTakeover: true))
        let first = try codec.send(message)
        #expect(try codec.send(message) == first)
        #expect(try contents(of: first) == Array("again and again and again".utf8))
    }

    @Test func whatCanNotBeCompressedTravelsAsItIs() throws {
        var smallest = WebSocketCodec.test(compression: DeflateParameters(clientMaxWindowBits: 8))
        #expect(try smallest.send(.text("Hello")) == hex("81 85 37 fa 21 3d 7f 9f 4d 51 58"))
        var codec = WebSocketCodec.test(compression: Self.plain)
        #expect(try codec.send(.text("")) == hex("81 80 37 fa 21 3d"))
    }
}
