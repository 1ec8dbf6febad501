import HTTPTypes
import Testing

@testable import ChappieAuth

@Suite struct IssuerErrorTests {
    private func answer(_ status: Int, _ body: String, type: String? = nil) -> IssuerAnswer {
        IssuerAnswer(status: status, headerFields: type.map { [.contentType: $0] } ?? [:], body: Array(body.utf8))
    }

    @Test(
        arguments: [
            (
                #"{"error":{"message":"M.","type":"t","param":null,"code":"Refresh_Token_Reused"}}"#,
                "refresh_token_reused", "M."
            ),
            (#"{"error":"invalid_grant","error_description":"D."}"#, "invalid_grant", "D."),
            (#"{"code":"c","message":"M."}"#, "c", "M."), (#"{"error":{"type":"t","message":"M."}}"#, "t", "M."),
            (#"{"error":{"code":null,"message":null}}"#, nil, nil), (#"{"error":7}"#, nil, nil), ("", nil, nil),
            ("[]", nil, nil),
            (#"{"error":"not a code at all"}"#, nil, nil), (#"{"detail":"Not found"}"#, nil, "Not found"),
            (#"{"error":"eyJhbGciOiJub25lIn0.eyJleHAiOjF9"}"#, nil, nil), ("<html>{}</html>", nil, nil),
        ] as [(String, String?, String?)])
    func readsCodeAndMessage(_ body: String, _ code: String?, _ message: String?) {
        let error = answer(400, body).issuerError(secrets: [])
        #expect(error.code == code)
        #expect(error.message == message)
    }

    /// What `requiresReauthentication` says is what ends a sign-in: only the token endpoint's own word about the token.
    @Test(arguments: [
        (401, "", true), (401, "<html>", false), (400, "", false), (403, "{}", false), (400, "<html>", false),
        (403, " \n<!doctype html>", false), (400, #"{"error":"invalid_grant"}"#, true), (404, "{}", false),
        (403, "error code: 1020", false),
        (403, #"{"error":{"code":"unsupported_country_region_territory","message":"Country not supported"}}"#, false),
        (400, #"{"error":"invalid_client"}"#, false), (403, #"{"error":{"code":"invalid_grant"}}"#, true),
        (429, "{}", false), (500, "{}", false), (409, #"{"error":"refresh_token_expired"}"#, true),
        (500, #"{"error":"refresh_token_reused"}"#, true), (502, "<html>", false), (302, "", false),
    ])
    func knowsWhatEndsASignIn(_ status: Int, _ body: String, _ isPermanent: Bool) {
        #expect(answer(status, body).authError(host: "issuer.test").requiresReauthentication == isPermanent)
    }

    @Test func theErrorHoldsTheBodyWithoutItsSecrets() {
        let body = #"{"error":{"code":"c","message":"You sent rt_abcdef123."},"more":[1,2]}"#
        let error = answer(400, body).authError(host: "issuer.test", secrets: [Secret("more")])
        #expect(
            error
                == .tokenExchangeFailed(
                    statusCode: 400, body: #"{"error":{"code":"c","message":"You sent ‹redacted›"},"‹redacted›":[1,2]}"#
                ))
        #expect(error.errorDescription?.contains("You sent ‹redacted› (c)") == true)
        let long = answer(500, String(repeating: "word ", count: 20_000)).authError(host: "issuer.test")
        guard case .tokenExchangeFailed(_, let shown) = long else { return #expect(Bool(false)) }
        #expect((60_000...65_536).contains(shown.count))
    }

    @Test func aPageIsKnownByItsTypeOrItsFirstByte() {
        #expect(answer(403, "blocked", type: "Text/HTML; charset=utf-8").isWebPage)
        #expect(answer(403, "\u{FEFF}\r\n <html>").isWebPage)
        #expect(!answer(403, "blocked", type: "text/plain").isWebPage)
    }

    @Test func aPageWithARefusalIsTheNetworksFault() {
        guard case .networkFailure(let words) = answer(403, "<html>").authError(host: "issuer.test") else {
            return #expect(Bool(false))
        }
        #expect(words.contains("issuer.test") && words.contains("403"))
        #expect(!ChappieAuthError.networkFailure(words).requiresReauthentication)
    }

    @Test(
        arguments: [
            ("120", 120), (" 5 ", 5), ("0", 0), ("999999999", 86_400), ("-1", nil), ("soon", nil), ("", nil),
            ("1.5", nil),
            ("99999999999999999999999", nil), ("Fri, 20 Nov 2026 12:00:07 GMT", 7),
            ("Fri, 20 Nov 2026 11:00:00 GMT", 0),
        ] as [(String, Int?)])
    func retryAfterIsSecondsOrADate(_ value: String, _ seconds: Int?) {
        let answer = IssuerAnswer(
            status: 429, headerFields: [.retryAfter: value, .date: "Fri, 20 Nov 2026 12:00:00 GMT"])
        #expect(answer.retryAfter == seconds.map { .seconds($0) })
    }

    @Test func formsAreEncodedInOrder() {
        let form = TokenClient.form([
            ("b", "https://auth.openai.com/deviceauth/callback"), ("a", "x&y=z +%ü~-._"), ("", ""),
        ])
        #expect(
            String(decoding: form, as: UTF8.self)
                == "b=https%3A%2F%2Fauth.openai.com%2Fdeviceauth%2Fcallback&a=x%26y%3Dz%20%2B%25%C3%BC~-._&=")
    }
}
