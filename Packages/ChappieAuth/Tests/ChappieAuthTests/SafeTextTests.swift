import Testing

@testable import ChappieAuth

@Suite struct SafeTextTests {
    @Test(arguments: [
        ("Your refresh token has already been used.", "Your refresh token has already been used."),
        ("bad token eyJhbGciOiJub25lIn0.eyJleHAiOjF9.sig, sorry", "bad token ‹redacted›, sorry"),
        ("rt_fake_0 is gone", "‹redacted› is gone"), ("code=ac_0001&x=1", "code=‹redacted›&x=1"),
        ("code ac_0001", "code ‹redacted›"), ("refresh_token_invalidated", "refresh_token_invalidated"),
        ("see deviceauth_authorization_pending", "see deviceauth_authorization_pending"),
        ("see deviceauth_0001", "see ‹redacted›"),
        ("https://chatgpt.com/#settings/Security", "https://chatgpt.com/#settings/Security"),
        ("req 0123456789abcdef0123456789abcdef", "req ‹redacted›"), ("a\u{1B}[31mred\r\nline", "a [31mred line"),
        ("left\u{202E}right\u{200B}", "left right"), ("  two   spaces ", "two spaces"), ("Grüße 🔑", "Grüße 🔑"),
    ])
    func takesOutWhatLooksSecretOrCanNotBeSeen(_ text: String, _ expected: String) {
        #expect(SafeText.message(text) == expected)
    }

    @Test func takesOutExactSecretsHoweverTheyLook() {
        #expect(SafeText.message("it was xyzzy!", without: [Secret("xyzzy")]) == "it was ‹redacted›!")
        #expect(
            SafeText.message("an a", without: [Secret("a")]) == "an a", "a secret of a letter would hide everything")
    }

    @Test func isBoundedAndLinear() {
        #expect(SafeText.message(String(repeating: "word ", count: 200_000))?.count == 300)
        #expect(SafeText.message(String(repeating: "x", count: 1 << 20)) == "‹redacted›")
        #expect(SafeText.message(nil) == nil)
        #expect(SafeText.message(" \u{0} ") == nil)
    }

    @Test func tokensAreVisibleASCII() {
        #expect(SafeText.token("abc-._~+/=", limit: 10) == "abc-._~+/=")
        for text in ["", "a b", "a\r\nb: c", "ä", "12345678901", "\u{7F}"] {
            #expect(SafeText.token(text, limit: 10) == nil)
        }
        #expect(SafeText.token(nil, limit: 10) == nil)
    }
}
