import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieAuth

@Suite struct DeviceAuthorizationTests {
    private static let endpoints = ChappieEndpoints(
        issuer: URL(string: "https://issuer.test/")!, backend: URL(string: "https://backend.test/backend-api")!)
    private static let now = Date(timeIntervalSince1970: 1_795_176_000)

    private func answer(_ status: Int, _ body: String = "", fields: HTTPFields = [:]) -> IssuerAnswer {
        IssuerAnswer(status: status, headerFields: fields, body: Array(body.utf8))
    }

    private func polling(
        _ members: String = #","interval":"5""#, fields: HTTPFields = [:], elapsed: Duration = .seconds(1000)
    ) throws -> DeviceAuthorization {
        try DeviceAuthorization(
            Self.endpoints,
            answer(200, #"{"device_auth_id":"d-id","user_code":"CODE-1"\#(members)}"#, fields: fields), now: Self.now,
            elapsed: elapsed)
    }

    private func name(_ step: DeviceAuthorization.Step) -> String {
        switch step {
        case .wait(let duration): "wait \(duration.components.seconds)"
        case .approved(let code): "approved \(code.code.text) \(code.verifier.text) \(code.redirectURI)"
        case .failed(let error): "failed \(error)"
        }
    }

    // MARK: The code

    @Test(arguments: [
        (#","interval":"5""#, 5), (#","interval":" 7 ""#, 7), (#","interval":7"#, 7), (#","interval":2.5"#, 3), ("", 5),
        (#","interval":null"#, 5), (#","interval":"""#, 5), (#","interval":"soon""#, 5), (#","interval":[]"#, 5),
        (#","interval":0"#, 1), (#","interval":"0""#, 1), (#","interval":"-3""#, 5), (#","interval":0.2"#, 1),
        (#","interval":"1""#, 1),
        (#","interval":"600""#, 60), (#","interval":1e300"#, 60), (#","interval":1e999"#, 5),
        (#","interval":"nan""#, 5), (#","interval":"inf""#, 5), (#","interval":true"#, 5),
        (#","interval":123456789012345678901234567890"#, 60),
    ])
    func theIntervalIsReadWithTolerance(_ members: String, _ seconds: Int) throws {
        let polling = try polling(members)
        #expect(polling.code.pollInterval == .seconds(seconds))
    }

    @Test func theCodeMayHaveItsOtherName() throws {
        let polling = try DeviceAuthorization(
            Self.endpoints,
            answer(201, #"{"device_auth_id":"d","usercode":" AB-1 ","extra":{}}"#), now: Self.now, elapsed: .zero)
        #expect(polling.code.userCode == "AB-1")
        #expect(polling.code.verificationURL.absoluteString == "https://issuer.test/codex/device")
    }

    @Test(arguments: [
        "", "null", "[]", "{}", "<html>", #"{"device_auth_id":"d"}"#, #"{"user_code":"c"}"#,
        #"{"device_auth_id":"","user_code":"c"}"#, #"{"device_auth_id":"d","user_code":"a b"}"#,
        #"{"device_auth_id":"d","user_code":"\u001b]0;x"}"#, #"{"device_auth_id":"d","user_code":5}"#,
        #"{"device_auth_id":"d","user_code":"\#(String(repeating: "x", count: 65))"}"#,
    ])
    func anAnswerWithoutAUsableCodeIsInvalid(_ body: String) {
        #expect(throws: ChappieAuthError.invalidResponse) {
            _ = try DeviceAuthorization(Self.endpoints, answer(200, body), now: Self.now, elapsed: .zero)
        }
    }

    @Test(arguments: [302, 400, 401, 403, 410, 429, 500, 503])
    func anyOtherStatusIsAnErrorWithIt(_ status: Int) {
        #expect(
            throws: ChappieAuthError.tokenExchangeFailed(
                statusCode: status, body: #"{"error":{"code":"c","message":"No."}}"#)
        ) {
            _ = try DeviceAuthorization(
                Self.endpoints,
                answer(status, #"{"error":{"code":"c","message":"No."}}"#), now: Self.now, elapsed: .zero)
        }
    }

    // MARK: Lifetime

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
            // This machine's clock is wrong by years, and the server's answer tells.
            (#","expires_at":"2031-01-01T00:10:00Z""#, "Wed, 01 Jan 2031 00:00:00 GMT", 600, "expiredDeviceCode"),
        ] as [(String, String?, Int, String)])
    func endsWithTheCodeOrAfterFifteenMinutes(
        _ members: String, _ date: String?, _ seconds: Int, _ failure: String
    ) throws {
        var polling = try polling(members, fields: date.map { [.date: $0] } ?? [:])
        #expect(polling.code.expiresAt == Self.now.addingTimeInterval(Double(seconds)))
        let begin = Duration.seconds(1000)
        let almost = polling.receivedAnswer(answer(403), elapsed: begin + .seconds(seconds) - .milliseconds(1500))
        guard case .wait(.milliseconds(1500)) = almost else { return #expect(Bool(false), "\(name(almost))") }
        #expect(name(polling.receivedAnswer(answer(403), elapsed: begin + .seconds(seconds))) == "failed \(failure)")
        #expect(name(polling.receivedAnswer(answer(503), elapsed: begin + .seconds(86_400))) == "failed \(failure)")
    }

    @Test func anApprovalInTheLastAnswerCounts() throws {
        var polling = try polling()
        let step = polling.receivedAnswer(
            answer(200, #"{"authorization_code":"ac","code_verifier":"v"}"#), elapsed: .seconds(1900))
        #expect(name(step) == "approved ac v https://issuer.test/deviceauth/callback")
    }

    // MARK: Polling

    @Test(arguments: [
        (403, "", "wait 5"), (404, "<html>", "wait 5"), (403, #"{"error":{"code":"access_denied"}}"#, "wait 5"),
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
        (200, "", "failed invalidResponse"), (200, "<html>", "failed invalidResponse"),
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
        #expect(name(polling.receivedAnswer(answer(status, body), elapsed: .seconds(1000))) == expected)
    }

    @Test func tooManyRequestsAreSlowedDown() throws {
        var polling = try polling()
        let start = Duration.seconds(1000)
        #expect(name(polling.receivedAnswer(answer(429), elapsed: start)) == "wait 10")
        #expect(name(polling.receivedAnswer(answer(429, fields: [.retryAfter: "40"]), elapsed: start)) == "wait 40")
        #expect(name(polling.receivedAnswer(answer(403), elapsed: start)) == "wait 15")
        #expect(name(polling.receivedAnswer(answer(429, fields: [.retryAfter: "7200"]), elapsed: start)) == "wait 900")
        let date: HTTPFields = [
            .retryAfter: "Fri, 20 Nov 2026 12:01:30 GMT", .date: "Fri, 20 Nov 2026 12:00:00 GMT",
        ]
        #expect(name(polling.receivedAnswer(answer(429, fields: date), elapsed: start)) == "wait 90")
        for _ in 0..<20 { _ = polling.receivedAnswer(answer(429), elapsed: start) }
        #expect(name(polling.receivedAnswer(answer(403), elapsed: start)) == "wait 60")
    }

    @Test func failuresInARowAreBoundedAndOthersForgiven() throws {
        var polling = try polling()
        let start = Duration.seconds(1000)
        let lost = IssuerClient.Failure(
            ChappieTransportError(.connectionLost, stage: .request, host: "issuer.test", reason: "gone"))
        for _ in 0..<3 {
            for _ in 1..<DeviceAuthorization.maximumConsecutiveFailures {
                #expect(name(polling.failedToReceive(lost, elapsed: start)) == "wait 5")
            }
            #expect(name(polling.receivedAnswer(answer(403), elapsed: start)) == "wait 5")
        }
        for _ in 1..<DeviceAuthorization.maximumConsecutiveFailures {
            #expect(name(polling.receivedAnswer(answer(502, "<html>"), elapsed: start)) == "wait 5")
        }
        let last = name(polling.receivedAnswer(answer(502, "<html>"), elapsed: start))
        #expect(last == #"failed tokenExchangeFailed(statusCode: 502, body: "<html>")"#)
    }

    @Test(arguments: [
        ChappieTransportError.Code.invalidURL, .insecureURL, .invalidCAFile, .certificateRejected, .tlsFailed,
        .redirectRefused, .protocolViolation, .bodyTooLarge, .proxyFailed, .unavailable,
    ])
    func aFailureThatWillNotPassEndsItAtOnce(_ code: ChappieTransportError.Code) throws {
        var polling = try polling()
        let failure = IssuerClient.Failure(
            ChappieTransportError(code, stage: .connect, host: "issuer.test", reason: "so"))
        #expect(name(polling.failedToReceive(failure, elapsed: .seconds(1000))).hasPrefix("failed networkFailure"))
    }

    @Test func aFailureThatWillNotPassSaysWhatToDo() {
        let rejected = ChappieTransportError(
            .certificateRejected, stage: .tls, host: "issuer.test", reason: "its certificate has expired")
        guard case .networkFailure(let words) = IssuerClient.Failure(rejected).error else {
            Issue.record("not a network failure")
            return
        }
        #expect(words.contains("issuer.test") && words.contains("expired") && words.contains("extra CA file"))
    }

    @Test func theRequestHoldsIdAndCode() throws {
        let polling = try polling()
        let request = polling.request
        #expect(
            String(decoding: request.body?.bytes ?? [], as: UTF8.self)
                == #"{"device_auth_id":"d-id","user_code":"CODE-1"}"#)
        #expect(request.url.absoluteString == "https://issuer.test/api/accounts/deviceauth/token")
    }
}
