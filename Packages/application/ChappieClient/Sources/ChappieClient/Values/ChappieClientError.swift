@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
public import ChappieJSONSchema

/// The reason for which a request failed. Each case gives the user's next step in ``recoverySuggestion``.
public enum ChappieClientError: Error, Sendable, Hashable {
    /// No account is signed in.
    case missingCredential
    /// The credential can't be renewed.
    case missingRefreshToken
    /// The credential does not name its account.
    case missingAccountID
    /// Only a new sign-in helps. The string is the reason.
    case reauthenticationRequired(String)
    /// The sign-in does not include something. The string is its name at the beginning of a sentence. Nothing was sent.
    case notWithThisSignIn(String)
    /// The service's search of the web failed. The string is its message.
    case searchFailed(String)
    /// No picture came back.
    case imageFailed(ChappieImageFailure)
    /// The service redeemed no reset credit.
    case resetRefused(ChappieResetRefusal)
    /// The plan's quota is used up.
    case usageLimitReached(ChappieUsageLimit)
    /// The service does not answer this request on the user's plan.
    case planRefused(ChappiePlanRefusal)
    /// The backend does not report how much of the plan is used. The URL is the page on which the user sees and manages
    /// it, if there is one.
    case usageNotReported(URL?)
    /// The service does not answer with the model. Unless the model is only at capacity, repeating the request changes
    /// nothing.
    case modelUnavailable(ChappieModelRefusal)
    /// The model called a tool that the program has not provided. The string is its name.
    case missingToolHandler(String)
    /// A tool call was refused by policy or by the user: the tool's name and the reason.
    case toolApprovalDenied(String, String)
    /// A tool's handler threw: the tool's name and the error's message.
    case toolExecutionFailed(String, String)
    /// The model kept calling tools, or continuing, beyond this many rounds.
    case toolLoopLimitExceeded(Int)
    /// The response ended in an error, and repeating the request did not help, or it ended early although the complete
    /// text was requested. The response contains the backend's error, and the text so far.
    case responseFailed(ChappieResponse)
    /// The connection broke during the answer, and the repeated answer began differently, or left out a tool call that
    /// had been handed out. The string is the text that had been delivered. The host decides what to do with it.
    case streamingTransportReplayDiverged(String)
    /// The backend answered with an HTTP error that has no separate case. The values are the status and the body (at
    /// most 64 KiB of it, without access tokens).
    case httpError(Int, String)
    /// A web page with status 403 came instead of an answer. It is from the protection in front of the service, or from
    /// a network on the way, and not from the service itself. The string is the requested host. The sign-in and the
    /// model are not affected.
    case blockedByGateway(String)
    /// The backend refuses an earlier part of the conversation, even without its ids and its reasoning. The string is
    /// the backend's message. The same question in another conversation may be answered.
    case conversationRefused(String)
    /// The service's edge answered for a service that it does not reach, or a network on the way answered with its own
    /// page. The sign-in, the model and the request are not the cause.
    case gatewayAnswered(ChappieGatewayAnswer)
    /// A successful answer that can't be understood.
    case invalidResponse
    /// A tool call waits for the user, who can't answer now. ``ChappieClient/resume(_:decisions:)`` continues the turn.
    case approvalPending(ChappiePendingTurn)
    /// The model's answer does not fit the requested schema: the place, the reason, and the answer's text.
    case invalidStructuredOutput(ChappieSchemaViolation, String)
    /// A message contains something that the model does not take: what it is, and what to do. Nothing was sent.
    case unsupportedInput(String, String)
    /// A tool can't be declared to the model: its name, and the reason. Nothing was sent.
    case invalidTool(String, String)
    /// The turn took longer than its request allows (``ChappieResponseRequest/timeLimit``). The conversation is
    /// unchanged. Tools that ran have run.
    case timeLimitExceeded(Duration)
    /// The exchange broke before the answer was complete.
    case transportFailed(ChappieTransportError)
    /// The conversation is longer than the model's context window.
    case contextWindowExceeded
    /// The question is too long by itself, or the conversation has more bytes than the service takes.
    case inputTooLarge(ChappieInputSize)
    /// The request is larger than the backend takes over WebSocket, and the policy allows no other transport. Nothing
    /// was sent.
    case messageTooLarge(bytes: Int, limit: Int)
    /// The sign-in has expired and could not be renewed at the moment. It may be renewed later, and nothing was lost.
    case renewalFailed(ChappieAuthError)
    /// The credential store could not be read or written.
    case credentialStoreFailed(CredentialStoreError)
    /// The user, or all users of a server together, have too many unfinished turns. A server answers with status 429.
    case tooManyTurns
    /// The program is about to end, and begins no more turns. A server answers with status 503.
    case stopping
}

extension ChappieClientError: ChappieError {
    /// A sentence for the user.
    public var errorDescription: String? { words.map(UntrustedText.sentence) }

