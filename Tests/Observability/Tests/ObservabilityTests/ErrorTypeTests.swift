import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieObservability
import ChappieRuntime
import Testing

/// Every error has a value of a closed list, and no text of the error is in it.
@Suite struct ErrorTypeTests {
    private func type(of error: any Error) -> String {
        let harness = Harness()
        harness.observer.began(.turn, in: nil)?.ended(error)
        #expect(!harness.everything.contains("MARKER"))
        return harness.attributes("invoke_agent")["error.type"] ?? ""
    }

    private static func transport(_ code: ChappieTransportError.Code) -> ChappieTransportError {
        ChappieTransportError(code, stage: .connect, host: "MARKER", reason: "MARKER")
    }

    private struct Unknown: Error { let text = "MARKER" }

    private static let cases: [(String, [any Error])] = [
        ("cancelled", [CancellationError(), ChappieAuthError.cancelledSignIn]),
        ("missing_credential", [ChappieClientError.missingCredential, ChappieAuthError.missingCredential]),
        (
            "reauthentication_required",
            [
                ChappieClientError.reauthenticationRequired("MARKER"), ChappieClientError.missingRefreshToken,
                ChappieClientError.renewalFailed(.reauthenticationRequired("MARKER")),
            ]
        ),
        ("plan_refused", [ChappieClientError.notWithThisSignIn("MARKER"), ChappieAuthError.planUseNotGranted]),
        (
            "rate_limited",
            [ChappieClientError.httpError(429, "MARKER"), ChappieAuthError.tooManyRequests(retryAfter: .zero)]
        ),
        (
            "context_window",
            [ChappieClientError.contextWindowExceeded, ChappieClientError.messageTooLarge(bytes: 1, limit: 1)]
        ),
        ("replay_diverged", [ChappieClientError.streamingTransportReplayDiverged("MARKER")]),
        ("tool_denied", [ChappieClientError.toolApprovalDenied("MARKER", "MARKER")]),
        (
            "tool_failed",
            [
                ChappieClientError.toolExecutionFailed("MARKER", "MARKER"),
                ChappieClientError.missingToolHandler("MARKER"), ChappieClientError.searchFailed("MARKER"),
            ]
        ),
        ("tool_loop_limit", [ChappieClientError.toolLoopLimitExceeded(3)]),
        ("time_limit", [ChappieClientError.timeLimitExceeded(.seconds(3))]),
        ("invalid_response", [ChappieClientError.invalidResponse, transport(.protocolViolation)]),
        (
            "blocked_by_gateway",
            [ChappieClientError.blockedByGateway("MARKER"), ChappieAuthError.blockedByGateway("MARKER")]
        ),
        (
            "unsupported_input",
            [ChappieClientError.unsupportedInput("MARKER", "MARKER"), ChappieClientError.conversationRefused("MARKER")]
        ),
        (
            "store_unavailable",
            [
                ChappieClientError.credentialStoreFailed(.failed("MARKER")),
                ChappieThreadStoreError.unavailable("MARKER"), CredentialStoreError.overtaken,
            ]
        ),
        ("timeout", [ChappieClientError.transportFailed(transport(.timedOut)), ChappieAuthError.pollingTimeout]),
        ("certificate_rejected", [transport(.certificateRejected)]),
        ("connection_lost", [transport(.connectionLost), ChappieAuthError.networkFailure("MARKER")]),
        ("dns", [transport(.unknownHost)]),
        (
            "500",
            [
                ChappieClientError.httpError(500, "MARKER"),
                ChappieAuthError.tokenExchangeFailed(statusCode: 500, body: "MARKER"),
            ]
        ),
        ("_OTHER", [Unknown(), ChappieClientError.httpError(599, "MARKER"), ChappieAuthError.unknown("MARKER")]),
    ]

    @Test(arguments: cases.indices) func `an error has its kind`(index: Int) {
        let (expected, errors) = Self.cases[index]
        for error in errors { #expect(type(of: error) == expected, "\(error)") }
    }
}
