@_spi(ChappieInternals) public import ChappieCore

/// The reason why signing in, renewing the tokens or authorizing a request failed.
///
/// A message never contains a token, a code or an authorization header.
public enum ChappieAuthError: Error, Sendable, Hashable {
    /// A request needs a credential, and no user is signed in.
    case missingCredential
    /// A request needs an account, and the credential names none.
    case missingAccountID
    /// The user did not approve the device code before it expired.
    case expiredDeviceCode
    /// The program or the user cancelled the sign-in.
    case cancelledSignIn
    /// The network failed. The string has the place, the reason and, if another attempt does not help, a remedy.
    case networkFailure(String)
    /// Polling stopped after 15 minutes, before the user approved the device code.
    case pollingTimeout
    /// The sign-in callback did not arrive in time. This is for grants with a callback.
    case callbackTimeout
    /// No port of this machine is free for the browser's return. The string is a sentence.
    case callbackUnavailable(String)
    /// The pasted address is not the callback of the waiting sign-in, which continues. The string is a sentence.
    case wrongCallbackAddress(String)
    /// A web page with status 403 arrived instead of an answer. It is from a protection of the sign-in service, or from
    /// a network on the way. The string is the host of the request. The credential is unchanged.
    case blockedByGateway(String)
    /// The user or the service refused. The string has the reason.
    case authorizationDenied(String)
    /// The token endpoint answered with an error. `body` is the body of the answer, at most 64 KiB, without any text
    /// that looks like a secret.
    case tokenExchangeFailed(statusCode: Int, body: String)
    /// The sign-in service has received too many requests, and accepts the next one after this time.
    case tooManyRequests(retryAfter: Duration)
    /// The service or the store no longer accepts the sign-in. The string is a sentence with the reason.
    case reauthenticationRequired(String)
    /// The refresh token is missing. Only a new sign-in helps.
    case missingRefreshToken
    /// The sign-in can't be renewed before this time, by this machine's clock. The service has set it
    /// (`earliest_refresh_at`). The credential is unchanged.
    case renewableLater(Date)
    /// The user is signed in, but has not allowed this program to use the plan. Nothing was sent.
    case planUseNotGranted
    /// The source of random bytes returned none. Swift's own generator never reports this. It ends the process instead,
    /// so that only a custom ``Entropy`` throws this error.
    case secureRandomFailed(statusCode: Int32)
    /// An answer could not be understood.
    case invalidResponse
    /// The credential store can't be used, for example because the keyring is missing or locked, or because a disk is
    /// full. The store's own error has the details.
    case credentialStoreUnavailable(CredentialStoreError)
    /// Any other failure. The string describes it.
    case unknown(String)
}

extension ChappieAuthError {
    /// Whether the user has to sign in. The reason is that no user is signed in, that the credential names no account,
    /// that the refresh token is missing, or that the service does not accept it.
    ///
    /// A renewal that the program asked for and that fails in this way leads to
    /// ``ChappieAuthState/reauthenticationRequired``. So does every renewal if the access token has expired or was
    /// refused. If the token endpoint's own JSON has a code about the token, such as `invalid_grant`, the stored
    /// credential loses its refresh token. After a 4xx with an unknown code it is unchanged, and the renewal is tried
    /// again after ``ChappieAuthSession/reload()`` and at the next start of the program. A status without the endpoint's
    /// own JSON, for example 400, 401 or 403, yields `false` and changes nothing, because a proxy may have sent it.
    ///
    /// A sign-in that fails in this way leads to ``ChappieAuthState/reauthenticationRequired`` only if no credential is
    /// stored. An account that is signed in stays signed in.
    public var requiresReauthentication: Bool {
        switch self {
        case .missingCredential, .missingAccountID, .missingRefreshToken, .reauthenticationRequired: true
        default: issuerError?.isPermanent == true
        }
    }

    /// The content of the token endpoint's error answer.
    var issuerError: IssuerError? {
        guard case .tokenExchangeFailed(let statusCode, let body) = self else { return nil }
        return IssuerError(status: statusCode, body: body)
    }

    /// The reason why no sign-in can succeed until the user or an administrator acts, or `nil` for any other error.
    @_spi(ChappieInternals) public var obstacle: SignInObstacle? { issuerError.flatMap { SignInObstacle($0) } }

