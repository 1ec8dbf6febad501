import Testing

@testable import ChappieSimulator
@testable import ChappieSimulatorServer

struct DeflateTests {
    @Test(arguments: [
        DeflateTerms(), DeflateTerms(serverMaxWindowBits: 9, clientMaxWindowBits: 9),
        DeflateTerms(serverNoContextTakeover: true, clientNoContextTakeover: true),
    ])
    func oneSideReadsWhatTheOtherCompresses(terms: DeflateTerms) throws {
        let (server, client) = (PermessageDeflate(terms), PermessageDeflate(terms))
        var sizes: [Int] = []
        for text in ["", "Hello", "Hello", String(repeating: "Grüße 🌙 ", count: 30_000), "Hello"] {
            let compressed = try server.compress(Array(text.utf8))
            sizes.append(compressed.count)
            #expect(try client.decompress(compressed, limit: 1 << 20) == Array(text.utf8))
        }
        #expect((sizes[2] < sizes[1]) == !terms.serverNoContextTakeover)
        #expect(sizes[3] < 20_000)
    }

    @Test func aBombIsRefusedAndSoIsNoise() throws {
        let bomb = try PermessageDeflate(DeflateTerms()).compress(Array(repeating: 0x78, count: 10_000_000))
        #expect(throws: PermessageDeflate.Failure.tooLarge) {
            try PermessageDeflate(DeflateTerms()).decompress(bomb, limit: 9_999_999)
        }
        #expect(throws: PermessageDeflate.Failure.malformed) {
            try PermessageDeflate(DeflateTerms()).decompress([0x07, 0xFF, 0xFF], limit: 100)
        }
    }

    @Test func aMessageMayEndTheStreamOfBlocks() throws {
        // RFC 7692, 7.2.3.4 with BFINAL set: "Hello", and then an empty block.
        let codec = PermessageDeflate(DeflateTerms())
        let bytes: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]
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
        #expect(DeflateTerms.accepting(offer, wish: DeflateWish())?.words == answer)
    }

    @Test func noWindowIsForcedOnAClientThatDidNotOfferOne() {
        var wish = DeflateWish()
        wish.clientMaxWindowBits = 9
        #expect(DeflateTerms.accepting("permessage-deflate", wish: wish)?.words == "permessage-deflate")
    }
}
