import FoundationEssentials
import Testing

@testable import ChappieAuth

@Suite struct CodecTests {
    @Test func base64URLReadsWhatFoundationWritesAtEveryLength() {
        for length in 0...66 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 89 &+ 251) }
            let padded = Data(bytes).base64EncodedString().map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 }
            #expect(Base64URL.decode(String(padded).utf8) == bytes)
            #expect(Base64URL.decode(String(padded.filter { $0 != "=" }).utf8) == bytes)
        }
    }

    @Test(arguments: ["A", "AAAAA", "AA=", "AAA==", "AA===", "=", "A=A=", "AA+A", "AA/A", "AA A", "AA\n", "Ä"])
    func base64URLRefuses(_ text: String) { #expect(Base64URL.decode(text.utf8) == nil) }

    @Test func formsAreEncodedInOrder() {
        let form = FormEncoding.encode([
            ("b", "https://auth.openai.com/deviceauth/callback"), ("a", "x&y=z +%ü~-._"), ("", ""),
        ])
        #expect(
            String(decoding: form, as: UTF8.self)
                == "b=https%3A%2F%2Fauth.openai.com%2Fdeviceauth%2Fcallback&a=x%26y%3Dz%20%2B%25%C3%BC~-._&=")
    }
}
