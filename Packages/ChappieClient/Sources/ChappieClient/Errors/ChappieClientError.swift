public import ChappieAuth
public import ChappieCore

/// Why a request failed. Each case says what a person can do in ``recoverySuggestion``.
public enum ChappieClientError: Error, Sendable, Hashable {
    /// Nobody is signed in.
    case missingCredential
    /// The credential can't be renewed.
    case missingRefreshToken
    /// The credential does not say which account it is for.
    case missingAccountID
    /// Only a new sign-in helps; the string says why.
    case reauthenticationRequired(String)
    /// The plan's quota is used up.
    case usageLimitReached(ChappieUsageLimit)
    /// The model called a tool that the program has not given; the string is its name.
    case missingToolHandler(String)
    /// A tool call was refused by policy or by the person: the tool's name and the reason. For tools, which follow.
    case toolApprovalDenied(String, String)
    /// A tool's handler threw: the tool's name and the error's message. For tools, which follow.
    case toolExecutionFailed(String, String)
    /// The model kept calling tools beyond this many rounds. For tools, which follow.
    case toolLoopLimitExceeded(Int)
    /// The response ended in an error status; the response holds what the backend said.
    case responseFailed(ChappieResponse)
    /// The connection broke in mid-answer, and the answer that came instead began differently, or left out a tool call that
    /// had been handed out. The string is the text as it had been delivered; what to do with it is the host's to say.
    case streamingTransportReplayDiverged(String)
    /// The backend answered with an HTTP error that has no case of its own: status and body (at most 64 KiB of it,
    /// access tokens taken out).
    case httpError(Int, String)
    /// A successful answer that can't be understood.
    case invalidResponse
    /// The exchange broke before the answer was whole.
    case transportFailed(ChappieTransportError)
    /// The conversation is longer than the model's context window.
    case contextWindowExceeded
    /// The request is larger than the backend takes over WebSocket, and the policy allows no other way. Nothing was sent.
    case messageTooLarge(bytes: Int, limit: Int)
    /// The sign-in has run out and could not be renewed just now; it may work later, and nothing was lost.
    case renewalFailed(ChappieAuthError)
    /// The credential store could not be read or written.
    case credentialStoreFailed(CredentialStoreError)
}
