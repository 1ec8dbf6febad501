@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieClient

/// The client classifies the errors of the backend, of the transports and of the sign-in.
@Suite struct AttemptFailureTests {
    private static let errors = BackendErrors(.chatGPT)
    private static let now = Date(timeIntervalSince1970: 1_795_176_000)

    private func failure(_ status: Int, _ body: String, _ fields: HTTPFields = [:]) -> AttemptFailure {
        Self.errors.failure(status: status, headerFields: fields, body: Array(body.utf8), now: Self.now)
    }

    private func failure(ofResponse error: String) throws -> AttemptFailure {
        let json = try ChappieJSON(parsing: Array(#"{"id":"r","error":\#(error)}"#.utf8))
        return Self.errors.failure(ChappieResponse(json, .failed), now: Self.now)
    }

    // MARK: The backend's words

    static let httpErrors: [(status: Int, body: String, kind: AttemptFailure.Kind)] = [
        (400, "body", .final), (402, "body", .final), (403, "body", .final), (418, "{}", .final),
        (408, "body", .broken), (500, "", .broken), (502, "<html>", .broken), (529, "{}", .broken),
        (429, "", .rateLimited(resetsIn: nil)), (429, "nonsense", .rateLimited(resetsIn: nil)),
        (429, #"{"error":{"code":"rate_limit_exceeded"}}"#, .rateLimited(resetsIn: nil)),
        (429, #"{"error":"busy"}"#, .rateLimited(resetsIn: nil)),
        (503, #"{"error":{"code":"slow_down"}}"#, .rateLimited(resetsIn: nil)),
        (500, #"{"error":{"code":"server_error"}}"#, .broken),
        (400, #"{"error":{"code":"websocket_connection_limit_reached"}}"#, .stale),
        (400, #"{"error":{"code":"previous_response_not_found"}}"#, .stale),
    ]

    @Test(arguments: httpErrors)
    func anHTTPErrorKeepsItsStatusAndBody(example: (status: Int, body: String, kind: AttemptFailure.Kind)) {
        let failure = failure(example.status, example.body)
        #expect(failure.kind == example.kind)
        #expect(failure.error as? ChappieClientError == .httpError(example.status, example.body))
    }

    @Test func `each code of the table has its class`() throws {
        let classes: [ErrorTable.Meaning: [AttemptFailure.Kind]] = [
            // The answers here say nothing about a reset.
            .usageLimitReached: [.final], .quotaExceeded: [.final], .workspaceUnavailable: [.final],
            .rateLimited: [.rateLimited(resetsIn: nil)], .overloaded: [.overloaded], .contextWindowExceeded: [.final],
            .refused: [.final], .modelUnavailable: [.final], .unreadableReasoning: [.unreadableReasoning],
            .conversationLost: [.stale],
        ]
        for (code, meaning) in ErrorTable.chatGPT.meanings {
            let error = #"{"code":"\#(code)","message":"m"}"#
            let kinds = [
                failure(400, #"{"error":\#(error)}"#), failure(503, #"{"error":\#(error)}"#),
                try failure(ofResponse: error),
            ].map(\.kind)
            for kind in kinds { #expect(classes[meaning]?.contains(kind) == true, "\(code): \(kind)") }
        }
    }

    @Test(arguments: [
        ("usage_limit_reached", AttemptFailure.Kind.rateLimited(resetsIn: 1234)), ("insufficient_quota", .final),
        ("usage_not_included", .final), ("credit_balance_exhausted", .final),
    ])
    func aUsageLimitTellsEverything(type: String, kind: AttemptFailure.Kind) throws {
        let name = try #require(HTTPField.Name("x-codex-primary-used-percent"))
        let body = """
            {"error":{"type":"\(type)","message":"The usage limit has been reached","plan_type":"plus",\
            "resets_at":1795218918,"resets_in_seconds":1234}}
            """
        let failure = failure(429, body, [name: "100"])
        #expect(failure.kind == kind)
        guard case ChappieClientError.usageLimitReached(let limit) = failure.error else {
            Issue.record("not a usage limit")
            return
        }
        #expect(limit.type == type)
        #expect(limit.plan == .plus)
        #expect(limit.resetsAt == Date(timeIntervalSince1970: 1_795_218_918))
        #expect(limit.resetsInSeconds == 1234)
        #expect(limit.rateLimit?.primary?.usedPercent == 100)
        #expect(
            ChappieClientError.usageLimitReached(limit).errorDescription
                == "The usage limit has been reached on the Plus plan; it resets at 2026-11-20T23:55:18Z.")
    }

    @Test func aResetInSecondsIsATimeAsWell() throws {
        let failure = failure(429, #"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#)
        guard case ChappieClientError.usageLimitReached(let limit) = failure.error else {
            Issue.record("not a usage limit")
            return
        }
        #expect(limit.resetsInSeconds == 90 && limit.resetsAt == Self.now.addingTimeInterval(90))
    }

    @Test func `a conversation that is too long has its own error on every transport`() throws {
        for failure in [
            failure(400, #"{"error":{"code":"context_length_exceeded"}}"#),
            try failure(ofResponse: #"{"code":"context_length_exceeded"}"#),
        ] {
            #expect(failure.kind == .final)
            #expect(failure.error as? ChappieClientError == .contextWindowExceeded)
        }
    }

    @Test func aHugeBodyIsCut() {
        let failure = failure(500, String(repeating: "x", count: BackendErrors.bodyLimit * 2))
        #expect(
            failure.error as? ChappieClientError
                == .httpError(500, String(repeating: "x", count: BackendErrors.bodyLimit)))
    }

    @Test(arguments: [
        (#"{"error":{"message":"upstream says no"}}"#, "The answer failed: upstream says no."),
        (#"{"detail":"Unauthorized"}"#, "The answer failed: Unauthorized."),
        ("event: error\ndata: upstream\ndata: says no\n\n", "The answer failed: upstream says no."),
        ("event: error\r\ndata: {\"error\":{\"code\":\"c_1\"}}\r\n\r\n", "The answer failed (c_1)."),
        ("<html>", "Something on the way answered instead of chatgpt.com (status 200)"),
        ("nonsense", "The server sent an answer that could not be understood."),
        (#"{"error":null,"ok":true}"#, "The server sent an answer that could not be understood."),
    ])
    func `an error in the place of an answer has the server's words`(body: String, words: String) throws {
        let failure = Self.errors.failure(
            ofSuccess: 200, headerFields: [:], body: Array(body.utf8), now: Self.now)
        let error = try #require(failure.error as? ChappieClientError)
        #expect(failure.kind == .final && error.errorDescription?.hasPrefix(words) == true, "\(error)")
    }

    @Test(arguments: [
        (#"{"error":{"message":"It broke.","code":"c_1"}}"#, AttemptFailure.Kind.broken, " (c_1): It broke."),
        (#"{"message":"It broke."}"#, .broken, ": It broke."), ("{}", .broken, " without a reason."),
        (#"{"error":{"message":"No.","type":"invalid_request_error","param":"text"}}"#, .final, ": No."),
    ])
    func `an error event without a status gets none`(
        members: String, kind: AttemptFailure.Kind, words: String
    ) throws {
        let event = #"{"type":"error",\#(members.dropFirst())"#.replacing(",}", with: "}")
        guard case .error(let event)? = try ResponsesEvent.parse(event) else {
            Issue.record("no error")
            return
        }
        let failure = Self.errors.failure(event, requestID: "req_1", now: Self.now)
        let error = try #require(failure.error as? ChappieClientError)
        #expect(failure.kind == kind && error.requestID == "req_1")
        #expect(error.errorDescription == "The answer failed" + words)
    }

    /// An `error` event with these `headers`.
    private func failure(headers: [(String, ChappieJSON)], type: String = "busy") throws -> AttemptFailure {
        let json: ChappieJSON = [
            "type": "error", "status": 429, "error": ["type": .string(type)],
            "headers": .object(ChappieJSONObject(headers)),
        ]
        guard case .error(let event)? = try ResponsesEvent.parse(json.serialized()) else {
            throw ChappieClientError.invalidResponse
        }
        return Self.errors.failure(event, now: Self.now)
    }

    @Test(arguments: ["cookie", "retry-after", "x-codex-active-limit", "a-", "x-codex-"])
    func headersInABodyNeverTrap(name: String) throws {
        let separators = ChappieJSON.string(String(repeating: "; ", count: 65_534))
        let many = (0..<65_536).map { ("\(name)\($0)", ChappieJSON.string("1")) }
        for headers in [[(name, separators)], many] {
            #expect(try failure(headers: headers).kind == .rateLimited(resetsIn: nil))
        }
    }

    @Test(arguments: [(0, 100.0), (99, 100), (100, nil)])
    func theFirstHundredHeadersThatCountAreRead(before: Int, expected: Double?) throws {
        let others = (0..<1_000).map { ("a-\($0)", ChappieJSON.string("1")) }
        let counting = (0..<before).map { ("X-Codex-\($0)", ChappieJSON.string("1")) }
        let used: [(String, ChappieJSON)] = [("X-Codex-Primary-Used-Percent", 100)]
        let failure = try failure(headers: others + counting + used, type: "usage_limit_reached")
        guard case ChappieClientError.usageLimitReached(let limit) = failure.error else {
            Issue.record("not a usage limit")
            return
        }
        #expect(limit.rateLimit?.primary?.usedPercent == expected)
    }

    /// Answers that are the service's edge's, a network's, or the service's own.
    static let gateways: [(status: Int, body: String, fields: HTTPFields, sender: ChappieGatewayAnswer.Sender?)] = [
        (404, "", [:], .edge), (403, " \n", [:], .edge), (404, "", [rayID: "8c1f-FRA"], .edge),
        (404, "", [.contentType: "text/html"], .edge), (403, "", [.contentType: "text/html"], .edge),
        (404, "", [requestID: "req_1"], nil), (404, "", [requestID: ""], .edge), (404, "{}", [:], nil),
        (404, "gone", [:], nil), (400, "", [:], nil),
        (511, "", [:], .network), (511, "{}", [:], .network), (404, "<html>", [:], .network),
        (405, "x", [.contentType: "text/html"], .network), (502, "<html>", [:], nil), (429, "<html>", [:], nil),
    ]

    private static let rayID = HTTPField.Name("cf-ray") ?? .accept
    private static let requestID = HTTPField.Name("x-oai-request-id") ?? .accept

    @Test(arguments: gateways) func `an answer that is not the service's is known`(
        example: (status: Int, body: String, fields: HTTPFields, sender: ChappieGatewayAnswer.Sender?)
    ) throws {
        let failure = failure(example.status, example.body, example.fields)
        let error = try #require(failure.error as? ChappieClientError)
        guard case .gatewayAnswered(let answer) = error else {
            #expect(example.sender == nil, "\(error)")
            return
        }
        #expect(answer.sender == example.sender)
        #expect(answer.status == example.status)
        #expect(answer.host == "chatgpt.com")
        #expect(failure.kind == (answer.sender == .edge ? .outage : .final))
        #expect(failure.ofUpgrade.kind == .upgradeFailed)
        #expect(error.recoverySuggestion?.contains(answer.sender == .edge ? "status.openai.com" : "sign in") == true)
        guard answer.requestID != nil else { return }
        let words = "The service can't be reached at the moment (404 from chatgpt.com, cf-ray 8c1f-FRA)."
        #expect(error.errorDescription == words && error.requestID == "8c1f-FRA")
    }

    /// Every shape in which the service, or something in front of it, sends an error: the body, its header fields, and
    /// the end of the sentence.
    static let shapes: [(body: String, fields: [String: String], says: String)] = [
        (#"{"error":{"message":"No.","code":"c_1"}}"#, [:], " (c_1): No."),
        (#"{"error":{"message":"No c_1.","code":"c_1"}}"#, [:], ": No c_1."),
        (#"{"error":{"message":null,"code":"c_1"}}"#, [:], " (c_1)."),
        (#"{"error":{"code":"c_1"},"detail":null}"#, [:], " (c_1)."), (#"{"error":"No."}"#, [:], ": No."),
        (#"{"errors":[{"message":"No.","code":"c_1"}]}"#, [:], " (c_1): No."),
        (#"{"error":"c_1","error_description":"No."}"#, [:], " (c_1): No."),
        (#"{"message":"No.","code":"c_1"}"#, [:], " (c_1): No."), (#"{"detail":"No."}"#, [:], ": No."),
        (#"{"detail":{"code":"c_1"}}"#, [:], " (c_1)."),
        (#"{"detail":{"code":"c_1","message":"No."}}"#, [:], " (c_1): No."),
        (#"{"detail":{"error_code":"c_1"}}"#, [:], " (c_1)."),
        (#"{"detail":{"error":{"code":"c_1","message":"No."}}}"#, [:], " (c_1): No."),
        (
            #"{"detail":[{"loc":["body","input",0],"msg":"is missing","type":"t"},{"msg":"is odd"}]}"#, [:],
            ": body.input.0: is missing; is odd."
        ), (#""No.""#, [:], ": No."), ("Not\nthat.", [:], ": Not that."), ("{}", [:], "."), ("null", [:], "."),
        ("<html><head><title>Bad\nGateway</title></head></html>", [:], ": Bad Gateway."),
        (" <!DOCTYPE html><p>No title</p>", [:], "."),
        ("", ["x-openai-authorization-error": "no_matching_rule"], " (no_matching_rule)."),
        (" ", ["x-error-json": "eyJlcnJvciI6eyJjb2RlIjoiY18xIiwibWVzc2FnZSI6Ik5vLiJ9fQ=="], " (c_1): No."),
        ("{}", ["x-openai-authorization-error": "no_matching_rule"], "."),
    ]

    @Test(arguments: shapes) func `an error is read in every shape`(
        shape: (body: String, fields: [String: String], says: String)
    ) throws {
        var fields: HTTPFields = [:]
        for (name, value) in shape.fields { fields[try #require(HTTPField.Name(name))] = value }
        let error = try #require(failure(409, shape.body, fields).error as? ChappieClientError)
        #expect(error.errorDescription == "The server answered with status 409" + shape.says)
    }

    @Test func `a reason in the header fields counts more than the type of an empty body`() {
        let name = HTTPField.Name("x-openai-authorization-error") ?? .accept
        let failure = failure(403, "", [.contentType: "text/html", name: "no_matching_rule"])
        let words = (failure.error as? ChappieClientError)?.errorDescription
        #expect(words == "The server answered with status 403 (no_matching_rule).")
    }

    @Test(arguments: [
        (402, #"{"detail":{"code":"deactivated_workspace"}}"#, "deactivated_workspace"),
        (403, #"{"detail":{"code":"invalid_workspace_selected"}}"#, "invalid_workspace_selected"),
        (
            403, #"{"error":{"code":"deactivated_workspace","message":"It is off."}}"#,
            "It is off. (deactivated_workspace)"
        ),
    ])
    func `a workspace that can't be used is named with its code`(status: Int, body: String, words: String) throws {
        let failure = failure(status, body)
        #expect(failure.kind == .final)
        let error = try #require(failure.error as? ChappieClientError)
        #expect(error.errorDescription == "The workspace of this sign-in can't be used: \(words).")
        #expect(error.recoverySuggestion?.contains("choose another workspace") == true)
    }

    @Test func noErrorRepeatsTheToken() throws {
        let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEiLCJqdGkiOiJ4eXp6eSJ9.c2lnbmF0dXJl"
        let message = "Not \(token), request 7f"
        for code in ["some_code", "usage_limit_reached", "rate_limit_exceeded", "previous_response_not_found"] {
            let error = #"{"code":"\#(code)","message":"\#(message)"}"#
            for failure in [
                failure(403, #"{"error":\#(error),"detail":"\#(message)"}"#), failure(429, message),
                try failure(ofResponse: error),
            ] {
                let error = try #require(failure.error as? ChappieClientError)
                var shown = "\(error) \(error.errorDescription ?? "")"
                dump(failure, to: &shown)
                #expect(!shown.contains("eyJzdWI") && !shown.contains("c2lnbmF0dXJl"), "\(shown)")
            }
        }
    }

    // MARK: Transports

    static let transportErrors:
        [(
            ChappieTransportError.Code, ChappieTransportError.Stage, webSocket: AttemptFailure.Kind,
            sse: AttemptFailure.Kind
        )] = [
            (.unknownHost, .connect, .unresolved, .unresolved),
            (.connectFailed, .connect, .unreachable, .unreachable),
            (.proxyFailed, .connect, .unreachable, .unreachable), (.timedOut, .tls, .unreachable, .unreachable),
            (.certificateRejected, .tls, .final, .final), (.tlsFailed, .tls, .final, .final),
            (.connectionLost, .tls, .broken, .broken), (.insecureURL, .configuration, .final, .final),
            (.invalidCAFile, .tls, .final, .final), (.redirectRefused, .responseHead, .final, .final),
            (.connectionLost, .message, .broken, .broken), (.connectionLost, .responseBody, .broken, .broken),
            (.connectionLost, .responseHead, .upgradeFailed, .broken), (.protocolViolation, .message, .broken, .broken),
            (.protocolViolation, .responseHead, .upgradeFailed, .final), (.timedOut, .liveness, .broken, .broken),
            (.timedOut, .message, .final, .final), (.timedOut, .firstByte, .blocked, .unanswered),
            (.timedOut, .responseHead, .upgradeFailed, .unanswered), (.timedOut, .responseBody, .final, .final),
            (.bodyTooLarge, .message, .messageTooLarge, .messageTooLarge),
            (.bodyTooLarge, .responseBody, .final, .final),
        ]

    @Test func eachTransportErrorHasItsMeaning() {
        for (code, stage, webSocket, sse) in Self.transportErrors {
            let error = ChappieTransportError(code, stage: stage, host: "h", reason: "r")
            #expect(AttemptFailure(error, over: .webSocket).kind == webSocket, "\(code) at \(stage)")
            let failure = AttemptFailure(error, over: .serverSentEvents)
            #expect(failure.kind == sse, "\(code) at \(stage)")
            #expect(failure.error as? ChappieClientError == .transportFailed(error))
        }
    }

    // MARK: The public error

    @Test func errorsFromBelowBecomeTheClients() throws {
        let transport = ChappieTransportError(.timedOut, stage: .connect, host: "h", reason: "r")
        let cases: [(any Error, ChappieClientError)] = [
            (ChappieAuthError.missingCredential, .missingCredential),
            (ChappieAuthError.missingRefreshToken, .missingRefreshToken),
            (ChappieAuthError.missingAccountID, .missingAccountID),
            (ChappieAuthError.reauthenticationRequired("why"), .reauthenticationRequired("why")),
            (ChappieAuthError.credentialStoreUnavailable(.locked("x")), .credentialStoreFailed(.locked("x"))),
            (ChappieAuthError.networkFailure("n"), .renewalFailed(.networkFailure("n"))),
            (transport, .transportFailed(transport)),
        ]
        for (error, expected) in cases {
            #expect(ChappieClientError.wrapping(error) as? ChappieClientError == expected)
            let kind = AttemptFailure(error, over: .webSocket).kind
            #expect(kind == (error is ChappieTransportError ? .unreachable : .final))
        }
        #expect(ChappieClientError.wrapping(CancellationError()) is CancellationError)
        let random = ChappieAuthError.secureRandomFailed(statusCode: 1)
        #expect(ChappieClientError.wrapping(random) as? ChappieAuthError == random)
    }

    @Test func everyErrorHasASentenceAndAnAdvice() throws {
        let response = ChappieResponse(["error": ["message": "boom"]], .failed)
        let transport = ChappieTransportError(.timedOut, stage: .connect, host: "h", reason: "r")
        let all: [ChappieClientError] = [
            .missingCredential, .missingRefreshToken, .missingAccountID, .reauthenticationRequired("Why."),
            .usageLimitReached(ChappieUsageLimit()), .missingToolHandler("t"), .toolApprovalDenied("t", "r"),
            .toolExecutionFailed("t", "m"), .toolLoopLimitExceeded(3), .responseFailed(response),
            .responseFailed(ChappieResponse([:], .incomplete)), .streamingTransportReplayDiverged("p"),
            .httpError(500, "b"), .invalidResponse, .transportFailed(transport), .contextWindowExceeded,
            .inputTooLarge(ChappieInputSize(model: "m", isQuestion: false, byteCount: 1)),
            .messageTooLarge(bytes: 2, limit: 1), .renewalFailed(.networkFailure("n")),
            .credentialStoreFailed(.denied("d")), .usageNotReported(nil), .tooManyTurns, .stopping,
            .planRefused(ChappiePlanRefusal(reason: .policy)),
            .gatewayAnswered(ChappieGatewayAnswer(sender: .edge, host: "h", status: 404)),
            .gatewayAnswered(ChappieGatewayAnswer(sender: .network, host: "h", status: 511)),
        ]
        for error in all {
            #expect(!(try #require(error.errorDescription)).isEmpty)
            #expect(!(try #require(error.recoverySuggestion)).isEmpty)
        }
    }
}
