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
        let token = TokenMint.unsignedJWT(["exp": 5, "name": "Zoë"])
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
}
