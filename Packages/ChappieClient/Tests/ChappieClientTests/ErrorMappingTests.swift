import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieClient

@Suite struct ErrorMappingTests {
    private let mapping = ErrorMapping(table: .chatGPT, host: "chatgpt.com")

    private func verdict(_ status: Int, _ body: String, _ fields: HTTPFields = [:]) -> ErrorMapping.Verdict {
        mapping.verdict(status: status, headerFields: fields, body: Array(body.utf8))
    }

    @Test func usageLimitIsFinalAndTellsEverything() throws {
        let name = try #require(HTTPField.Name("x-codex-primary-used-percent"))
        let body = """
            {"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus",\
            "resets_at":1795218918,"resets_in_seconds":1234}}
            """
        guard case .final(.usageLimitReached(let limit)) = verdict(429, body, [name: "100"]) else {
            Issue.record("not a usage limit")
            return
        }
        #expect(limit.type == "usage_limit_reached")
        #expect(limit.plan == .plus)
        #expect(limit.resetsAt == Date(timeIntervalSince1970: 1_795_218_918))
        #expect(limit.resetsInSeconds == 1234)
        #expect(limit.rateLimit?.primary?.usedPercent == 100)
        let sentence = try #require(ChappieClientError.usageLimitReached(limit).errorDescription)
        #expect(sentence == "The usage limit has been reached on the Plus plan; it resets at 2026-11-20T23:55:18Z.")
    }

    @Test(arguments: ["", "nonsense", "{}", #"{"error":{"code":"rate_limit_exceeded"}}"#, #"{"error":"busy"}"#])
    func any429WithoutAUsageLimitMayBeTriedAgain(body: String) {
        guard case .rateLimited(.httpError(429, body)) = verdict(429, body) else {
            Issue.record("not a rate limit")
            return
        }
    }

    @Test(arguments: [400, 402, 403, 404])
    func otherStatusesAreFinalAndKeepTheirBody(status: Int) {
        guard case .final(.httpError(status, "body")) = verdict(status, "body") else {
            Issue.record("not an HTTP error")
            return
        }
    }

    @Test(arguments: [408, 500, 502, 503, 504, 529])
    func theServersOwnTroubleKeepsItsBody(status: Int) {
        guard case .troubled(.httpError(status, "body")) = verdict(status, "body") else {
            Issue.record("not trouble")
            return
        }
    }

    @Test func aModelAtCapacityIsFinal() {
        guard case .final(.httpError(503, _)) = verdict(503, #"{"error":{"code":"server_is_overloaded"}}"#) else {
            Issue.record("not final")
            return
        }
    }

    @Test(arguments: ["websocket_connection_limit_reached", "previous_response_not_found"])
    func aLostConversationIsToldApart(code: String) {
        guard case .conversationLost = verdict(400, #"{"error":{"code":"\#(code)"}}"#) else {
            Issue.record("not lost")
            return
        }
    }

    @Test func aLongConversationHasItsOwnError() {
        guard case .final(.contextWindowExceeded) = verdict(400, #"{"error":{"code":"context_length_exceeded"}}"#)
        else {
            Issue.record("not a context error")
            return
        }
    }

    @Test func aHugeBodyIsCut() {
        let body = String(repeating: "x", count: ErrorMapping.bodyLimit * 2)
        guard case .troubled(.httpError(500, let kept)) = verdict(500, body) else {
            Issue.record("not an HTTP error")
            return
        }
        #expect(kept.utf8.count == ErrorMapping.bodyLimit)
    }

    /// What an `error` event with these `headers` means.
    private func rejection(_ headers: [(String, ChappieJSON)], type: String = "busy") throws -> ErrorMapping.Verdict {
        let json: ChappieJSON = [
            "type": "error", "status": 429, "error": ["type": .string(type)],
            "headers": .object(ChappieJSONObject(headers)),
        ]
        guard case .error(let event)? = try ResponsesEvent.parse(json.serializedBytes()) else {
            throw ChappieClientError.invalidResponse
        }
        return mapping.verdict(rejected: event)
    }

    @Test(arguments: ["cookie", "retry-after", "x-codex-active-limit"])
    func aFieldOfSeparatorsIsNoHeader(name: String) throws {
        let value = String(repeating: "; ", count: 65_534)
        guard case .rateLimited(.httpError(429, _)) = try rejection([(name, .string(value))]) else {
            Issue.record("not a rate limit")
            return
        }
    }

    @Test(arguments: ["a-", "x-codex-"]) func anErrorWithAMultitudeOfHeadersIsStillThatError(prefix: String) throws {
        guard case .rateLimited(.httpError(429, _)) = try rejection((0..<65_536).map { ("\(prefix)\($0)", "1") })
        else {
            Issue.record("not a rate limit")
            return
        }
    }

    @Test func theFirstHundredHeadersThatCountAreRead() throws {
        let others = (0..<1_000).map { ("a-\($0)", ChappieJSON.string("1")) }
        for (before, expected) in [(0, 100.0), (99, 100), (100, nil)] {
            let before = (0..<before).map { ("X-Codex-\($0)", ChappieJSON.string("1")) }
            let used: [(String, ChappieJSON)] = [("X-Codex-Primary-Used-Percent", 100)]
            guard
                case .final(.usageLimitReached(let limit)) = try rejection(
                    others + before + used, type: "usage_limit_reached")
            else {
                Issue.record("not a usage limit")
                return
            }
            #expect(limit.rateLimit?.primary?.usedPercent == expected)
        }
    }

    @Test func errorsFromBelowBecomeTheClients() throws {
        let transport = ChappieTransportError(.timedOut, stage: .connect, host: "h", reason: "r")
        let cases: [(any Error, ChappieClientError)] = [
            (AuthorizationError.missingCredential, .missingCredential),
            (AuthorizationError.missingRefreshToken, .missingRefreshToken),
            (AuthorizationError.missingAccountID, .missingAccountID),
            (AuthorizationError.reauthenticationRequired("why"), .reauthenticationRequired("why")),
            (AuthorizationError.store(.locked("x")), .credentialStoreFailed(.locked("x"))),
            (AuthorizationError.auth(.networkFailure("n")), .renewalFailed(.networkFailure("n"))),
            (transport, .transportFailed(transport)),
        ]
        for (error, expected) in cases {
            #expect(ErrorMapping.clientError(error) as? ChappieClientError == expected)
        }
        #expect(ErrorMapping.clientError(CancellationError()) is CancellationError)
    }

    @Test func everyErrorHasASentenceAndAnAdvice() throws {
        let response = ChappieResponse(["error": ["message": "boom"]], .failed)
        let transport = ChappieTransportError(.timedOut, stage: .connect, host: "h", reason: "r")
        let all: [ChappieClientError] = [
            .missingCredential, .missingRefreshToken, .missingAccountID, .reauthenticationRequired("Why."),
            .usageLimitReached(ChappieUsageLimit()), .missingToolHandler("t"), .toolApprovalDenied("t", "r"),
            .toolExecutionFailed("t", "m"), .toolLoopLimitExceeded(3), .responseFailed(response),
            .streamingTransportReplayDiverged("p"), .httpError(500, "b"), .invalidResponse,
            .transportFailed(transport), .contextWindowExceeded, .messageTooLarge(bytes: 2, limit: 1),
            .renewalFailed(.networkFailure("n")), .credentialStoreFailed(.denied("d")),
        ]
        for error in all {
            #expect(!(try #require(error.errorDescription)).isEmpty)
            #expect(!(try #require(error.recoverySuggestion)).isEmpty)
        }
    }
}
