@_spi(ChappieInternals) public import ChappieCore

/// The reason why signing in or refreshing failed.
///
/// A message never contains a token, a code or an authorization header.
public enum ChappieAuthError: Error, Sendable, Hashable {
    /// The user did not approve the device code before it expired.
    case expiredDeviceCode
    /// The program or the user cancelled the sign-in.
    case cancelledSignIn
    /// The network failed. The string has the place, the reason and, if another attempt does not help, a remedy.
    case networkFailure(String)
    /// Polling stopped after 15 minutes, before the user approved the device code.
    case pollingTimeout
    /// The sign-in callback did not arrive in time. For grants with a callback.
    case callbackTimeout
    /// A web page with status 403 came instead of an answer: from a protection of the sign-in service, or from a
    /// network on the way. The string is the host of the request. The credential is unchanged.
    case blockedByGateway(String)
    /// The user or the service refused; the string has the reason.
    case authorizationDenied(String)
    /// The token endpoint answered with an error. `body` is the answer's body, 64 KiB at most, without any text that
    /// looks like a secret.
    case tokenExchangeFailed(statusCode: Int, body: String)
    /// The service or the store no longer accepts the sign-in; the string is a sentence with the reason.
    case reauthenticationRequired(String)
    /// The refresh token is missing; only a new sign-in helps.
    case missingRefreshToken
    /// The system returned no random bytes.
    case secureRandomFailed(statusCode: Int32)
    /// An answer could not be understood.
    case invalidResponse
    /// The credential store can't be used: the keyring is missing or locked, or a disk is full. The store's own error
    /// has the details.
    case credentialStoreUnavailable(CredentialStoreError)
    /// Any other failure, in words.
    case unknown(String)
}

extension ChappieAuthError {
    /// Whether the user has to sign in again: the refresh token is missing, or the service does not accept it.
    ///
    /// A renewal that fails in this way ends in ``ChappieAuthState/reauthenticationRequired``. It deletes the credential
    /// only if the token endpoint's own JSON has a code about the token, such as `invalid_grant`. After a 4xx with an
    /// unknown code the credential stays, and is tried again after ``ChappieAuthSession/reload()`` and at the next start
    /// of the program. A status alone, 401 included, says nothing, because it may come from a proxy on the way.
    public var requiresReauthentication: Bool {
        switch self {
        case .missingRefreshToken, .reauthenticationRequired: true
        case .tokenExchangeFailed(let statusCode, let body): IssuerError(status: statusCode, body: body).isPermanent
        default: false
        }
    }
}

extension ChappieAuthError: ChappieError {
    /// A sentence for the user.
    public var errorDescription: String? { UntrustedText.sentence(words) }

    /// The sentence. The full stop may be missing if a server wrote it.
    private var words: String {
        switch self {
        case .expiredDeviceCode: "The code was not approved before it expired."
        case .cancelledSignIn: "Sign-in was cancelled."
        case .networkFailure(let detail): detail
        case .pollingTimeout: "The code was not approved within 15 minutes."
        case .callbackTimeout: "The browser did not come back in time."
        case .blockedByGateway(let host): BlockingPage.sentence(host: host)
        case .authorizationDenied(let detail), .reauthenticationRequired(let detail): detail
        case .tokenExchangeFailed(let statusCode, let body):
            "The sign-in service refused with \(IssuerError(status: statusCode, body: body).summary)."
        case .missingRefreshToken: "There is no refresh token, so the sign-in can't be renewed."
        case .secureRandomFailed(let statusCode): "The system gave no random bytes (status \(statusCode))."
        case .invalidResponse: "The sign-in service sent an answer that could not be understood."
        case .credentialStoreUnavailable(let error): error.errorDescription ?? "The credential store failed."
        case .unknown(let detail): detail
        }
    }

