import ChappieCore

/// The backend without its sockets: requests in, responses out, nothing waits and nothing reads a clock.
///
/// The routes are in the extensions, one file for each part of the service.
struct Backend: Sendable {
    let settings: BackendSettings
    var identifiers = IdentifierSource()
    var authorizations: DeviceAuthorizations
    var tokens: TokenLedger

    init(settings: BackendSettings) {
        self.settings = settings
        authorizations = DeviceAuthorizations(approvesOnPoll: settings.approvesOnPoll)
        tokens = TokenLedger(
            mint: TokenMint(
                issuer: settings.issuer, account: settings.account, accessTokenLifetime: settings.accessTokenLifetime,
                refreshTokenLifetime: settings.refreshTokenLifetime),
            revokesFamilyOnReuse: settings.revokesFamilyOnReuse,
            firstAccessTokenLifetime: settings.firstAccessTokenLifetime)
    }

    /// - Parameters:
    ///   - now: Unix seconds.
    ///   - quirks: how the device endpoints are to differ for this request.
    ///   - modelQuirks: how the model is.
    mutating func respond(
        to request: BackendRequest, now: Int, quirks: DeviceQuirks = DeviceQuirks(),
        modelQuirks: ModelQuirks = ModelQuirks()
    ) -> BackendResponse {
        guard let route = Route(path: request.path) else { return .json(["detail": "Not Found"], status: 404) }
        guard route.methods.contains(request.method) else {
            let allowed = ("allow", route.methods.joined(separator: ", "))
            return .json(["detail": "Method Not Allowed"], status: 405, headers: [allowed])
        }
        if route.needsToken, let failure = tokens.check(authorization: request.header("authorization"), now: now) {
            return unauthorized(failure)
        }
        if route.needsToken, let id = request.header("chatgpt-account-id"), id != settings.account.id {
            return .error(
                403, code: "account_mismatch", message: "The account header names another account than the token.")
        }
        return switch route {
        case .userCode: userCode(request, now: now, quirks: quirks)
        case .deviceToken: deviceToken(request, now: now, quirks: quirks)
        case .verificationPage: verificationPage(request, now: now)
        case .token: token(request, now: now)
        case .revoke: revoke(request)
        case .accountsCheck: accountsCheck()
        case .usage: usage(now: now)
        case .models: models(request)
        case .responses where request.method == "GET": webSocket(request, now: now)
        case .responses: responses(request, now: now, quirks: modelQuirks)
        }
    }

    func unauthorized(_ failure: TokenLedger.AccessFailure) -> BackendResponse {
        switch failure {
        case .missing:
            .error(401, code: "missing_authorization", message: "Missing bearer authentication in header.")
        case .unknown:
            .error(
                401, code: "invalid_token", message: "Could not parse your authentication token. Please sign in again.")
        case .expired:
            .error(
                401, code: "token_expired",
                message: "Provided authentication token is expired. Please try signing in again.")
        case .revoked:
            .error(401, code: "token_revoked", message: "Your authentication token has been revoked.")
        }
    }
}