    /// Whether the server does not know the client id.
    var isOfInvalidClient: Bool { issuerError?.code == "invalid_client" }

    /// This failure as a request reports it. If the refresh token is no longer valid, the sign-in has ended.
    var ofRequest: ChappieAuthError {
        guard requiresReauthentication, let issuerError else { return self }
        return .reauthenticationRequired(issuerError.reason)
    }

    /// The log message for a failed renewal. It contains no text from a server or a store.
    var logWords: String {
        switch self {
        case .tokenExchangeFailed(let statusCode, _): "status \(statusCode)"
        case .networkFailure: "the network failed"
        case .blockedByGateway: "a web page answered with status 403"
        case .invalidResponse: "the answer could not be understood"
        default: "it may work later"
        }
    }
}

extension ChappieAuthError: ChappieError {
    /// A sentence for the user.
    public var errorDescription: String? { UntrustedText.sentence(words) }

    /// The sentence for the user. The full stop may be missing if a server wrote it.
    private var words: String {
        switch self {
        case .missingCredential: "You are not signed in."
        case .missingAccountID: "The stored sign-in names no account."
        case .expiredDeviceCode: "The code was not approved before it expired."
        case .cancelledSignIn: "Sign-in was cancelled."
        case .networkFailure(let detail): detail
        case .pollingTimeout: "The code was not approved within 15 minutes."
        case .callbackTimeout: "The browser did not come back in time."
        case .blockedByGateway(let host): BlockingPage.sentence(host: host)
        case .authorizationDenied(let detail), .reauthenticationRequired(let detail), .wrongCallbackAddress(let detail),
            .callbackUnavailable(let detail):
            detail
        case .tokenExchangeFailed(let statusCode, let body):
            "The sign-in service refused with \(IssuerError(status: statusCode, body: body).summary)."
        case .tooManyRequests: "The sign-in service has had too many requests."
        case .missingRefreshToken: "There is no refresh token, so the sign-in can't be renewed."
        case .renewableLater(let date): "The sign-in can't be renewed before \(date.ISO8601Format())."
        case .planUseNotGranted: "You are signed in, but this app may not use your ChatGPT plan."
        case .secureRandomFailed(let statusCode): "The system gave no random bytes (status \(statusCode))."
        case .invalidResponse: "The sign-in service sent an answer that could not be understood."
        case .credentialStoreUnavailable(let error): error.errorDescription ?? "The credential store failed."
        case .unknown(let detail): detail
        }
    }

    /// The user's next step.
    public var recoverySuggestion: String? {
        switch self {
        case .missingCredential: "Sign in with ChatGPT."
        case .missingAccountID: "Sign out and sign in again."
        case .planUseNotGranted: "Sign in once more and allow plan use."
        case .expiredDeviceCode, .pollingTimeout:
            "Start again when you are ready. If the page did not allow device codes, ask the workspace's administrator to "
                + "switch them on, or sign in with a browser on this machine instead."
        case .callbackTimeout, .cancelledSignIn: "Start again when you are ready."
        case .wrongCallbackAddress: "Copy the whole address from the browser's address bar, and paste it once more."
        case .callbackUnavailable: "Finish the other sign-in, or end the program that listens there, and try again."
        case .networkFailure: "Check the network and the configured addresses, then try again."
        case .blockedByGateway: BlockingPage.advice
        case .authorizationDenied: "Sign in again if this was not what you wanted."
        case .tooManyRequests(let retryAfter): "Try again in \(retryAfter.words)."
        case .tokenExchangeFailed where obstacle != nil: obstacle?.advice
        case .tokenExchangeFailed(let statusCode, _) where statusCode >= 500:
            "The sign-in service has a problem; try again in a moment."
        case .tokenExchangeFailed(429, _): "Wait a minute, then try again."
        case .tokenExchangeFailed where !requiresReauthentication: "Try again; sign in again if it happens again."
        case .tokenExchangeFailed, .missingRefreshToken, .reauthenticationRequired: "Sign in again."
        case .renewableLater: "Wait until then, or sign in again to continue now."
        case .credentialStoreUnavailable(let error): error.recoverySuggestion
        case .secureRandomFailed, .unknown: "Try again; report it if it happens again."
        case .invalidResponse: "Check that the configured issuer is the right service, then try again."
        }
    }
}
