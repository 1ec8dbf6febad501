public import FoundationEssentials

/// Why a request could not be authorized.
public enum AuthorizationError: Error, Sendable, Hashable {
    /// Nobody is signed in.
    case missingCredential
    /// There is a credential without a refresh token, and its access token can't be used any more.
    case missingRefreshToken
    /// The credential names no account to send the request for.
    case missingAccountID
    /// Only a new sign-in helps; the string is a sentence for the person that says why.
    case reauthenticationRequired(String)
    /// The credential store failed; nothing was deleted.
    case store(CredentialStoreError)
    /// Renewing the tokens failed in a way that may pass; the credential is untouched.
    case auth(ChappieAuthError)
    /// The request was not for the configured backend (the string names where it wanted to go); nothing was sent.
    case foreignOrigin(String)
}

extension AuthorizationError: LocalizedError {
    public var errorDescription: String? {
        switch self {
        case .missingCredential: "Nobody is signed in."
        case .missingRefreshToken: "The sign-in can't be renewed because it has no refresh token."
        case .missingAccountID: "The stored sign-in names no account."
        case .reauthenticationRequired(let reason): reason
        case .store(let error): error.errorDescription
        case .auth(let error): error.errorDescription
        case .foreignOrigin(let host):
            "A request to \(host) was stopped: the sign-in is for the configured backend only."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .missingCredential, .missingRefreshToken, .reauthenticationRequired: "Sign in with ChatGPT."
        case .missingAccountID: "Sign out and sign in again."
        case .store(let error): error.recoverySuggestion
        case .auth(let error): error.recoverySuggestion
        case .foreignOrigin: "Check the configured backend address."
        }
    }
}
