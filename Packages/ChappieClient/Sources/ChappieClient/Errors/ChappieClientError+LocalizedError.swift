import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
public import FoundationEssentials

extension ChappieClientError: LocalizedError {
    public var errorDescription: String? {
        switch self {
        case .missingCredential: "Nobody is signed in."
        case .missingRefreshToken: "The sign-in can't be renewed: there is no refresh token."
        case .missingAccountID: "The sign-in does not say which account it is for."
        case .reauthenticationRequired(let reason): reason
        case .usageLimitReached(let limit): describe(limit)
        case .missingToolHandler(let name): "The model called the tool \"\(name)\", which this program does not have."
        case .toolApprovalDenied(let name, let reason): "The call of \"\(name)\" was refused: \(reason)"
        case .toolExecutionFailed(let name, let message): "The tool \"\(name)\" failed: \(message)"
        case .toolLoopLimitExceeded(let limit): "The model kept calling tools for more than \(limit) rounds."
        case .streamingTransportReplayDiverged: "The connection broke, and the repeated answer began differently."
        case .responseFailed(let response):
            response.error?.message.map { "The answer failed: \($0)" } ?? "The answer failed without a reason."
        case .httpError(let status, let body): describe(status: status, body: body)
        case .invalidResponse: "The server sent an answer that could not be understood."
        case .transportFailed(let error): error.errorDescription
        case .contextWindowExceeded: "The conversation is longer than the model can take in."
        case .messageTooLarge(let bytes, let limit): "The request is \(bytes) bytes long; \(limit) are allowed."
        case .renewalFailed(let error):
            "The sign-in has run out and can't be renewed just now: \(error.errorDescription ?? "no reason given")"
        case .credentialStoreFailed(let error): error.errorDescription
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .missingCredential, .missingRefreshToken, .missingAccountID, .reauthenticationRequired: "Sign in again."
        case .usageLimitReached(let limit):
            limit.resetsAt == nil
                ? "Look at what your plan includes." : "Wait until the limit resets, or look at your plan's usage page."
        case .missingToolHandler: "Register the tool with the client, or take it out of the instructions."
        case .toolApprovalDenied: "Allow the call if you want it to be made."
        case .toolExecutionFailed: "Look at what the tool needs, then try again."
        case .toolLoopLimitExceeded: "Ask for something smaller, or raise the limit."
        case .streamingTransportReplayDiverged, .responseFailed: "Try again in a moment."
        case .httpError(429, _): "Too many requests just now; wait a moment and try again."
        case .httpError(let status, _):
            status >= 500 ? "The service has a problem; try again in a moment." : "Check the request and the address."
        case .invalidResponse: "Check that the configured address is the right service."
        case .transportFailed(let error): error.recoverySuggestion
        case .contextWindowExceeded: "Start a new conversation, or shorten this one."
        case .messageTooLarge: "Send less at once."
        case .renewalFailed(let error): error.recoverySuggestion
        case .credentialStoreFailed(let error): error.recoverySuggestion
        }
    }

    private func describe(_ limit: ChappieUsageLimit) -> String {
        let message = limit.message ?? "The usage limit has been reached"
        let plan = limit.plan.map { " on the \($0.displayName) plan" } ?? ""
        let sentence = message.hasSuffix(".") ? String(message.dropLast()) : message
        guard let resetsAt = limit.resetsAt else { return "\(sentence)\(plan)." }
        return "\(sentence)\(plan); it resets at \(resetsAt.formatted(.iso8601))."
    }

    private func describe(status: Int, body: String) -> String {
        let message = (try? ChappieJSON(parsing: body)).flatMap { ChappieResponseError(body: $0).message }
        guard let message, !message.isEmpty else { return "The server answered with status \(status)." }
        return "The server answered with status \(status): \(message.prefix(500))"
    }
}
