@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieSimulator

struct CodingTests {
    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
    ])
    func hashesTheExamplesOfTheStandard(message: String, expected: String) {
        let hex = SHA256.digest(Array(message.utf8)).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
        #expect(hex.joined() == expected)
    }

    @Test func hashesEveryLengthAroundABlockAsCoreutilsDoes() throws {
        for length in [54, 55, 56, 57, 63, 64, 65, 119, 120, 1000] {
            let message = [UInt8](repeating: 0x61, count: length)
            let hex = SHA256.digest(message).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
            #expect(try Command.run(["sha256sum"], input: message).text.prefix(64) == hex)
        }
    }

    @Test func readsFormFieldsWithEscapesAndForgivesHalfOnes() {
        let form = FormFields(Array("a=1+2&b=%C3%A9%2f&c&d=%zz%4&a=later&e=x=y".utf8))
        #expect(form["a"] == "1 2")
        #expect(form["b"] == "é/")
        #expect(form["c"] == "")
        #expect(form["d"] == "%zz%4")
        #expect(form["e"] == "x=y")
        #expect(form["f"] == nil)
    }

    @Test(arguments: [
        ("localhost:80", true), ("127.0.0.1:8080", true), ("[::1]:1", true), ("[::1]", true), ("[::2]:1", false),
        ("evil.example:80", false), ("[::1", false), ("", false),
    ])
    func knowsItsOwnMachineByHostField(field: String, expected: Bool) {
        #expect(Backend.namesThisMachine(authority: field) == expected)
    }

    @Test func escapesEverythingThatHTMLReads() {
        #expect("<a href=\"x\" b='y'>&amp;".escapedForHTML == "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;")
    }

    @Test func anUnsignedTokenHasThreePartsAndReadableClaims() throws {
        let token = TokenLedger.unsignedJWT(["exp": 5, "name": "Zoë"])
        let parts = token.split(separator: ".")
        try #require(parts.count == 3)
        #expect(parts[0] == "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0")
        #expect(String(parts[1]) == Base64URL.encode("{\"exp\":5,\"name\":\"Zoë\"}".utf8))
    }

    @Test func unzipsWhatTheRealToolZipsWithoutASize() throws {
        var plain: [UInt8] = []
        for number in 0..<60_000 { plain += Array("\(number) ".utf8) }
        for level in ["-1", "-3", "-19"] {
            let zipped = try Command.run(["zstd", "-c", "--no-check", level], input: plain)
            #expect(zipped.status == 0)
            #expect(try ZstdDecoder.decode(zipped.output, limit: plain.count) == plain)
            #expect(throws: ZstdDecoder.Failure.tooLarge) {
                try ZstdDecoder.decode(zipped.output, limit: plain.count - 1)
            }
            #expect(throws: ZstdDecoder.Failure.malformed) {
                try ZstdDecoder.decode(Array(zipped.output.dropLast()), limit: plain.count)
            }
        }
    }

    @Test func unzipsAFrameThatFillsTheBufferExactly() throws {
        let plain = [UInt8](repeating: 7, count: 131_072)
        let zipped = try Command.run(["zstd", "-c"], input: plain)
        #expect(try ZstdDecoder.decode(zipped.output, limit: 1 << 20) == plain)
    }

    @Test(arguments: [[], [0x28], Array("not zstd at all".utf8), [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58]])
    func refusesWhatIsNotZstd(bytes: [UInt8]) {
        #expect(throws: ZstdDecoder.Failure.malformed) { try ZstdDecoder.decode(bytes, limit: 1000) }
    }

    @Test func aConversationForgetsWhatIsOverItsMemory() {
        func item(_ text: String) -> ChappieJSON { ["role": "user", "content": .string(text)] }
        var conversation = WebSocketConversation()
        #expect(conversation.lastResponseID == nil)
        conversation.remember(
            response: "resp_1", input: [item("a")], output: [item("b")], byteCount: 10, continues: false)
        #expect(conversation.lastResponseID == "resp_1")
        #expect(conversation.items == [item("a"), item("b")])
        let half = WebSocketConversation.memoryLimit / 2
        for (id, size, continues, kept) in [
            ("resp_2", half, false, "resp_2"), ("resp_3", half, true, "resp_3"), ("resp_4", 1, true, nil),
        ] {
            conversation.remember(response: id, input: [item("a")], output: [], byteCount: size, continues: continues)
            #expect(conversation.lastResponseID == kept)
        }
        #expect(conversation.items.isEmpty)
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

    @Test(arguments: [
        DeflateTerms(), DeflateTerms(serverMaxWindowBits: 9, clientMaxWindowBits: 9),
        DeflateTerms(serverNoContextTakeover: true, clientNoContextTakeover: true),
    ])
    func compressesAndDecompressesInStepWithAClient(terms: DeflateTerms) throws {
        let client = TestDeflate(
            outBits: Int32(terms.clientMaxWindowBits), inBits: Int32(terms.serverMaxWindowBits),
            resetsOut: terms.clientNoContextTakeover, resetsIn: terms.serverNoContextTakeover)
        let codec = PermessageDeflate(terms)
        var sizes: [Int] = []
        for text in ["", "Hello", "Hello", String(repeating: "Grüße 🌙 ", count: 30_000), "Hello"] {
            let bytes = Array(text.utf8)
            let compressed = try #require(codec.compress(bytes))
            sizes.append(compressed.count)
            #expect(client.decompress(compressed) == bytes)
            if !bytes.isEmpty { #expect(try codec.decompress(client.compress(bytes), limit: 1 << 20) == bytes) }
        }
        #expect(try codec.decompress([0], limit: 10).isEmpty)
        #expect((sizes[2] < sizes[1]) == !terms.serverNoContextTakeover)
        #expect(sizes[3] < 20_000)
    }

    @Test func aBombIsRefusedAndNoiseTold() {
        let bomb = TestDeflate().compress(Array(repeating: 0x78, count: 10_000_000))
        #expect(bomb.count < 20_000)
        #expect(throws: PermessageDeflate.Failure.tooLarge) {
            try PermessageDeflate(DeflateTerms()).decompress(bomb, limit: 9_999_999)
        }
        #expect(throws: PermessageDeflate.Failure.malformed) {
            try PermessageDeflate(DeflateTerms()).decompress([0x07, 0xFF, 0xFF], limit: 100)
        }
        let far = TestDeflate(outBits: 15)
        var seed: UInt32 = 7
        let noise = (0..<600).map { _ in
            seed = seed &* 1_664_525 &+ 1_013_904_223
            return UInt8(truncatingIfNeeded: seed >> 24)
        }
        let codec = PermessageDeflate(DeflateTerms(clientMaxWindowBits: 9))
        #expect(throws: PermessageDeflate.Failure.malformed, "a window larger than was agreed") {
            for _ in 0..<3 { _ = try codec.decompress(far.compress(noise), limit: 10_000) }
        }
    }

    @Test func aMessageMayEndTheStreamOfBlocks() throws {
        // RFC 7692, 7.2.3.4 with BFINAL set: "Hello", and then an empty block.
        let bytes: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]
        let codec = PermessageDeflate(DeflateTerms())
        #expect(try codec.decompress(bytes, limit: 100) == Array("Hello".utf8))
        #expect(try codec.decompress([0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00], limit: 100) == Array("Hello".utf8))
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
