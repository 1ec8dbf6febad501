import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

private func answer(_ status: Int, _ body: String = "", fields: HTTPFields = [:]) -> IssuerResponse {
    IssuerResponse(status: status, headerFields: fields, body: Array(body.utf8))
}

/// The grant's state machine: answers of every shape, and what follows.
@Suite struct DeviceAuthorizationTests {
    private let begin = Duration.seconds(1000)

    private func authorization(_ body: String, status: Int = 200, fields: HTTPFields = [:]) throws
        -> DeviceAuthorization
    {
        try DeviceAuthorization(
            Service.endpoints, answer(status, body, fields: fields), now: start, elapsed: begin)
    }

    private func polling(
        _ members: String = #","interval":"5""#, fields: HTTPFields = [:]
    ) throws -> DeviceAuthorization {
        try authorization(#"{"device_auth_id":"d-id","user_code":"CODE-1"\#(members)}"#, fields: fields)
    }

    private func name(_ step: DeviceAuthorization.Step) -> String {
        switch step {
        case .wait(let duration): "wait \(duration.components.seconds)"
        case .approved(let code): "approved \(code.code.text) \(code.verifier.text) \(code.redirectURI)"
        case .failed(let error): "failed \(error)"
        }
    }

    @Test(arguments: [
        (#","interval":"5""#, 5), (#","interval":" 7 ""#, 7), (#","interval":7"#, 7), (#","interval":2.5"#, 3), ("", 5),
        (#","interval":null"#, 5), (#","interval":"""#, 5), (#","interval":"soon""#, 5), (#","interval":[]"#, 5),
        (#","interval":0"#, 1), (#","interval":"0""#, 1), (#","interval":"-3""#, 5), (#","interval":0.2"#, 1),
        (#","interval":"600""#, 60), (#","interval":1e300"#, 60), (#","interval":1e999"#, 5),
        (#","interval":"nan""#, 5), (#","interval":"inf""#, 5), (#","interval":true"#, 5),
        (#","interval":123456789012345678901234567890"#, 60),
    ])
    func theIntervalIsReadWithTolerance(_ members: String, _ seconds: Int) throws {
        let polling = try polling(members)
        #expect(polling.code.pollInterval == .seconds(seconds))
        let isAtOnce = [#","interval":0"#, #","interval":"0""#].contains(members)
        #expect(polling.firstWait == (isAtOnce ? .zero : .seconds(seconds)))
    }

    @Test func theCodeMayHaveItsOtherName() throws {
        let authorization = try authorization(#"{"device_auth_id":"d","usercode":" AB-1 ","extra":{}}"#, status: 201)
        #expect(authorization.code.userCode == "AB-1")
        #expect(authorization.code.verificationURL.absoluteString == "https://issuer.test/codex/device")
    }

    @Test(arguments: [
        "", "null", "[]", "{}", "words", #"{"device_auth_id":"d"}"#, #"{"user_code":"c"}"#,
        #"{"device_auth_id":"","user_code":"c"}"#, #"{"device_auth_id":"d","user_code":"a b"}"#,
        #"{"device_auth_id":"d","user_code":""}"#, #"{"device_auth_id":7,"user_code":"A"}"#,
        #"{"device_auth_id":"d","user_code":"\u001b]0;x"}"#, #"{"device_auth_id":"d","user_code":5}"#,
        #"{"device_auth_id":"d","user_code":"\#(String(repeating: "x", count: 65))"}"#,
    ])
    func anAnswerWithoutAUsableCodeIsInvalid(_ body: String) {
        #expect(throws: ChappieAuthError.invalidResponse) { _ = try authorization(body) }
    }

    @Test(arguments: [302, 400, 401, 403, 410, 429, 500, 503])
    func anyOtherStatusIsAnErrorWithIt(_ status: Int) {
        let body = #"{"error":{"code":"c","message":"No."}}"#
        #expect(throws: ChappieAuthError.tokenExchangeFailed(statusCode: status, body: body)) {
            _ = try authorization(body, status: status)
        }
    }

    @Test(
        arguments: [
            ("", nil, 900, "pollingTimeout"), (#","expires_at":"2026-11-20T12:10:00Z""#, nil, 600, "expiredDeviceCode"),
            (#","expires_at":"2026-11-20T12:15:00Z""#, nil, 900, "expiredDeviceCode"),
            (#","expires_at":"2026-11-20T13:15:00Z""#, nil, 900, "pollingTimeout"),
            (#","expires_at":"2026-11-20T11:00:00Z""#, nil, 900, "pollingTimeout"),
            (#","expires_at":"whenever""#, nil, 900, "pollingTimeout"),
            (#","expires_at":null"#, nil, 900, "pollingTimeout"),
            (#","expires_at":1795176030"#, nil, 30, "expiredDeviceCode"),
            (#","expires_in":60"#, nil, 60, "expiredDeviceCode"),
            (#","expires_in":"60""#, nil, 60, "expiredDeviceCode"),
            (#","expires_in":1e308"#, nil, 900, "pollingTimeout"),
            (#","expires_in":-5"#, nil, 900, "pollingTimeout"),
            // This machine's clock is wrong by years, which the server's answer shows.
            (#","expires_at":"2031-01-01T00:10:00Z""#, "Wed, 01 Jan 2031 00:00:00 GMT", 600, "expiredDeviceCode"),
        ] as [(String, String?, Int, String)])
    func endsWithTheCodeOrAfterFifteenMinutes(
        _ members: String, _ date: String?, _ seconds: Int, _ failure: String
    ) throws {
        var polling = try polling(members, fields: date.map { [.date: $0] } ?? [:])
        #expect(polling.code.expiresAt == start.addingTimeInterval(Double(seconds)))
        let almost = polling.receivedAnswer(answer(403), elapsed: begin + .seconds(seconds) - .milliseconds(1500))
        guard case .wait(.milliseconds(1500)) = almost else { return #expect(Bool(false), "\(name(almost))") }
        #expect(name(polling.receivedAnswer(answer(403), elapsed: begin + .seconds(seconds))) == "failed \(failure)")
        #expect(name(polling.receivedAnswer(answer(503), elapsed: begin + .seconds(86_400))) == "failed \(failure)")
        // An approval in the last answer counts.
        let approval = answer(200, #"{"authorization_code":"ac","code_verifier":"v"}"#)
        #expect(name(polling.receivedAnswer(approval, elapsed: begin + .seconds(86_400))).hasPrefix("approved ac v"))
    }

    @Test(arguments: [
        (403, "", "wait 5"), (404, "<html>", "wait 5"), (403, "<html>", "wait 5"),
        (403, #"{"error":{"code":"deviceauth_authorization_pending","message":"Not yet."}}"#, "wait 5"),
        (403, #"{"error":{"code":"deviceauth_authorization_unknown"}}"#, "wait 5"),
        (404, #"{"error":{"code":"deviceauth_authorization_unknown"}}"#, "wait 5"),
        (404, #"{"error":"authorization_pending"}"#, "wait 5"), (403, #"{"error":"slow_down"}"#, "wait 10"),
        (403, #"{"detail":"Forbidden"}"#, "wait 5"), (403, #"{"error":{"message":"No."}}"#, "wait 5"),
        (403, #"{"error":{"type":"invalid_request_error","code":null}}"#, "wait 5"),
        (403, #"{"error":{"code":"access_denied"}}"#, #"failed authorizationDenied("The sign-in was refused.")"#),
        (
            403, #"{"error":{"code":"deviceauth_denied","message":"She said no."}}"#,
            #"failed authorizationDenied("She said no.")"#
        ),
        (403, #"{"error":"expired_token"}"#, "failed expiredDeviceCode"),
        (
            404, #"{"error":{"code":"policy_blocked","message":"Ask Bob.","type":"invalid_request_error"}}"#,
            #"failed authorizationDenied("The sign-in service refused: Ask Bob. (policy_blocked)")"#
        ),
        (
            403, #"{"error":{"code":"device_code_disabled","message":"Ask Bob."}}"#,
            ##"failed tokenExchangeFailed(statusCode: 403, body: "{\"error\":{\"code\":\"device_code_disabled\",\"message\":\"Ask Bob.\"}}")"##
        ),
        (200, #"{"status":"pending"}"#, "wait 5"), (202, #"{"status":"authorization_pending"}"#, "wait 5"),
        (400, #"{"error":"authorization_pending"}"#, "wait 5"), (400, #"{"error":"slow_down"}"#, "wait 10"),
        (400, #"{"error":"expired_token"}"#, "failed expiredDeviceCode"),
        (
            400, #"{"error":{"code":"access_denied","message":"She said no."}}"#,
            #"failed authorizationDenied("She said no.")"#
        ),
        (400, #"{"error":"access_denied"}"#, #"failed authorizationDenied("The sign-in was refused.")"#),
        (
            401, #"{"error":{"code":"x"}}"#,
            ##"failed tokenExchangeFailed(statusCode: 401, body: "{\"error\":{\"code\":\"x\"}}")"##
        ),
        (400, "", #"failed tokenExchangeFailed(statusCode: 400, body: "")"#),
        (302, "", #"failed tokenExchangeFailed(statusCode: 302, body: "")"#),
        (200, "", "failed invalidResponse"),
        (200, "[]", "failed invalidResponse"),
        (200, "{}", "failed invalidResponse"), (200, #"{"authorization_code":"ac"}"#, "failed invalidResponse"),
        (200, #"{"authorization_code":"a c","code_verifier":"v"}"#, "failed invalidResponse"),
        (
            200, #"{"authorization_code":"ac","code_verifier":"v","status":"success","x":[]}"#,
            "approved ac v https://issuer.test/deviceauth/callback"
        ),
    ])
    func everyAnswerHasItsMeaning(_ status: Int, _ body: String, _ expected: String) throws {
        var polling = try polling()
        #expect(name(polling.receivedAnswer(answer(status, body), elapsed: begin)) == expected)
    }

    @Test func `a poll ends with its code`() throws {
        let polling = try polling(#","expires_in":60"#)
        for (seconds, limit) in [(0, 30), (30, 30), (45, 15), (58, 5), (60, 5), (99, 5)] {
            #expect(polling.pollLimit(elapsed: begin + .seconds(seconds)) == .seconds(limit))
        }
    }

    @Test func tooManyRequestsAreSlowedDown() throws {
        var polling = try polling()
        let date: HTTPFields = [
            .retryAfter: "Fri, 20 Nov 2026 12:01:30 GMT", .date: "Fri, 20 Nov 2026 12:00:00 GMT",
        ]
        for (status, fields, expected) in [
            (429, [:], "wait 10"), (429, [.retryAfter: "40"], "wait 40"), (403, [:], "wait 15"),
            (429, [.retryAfter: "7200"], "wait 900"), (429, date, "wait 90"),
        ] as [(Int, HTTPFields, String)] {
            #expect(name(polling.receivedAnswer(answer(status, fields: fields), elapsed: begin)) == expected)
        }
        for _ in 0..<20 { _ = polling.receivedAnswer(answer(429), elapsed: begin) }
        #expect(name(polling.receivedAnswer(answer(403), elapsed: begin)) == "wait 60")
    }

    @Test func `consecutive failures are limited, and other failures are forgiven`() throws {
        var polling = try polling()
        let lost = ChappieTransportError(
            .connectionLost, stage: .request, host: "issuer.test", reason: "gone")
        // A proxy that can't be reached, or stumbles.
        let stumble = ChappieTransportError(
            .proxyFailed, stage: .connect, host: "issuer.test", reason: "status 503")
        for lost in [lost, stumble, lost] {
            for _ in 1..<DeviceAuthorization.maximumConsecutiveFailures {
                #expect(name(polling.failedToReceive(lost, elapsed: begin)) == "wait 5")
            }
            #expect(name(polling.receivedAnswer(answer(403), elapsed: begin)) == "wait 5")
        }
        for _ in 1..<DeviceAuthorization.maximumConsecutiveFailures {
            #expect(name(polling.receivedAnswer(answer(502, "<html>"), elapsed: begin)) == "wait 5")
        }
        let last = name(polling.receivedAnswer(answer(502, "<html>"), elapsed: begin))
        #expect(last == #"failed tokenExchangeFailed(statusCode: 502, body: "<html>")"#)
        // A page that keeps polls from the service may go away; it is no "not yet".
        polling = try self.polling()
        for _ in 1..<DeviceAuthorization.maximumConsecutiveFailures {
            #expect(name(polling.receivedAnswer(answer(403, "<html>"), elapsed: begin)) == "wait 5")
        }
        let blocked = name(polling.receivedAnswer(answer(403, "<html>"), elapsed: begin))
        #expect(blocked == #"failed blockedByGateway("issuer.test")"#)
    }

    @Test(arguments: [
        ChappieTransportError.Code.invalidURL, .insecureURL, .invalidCAFile, .certificateRejected, .tlsFailed,
        .redirectRefused, .protocolViolation, .bodyTooLarge, .proxyFailed, .unavailable,
    ])
    func aFailureThatWillNotPassEndsItAtOnceAndSaysWhatToDo(_ code: ChappieTransportError.Code) throws {
        var polling = try polling()
        let reason = ChappieTransportError(code, stage: .configuration, host: "issuer.test", reason: "so")
        let step = polling.failedToReceive(reason, elapsed: begin)
        guard case .failed(.networkFailure(let words)) = step else { return #expect(Bool(false), "\(name(step))") }
        #expect(words.contains("issuer.test") && words.contains(reason.recoverySuggestion ?? ""))
    }
}

/// The client reads each answer of the authorization server in one way.
@Suite struct IssuerAnswerTests {
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

    /// Only the token endpoint's own word about the token ends a sign-in. An unknown word leaves the credential alone.
    @Test(
        arguments: [
            (401, "", nil), (401, "{}", nil), (401, #"{"message":"Forbidden"}"#, nil), (401, "<html>", nil),
            (400, "", nil), (403, "{}", nil), (400, "<html>", nil),
            (403, " \n<!doctype html>", nil), (404, "{}", nil), (403, "error code: 1020", nil),
            // About the connection, and not about the token.
            (403, #"{"error":{"code":"unsupported_country_region_territory","message":"Not supported"}}"#, nil),
            (400, #"{"error":"invalid_client"}"#, "? invalid_client"), (429, "{}", nil),
            (429, #"{"error":"rate_limit_exceeded"}"#, nil), (408, #"{"error":"request_timeout"}"#, nil),
            (400, #"{"error":"invalid_refresh_token"}"#, "invalid_refresh_token"),
            (403, #"{"error":{"code":"token_expired"}}"#, "token_expired"), (500, "{}", nil), (502, "<html>", nil),
            (302, "", nil), (400, #"{"error":"invalid_grant","error_description":"Gone."}"#, "Gone."),
            (403, #"{"error":{"code":"invalid_grant"}}"#, "invalid_grant"),
            (401, #"{"error":{"code":"other_code","message":"Something else."}}"#, "? Something else."),
            (401, #"{"error":{"code":"REFRESH_TOKEN_INVALIDATED"}}"#, "revoked"),
            (401, #"{"code":"refresh_token_expired"}"#, "expired"),
            (409, #"{"error":"refresh_token_expired"}"#, "expired"),
            (500, #"{"error":"refresh_token_reused"}"#, "already renewed"),
            // Answers that are no tokens.
            (200, "not json", nil), (200, "{}", nil), (200, "[]", nil), (200, "<html>", nil),
            (200, #"{"access_token":"two words"}"#, nil), (200, #"{"access_token":7}"#, nil),
        ] as [(Int, String, String?)])
    func onlyTheTokenEndpointsOwnWordEndsASignIn(_ status: Int, _ body: String, _ reason: String?) async {
        let issuer = IssuerClient(
            transport: ScriptedHTTPTransport(answers: [.response(status: .init(code: status), body: body)]),
            clock: ManualClock())
        do throws(ChappieAuthError) {
            _ = try await TokenClient(endpoints: Service.endpoints, issuer: issuer).refresh(Secret("rt_1"))
            Issue.record("these are no tokens")
        } catch {
            let isUnknown = reason?.hasPrefix("? ") == true
            let words = reason.map { isUnknown ? String($0.dropFirst(2)) : $0 }
            #expect(error.issuerError?.endsTheGrant ?? false == (reason != nil && !isUnknown))
            #expect(isUnknown ? error.issuerError?.isRefusal == true : true)
            guard let words else { return #expect(error.issuerError?.isRefusal != true) }
            let sentence = error.issuerError?.reason ?? ""
            #expect(sentence.contains(words) && sentence.contains("sign in again"))
        }
    }

    @Test(arguments: [
        (403, "unsupported_country_region_territory", "where this machine's connection comes from"),
        (403, "unsupported_country", "where this machine's connection comes from"),
        (400, "chatgpt_account_missing", "another workspace"), (403, "missing_codex_entitlement", "administrator"),
        (401, "missing_codex_entitlement", "administrator"), (403, "device_code_disabled", "device codes"),
        (400, "deviceauth_not_enabled", "device codes"),
    ])
    func `a refusal that only a person can cure says what to do`(_ status: Int, _ code: String, _ advice: String) {
        let error = answer(status, #"{"error":{"code":"\#(code)","message":"No."}}"#).authError(host: "issuer.test")
        #expect(error.obstacle != nil)
        #expect(error.recoverySuggestion?.contains(advice) == true)
        #expect(error.errorDescription?.contains("No. (\(code))") == true)
    }

    @Test func `a message about workspaces is known without its code`() {
        let body = #"{"error":{"code":"x","message":"No eligible ChatGPT workspaces found."}}"#
        #expect(answer(400, body).authError(host: "issuer.test").obstacle == .workspace)
        #expect(answer(500, body).authError(host: "issuer.test").obstacle == nil)
        #expect(answer(403, #"{"error":"access_denied"}"#).authError(host: "issuer.test").obstacle == nil)
    }

    @Test(arguments: [(200, "<html>"), (511, ""), (511, "{}"), (404, "<html>")])
    func `a page of a network is the network's fault`(_ status: Int, _ body: String) async {
        let error = answer(status, body).authError(host: "issuer.test")
        guard case .networkFailure(let words) = error else { return #expect(Bool(false), "\(error)") }
        #expect(words.contains("issuer.test (status \(status))") && words.contains("sign in to the network"))
        let issuer = IssuerClient(
            transport: ScriptedHTTPTransport(answers: [.response(status: .init(code: status), body: body)]),
            clock: ManualClock())
        await #expect(throws: error) {
            _ = try await TokenClient(endpoints: Service.endpoints, issuer: issuer).refresh(Secret("rt_1"))
        }
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

    @Test(arguments: [
        ("blocked", "Text/HTML; charset=utf-8", true), ("\u{FEFF}\r\n <html>", "", true),
        ("blocked", "text/plain", false),
    ])
    func aPageIsKnownByItsTypeOrItsFirstByteAndIsTheNetworksFault(_ body: String, _ type: String, _ isPage: Bool) {
        let error = answer(403, body, fields: [.contentType: type]).authError(host: "issuer.test")
        #expect((error == .blockedByGateway("issuer.test")) == isPage)
        let words = error.errorDescription ?? ""
        #expect(!isPage || words.contains("issuer.test") && words.contains("403"))
        let other = answer(404, body, fields: [.contentType: type]).authError(host: "issuer.test")
        guard case .networkFailure(let words) = other else { return #expect(!isPage) }
        #expect(isPage)
        #expect(words.contains("issuer.test"))
        #expect(words.contains("404"))
    }

    @Test(
        arguments: [
            ("120", 120), (" 5 ", 5), ("0", 0), ("999999999", 86_400), ("-1", nil), ("soon", nil), ("", nil),
            ("1.5", 1.5),
            ("99999999999999999999999", 86_400), ("Fri, 20 Nov 2026 12:00:07 GMT", 7),
            ("Fri, 20 Nov 2026 11:00:00 GMT", 0),
        ] as [(String, Double?)])
    func retryAfterIsSecondsOrADate(_ value: String, _ seconds: Double?) {
        let answer = answer(429, fields: [.retryAfter: value, .date: "Fri, 20 Nov 2026 12:00:00 GMT"])
        #expect(answer.retryAfter == seconds.map { .seconds($0) })
    }

    @Test func formsAreEncodedInOrder() {
        let form = FormFields.encoded([
            ("b", "https://auth.openai.com/deviceauth/callback"), ("a", "x&y=z +%ü~-._"), ("", ""),
        ])
        #expect(
            String(decoding: form, as: UTF8.self)
                == "b=https%3A%2F%2Fauth.openai.com%2Fdeviceauth%2Fcallback&a=x%26y%3Dz%20%2B%25%C3%BC~-._&=")
    }

    // Endpoints are data: a program may keep them in its settings.
    @Test func endpointsSurviveARoundTrip() throws {
        var other = Service.endpoints
        other.usesWebSocket = false
        other.registration.hostID = "host"
        for endpoints in [ChappieEndpoints.chatGPT, other] {
            let data = try JSONEncoder().encode(endpoints)
            #expect(try JSONDecoder().decode(ChappieEndpoints.self, from: data) == endpoints)
        }
        let object = try JSONDecoder().decode(ChappieJSONObject.self, from: Data(#"{"a":{"b":1}}"#.utf8))
        #expect(object == ["a": ["b": 1]])
        #expect(throws: (any Error).self) { try JSONDecoder().decode(ChappieJSONObject.self, from: Data("[1]".utf8)) }
    }
}
