@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct SmallToolTests {
    @Test func `Base64URL agrees with Foundation at every length`() {
        for length in 0...66 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 89 &+ 251) }
            let padded = Data(bytes).base64EncodedString()
                .replacing("+", with: "-").replacing("/", with: "_")
            let bare = padded.replacing("=", with: "")
            #expect(Base64URL.encode(bytes) == bare)
            #expect(Base64URL.decode(padded) == bytes)
            #expect(Base64URL.decode(bare) == bytes)
        }
    }

    @Test(arguments: [
        "A", "AAAAA", "AA=", "=", "A=A=", "AA+A", "AA/A", "AA A", "AA\n", "Ä",
    ])
    func base64URLRefuses(_ text: String) { #expect(Base64URL.decode(text) == nil) }

    @Test(arguments: [
        (Duration.zero, "0 s"), (.milliseconds(250), "250 ms"), (.seconds(2), "2 s"), (.milliseconds(1500), "1.5 s"),
        (.milliseconds(1025), "1.025 s"), (.seconds(60), "60 s"), (.seconds(90), "90 s"), (.seconds(180), "3 min"),
        (.microseconds(3), "0 s"), (.milliseconds(600_500), "600.5 s"),
    ])
    func aDurationHasWords(duration: Duration, words: String) { #expect(duration.words == words) }
}