    /// The message. If a server or a tool wrote its end, the full stop may be missing.
    private var words: String? {
        switch self {
        case .missingCredential: "You are not signed in."
        case .missingRefreshToken: "The sign-in can't be renewed: there is no refresh token."
        case .missingAccountID: "The sign-in does not say which account it is for."
        case .reauthenticationRequired(let reason): reason
        case .notWithThisSignIn(let name): "\(name) is not part of a sign-in with \"Continue with ChatGPT\"."
        case .searchFailed(let message): "The web search failed: \(message)"
        case .imageFailed(let failure): failure.sentence
        case .resetRefused(let refusal): refusal.sentence
        case .usageLimitReached(let limit): describe(limit)
        case .planRefused(let refusal): refusal.sentence
        case .usageNotReported: "The service does not report how much of your plan is used."
        case .modelUnavailable(let refusal): refusal.sentence
        case .unsupportedInput(let what, _): what
        case .missingToolHandler(let name): "The model called the tool \"\(name)\", which this program does not have."
        case .toolApprovalDenied(let name, let reason): "The call of \"\(name)\" was refused: \(reason)"
        case .toolExecutionFailed(let name, let message): "The tool \"\(name)\" failed: \(message)"
        case .toolLoopLimitExceeded(let limit): "The model was not done after \(limit) rounds."
        case .streamingTransportReplayDiverged: "The connection broke, and the repeated answer began differently."
        case .responseFailed(let response): describe(response)
        case .httpError(let status, let body): describe(status: status, body: body)
        case .blockedByGateway(let host): BlockingPage.sentence(host: host)
        case .gatewayAnswered(let answer): answer.sentence
        case .invalidResponse: "The server sent an answer that could not be understood."
        case .approvalPending(let turn):
            "The turn waits for your approval of \(turn.approvals.map { "\"\($0.call.name)\"" }.joined(separator: ", "))."
        case .invalidStructuredOutput(let violation, _):
            "The answer does not have the form that was asked for, at \(violation.path.isEmpty ? "/" : violation.path): \(violation.message)"
        case .invalidTool(let name, let reason): "The tool \"\(name)\" can't be used: \(reason)."
        case .timeLimitExceeded(let limit): "The answer was not whole within \(limit.words)."
        case .transportFailed(let error): error.errorDescription
        case .conversationRefused(let message): "The service refuses a part of this conversation: \(message)"
        case .contextWindowExceeded: "The conversation is longer than the model can take in."
        case .inputTooLarge(let size): size.sentence
        case .messageTooLarge(let bytes, let limit): "The request is \(bytes) bytes long; \(limit) are allowed."
        case .renewalFailed(let error):
            "The sign-in has run out and can't be renewed at the moment: \(error.errorDescription ?? "no reason given")"
        case .credentialStoreFailed(let error): error.errorDescription
        case .tooManyTurns: "Too many questions are waiting for an answer."
        case .stopping: "This program is about to end."
        }
    }

    /// The user's next step.
    public var recoverySuggestion: String? {
        switch self {
        case .missingCredential, .missingRefreshToken, .missingAccountID, .reauthenticationRequired: "Sign in again."
        case .notWithThisSignIn: "Sign in with a device code to use it."
        case .searchFailed: "Ask again, or search for something else."
        case .imageFailed(let failure): failure.advice
        case .resetRefused(let refusal): refusal.advice
        case .usageLimitReached(let limit) where limit.planOfService != nil: "Sign in again."
        case .usageLimitReached(let limit) where limit.usagePage != nil: Self.manageUsage(limit.usagePage)
        case .usageLimitReached(let limit) where limit.workspaceAdvice != nil: limit.workspaceAdvice
        case .usageLimitReached(let limit):
            limit.resetsAt == nil
                ? "Check what your plan includes." : "Wait until the limit resets, or check your plan's usage page."
        case .planRefused(let refusal): refusal.advice
        case .usageNotReported(let page): Self.manageUsage(page)
        case .modelUnavailable(let refusal) where refusal.reason == .atCapacity:
            "Try again later, or choose another model" + (refusal.suggestion.map { ", such as \($0)." } ?? ".")
        case .modelUnavailable(let refusal):
            refusal.suggestion.map { "Use \($0)." } ?? "Choose a model that your account lists."
        case .unsupportedInput(_, let advice): advice
        case .missingToolHandler: "Register the tool with the client, or take it out of the instructions."
        case .toolApprovalDenied: "Allow the call if you want it to be made."
        case .toolExecutionFailed: "Look at what the tool needs, then try again."
        case .toolLoopLimitExceeded: "Ask for something smaller, or raise the limit."
        case .responseFailed(let response) where response.status == .incomplete:
            "Use what is there, ask for the rest, or ask for something shorter."
        case .responseFailed(let response) where isContentRefusal: Self.contentAdvice(response.error?.code)
        case .responseFailed(let response) where response.error?.type?.hasPrefix("invalid_request") == true:
            "Change the question or its options. The service does not take this request."
        case .streamingTransportReplayDiverged, .responseFailed: "Try again in a moment."
        case .httpError(_, let body) where isContentRefusal: Self.contentAdvice(ChappieResponseError(text: body).code)
        case .httpError(401, _): "Try again later. If your questions are refused as well, sign in again."
        case .httpError(402, _): "Look at your plan's usage page, or ask the administrator of your workspace."
        case .httpError(403, _): "Your account may lack this. Ask the administrator of your workspace."
        case .httpError(413, _): "Send less at once."
        case .httpError(429, _): "Too many requests at the moment; wait a moment and try again."
        case .httpError(let status, _):
            status >= 500 ? "The service has a problem; try again in a moment." : "Check the request and the address."
        case .blockedByGateway: BlockingPage.advice + " If WebSocket is switched off, allow it."
        case .gatewayAnswered(let answer): answer.advice
        case .invalidResponse: "Check that the configured address is the right service."
        case .approvalPending: "Approve or deny the call, then resume the turn."
        case .invalidStructuredOutput: "Ask again, or make the schema simpler."
        case .invalidTool: "Change the tool's declaration."
        case .timeLimitExceeded: "Allow more time, or ask for something smaller."
        case .transportFailed(let error): error.recoverySuggestion
        case .conversationRefused: "Take back the last turn, or begin a new conversation."
        case .contextWindowExceeded: "Start a new conversation, or shorten this one."
        case .inputTooLarge(let size): size.advice
        case .messageTooLarge: "Send less at once."
        case .renewalFailed(let error): error.recoverySuggestion
        case .credentialStoreFailed(let error): error.recoverySuggestion
        case .tooManyTurns: "Wait for an answer, then ask again."
        case .stopping: "Ask again in a moment."
        }
    }

    private func describe(_ response: ChappieResponse) -> String {
        if response.status == .incomplete {
            return "The answer ended early: \(response.incompleteReason ?? "the server gave no reason")"
        }
        guard let error = response.error, error.message ?? error.shownCode != nil else {
            return "The answer failed without a reason."
        }
        return (ContentRefusal(error.code)?.summary ?? "The answer failed") + error.codeAndMessage
    }

    private static func contentAdvice(_ code: String?) -> String? { ContentRefusal(code)?.advice(code) }

    private static func manageUsage(_ page: URL?) -> String {
        page.map { "Manage usage at \($0.absoluteString)." } ?? "Look at your plan's usage page."
    }

    private func describe(_ limit: ChappieUsageLimit) -> String {
        // With such a page, the limit may be the plan's, or the user's own for the app.
        let usual =
            switch limit.reachedType {
            case .workspaceOwnerCredits?, .workspaceMemberCredits?: "Your workspace has no credits left"
            case nil where limit.type == "rate_limit_exceeded": "There were too many requests"
            default:
                "The usage limit" + (limit.usagePage == nil ? "" : " of your plan, or of this app on it,")
                    + " has been reached"
            }
        if let service = limit.planOfService, let signIn = limit.planOfSignIn {
            var limit = limit
            limit.planOfService = nil
            limit.plan = nil
            return describe(limit)
                + " Your sign-in says \(signIn.displayName), the service says \(service.displayName)."
        }
        let message = limit.message ?? usual
        let sentence = message.hasSuffix(".") ? String(message.dropLast()) : message
        let reset = limit.resetsAt.map { $0.formatted(.iso8601) }
        guard sentence == usual else {
            // The service's own sentence may end in any form.
            let plan = limit.plan.map { "The plan is \($0.displayName)." }
            return [UntrustedText.sentence(message), plan, reset.map { "It resets at \($0)." }]
                .compactMap(\.self).joined(separator: " ")
        }
        let plan = limit.plan.map { " on the \($0.displayName) plan" } ?? ""
        return "\(sentence)\(plan)" + (reset.map { "; it resets at \($0)." } ?? ".")
    }

    private func describe(status: Int, body: String) -> String {
        var error = ChappieResponseError(text: body)
        error.message = error.message ?? BlockingPage.title(of: body)
        return (ContentRefusal(error.code)?.summary ?? "The server answered with status \(status)")
            + error.codeAndMessage
    }
}

extension ChappieResponseError {
    /// The code, if it can be shown to the user.
    var shownCode: String? { UntrustedText.token(code, limit: 100) }

    /// The end of a sentence about the error: the code in parentheses, unless the message contains it, and the message.
    /// The final full stop may be missing.
    fileprivate var codeAndMessage: String {
        let message = message.flatMap { $0.isEmpty ? nil : $0.prefix(500) }
        let code = shownCode.flatMap { message?.contains($0) == true ? nil : " (\($0))" } ?? ""
        return code + (message.map { ": \($0)" } ?? ".")
    }
}

extension ChappieUsageLimit {
    /// The next step if a limit of the workspace is reached, or `nil` for another limit.
    fileprivate var workspaceAdvice: String? {
        switch reachedType {
        case .workspaceOwnerCredits?: "Add credits to your workspace."
        case .workspaceMemberCredits?: "Ask the owner of your workspace to add credits."
        case .workspaceOwnerLimit?: "Raise the usage limit of your workspace."
        case .workspaceMemberLimit?: "Ask the owner of your workspace to raise your limit."
        default: nil
        }
    }
}
