@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieMCP
import ChappieProgramTools
import ChappieRuntime
import ChappieSDK
import ChappieThreadForms
import FoundationEssentials

/// The exit status of the program. The help and the README document it.
enum ExitStatus: Int32 {
    case success = 0
    case usage = 64
    case badData = 65
    case unavailable = 69
    case internalError = 70
    case usageLimit = 75
    case signInNeeded = 77
    case interrupted = 130
}

/// An error for a user or a script, with a sentence, advice, and the exit status.
struct CommandLineError: Error {
    let status: ExitStatus
    let code: String
    private(set) var message: String
    var suggestion: String?
    /// The id under which the service knows the request that failed.
    var requestID: String?

    init(_ status: ExitStatus, code: String, _ message: String, suggestion: String? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.suggestion = suggestion
    }

    static func usage(_ message: String, suggestion: String? = nil) -> CommandLineError {
        CommandLineError(.usage, code: "usage", message, suggestion: suggestion)
    }

    /// Creates an error for the command line from any error.
    init(_ error: any Error) {
        if let error = error as? CommandLineError {
            self = error
            return
        }
        if let date = Self.renewalTime(in: error) {
            self = CommandLineError(
                .signInNeeded, code: "renewable_later",
                "The service did not accept the sign-in. Renewable at \(date.localTime).",
                suggestion: "Run `chappie login` to continue now.")
            return
        }
        (status, code) = Self.classify(error)
        let localized = error as? any LocalizedError
        requestID = (error as? ChappieClientError)?.requestID
        let sentence =
            error is CancellationError
            ? "Interrupted." : localized?.errorDescription ?? "Something went wrong inside chappie: \(error)"
        let named = requestID.flatMap { sentence.contains($0) ? nil : "\(sentence) The request's id is \($0)." }
        message = named ?? sentence
        // The library does not know the commands and settings of this program.
        suggestion =
            switch code {
            case "sign_in_needed", "credential_corrupt": "Run `chappie login`."
            case "usage_limit_reached" where (error as? ChappieClientError)?.isOfChangedPlan == true:
                "Run `chappie login`."
            case "sign_in_timed_out" where error as? ChappieAuthError == .callbackTimeout:
                "Run \(Route.plan.login) again. If the page does not know this app any more, run "
                    + "`chappie accounts remove NAME --route plan` first."
            case "plan_use_not_granted": "Sign in once more with \(Route.plan.login), and allow plan use."
            case "workspace_unavailable":
                "Run `chappie login` and choose another workspace, or ask the administrator of this one."
            case "model_unavailable": Self.advice(for: error)
            case "model_at_capacity": Self.adviceAtCapacity(error)
            case "context_window_exceeded", "input_too_large": Self.advice(forLong: error)
            case "conversation_refused": "Take back the last turn (/undo in a chat), or begin a new conversation."
            case "keyring_absent":
                "Start a keyring service such as gnome-keyring in this login session, or choose an encrypted file: set "
                    + "CHAPPIE_CREDENTIAL_STORE=file."
            case "no_passphrase":
                "Name a file that holds it in CHAPPIE_PASSPHRASE_FILE, pass it as the systemd credential "
                    + "chappie-passphrase, or run chappie in a terminal."
            case "not_with_this_sign_in":
                "Sign in with `chappie login --route device` to use it."
            case "tool_loop_limit": "Ask for something smaller, or allow more rounds with --rounds."
            case "transport_failed" where Self.isSilence(error):
                "Allow more time with --timeout, for example --timeout 900, or check the network and any proxy."
            case "threads_full":
                "Delete threads that are not needed, or raise the limit (CHAPPIE_THREADS_LIMIT). Nothing was lost."
            default: Self.advice(forThreads: error) ?? localized?.recoverySuggestion
            }
        separateNetworkAdvice()
        if case ChappieClientError.usageLimitReached(let limit) = error, let date = limit.resetsAt {
            message = message.replacing(date.formatted(.iso8601), with: date.local("%Y-%m-%d %H:%M %z"))
        }
    }

