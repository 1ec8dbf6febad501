import ChappieSDK
import ChappieSimulator
import FoundationEssentials

/// How the program exits; documented in its help and in the README.
enum ExitStatus: Int32 {
    case success = 0
    /// Wrong arguments, or a setting that can't be used.
    case usage = 64
    /// The server sent something that makes no sense.
    case badData = 65
    /// The network, the service, or the keyring service is unavailable.
    case unavailable = 69
    /// A fault in this program.
    case internalError = 70
    /// The plan's usage limit is reached.
    case usageLimit = 75
    /// There is no sign-in, or it is no longer good.
    case signInNeeded = 77
    /// Ctrl-C.
    case interrupted = 130
}

/// Ends the program with a status when the command has said everything already.
struct SilentExit: Error {
    let status: ExitStatus

    init(_ status: ExitStatus) { self.status = status }
}

/// An error of the program itself: a sentence, what to do, and how to exit.
struct CommandLineError: Error {
    let code: String
    let message: String
    let suggestion: String?
    let status: ExitStatus

    init(_ status: ExitStatus, code: String, _ message: String, suggestion: String? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.suggestion = suggestion
    }

    static func usage(_ message: String, suggestion: String? = nil) -> CommandLineError {
        CommandLineError(.usage, code: "usage", message, suggestion: suggestion)
    }
}

/// Any error as a user, or a script, is told of it.
struct ErrorReport {
    let code: String
    let message: String
    let suggestion: String?
    let status: ExitStatus

    init(_ error: any Error) {
        if let error = error as? CommandLineError {
            (code, message, suggestion, status) = (error.code, error.message, error.suggestion, error.status)
            return
        }
        (status, code) = Self.classify(error)
        let localized = error as? any LocalizedError
        message =
            error is CancellationError
            ? "Interrupted." : localized?.errorDescription ?? "Something went wrong inside chappie: \(error)"
        suggestion =
            Self.suggestion(code)
            ?? localized?.recoverySuggestion?
            .replacing("the extra CA file", with: "the extra CA file (CHAPPIE_CA_FILE)")
    }

    /// The report as JSON, for `--json`.
    var json: ChappieJSON {
        var error = ChappieJSONObject([("code", .string(code)), ("message", .string(message))])
        error["suggestion"] = suggestion.map(ChappieJSON.string)
        error["exit_code"] = .integer(Int(status.rawValue))
        return ["type": "error", "error": .object(error)]
    }

    /// Advice that names this program's commands and settings, which the library doesn't know.
    private static func suggestion(_ code: String) -> String? {
        switch code {
        case "sign_in_needed", "credential_corrupt": "Run `chappie login`."
        case "no_passphrase":
            "Name a file that holds it in CHAPPIE_PASSPHRASE_FILE, pass it as the systemd credential chappie-passphrase, or "
                + "run chappie in a terminal."
        default: nil
        }
    }

    private typealias Classification = (ExitStatus, String)

    private static func classify(_ error: any Error) -> Classification {
        switch error {
        case is CancellationError: (.interrupted, "interrupted")
        case let error as ChappieClientError: classify(error)
        case let error as ChappieAuthError: classify(error)
        case let error as AuthorizationError: classify(error)
        case let error as CredentialStoreError: classify(error)
        case let error as ChappieTransportError: classify(error)
        case let error as SimulatorError:
            switch error.code {
            case .portInUse, .listenFailed: (.unavailable, "simulator_unavailable")
            default: (.usage, "simulator_settings")
            }
        default: (.internalError, "internal")
        }
    }

    private static func classify(_ error: ChappieClientError) -> Classification {
        switch error {
        case .missingCredential, .missingRefreshToken, .missingAccountID, .reauthenticationRequired:
            (.signInNeeded, "sign_in_needed")
        case .usageLimitReached: (.usageLimit, "usage_limit_reached")
        case .httpError: (.unavailable, "http_error")
        case .invalidResponse: (.badData, "invalid_response")
        case .transportFailed(let error): classify(error)
        case .renewalFailed: (.unavailable, "sign_in_unavailable")
        case .contextWindowExceeded: (.unavailable, "context_window_exceeded")
        case .messageTooLarge: (.usage, "message_too_large")
        case .credentialStoreFailed(let error): classify(error)
        case .missingToolHandler: (.unavailable, "missing_tool_handler")
        default: (.unavailable, "response_failed")
        }
    }

    private static func classify(_ error: ChappieAuthError) -> Classification {
        switch error {
        case _ where error.requiresReauthentication: (.signInNeeded, "sign_in_needed")
        case .cancelledSignIn: (.interrupted, "interrupted")
        case .expiredDeviceCode, .pollingTimeout, .callbackTimeout: (.signInNeeded, "sign_in_timed_out")
        case .authorizationDenied: (.signInNeeded, "authorization_denied")
        case .networkFailure, .tokenExchangeFailed: (.unavailable, "sign_in_unavailable")
        case .invalidResponse: (.badData, "invalid_response")
        default: (.internalError, "sign_in_failed")
        }
    }

    private static func classify(_ error: AuthorizationError) -> Classification {
        switch error {
        case .store(let error): classify(error)
        case .auth(let error): classify(error)
        case .foreignOrigin: (.usage, "configuration")
        default: (.signInNeeded, "sign_in_needed")
        }
    }

    private static func classify(_ error: CredentialStoreError) -> Classification {
        switch error {
        case .corrupt: (.signInNeeded, "credential_corrupt")
        case .wrongPassphrase: (.unavailable, "wrong_passphrase")
        case .noPassphrase: (.unavailable, "no_passphrase")
        case .locked: (.unavailable, "keyring_locked")
        case .absent: (.unavailable, "keyring_absent")
        case .busy: (.unavailable, "credential_busy")
        default: (.unavailable, "credential_store")
        }
    }

    private static func classify(_ error: ChappieTransportError) -> Classification {
        switch error.code {
        case .invalidURL, .insecureURL, .invalidCAFile: (.usage, "configuration")
        case .protocolViolation, .bodyTooLarge: (.badData, "invalid_response")
        default: (.unavailable, "transport_failed")
        }
    }
}
