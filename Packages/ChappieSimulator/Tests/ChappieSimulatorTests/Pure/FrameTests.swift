import ChappieCore
import Testing

@testable import ChappieSimulator

struct FrameTests {
    private func masked(_ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, reserved: UInt8 = 0) -> [UInt8] {
        TestWebSocket.bytes(
            of: .init(opcode: opcode, payload: payload, isFinal: isFinal, reservedBits: reserved, isMasked: true))
    }

    @Test func digestsAsThePublishedVectorsSay() {
        func hex(_ text: String) -> String {
            SHA1.digest(Array(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        #expect(hex("abc") == "a9993e364706816aba3e25717850c26c9cd0d89d")
        #expect(hex("") == "da39a3ee5e6b4b0d3255bfef95601890afd80709")
        #expect(
            hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")
                == "84983e441c3bd26ebaae4aa1f95129e5e54670f1")
        #expect(hex(String(repeating: "a", count: 1_000_000)) == "34aa973cd4c4daa4f61eeb2bdbad27316534016f")
    }

    @Test(arguments: [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
    func framesOfEveryLengthSayHowLongTheyAre(count: Int) {
        let bytes = ServerFrame(opcode: Opcode.binary, payload: Array(repeating: 7, count: count)).bytes
        let size = FrameHeader.size(of: bytes)
        #expect(size == (count < 126 ? 2 : count < 65_536 ? 4 : 10))
        #expect(FrameHeader.payloadLength(in: bytes) == count)
        #expect(bytes.count == (size ?? 0) + count)
        var boundary = FrameBoundary()
        boundary.sent(bytes.dropLast())
        #expect(!boundary.isReached)
        boundary.sent(bytes.suffix(1))
        #expect(boundary.isReached)
    }

    @Test func readsTheSameAtEveryChunkSize() {
        let bytes =
            masked(1, Array("Hel".utf8), isFinal: false) + masked(9, Array("in".utf8))
            + masked(0, Array("lo ".utf8), isFinal: false) + masked(0, Array("🌙".utf8)) + masked(10, [])
            + masked(1, Array(String(repeating: "x", count: 300).utf8)) + masked(8, [0x03, 0xE8])
        var whole = WebSocketReader(deflate: nil, connection: 3)
        let expected = whole.received(bytes)
        guard case .message(let message) = expected.dropFirst().first else {
            Issue.record("the second event is no message")
            return
        }
        #expect(String(decoding: message.body, as: UTF8.self) == "Hello 🌙")
        #expect(message.frameCount == 3)
        #expect(message.wireByteCount == 3 * 6 + 10)
        #expect(message.connection == 3)
        #expect(expected.count == 5)
        #expect(expected.last == .close(code: 1000))
        for size in [1, 2, 3, 5, 7, 64] {
            var reader = WebSocketReader(deflate: nil, connection: 3)
            let events = stride(from: 0, to: bytes.count, by: size).flatMap {
                reader.received(Array(bytes[$0..<min($0 + size, bytes.count)]))
            }
            #expect(events == expected, "chunks of \(size)")
        }
    }

    @Test(
        arguments: [
            ([0x81, 0x01, 0x61], 1002, "an unmasked frame"),
            ([0xC1, 0x80, 0, 0, 0, 0], 1002, "RSV1 without compression"),
            ([0xA1, 0x80, 0, 0, 0, 0], 1002, "RSV2"),
            ([0x83, 0x80, 0, 0, 0, 0], 1002, "a reserved opcode"),
            ([0x8B, 0x80, 0, 0, 0, 0], 1002, "a reserved control opcode"),
            ([0x80, 0x80, 0, 0, 0, 0], 1002, "a continuation of nothing"),
            ([0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0], 1002, "a message inside a message"),
            ([0x09, 0x80, 0, 0, 0, 0], 1002, "a ping in fragments"),
            ([0x89, 0xFE, 0, 126, 0, 0, 0, 0], 1002, "a ping of 126 bytes"),
            ([0x88, 0x81, 0, 0, 0, 0, 3], 1002, "half a close code"),
            ([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xED], 1002, "close code 1005"),
            ([0x88, 0x83, 0, 0, 0, 0, 0x03, 0xE8, 0xFF], 1007, "a close reason that is not UTF-8"),
            ([0x81, 0x82, 0, 0, 0, 0, 0xC3, 0x28], 1007, "text that is not UTF-8"),
            ([0x82, 0xFF, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0], 1009, "a frame of 16 MiB and a byte"),
            ([0x82, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1009, "a length beyond any"),
        ] as [([UInt8], UInt16, String)])
    func everyBrokenRuleHasItsCloseCode(bytes: [UInt8], code: UInt16, name: String) {
        var reader = WebSocketReader(deflate: nil, connection: 0)
        let events = bytes.flatMap { reader.received([$0]) }
        guard case .broken(let violation) = events.last else {
            Issue.record("\(name) passed: \(events)")
            return
        }
        #expect(violation.code == code, "\(name)")
        #expect(reader.received(bytes).isEmpty, "\(name): read on")
    }

    @Test func aMessageOfManyFramesHasALimit() {
        var reader = WebSocketReader(deflate: nil, connection: 0)
        let quarter = [UInt8](repeating: 0x78, count: WebSocketReader.frameLimit)
        for index in 0..<4 {
            let header: [UInt8] = [index == 0 ? 1 : 0, 0xFF, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
            #expect(reader.received(header + quarter).isEmpty)
        }
        let events = reader.received(masked(0, [0x78]))
        #expect(events == [.broken(.tooBig("a message is over \(WebSocketReader.messageLimit) bytes"))])
    }

    @Test(arguments: [
        DeflateTerms(), DeflateTerms(serverMaxWindowBits: 9, clientMaxWindowBits: 9),
        DeflateTerms(serverNoContextTakeover: true, clientNoContextTakeover: true),
    ])
    func compressesAndDecompressesInStepWithAClient(terms: DeflateTerms) throws {
        let client = TestDeflate(
            outBits: Int32(terms.clientMaxWindowBits), inBits: Int32(terms.serverMaxWindowBits),
            resetsOut: terms.clientNoContextTakeover, resetsIn: terms.serverNoContextTakeover)
        let (deflater, inflater) = (MessageDeflater(terms), MessageInflater(terms))
        var sizes: [Int] = []
        for text in ["", "Hello", "Hello", String(repeating: "Grüße 🌙 ", count: 30_000), "Hello"] {
            let bytes = Array(text.utf8)
            let compressed = try #require(deflater.compress(bytes))
            sizes.append(compressed.count)
            #expect(client.decompress(compressed) == bytes)
            if !bytes.isEmpty { #expect(try inflater.decompress(client.compress(bytes), limit: 1 << 20) == bytes) }
        }
        #expect(try inflater.decompress([0], limit: 10).isEmpty)
        #expect((sizes[2] < sizes[1]) == !terms.serverNoContextTakeover)
        #expect(sizes[3] < 20_000)
    }

    @Test func aBombIsRefusedAndNoiseTold() {
        let bomb = TestDeflate().compress(Array(repeating: 0x78, count: 10_000_000))
        #expect(bomb.count < 20_000)
        #expect(throws: MessageInflater.Failure.tooLarge) {
            try MessageInflater(DeflateTerms()).decompress(bomb, limit: 9_999_999)
        }
        #expect(throws: MessageInflater.Failure.malformed) {
            try MessageInflater(DeflateTerms()).decompress([0x07, 0xFF, 0xFF], limit: 100)
        }
        let far = TestDeflate(outBits: 15)
        var seed: UInt32 = 7
        let noise = (0..<600).map { _ in
            seed = seed &* 1_664_525 &+ 1_013_904_223
            return UInt8(truncatingIfNeeded: seed >> 24)
        }
        let inflater = MessageInflater(DeflateTerms(clientMaxWindowBits: 9))
        #expect(throws: MessageInflater.Failure.malformed, "a window larger than was agreed") {
            for _ in 0..<3 { _ = try inflater.decompress(far.compress(noise), limit: 10_000) }
        }
    }

    @Test func aMessageMayEndTheStreamOfBlocks() throws {
        // RFC 7692, 7.2.3.4 with BFINAL set: "Hello", and then an empty block.
        let bytes: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]
        let inflater = MessageInflater(DeflateTerms())
        #expect(try inflater.decompress(bytes, limit: 100) == Array("Hello".utf8))
        #expect(try inflater.decompress([0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00], limit: 100) == Array("Hello".utf8))
    }

    private static let offers: [(String, String?)] = [
        ("permessage-deflate; client_max_window_bits", "permessage-deflate"),
        ("permessage-deflate", "permessage-deflate"),
        ("Permessage-Deflate;server_no_context_takeover", "permessage-deflate; server_no_context_takeover"),
        ("permessage-deflate; server_max_window_bits=10", "permessage-deflate; server_max_window_bits=10"),
        ("permessage-deflate; client_max_window_bits=\"11\"", "permessage-deflate; client_max_window_bits=11"),
        ("permessage-deflate; server_max_window_bits=8, permessage-deflate", "permessage-deflate"),
        ("x-other, permessage-deflate; client_no_context_takeover", "permessage-deflate; client_no_context_takeover"),
        ("permessage-deflate; server_max_window_bits", nil), ("permessage-deflate; server_max_window_bits=16", nil),
        ("permessage-deflate; client_max_window_bits=7", nil), ("permessage-deflate; hologram", nil),
        ("permessage-deflate; client_no_context_takeover=1", nil), ("x-other", nil), ("", nil), (";;,=", nil),
        ("permessage-deflate; client_max_window_bits; client_max_window_bits", nil),
    ]

    @Test(arguments: offers)
    func takesTheFirstOfferThatIsInOrder(offer: String, answer: String?) {
        #expect(DeflateTerms.accepting(offer, wish: DeflateWish())?.answer == answer)
    }

    @Test func wishesAreToldButNoWindowIsForcedOnAClientThatDidNotOfferOne() {
        let wish = DeflateWish(
            serverNoContextTakeover: true, clientNoContextTakeover: true, serverMaxWindowBits: 12,
            clientMaxWindowBits: 9)
        #expect(
            DeflateTerms.accepting("permessage-deflate; client_max_window_bits", wish: wish)?.answer
                == "permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
                + "server_max_window_bits=12; client_max_window_bits=9")
        #expect(DeflateTerms.accepting("permessage-deflate", wish: wish)?.terms.clientMaxWindowBits == 15)
    }
}
