@_spi(ChappieInternals) public import ChappieCore

/// Why signing in or refreshing failed.
///
/// A message never holds a token, a code or an authorization header.
public enum ChappieAuthError: Error, Sendable, Hashable {
    /// The user did not approve the device code before it expired.
    case expiredDeviceCode
    /// Sign-in was cancelled, by the program or by the user.
    case cancelledSignIn
    /// The network failed; the string says where and why, and what helps where trying again does not.
    case networkFailure(String)
    /// Polling stopped before the device code was approved: 15 minutes have passed.
    case pollingTimeout
    /// The sign-in callback did not arrive in time. For grants with a callback.
    case callbackTimeout
    /// A web page with status 403 came in the place of an answer: from what protects the sign-in service, or from a network
    /// on the way. The string is the host that was asked. The credential is untouched.
    case blockedByGateway(String)
    /// The user, or the service, refused; the string says how.
    case authorizationDenied(String)
    /// The token endpoint answered with an error. `body` is the answer's body, 64 KiB at most, without everything that
    /// looks like a secret.
    case tokenExchangeFailed(statusCode: Int, body: String)
    /// The service, or the store, no longer stands by the sign-in; the string is a sentence that says why.
    case reauthenticationRequired(String)
    /// There is no refresh token; only a new sign-in helps.
    case missingRefreshToken
    /// The system gave no random bytes.
    case secureRandomFailed(statusCode: Int32)
    /// An answer could not be understood.
    case invalidResponse
    /// The credential store can't be used: there is no keyring, it is locked, a disk is full; its own error says which.
    case credentialStoreUnavailable(CredentialStoreError)
    /// Anything else, in words.
    case unknown(String)
}

extension ChappieAuthError {
    /// Whether only a new sign-in helps: there is no refresh token, or the service has said that it is of no more use.
    ///
    /// A renewal that fails in this way signs out; every other failure leaves the credential alone. A status of 400 or 403
    /// alone is not enough: it may come from something in between, so that the body has to hold the token endpoint's own
    /// word about the token, such as `invalid_grant`.
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

    /// The sentence, as far as others have written it without its stop.
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

/// Why a request could not be authorized.
public enum AuthorizationError: Error, Sendable, Hashable {
    /// No user is signed in.
    case missingCredential
    /// There is a credential without a refresh token, and its access token can't be used any more.
    case missingRefreshToken
    /// The credential names no account to send the request for.
    case missingAccountID
    /// Only a new sign-in helps; the string is a sentence for the user that says why.
    case reauthenticationRequired(String)
    /// The credential store failed; nothing was deleted.
    case store(CredentialStoreError)
    /// Renewing the tokens failed in a way that may pass; the credential is untouched.
    case auth(ChappieAuthError)
    /// The request was not for the configured backend (the string names where it wanted to go); nothing was sent.
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

/// Why there is no usable credential, with all that the two public error types need to know.
enum CredentialFailure: Error, Sendable, Hashable {
    /// No user is signed in.
    case missingCredential
    /// The credential is of no more use.
    case rejected(ChappieAuthError)
    /// It may work in a moment.
    case soft(ChappieAuthError)
    /// The store failed.
    case store(CredentialStoreError)
    /// A sign-in was cancelled, or overtaken by a sign-out.
    case cancelled

    /// Whether the same may work in a moment.
    var mayPass: Bool {
        switch self {
        case .soft, .store: true
        case .missingCredential, .rejected, .cancelled: false
        }
    }

    /// What a log may say of a renewal that failed: nothing that a server or a store has written.
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

    /// As a request sees it.
    var authorizationError: AuthorizationError {
        switch self {
        case .missingCredential, .cancelled: .missingCredential
        case .rejected(.missingRefreshToken): .missingRefreshToken
        case .rejected(.tokenExchangeFailed(let statusCode, let body)):
            .reauthenticationRequired(IssuerError(status: statusCode, body: body).reason)
        case .rejected(let error): .reauthenticationRequired(error.errorDescription ?? "Please sign in again.")
        case .soft(let error): .auth(error)
        case .store(let error): .store(error)
        }
    }

    /// As ``ChappieAuthSession`` reports it.
    var authError: ChappieAuthError {
        switch self {
        case .missingCredential: .missingRefreshToken
        case .rejected(let error), .soft(let error): error
        case .store(let error): .credentialStoreUnavailable(error)
        case .cancelled: .cancelledSignIn
        }
    }
}
