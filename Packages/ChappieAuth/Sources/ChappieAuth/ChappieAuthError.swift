public import FoundationEssentials

/// Why signing in or refreshing failed.
///
/// A message never holds a token, a code or an authorization header.
public enum ChappieAuthError: Error, Sendable, Hashable {
    /// The person did not approve the device code before it expired.
    case expiredDeviceCode
    /// Sign-in was cancelled, by the program or by the person.
    case cancelledSignIn
    /// The network failed; the string says where and why, and what helps where trying again does not.
    case networkFailure(String)
    /// Polling stopped before the device code was approved: 15 minutes have passed.
    case pollingTimeout
    /// The sign-in callback did not arrive in time. For grants with a callback.
    case callbackTimeout
    /// The person, or the service, refused; the string says how.
    case authorizationDenied(String)
    /// The token endpoint answered with an error. `body` has been cleaned of everything that looks like a secret.
    case tokenExchangeFailed(statusCode: Int, body: String)
    /// The service, or the store, no longer stands by the sign-in; the string is a sentence that says why.
    case reauthenticationRequired(String)
    /// There is no refresh token; only a new sign-in helps.
    case missingRefreshToken
    /// The system gave no random bytes.
    case secureRandomFailed(statusCode: Int32)
    /// An answer could not be understood.
    case invalidResponse
    /// Anything else, in words.
    case unknown(String)
}

extension ChappieAuthError {
    /// Whether only a new sign-in helps: no refresh token, or the token endpoint said 400, 401 or 403.
    ///
    /// The session signs itself out on such an error; every other error leaves the credential alone.
    public var requiresReauthentication: Bool {
        switch self {
        case .missingRefreshToken, .reauthenticationRequired: true
        case .tokenExchangeFailed(let statusCode, _): [400, 401, 403].contains(statusCode)
        default: false
        }
    }
}

extension ChappieAuthError: LocalizedError {
    public var errorDescription: String? {
        switch self {
        case .expiredDeviceCode: "The code was not approved before it expired."
        case .cancelledSignIn: "Sign-in was cancelled."
        case .networkFailure(let detail): detail
        case .pollingTimeout: "The code was not approved within 15 minutes."
        case .callbackTimeout: "The browser did not come back in time."
        case .authorizationDenied(let detail): detail
        case .tokenExchangeFailed(let statusCode, let body):
            body.isEmpty
                ? "The sign-in service refused with status \(statusCode)."
                : "The sign-in service refused with status \(statusCode): \(body)"
        case .reauthenticationRequired(let detail): detail
        case .missingRefreshToken: "There is no refresh token, so the sign-in can't be renewed."
        case .secureRandomFailed(let statusCode): "The system gave no random bytes (status \(statusCode))."
        case .invalidResponse: "The sign-in service sent an answer that could not be understood."
        case .unknown(let detail): detail
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .expiredDeviceCode, .pollingTimeout, .callbackTimeout, .cancelledSignIn: "Start again when you are ready."
        case .networkFailure: "Check the network and the configured addresses, then try again."
        case .authorizationDenied: "Sign in again if this was not what you wanted."
        case .tokenExchangeFailed(let statusCode, _) where statusCode >= 500:
            "The sign-in service has a problem; try again in a moment."
        case .tokenExchangeFailed(429, _): "Wait a minute, then try again."
        case .tokenExchangeFailed, .missingRefreshToken, .reauthenticationRequired: "Sign in again."
        case .secureRandomFailed, .unknown: "Try again; report it if it happens again."
        case .invalidResponse: "Check that the configured issuer is the right service, then try again."
        }
    }
}
