import ChappieCore
import ChappieTesting
import TestFixtures
import Testing

@testable import ChappieWebSocket

/// permessage-deflate (RFC 7692). The bytes in these tables are the RFC's, or made with zlib at level 9 by another program.
@Suite(.byItself) struct CompressionTests {
    @Test("the examples of RFC 7692, 7.2.3", arguments: examples)
    func readsTheExamples(_ example: CodecCase) { example.verify() }

    @Test("what it says beside the examples", arguments: context + violations)
    func decompresses(_ example: CodecCase) { example.verify() }

    private static let hello = hex("c1 07 f2 48 cd c9 c9 07 00")
    /// It refers to the one before.
    private static let helloAgain = hex("c1 05 f2 00 11 00 00")
    private static let plain = DeflateParameters()
    private static let byItself = DeflateParameters(serverNoContextTakeover: true)

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

    // MARK: Sizes

    private func compressed(_ payload: [UInt8]) throws -> [UInt8] {
        let deflater = try #require(Deflater(windowBits: 15))
        return payload.withUnsafeBytes { deflater.compress($0) }
    }

    private func frames(_ message: [UInt8], fragmentBytes: Int = .max) -> [UInt8] {
        var rest = message[...]
        var frames = WebSocketFrames.frame(1, Array(rest.prefix(fragmentBytes)), isFinal: false, reserved: 4)
        rest = rest.dropFirst(fragmentBytes)
        while !rest.isEmpty {
            frames += WebSocketFrames.frame(0, Array(rest.prefix(fragmentBytes)), isFinal: false)
            rest = rest.dropFirst(fragmentBytes)
        }
        return frames + WebSocketFrames.frame(0, [])
    }

    @Test("a deflate bomb is stopped at the limit, in fragments too", arguments: [.max, 1])
    func stopsBombs(_ fragmentBytes: Int) throws {
        let bomb = try compressed([UInt8](repeating: 0x61, count: 4 << 20))
        #expect(bomb.count < 64 << 10)
        var codec = WebSocketCodec.test(limits: WebSocketLimits(messageBytes: 1 << 20), compression: Self.plain)
        let output = codec.receive(frames(bomb, fragmentBytes: fragmentBytes))
        #expect(output.end == .failure(.tooLarge("the server sent a message", limit: 1 << 20)))
        #expect(output.messages.isEmpty)
    }

    @Test(arguments: [125, Inflater.bufferBytes - 1, Inflater.bufferBytes, Inflater.bufferBytes + 1, 1 << 20])
    func decompressesToExactlyTheLimit(_ size: Int) throws {
        let wire = frames(try compressed([UInt8](repeating: 0x61, count: size)))
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

    /// What messages of ours hold, all of one connection together.
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

    @Test func aMessageThatComesAgainShrinksToItsReference() throws {
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

    // MARK: Everything at once

    @Test("streams of any shape read the same in any chunks", arguments: 0..<24)
    func readsGeneratedStreams(_ seed: Int) throws {
        var generator = SplitMix64(seed: UInt64(seed))
        var wire: [UInt8] = []
        var expected = WebSocketCodec.Output()
        for number in 0..<Int.random(in: 1...6, using: &generator) {
            let size = [0, 1, 125, 126, 3000, 20_000].randomElement(using: &generator) ?? 0
            let text = String(repeating: "é\(number)€😀 plain words ", count: size / 20) + "."
            let (isText, isCompressed) = (Bool.random(using: &generator), Bool.random(using: &generator))
            expected.messages.append(isText ? .text(text) : .binary(Array(text.utf8)))
            var rest = (isCompressed ? try compressed(Array(text.utf8)) : Array(text.utf8))[...]
            var (opcode, reserved): (UInt8, UInt8) = (isText ? 1 : 2, isCompressed ? 4 : 0)
            // In fragments of any size, some of them empty, with pings between them.
            repeat {
                let piece = rest.prefix(Int.random(in: 0...rest.count, using: &generator))
                rest = rest.dropFirst(piece.count)
                wire += WebSocketFrames.frame(opcode, Array(piece), isFinal: rest.isEmpty, reserved: reserved)
                (opcode, reserved) = (0, 0)
                guard Int.random(in: 0..<4, using: &generator) == 0 else { continue }
                let note = (0..<Int.random(in: 0...125, using: &generator)).map { UInt8($0) }
                wire += WebSocketFrames.frame(9, note)
                expected.bytes += ClientFrame.pong(note)
            } while !rest.isEmpty
        }
        for largest in [1, 7, 300, 5000, 1 << 20] {
            // One with a context of the server's own for each of its messages, as they were compressed above.
            var codec = WebSocketCodec.test(compression: Self.byItself)
            var output = WebSocketCodec.Output()
            var rest = wire[...]
            while !rest.isEmpty {
                let chunk = rest.prefix(Int.random(in: 1...largest, using: &generator))
                rest = rest.dropFirst(chunk.count)
                let more = codec.receive(Array(chunk))
                output.messages += more.messages
                output.bytes += more.bytes
                output.end = more.end
            }
            #expect(output == expected, "seed \(seed), chunks up to \(largest)")
        }
    }
}