    /// Separates the advice about a network that requires a sign-in, which is a part of the sentence, from the sentence. It
    /// replaces the general advice.
    private mutating func separateNetworkAdvice() {
        guard message.hasSuffix(" " + BlockingPage.networkAdvice) else { return }
        message.removeLast(BlockingPage.networkAdvice.count + 1)
        suggestion = BlockingPage.networkAdvice
    }

    /// Returns the commands that recover threads.
    private static func advice(forThreads error: any Error) -> String? {
        switch error {
        case ChappieThreadStoreError.damaged:
            "Run `chappie threads verify --repair`, which keeps everything that can be read. "
                + "`chappie threads restore` adds what a backup has."
        case ChappieThreadStoreError.wrongKey:
            "Restore the key with `chappie threads restore` and a backup. Without a backup the threads stay unreadable. "
                + "Then remove the folder that `chappie threads verify` prints, and a new store begins."
        default: nil
        }
    }

    /// Returns whether the service was reached and then sent nothing until the time limit.
    private static func isSilence(_ error: any Error) -> Bool {
        guard case ChappieClientError.transportFailed(let error) = error, error.code == .timedOut else { return false }
        return [.request, .responseHead, .firstByte, .responseBody, .message].contains(error.stage)
    }

    /// Returns the time from which the service renews the sign-in, or `nil` for any other error.
    private static func renewalTime(in error: any Error) -> Date? {
        switch error {
        case ChappieAuthError.renewableLater(let date), ChappieClientError.renewalFailed(.renewableLater(let date)):
            date
        default: nil
        }
    }

    /// Returns the option that names a model that answers.
    private static func advice(for error: any Error) -> String {
        guard case ChappieClientError.modelUnavailable(let refusal) = error, let slug = refusal.suggestion else {
            return
                "Run `chappie models` to see your account's models. Name one with -m."
        }
        let model = UntrustedText.forTerminal(slug)
        return
            "Use `-m \(model)` (in a chat: `/model \(model)`). `chappie models` lists your account's models."
    }

    private static func adviceAtCapacity(_ error: any Error) -> String {
        guard case ChappieClientError.modelUnavailable(let refusal) = error, let slug = refusal.suggestion else {
            return "Try again later, or choose another model with -m."
        }
        let model = UntrustedText.forTerminal(slug)
        return "Try again later, or choose another model with -m, such as `-m \(model)` (in a chat: `/model \(model)`)."
    }

    /// Returns the commands that make a conversation shorter.
    private static func advice(forLong error: any Error) -> String? {
        let commands = "`/compact` in a chat (`chappie chat -c`),"
        guard case ChappieClientError.inputTooLarge(let size) = error else {
            return "Run \(commands) or start a new conversation."
        }
        guard size.isQuestion else {
            return "Run \(commands) \(size.isMostlyPictures ? "which leaves the pictures out." : "or send less.")"
        }
        guard size.estimatedTokens != nil, let slug = size.suggestion else {
            return (error as? ChappieClientError)?.recoverySuggestion
        }
        return "Use `-m \(UntrustedText.forTerminal(slug))`, or ask about a smaller part."
    }

    /// The error for `--json`.
    var json: ChappieJSON {
        var error = ChappieJSONObject([("code", .string(code)), ("message", .string(message))])
        error["suggestion"] = suggestion.map(ChappieJSON.string)
        error["request_id"] = requestID.map(ChappieJSON.string)
        error["exit_code"] = .integer(Int(status.rawValue))
        return ["type": "error", "error": .object(error)]
    }

