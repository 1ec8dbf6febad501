import ChappieCore
import Testing

@testable import ChappieSimulator

struct FrameTests {
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
