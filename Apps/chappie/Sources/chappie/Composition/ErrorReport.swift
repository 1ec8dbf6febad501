import ChappieSDK
import ChappieSimulator
import FoundationEssentials

/// Any error as the person, or a script, is told of it.
struct ErrorReport {
    let code: String
    let message: String
    let suggestion: String?
    let status: ExitStatus

    init(_ error: any Error) {
        let localized = error as? any LocalizedError
        let message = localized?.errorDescription ?? "Something went wrong inside chappie: \(error)"
        // The library can't know what the setting is called here.
        let suggestion = localized?.recoverySuggestion?
            .replacing("the extra CA file", with: "the extra CA file (CHAPPIE_CA_FILE)")
        func report(_ status: ExitStatus, _ code: String) -> (String, String, String?, ExitStatus) {
            (code, message, suggestion, status)
        }
        (code, self.message, self.suggestion, status) =
            switch error {
            case let error as CommandLineError: (error.code, error.message, error.suggestion, error.status)
            case is CancellationError: ("interrupted", "Interrupted.", nil, .interrupted)
            case let error as ChappieClientError: Self.describe(error, report)
            case let error as ChappieAuthError: Self.describe(error, report)
            case let error as CredentialStoreError: Self.describe(error, report)
            case let error as ChappieTransportError: Self.describe(error, report)
            case let error as AuthorizationError: Self.describe(error, report)
            case let error as SimulatorError: Self.describe(error, report)
            default: report(.internalError, "internal")
            }
    }

    /// The report as JSON, for `--json`.
    var json: ChappieJSON {
        var error = ChappieJSONObject([("code", .string(code)), ("message", .string(message))])
        error["suggestion"] = suggestion.map(ChappieJSON.string)
        error["exit_code"] = .integer(Int(status.rawValue))
        return ["type": "error", "error": .object(error)]
    }

    private typealias Report = (String, String, String?, ExitStatus)
    private typealias Reporter = (ExitStatus, String) -> Report

    private static func describe(_ error: ChappieClientError, _ report: Reporter) -> Report {
        switch error {
        case .missingCredential: signIn(report(.signInNeeded, "sign_in_needed"))
        case .missingRefreshToken, .missingAccountID, .reauthenticationRequired:
            signIn(report(.signInNeeded, "sign_in_needed"))
        case .usageLimitReached: report(.usageLimit, "usage_limit_reached")
        case .httpError: report(.unavailable, "http_error")
        case .invalidResponse: report(.badData, "invalid_response")
        case .transportFailed(let error): describe(error, report)
        case .renewalFailed: report(.unavailable, "sign_in_unavailable")
        case .contextWindowExceeded: report(.unavailable, "context_window_exceeded")
        case .messageTooLarge: report(.usage, "message_too_large")
        case .credentialStoreFailed(let error): describe(error, report)
        case .missingToolHandler: report(.unavailable, "missing_tool_handler")
        default: report(.unavailable, "response_failed")
        }
    }

    private static func describe(_ error: ChappieAuthError, _ report: Reporter) -> Report {
        if error.requiresReauthentication { return signIn(report(.signInNeeded, "sign_in_needed")) }
        return switch error {
        case .cancelledSignIn: report(.interrupted, "interrupted")
        case .expiredDeviceCode, .pollingTimeout, .callbackTimeout: report(.signInNeeded, "sign_in_timed_out")
        case .authorizationDenied: report(.signInNeeded, "authorization_denied")
        case .networkFailure, .tokenExchangeFailed: report(.unavailable, "sign_in_unavailable")
        case .invalidResponse: report(.badData, "invalid_response")
        default: report(.internalError, "sign_in_failed")
        }
    }

    private static func describe(_ error: AuthorizationError, _ report: Reporter) -> Report {
        switch error {
        case .store(let error): describe(error, report)
        case .auth(let error): describe(error, report)
        case .foreignOrigin: report(.usage, "configuration")
        default: signIn(report(.signInNeeded, "sign_in_needed"))
        }
    }

    private static func describe(_ error: CredentialStoreError, _ report: Reporter) -> Report {
        switch error {
        case .corrupt: signIn(report(.signInNeeded, "credential_corrupt"))
        case .wrongPassphrase: report(.unavailable, "wrong_passphrase")
        case .noPassphrase: report(.unavailable, "no_passphrase")
        case .locked: report(.unavailable, "keyring_locked")
        case .absent: report(.unavailable, "keyring_absent")
        case .busy: report(.unavailable, "credential_busy")
        case .denied, .timedOut, .notVerified, .unsafeFile, .failed: report(.unavailable, "credential_store")
        }
    }

    private static func describe(_ error: ChappieTransportError, _ report: Reporter) -> Report {
        switch error.code {
        case .invalidURL, .insecureURL, .invalidCAFile: report(.usage, "configuration")
        case .protocolViolation, .bodyTooLarge: report(.badData, "invalid_response")
        default: report(.unavailable, "transport_failed")
        }
    }

    private static func describe(_ error: SimulatorError, _ report: Reporter) -> Report {
        switch error.code {
        case .portInUse, .listenFailed: report(.unavailable, "simulator_unavailable")
        default: report(.usage, "simulator_settings")
        }
    }

    private static func signIn(_ report: Report) -> Report {
        (report.0, report.1, "Run `chappie login`.", report.3)
    }
}
