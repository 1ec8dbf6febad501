import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieRuntime

/// The value of `error.type` for an error, from a closed list. It never has a text of the error.
///
/// The switches have no `default`, so that the compiler reports each new error. The file is also compiled without the trait.
enum ErrorType {
    static let other = "_OTHER"

    static func name(of error: any Error) -> String {
        switch error {
        case is CancellationError: "cancelled"
        case let error as ChappieClientError: name(of: error)
        case let error as ChappieAuthError: name(of: error)
        case let error as ChappieTransportError: name(of: error.code)
        case let error as ChappieThreadStoreError: name(of: error)
        case is CredentialStoreError: "store_unavailable"
        default: other
        }
    }

    private static func name(of error: ChappieClientError) -> String {
        switch error {
        case .missingCredential, .missingAccountID: "missing_credential"
        case .missingRefreshToken, .reauthenticationRequired: "reauthentication_required"
        case .usageLimitReached: "usage_limit"
        case .planRefused, .notWithThisSignIn: "plan_refused"
        case .modelUnavailable: "model_unavailable"
        case .contextWindowExceeded, .inputTooLarge, .messageTooLarge: "context_window"
        case .streamingTransportReplayDiverged: "replay_diverged"
        case .toolApprovalDenied: "tool_denied"
        case .toolExecutionFailed, .missingToolHandler, .searchFailed, .imageFailed: "tool_failed"
        case .toolLoopLimitExceeded: "tool_loop_limit"
        case .timeLimitExceeded: "time_limit"
        case .tooManyTurns: "rate_limited"
        case .stopping: "cancelled"
        case .approvalPending: "approval_pending"
        case .invalidResponse, .invalidStructuredOutput: "invalid_response"
        case .blockedByGateway, .gatewayAnswered: "blocked_by_gateway"
        case .unsupportedInput, .invalidTool, .conversationRefused: "unsupported_input"
        case .credentialStoreFailed: "store_unavailable"
        case .httpError(let status, _): name(ofStatus: status)
        case .transportFailed(let error): name(of: error.code)
        case .renewalFailed(let error): name(of: error)
        case .responseFailed, .resetRefused, .usageNotReported: other
        }
    }

    private static func name(of error: ChappieAuthError) -> String {
        switch error {
        case .missingCredential, .missingAccountID: "missing_credential"
        case .missingRefreshToken, .reauthenticationRequired: "reauthentication_required"
        case .planUseNotGranted: "plan_refused"
        case .cancelledSignIn: "cancelled"
        case .networkFailure: "connection_lost"
        case .expiredDeviceCode, .pollingTimeout, .callbackTimeout: "timeout"
        case .blockedByGateway: "blocked_by_gateway"
        case .tokenExchangeFailed(let status, _): name(ofStatus: status)
        case .tooManyRequests, .renewableLater: "rate_limited"
        case .invalidResponse: "invalid_response"
        case .credentialStoreUnavailable: "store_unavailable"
        case .callbackUnavailable, .wrongCallbackAddress, .authorizationDenied, .secureRandomFailed, .unknown: other
        }
    }

    private static func name(of code: ChappieTransportError.Code) -> String {
        switch code {
        case .timedOut: "timeout"
        case .certificateRejected: "certificate_rejected"
        case .unknownHost: "dns"
        case .proxyFailed, .connectFailed, .tlsFailed, .connectionLost: "connection_lost"
        case .protocolViolation, .redirectRefused, .bodyTooLarge: "invalid_response"
        case .invalidURL, .insecureURL, .invalidCAFile, .unavailable: other
        }
    }

    private static func name(of error: ChappieThreadStoreError) -> String {
        switch error {
        case .notFound, .conflict, .full, .damaged, .locked, .wrongKey, .tooNew, .unsafeFile, .badBackup, .busy,
            .unavailable:
            "store_unavailable"
        }
    }

    /// The statuses that have their own value. A server may send any number.
    static let statuses = [400, 401, 402, 403, 404, 408, 409, 413, 415, 422, 500, 502, 503, 504]

    private static func name(ofStatus status: Int) -> String {
        if status == 429 { return "rate_limited" }
        return statuses.contains(status) ? String(status) : other
    }
}