    /// Classifies a refusal of the plan. The user decides only about a permission. The service decides the rest.
    private static func classify(_ refusal: ChappiePlanRefusal) -> (ExitStatus, String) {
        switch refusal.reason {
        case .notGranted, .notAuthorized: (.signInNeeded, "plan_use_not_granted")
        case .workspace: (.signInNeeded, "workspace_unavailable")
        case .capability: (.usage, "unsupported_capability")
        case .unavailable: (.unavailable, "plan_unavailable")
        default: (.unavailable, "plan_refused")
        }
    }

    /// Classifies an error. The first cases unwrap an error inside the error. The others map errors to their meaning
    /// for a script.
    private static func classify(_ error: any Error) -> (ExitStatus, String) {
        switch error {
        case ChappieClientError.transportFailed(let error): classify(error)
        case ChappieClientError.credentialStoreFailed(let error): classify(error)
        case ChappieAuthError.credentialStoreUnavailable(let error): classify(error)

        case is CancellationError, ChappieAuthError.cancelledSignIn: (.interrupted, "interrupted")
        case let error as ChappieAuthError where error.obstacle != nil: (.signInNeeded, "sign_in_refused")
        case ChappieClientError.renewalFailed(let error) where error.obstacle != nil: (.signInNeeded, "sign_in_refused")
        case let error as ChappieAuthError where error.requiresReauthentication: (.signInNeeded, "sign_in_needed")
        case ChappieAuthError.expiredDeviceCode, ChappieAuthError.pollingTimeout, ChappieAuthError.callbackTimeout:
            (.signInNeeded, "sign_in_timed_out")
        case ChappieAuthError.planUseNotGranted: (.signInNeeded, "plan_use_not_granted")
        case ChappieAuthError.wrongCallbackAddress: (.usage, "wrong_callback_address")
        case ChappieAuthError.authorizationDenied: (.signInNeeded, "authorization_denied")
        case ChappieClientError.blockedByGateway, ChappieAuthError.blockedByGateway,
            ChappieClientError.renewalFailed(.blockedByGateway):
            (.unavailable, "blocked_by_gateway")
        case ChappieClientError.gatewayAnswered(let answer):
            (.unavailable, answer.sender == .edge ? "service_not_reached" : "network_page")
        case ChappieAuthError.networkFailure, ChappieAuthError.tokenExchangeFailed, ChappieAuthError.tooManyRequests,
            ChappieAuthError.callbackUnavailable,
            ChappieClientError.renewalFailed:
            (.unavailable, "sign_in_unavailable")
        case ChappieAuthError.invalidResponse, ChappieClientError.invalidResponse: (.badData, "invalid_response")
        case is ChappieAuthError: (.internalError, "sign_in_failed")

        case ChappieClientError.missingCredential, ChappieClientError.missingRefreshToken,
            ChappieClientError.missingAccountID, ChappieClientError.reauthenticationRequired:
            (.signInNeeded, "sign_in_needed")
        case ChappieClientError.invalidStructuredOutput: (.badData, "invalid_structured_output")
        case ChappieClientError.usageLimitReached: (.usageLimit, "usage_limit_reached")
        case ChappieClientError.planRefused(let refusal): classify(refusal)
        case ChappieClientError.resetRefused(.nothingToReset): (.unavailable, "nothing_to_reset")
        case ChappieClientError.resetRefused(.noCredit): (.unavailable, "no_credit")
        case ChappieClientError.resetRefused(.ineligible): (.unavailable, "rate_limit_reset_ineligible")
        case ChappieClientError.usageNotReported: (.unavailable, "usage_not_reported")
        case let error as ChappieClientError where error.isContentRefusal: (.unavailable, "content_refused")
        case ChappieClientError.httpError: (.unavailable, "http_error")
        case ChappieClientError.conversationRefused: (.unavailable, "conversation_refused")
        case ChappieClientError.contextWindowExceeded: (.unavailable, "context_window_exceeded")
        case ChappieClientError.inputTooLarge(let size):
            (.unavailable, size.estimatedTokens == nil ? "input_too_large" : "context_window_exceeded")
        case ChappieClientError.messageTooLarge: (.usage, "message_too_large")
        case ChappieClientError.modelUnavailable(let refusal) where refusal.reason == .atCapacity:
            (.unavailable, "model_at_capacity")
        case ChappieClientError.modelUnavailable: (.usage, "model_unavailable")
        case ChappieClientError.unsupportedInput: (.usage, "unsupported_input")
        case ChappieClientError.notWithThisSignIn: (.usage, "not_with_this_sign_in")
        case ChappieClientError.searchFailed: (.unavailable, "search_failed")
        case ChappieClientError.imageFailed(.refusedBySafetyCheck): (.unavailable, "image_refused")
        case ChappieClientError.imageFailed(.tooManyPictures): (.unavailable, "too_many_images")
        case ChappieClientError.imageFailed: (.unavailable, "image_failed")
        case ChappieClientError.toolLoopLimitExceeded: (.unavailable, "tool_loop_limit")
        case ChappieClientError.tooManyTurns: (.unavailable, "too_many_turns")
        case ChappieClientError.stopping: (.unavailable, "stopping")
        case ChappieClientError.timeLimitExceeded: (.unavailable, "time_limit_exceeded")
        case ChappieClientError.missingToolHandler: (.unavailable, "missing_tool_handler")
        case is ChappieClientError: (.unavailable, "response_failed")

        case CredentialStoreError.corrupt: (.signInNeeded, "credential_corrupt")
        case CredentialStoreError.tooNew, ChappieThreadStoreError.tooNew: (.badData, "newer_format")
        case CredentialStoreError.wrongPassphrase: (.unavailable, "wrong_passphrase")
        case CredentialStoreError.noPassphrase: (.unavailable, "no_passphrase")
        case CredentialStoreError.locked: (.unavailable, "keyring_locked")
        case CredentialStoreError.absent: (.unavailable, "keyring_absent")
        case CredentialStoreError.busy, CredentialStoreError.overtaken: (.unavailable, "credential_busy")
        case CredentialStoreError.foreign: (.signInNeeded, "credential_of_another_service")
        case is CredentialStoreError: (.unavailable, "credential_store")

        case ChappieThreadStoreError.notFound: (.usage, "no_thread")
        case ChappieThreadStoreError.damaged: (.badData, "threads_damaged")
        case ChappieThreadStoreError.badBackup: (.badData, "backup_damaged")
        case ChappieThreadStoreError.locked: (.unavailable, "threads_locked")
        case ChappieThreadStoreError.full: (.unavailable, "threads_full")
        case is ChappieThreadStoreError: (.unavailable, "threads_unavailable")
        case is ChappieRuntimeError: (.usage, "thread")

        case let error as ChappieThreadImportError:
            switch error.code {
            case .unreadable: (.usage, "usage")
            case .tooNew: (.badData, "newer_format")
            default: (.badData, "thread_import")
            }

        case is ChappieAttachmentError: (.usage, "attachment")

        case let error as ChappieTransportError:
            switch error.code {
            case .invalidURL, .insecureURL, .invalidCAFile: (.usage, "configuration")
            case .protocolViolation, .bodyTooLarge: (.badData, "invalid_response")
            default: (.unavailable, "transport_failed")
            }
        case is ChappieToolManifestError: (.usage, "usage")
        case let error as ChappieMCPError:
            switch error.code {
            case .signInNeeded, .permissionNeeded: (.signInNeeded, "tool_sign_in_needed")
            case .signInFailed: (.unavailable, "tool_sign_in_failed")
            default: (.unavailable, "tool_server")
            }
        default: (.internalError, "internal")
        }
    }
}

extension ChappieClientError {
    /// Whether the limit belongs to a plan that differs from the plan in the sign-in.
    fileprivate var isOfChangedPlan: Bool {
        guard case .usageLimitReached(let limit) = self else { return false }
        return limit.planOfService != nil
    }
}
