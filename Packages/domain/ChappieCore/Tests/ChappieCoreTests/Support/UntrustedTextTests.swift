@_spi(ChappieInternals) import ChappieCore
import Testing

@Suite struct UntrustedTextTests {
    @Test(arguments: [
        ("", ""), ("No", "No."), ("No.", "No."), ("No!", "No!"), ("Why?", "Why?"), ("So long…", "So long…"),
        ("a \"b\"", "a \"b\"."),
    ])
    func aSentenceHasAStop(_ text: String, _ sentence: String) { #expect(UntrustedText.sentence(text) == sentence) }

    @Test(arguments: [
        ("Your refresh token has already been used.", "Your refresh token has already been used."),
        ("bad token eyJhbGciOiJub25lIn0.eyJleHAiOjF9.sig, sorry", "bad token ‹redacted›, sorry"),
        ("rt_fake_0 is gone", "‹redacted› is gone"), ("code=ac_0001&x=1", "code=‹redacted›&x=1"),
        ("code ac_0001", "code ‹redacted›"), ("refresh_token_invalidated", "refresh_token_invalidated"),
        ("see deviceauth_authorization_pending", "see deviceauth_authorization_pending"),
        ("see deviceauth_0001", "see ‹redacted›"),
        ("https://chatgpt.com/#settings/Security", "https://chatgpt.com/#settings/Security"),
        ("req 0123456789abcdef0123456789abcdef", "req 0123456789abcdef0123456789abcdef"),
        ("Bearer 0123456789abcdef!", "Bearer ‹redacted›!"), ("key ghp_0a1b2c", "key ‹redacted›"),
        ("it sent dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk, or", "it sent ‹redacted›, or"),
        ("it sent E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "it sent ‹redacted›"),
        ("a\u{1B}[31mred\r\nline", "a [31mred line"),
        ("left\u{202E}right\u{200B}", "left right"), ("  two   spaces ", "two spaces"), ("Grüße 🔑", "Grüße 🔑"),
    ])
    func takesOutWhatLooksSecretOrCanNotBeSeen(_ text: String, _ expected: String) {
        #expect(UntrustedText.message(text) == expected)
    }

    @Test(
        "what explains a fault stays, however long it is",
        arguments: [
            "/properties/a_rather_long_property_name_of_a_schema_with_64_letters_and_digits_2",
            #"File "/home/karl/.local/share/pipx/venvs/some-server/lib/python3.11/site-packages/server/__main__.py", line 16"#,
            "see https://docs.example.com/errors/2024/05/how-to-fix#a-fragment-of-many-words-and-20-letters",
            "Searched the web: Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
            "the tool ThisIsAVeryLongToolNameInCamelCase2", "Qwen2_5_VL_72B_Instruct_AWQ",
            "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
            "convertUtf8ToUtf16ThenBase64Decode", "at_least_one_is_required",
            "rt_sigaction", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        ])
    func namesStay(_ text: String) { #expect(UntrustedText.message(text) == text) }

    @Test func takesOutExactSecretsHoweverTheyLook() {
        #expect(UntrustedText.message("it was xyzzy!", without: ["xyzzy"]) == "it was ‹redacted›!")
        #expect(
            UntrustedText.message("an a", without: ["a"]) == "an a", "a secret of a letter would hide everything")
    }

    @Test func isBoundedAndLinear() {
        #expect(UntrustedText.message(String(repeating: "word ", count: 200_000))?.count == 300)
        #expect(UntrustedText.message(String(repeating: "x", count: 1 << 20))?.count == 300)
        #expect(UntrustedText.message(nil) == nil)
        #expect(UntrustedText.message(" \u{0} ") == nil)
    }

    @Test func tokensAreVisibleASCII() {
        #expect(UntrustedText.token("abc-._~+/=", limit: 10) == "abc-._~+/=")
        for text in ["", "a b", "a\r\nb: c", "ä", "12345678901", "\u{7F}"] {
            #expect(UntrustedText.token(text, limit: 10) == nil)
        }
        #expect(UntrustedText.token(nil, limit: 10) == nil)
    }

    @Test(arguments: [
        ("", ""), ("Grüße 🔑\n\tindented\n", "Grüße 🔑\n\tindented\n"),
        ("\u{1B}[2J", "\u{FFFD}[2J"), ("\u{1B}]52;c;YQ==\u{7}", "\u{FFFD}]52;c;YQ==\u{FFFD}"),
        ("\u{9B}2J", "\u{FFFD}2J"), ("a\u{8}\u{7F}\u{0}b", "a\u{FFFD}\u{FFFD}\u{FFFD}b"),
        ("good\rbad", "goodbad"), ("two\r\nlines", "two\nlines"), ("\u{A0}\u{80}\u{9F}", "\u{A0}\u{FFFD}\u{FFFD}"),
        ("a\u{202E}b\u{2066}c\u{2069}", "a\u{FFFD}b\u{FFFD}c\u{FFFD}"), ("\u{200E}a\u{200F}b\u{61C}", "ab"),
        ("a\u{E0041}", "a\u{FFFD}"), ("👩\u{200D}🔬 ❤\u{FE0F}", "👩\u{200D}🔬 ❤\u{FE0F}"),
    ])
    func aTerminalIsGivenNoOrders(_ text: String, _ expected: String) {
        #expect(UntrustedText.forTerminal(text) == expected)
    }

    private static let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEiLCJqdGkiOiJ4eXp6eSJ9.c2lnbmF0dXJl"
    private static let opaque = "0123456789+abcdef/~-._"

    @Test(arguments: [
        ("You sent \(token)!", "You sent ‹redacted›!"), ("\(token)", "‹redacted›"),
        ("ab\(token),\(token)", "ab‹redacted›,‹redacted›"),
        (#"{"Authorization":"Bearer \#(opaque)=="}"#, #"{"Authorization":"Bearer ‹redacted›=="}"#),
        ("authorization: bearer \(token)\r\nhost: h", "authorization: bearer ‹redacted›\r\nhost: h"),
        ("Bearer token missing", "Bearer token missing"), ("eyJ and eyJhbGci", "eyJ and eyJhbGci"),
        ("eyJ456789012345", "eyJ456789012345"), ("eyJ4567890123456", "‹redacted›"),
        ("Bearer 123456789012345", "Bearer 123456789012345"), ("BEARER 1234567890123456", "BEARER ‹redacted›"),
        ("request 4f8e2a10-6a2b-4a53-9d0e-0123456789ab 🌙", "request 4f8e2a10-6a2b-4a53-9d0e-0123456789ab 🌙"),
        ("", ""),
    ])
    func wholeBodiesLoseTheirTokensAlone(_ text: String, _ expected: String) {
        #expect(UntrustedText.withoutTokens(text) == expected)
    }

    @Test func wholeBodiesAreReadInLinearTime() {
        let short = String(repeating: " bearer eyJ", count: 10_000)
        let text = String(repeating: "eyJ", count: 100_000) + short
        #expect(UntrustedText.withoutTokens(text) == "‹redacted›" + short)
    }
}