    /// The user's next step.
    public var recoverySuggestion: String? {
        switch self {
        case .expiredDeviceCode, .pollingTimeout, .callbackTimeout, .cancelledSignIn: "Start again when you are ready."
        case .networkFailure: "Check the network and the configured addresses, then try again."
        case .blockedByGateway: BlockingPage.advice
        case .authorizationDenied: "Sign in again if this was not what you wanted."
        case .tokenExchangeFailed(let statusCode, _) where statusCode >= 500:
            "The sign-in service has a problem; try again in a moment."
        case .tokenExchangeFailed(429, _): "Wait a minute, then try again."
        case .tokenExchangeFailed where !requiresReauthentication: "Try again; sign in again if it happens again."
        case .tokenExchangeFailed, .missingRefreshToken, .reauthenticationRequired: "Sign in again."
        case .credentialStoreUnavailable(let error): error.recoverySuggestion
        case .secureRandomFailed, .unknown: "Try again; report it if it happens again."
        case .invalidResponse: "Check that the configured issuer is the right service, then try again."
        }
    }
}

/// The reason why a request could not be authorized.
public enum AuthorizationError: Error, Sendable, Hashable {
    /// No user is signed in.
    case missingCredential
    /// The credential has no refresh token, and its access token can't be used any more.
    case missingRefreshToken
    /// The credential has no id of the account that sends the request.
    case missingAccountID
    /// Only a new sign-in helps; the string is a sentence with the reason, for the user.
    case reauthenticationRequired(String)
    /// The credential store failed. It deleted nothing.
    case store(CredentialStoreError)
    /// The tokens could not be renewed, for a reason that may pass. The credential is unchanged.
    case auth(ChappieAuthError)
    /// The request was not for the configured backend (the string is its host), and was not sent.
    case foreignOrigin(String)
}

extension AuthorizationError: ChappieError {
    /// A sentence for the user.
    public var errorDescription: String? {
        switch self {
        case .missingCredential: "You are not signed in."
        case .missingRefreshToken: "The sign-in can't be renewed because it has no refresh token."
        case .missingAccountID: "The stored sign-in names no account."
        case .reauthenticationRequired(let reason): reason
        case .store(let error): error.errorDescription
        case .auth(let error): error.errorDescription
        case .foreignOrigin(let host):
            "A request to \(host) was stopped: the sign-in is for the configured backend only."
        }
    }

    /// The user's next step.
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

/// The reason why no usable credential is available, with all details for the two public error types.
enum CredentialFailure: Error, Sendable, Hashable {
    /// No user is signed in.
    case missingCredential
    /// The credential is not valid any more.
    case rejected(ChappieAuthError)
    /// The token endpoint refused to renew the tokens, and did not say that the refresh token is dead. The credential is
    /// unchanged, and no request tries again by itself.
    case refused(ChappieAuthError)
    /// Another attempt may succeed soon.
    case soft(ChappieAuthError)
    /// The store failed.
    case store(CredentialStoreError)
    /// A sign-in was cancelled, or overtaken by a sign-out.
    case cancelled

    /// Whether another attempt may succeed soon.
    var mayPass: Bool {
        switch self {
        case .soft, .store: true
        case .missingCredential, .rejected, .refused, .cancelled: false
        }
    }

    /// Whether tokens that are still valid may be used after a renewal that failed in this way.
    var leavesTokens: Bool { if case .refused = self { true } else { mayPass } }

    /// The words for a failed renewal in a log. They contain no text from a server or a store.
    var logWords: String {
        switch authError {
        case .tokenExchangeFailed(let statusCode, _): "status \(statusCode)"
        case .networkFailure: "the network failed"
        case .blockedByGateway: "a web page answered with status 403"
        case .invalidResponse: "the answer could not be understood"
        case .missingRefreshToken: "there is no refresh token"
        default: mayPass ? "it may work later" : "only a new sign-in helps"
        }
    }

    /// The error for a request.
    var authorizationError: AuthorizationError {
        switch self {
        case .missingCredential, .cancelled: .missingCredential
        case .rejected(.missingRefreshToken): .missingRefreshToken
        case .rejected(.tokenExchangeFailed(let statusCode, let body)):
            .reauthenticationRequired(IssuerError(status: statusCode, body: body).reason)
        case .rejected(let error), .refused(let error):
            .reauthenticationRequired(error.errorDescription ?? "Please sign in again.")
        case .soft(let error): .auth(error)
        case .store(let error): .store(error)
        }
    }

    /// The error for ``ChappieAuthSession``.
    var authError: ChappieAuthError {
        switch self {
        case .missingCredential: .missingRefreshToken
        case .rejected(let error), .refused(let error), .soft(let error): error
        case .store(let error): .credentialStoreUnavailable(error)
        case .cancelled: .cancelledSignIn
        }
    }
}
