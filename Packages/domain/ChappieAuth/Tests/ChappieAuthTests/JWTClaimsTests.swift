@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@testable import ChappieAuth

@Suite struct JWTClaimsTests {
    private func token(_ payload: String, header: String = #"{"alg":"none"}"#, signature: String = "c2ln") -> [UInt8] {
        let parts = [header, payload].map { Data($0.utf8).base64EncodedString().filter { $0 != "=" } }
        let text = "\(parts[0]).\(parts[1]).\(signature)"
        return Array(text.utf8).map {
            $0 == UInt8(ascii: "+") ? UInt8(ascii: "-") : $0 == UInt8(ascii: "/") ? UInt8(ascii: "_") : $0
        }
    }

    private let full = """
        {"email":"a@b.c","exp":1795218120,"https://api.openai.com/auth":{"chatgpt_plan_type":"team",\
        "chatgpt_user_id":"u1","user_id":"u2","chatgpt_account_id":"acc","chatgpt_account_is_fedramp":true}}
        """

    @Test func readsEveryClaim() throws {
        let claims = try #require(JWTClaims(bytes: token(full)))
        #expect(
            claims.account
                == ChappieAccountInfo(
                    email: "a@b.c", userID: "u1", accountID: "acc", plan: .team, isFedRAMPAccount: true))
        #expect(claims.expiresAt == Date(timeIntervalSince1970: 1_795_218_120))
    }

    @Test func fallsBackToTheOtherPlaces() throws {
        let claims = try #require(
            JWTClaims(
                bytes: token(
                    #"{"https://api.openai.com/profile":{"email":"p@q.r"},"https://api.openai.com/auth":{"user_id":"u2","chatgpt_plan_type":"ent26"}}"#
                )))
        #expect(claims.account == ChappieAccountInfo(email: "p@q.r", userID: "u2", plan: .other("ent26")))
        #expect(claims.expiresAt == nil)
    }

    @Test func `the account is also read from the root`() throws {
        let payload = #"{"account_id":"acc","user_id":"u","chatgpt_plan_type":"plus","https://api.openai.com/auth":{}}"#
        let claims = try #require(JWTClaims(bytes: token(payload)))
        #expect(claims.account == ChappieAccountInfo(userID: "u", accountID: "acc", plan: .plus))
        let both =
            #"{"chatgpt_account_id":"a","https://api.openai.com/auth":{"account_id":"b","user_id":null},"user_id":"u"}"#
        #expect(JWTClaims(bytes: token(both))?.account == ChappieAccountInfo(userID: "u", accountID: "a"))
    }

    @Test(
        arguments: [
            (#""chatgpt_compute_residency":"eu","chatgpt_data_residency":"us""#, "eu"),
            (#""chatgpt_data_residency":"us""#, "us"),
            (#""chatgpt_compute_residency":"","chatgpt_data_residency":"us""#, "us"),
            (#""chatgpt_compute_residency":null"#, nil), (#""chatgpt_compute_residency":"a\r\nb""#, nil),
            (#""chatgpt_compute_residency":"no_constraint","chatgpt_data_residency":"us""#, "no_constraint"),
            (#""chatgpt_compute_residency":["eu"]"#, nil),
        ] as [(String, String?)])
    func `the region is read from the namespace or the root`(_ members: String, _ region: String?) {
        let spaced = #"{"chatgpt_compute_residency":"","https://api.openai.com/auth":{\#(members)}}"#
        #expect(JWTClaims(bytes: token(spaced))?.residency == region)
        #expect(JWTClaims(bytes: token("{\(members)}"))?.residency == region)
    }

    @Test(arguments: [
        "{}", #"{"email":7,"exp":"soon","https://api.openai.com/auth":"none"}"#,
        #"{"exp":-1,"https://api.openai.com/auth":[]}"#, #"{"exp":1e308}"#, #"{"exp":0}"#,
        #"{"exp":253402300800}"#, #"{"exp":123456789012345678901234567890}"#, #"{"exp":null,"email":""}"#,
        #"{"email":"a\u001b[2J@b.c","https://api.openai.com/auth":{"chatgpt_account_id":"a\r\nx: y","chatgpt_user_id":"ü"}}"#,
    ])
    func whatIsNotAsExpectedIsAbsent(_ payload: String) throws {
        let claims = try #require(JWTClaims(bytes: token(payload)))
        #expect(claims.account == ChappieAccountInfo())
        #expect(claims.expiresAt == nil)
    }

    @Test func theSignatureMayBeEmptyOrMissing() {
        #expect(JWTClaims(bytes: token(full, signature: "")) != nil)
        #expect(JWTClaims(bytes: token(full, signature: "").dropLast()) != nil)
        #expect(JWTClaims(bytes: token(full, header: "not JSON")) != nil, "nothing of the header is used")
    }

    @Test func `every truncation is read or refused but never traps`() {
        let whole = token(full)
        let end = whole.lastIndex(of: UInt8(ascii: ".")) ?? 0
        for length in 0...whole.count {
            let claims = JWTClaims(bytes: Array(whole.prefix(length)))
            // Nothing can be known before the payload is whole: JSON has no valid prefix that is an object.
            #expect((claims != nil) == (length >= end), "at \(length)")
        }
    }

    @Test func everyByteMayBeWrong() {
        let whole = token(full)
        for index in whole.indices {
            for byte: UInt8 in [0x00, 0x2E, 0x3D, 0x41, 0x7F, 0xFF] {
                var broken = whole
                broken[index] = byte
                if let claims = JWTClaims(bytes: broken) {
                    #expect(UntrustedText.token(claims.account.accountID ?? "x", limit: 256) != nil)
                }
            }
        }
    }

    @Test(arguments: ["", ".", "..", "...", "a.b", "a.b.c.d", ".e30.", "a.e30", "a.W10.", "a.bnVsbA.", "é.e30."])
    func readsOnlyObjectsInThePlaceOfThePayload(_ text: String) {
        #expect((JWTClaims(bytes: Array(text.utf8)) != nil) == ["a.e30", "é.e30."].contains(text))
    }

    @Test func isBounded() {
        let limit = JWTClaims.maximumSize
        let fitting = token(#"{"x":""# + String(repeating: "y", count: 40_000) + #""}"#)
        #expect(fitting.count < limit && JWTClaims(bytes: fitting) != nil)
        #expect(JWTClaims(bytes: fitting + [UInt8](repeating: 0x41, count: limit)) == nil)
        let deep = token(String(repeating: "[", count: 20_000))
        #expect(JWTClaims(bytes: deep) == nil)
        #expect(JWTClaims(bytes: [UInt8](repeating: UInt8(ascii: "."), count: limit)) == nil)
    }
}
