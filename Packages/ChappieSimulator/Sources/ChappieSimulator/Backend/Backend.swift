import ChappieCore

/// The backend without its sockets: requests in, responses out, nothing waits and nothing reads a clock.
///
/// The routes are in the extensions, one file for each part of the service.
struct Backend: Sendable {
    let settings: BackendSettings
    var identifiers = IdentifierSource()
    var authorizations: DeviceAuthorizations
    var tokens: TokenLedger
    /// What the accounts that may not use every model see, by id.
    private let catalogues: [String: ModelCatalogue]

    init(settings: BackendSettings) {
        self.settings = settings
        catalogues = Dictionary(
            settings.accounts.compactMap { account in account.models.map { (account.id, ModelCatalogue(only: $0)) } }
        ) { first, _ in first }
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
        let account = owner(of: request) ?? settings.account
        if route.needsToken, let id = request.header("chatgpt-account-id"), id != account.id {
            return .error(
                403, code: "account_mismatch", message: "The account header names another account than the token.")
        }
        return switch route {
        case .userCode: userCode(request, now: now, quirks: quirks)
        case .deviceToken: deviceToken(request, now: now, quirks: quirks)
        case .verificationPage: verificationPage(request, now: now)
        case .token: token(request, now: now)
        case .revoke: revoke(request)
        case .accountsCheck: accountsCheck(of: account)
        case .usage: usage(of: account, now: now)
        case .models: models(request, for: account)
        case .responses where request.method == "GET": webSocket(request, for: account, now: now)
        case .responses: responses(request, for: account, now: now, quirks: modelQuirks)
        }
    }

    /// Whose token a request brings, in its header or, to the token endpoint, in its body; `nil` when nobody knows it.
    func owner(of request: BackendRequest) -> SimulatorAccount? {
        switch Route(path: request.path) {
        case .token: fields(of: request)?("refresh_token").flatMap(tokens.owner(of:))
        case .revoke: fields(of: request)?("token").flatMap(tokens.owner(of:))
        default: TokenLedger.bearer(request.header("authorization")).flatMap(tokens.owner(of:))
        }
    }

    func catalogue(for account: SimulatorAccount) -> ModelCatalogue { catalogues[account.id] ?? .whole }

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
