import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieClient

@Suite struct TokenScrubberTests {
    private static let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEiLCJqdGkiOiJ4eXp6eSJ9.c2lnbmF0dXJl"
    private static let opaque = "0123456789+abcdef/~-._"

    @Test(arguments: [
        ("You sent \(token)!", "You sent ‹redacted›!"),
        ("\(token)", "‹redacted›"),
        ("ab\(token),\(token)", "ab‹redacted›,‹redacted›"),
        (#"{"Authorization":"Bearer \#(opaque)=="}"#, #"{"Authorization":"Bearer ‹redacted›=="}"#),
        ("authorization: bearer \(token)\r\nhost: h", "authorization: bearer ‹redacted›\r\nhost: h"),
        ("Bearer token missing", "Bearer token missing"),
        ("eyJ and eyJhbGci", "eyJ and eyJhbGci"),
        ("request 4f8e2a10-6a2b-4a53-9d0e-0123456789ab 🌙", "request 4f8e2a10-6a2b-4a53-9d0e-0123456789ab 🌙"),
        ("", ""),
    ])
    func takesOutTokensAlone(text: String, expected: String) {
        #expect(TokenScrubber.clean(text) == expected)
    }

    @Test func staysLinear() {
        let text = String(repeating: "eyJ", count: 100_000) + String(repeating: " bearer eyJ", count: 10_000)
        #expect(TokenScrubber.clean(text) == TokenScrubber.mark + String(repeating: " bearer eyJ", count: 10_000))
    }

    @Test(arguments: [400, 403, 429, 500, 503])
    func noHTTPErrorRepeatsTheRequest(status: Int) {
        for code in ["some_code", "usage_limit_reached", "rate_limit_exceeded", "previous_response_not_found"] {
            let message = "Not \(Self.token), request 7f"
            let body = #"{"error":{"code":"\#(code)","message":"\#(message)"},"detail":"\#(message)"}"#
            expectNoToken(in: Self.mapping.verdict(status: status, headerFields: [:], body: Array(body.utf8)))
        }
        let words = Self.mapping.verdict(status: status, headerFields: [:], body: Array("Not \(Self.token)".utf8))
        expectNoToken(in: words)
    }

    @Test func noFailedResponseRepeatsTheRequest() {
        for code in ["some_code", "usage_limit_reached", "rate_limit_exceeded"] {
            let error: ChappieJSON = ["code": .string(code), "message": .string("Not \(Self.token), request 7f")]
            let response = ChappieResponse(["id": "resp_1", "error": error], .failed)
            expectNoToken(in: Self.mapping.verdict(failed: response))
        }
    }

    private static let mapping = ErrorMapping(table: .chatGPT, host: "chatgpt.com")

    private func expectNoToken(in verdict: ErrorMapping.Verdict) {
        var shown = "\(verdict.error) \(verdict.error.errorDescription ?? "")"
        dump(verdict, to: &shown)
        #expect(!shown.contains("eyJzdWI") && !shown.contains("c2lnbmF0dXJl"), "\(shown)")
    }
}
