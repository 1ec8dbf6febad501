@_spi(ChappieInternals) import ChappieCore

/// The three tokens of one answer of the token endpoint.
struct IssuedTokens: Sendable, Hashable {
    let idToken: String
    let accessToken: String
    let refreshToken: String
    /// Seconds until the access token expires.
    let expiresIn: Int
}

/// The tokens that were issued, and their states.
///
/// A sign-in starts a family; every refresh uses up the family's refresh token and makes the next (RFC 9700, 4.14.2).
/// Older access tokens of a family stay good until they expire or the family is revoked.
struct TokenLedger: Sendable {
    enum RefreshFailure: Error, Sendable, Hashable { case expired, reused, invalidated, wrongClient }
    enum AccessFailure: Error, Sendable, Hashable { case missing, unknown, expired, revoked }

    private struct Family: Sendable {
        let clientID: String
        let account: SimulatorAccount
        var isRevoked = false
    }

    private struct RefreshToken: Sendable {
        let family: Int
        let expiresAt: Int?
        var isUsed = false
    }

    private struct AccessToken: Sendable {
        let family: Int
        let expiresAt: Int
        var isRevoked = false
    }

    /// Tokens remembered at once. Past it used and expired ones are forgotten, and when that is not enough all are, as
    /// after a restart.
    static let limit = 20_000

    let mint: TokenMint
    /// Whether a refresh token that comes a second time ends its whole family.
    let revokesFamilyOnReuse: Bool
    /// Seconds the access token of a sign-in lives, where that differs from the ones of refreshes.
    let firstAccessTokenLifetime: Int?
    private var families: [Family] = []
    private var refreshTokens: [String: RefreshToken] = [:]
    private var accessTokens: [String: AccessToken] = [:]

    init(mint: TokenMint, revokesFamilyOnReuse: Bool = false, firstAccessTokenLifetime: Int? = nil) {
        self.mint = mint
        self.revokesFamilyOnReuse = revokesFamilyOnReuse
        self.firstAccessTokenLifetime = firstAccessTokenLifetime
    }

    /// Tokens remembered now, of the kind there are more of.
    var count: Int { max(refreshTokens.count, accessTokens.count) }

    /// Starts a family.
    ///
    /// - Parameter account: `nil` for the mint's own.
    mutating func signIn(
        clientID: String, as account: SimulatorAccount? = nil, now: Int, identifiers: inout IdentifierSource
    ) -> IssuedTokens {
        families.append(Family(clientID: clientID, account: account ?? mint.account))
        return issue(
            family: families.count - 1, lifetime: firstAccessTokenLifetime, now: now, identifiers: &identifiers)
    }

    /// Uses up a refresh token.
    mutating func refresh(
        _ token: String, clientID: String?, now: Int, identifiers: inout IdentifierSource
    ) -> Result<IssuedTokens, RefreshFailure> {
        guard let record = refreshTokens[token] else { return .failure(.invalidated) }
        let family = families[record.family]
        if family.isRevoked { return .failure(.invalidated) }
        if let clientID, clientID != family.clientID { return .failure(.wrongClient) }
        if record.isUsed {
            if revokesFamilyOnReuse { families[record.family].isRevoked = true }
            return .failure(.reused)
        }
        if let expiresAt = record.expiresAt, expiresAt <= now { return .failure(.expired) }
        refreshTokens[token]?.isUsed = true
        return .success(issue(family: record.family, now: now, identifiers: &identifiers))
    }

    /// Revokes (RFC 7009, 2.1): a refresh token takes its family along, an access token only itself. An unknown token is
    /// not an error (2.2).
    mutating func revoke(_ token: String) {
        if let family = refreshTokens[token]?.family { families[family].isRevoked = true }
        accessTokens[token]?.isRevoked = true
    }

    /// Whether `authorization`, the value of the header field, lets a request in.
    func check(authorization: String?, now: Int) -> AccessFailure? {
        guard let token = Self.bearer(authorization) else { return .missing }
        guard let record = accessTokens[token] else { return .unknown }
        if record.isRevoked || families[record.family].isRevoked { return .revoked }
        return record.expiresAt <= now ? .expired : nil
    }

    /// The account of an access or refresh token; `nil` for an unknown one.
    func owner(of token: String) -> SimulatorAccount? {
        (accessTokens[token]?.family ?? refreshTokens[token]?.family).map { families[$0].account }
    }

    /// The token in the value of the header field.
    static func bearer(_ authorization: String?) -> String? {
        let words = (authorization ?? "").split(separator: " ", maxSplits: 1)
        return words.count == 2 && words[0].lowercased() == "bearer" ? String(words[1]) : nil
    }

    private mutating func issue(
        family: Int, lifetime: Int? = nil, now: Int, identifiers: inout IdentifierSource
    ) -> IssuedTokens {
        makeRoom(now: now)
        let (clientID, owner) = (families[family].clientID, families[family].account)
        let tokens = mint.make(
            clientID: clientID, owner: owner, lifetime: lifetime, now: now, identifiers: &identifiers)
        refreshTokens[tokens.refreshToken] = RefreshToken(
            family: family, expiresAt: mint.refreshTokenLifetime.map { now + $0 })
        accessTokens[tokens.accessToken] = AccessToken(family: family, expiresAt: now + tokens.expiresIn)
        return tokens
    }

    private mutating func makeRoom(now: Int) {
        guard count >= Self.limit else { return }
        refreshTokens = refreshTokens.filter { !$0.value.isUsed }
        accessTokens = accessTokens.filter { $0.value.expiresAt > now }
        guard count >= Self.limit else { return }
        refreshTokens = [:]
        accessTokens = [:]
    }
}

/// Makes tokens with the claims clients read.
struct TokenMint: Sendable {
    let issuer: String
    /// The account of the tokens, unless another is named.
    let account: SimulatorAccount
    /// Seconds.
    let accessTokenLifetime: Int
    /// Seconds; `nil` for no end.
    let refreshTokenLifetime: Int?

    /// - Parameters:
    ///   - owner: the account they are for; `nil` for ``account``.
    ///   - lifetime: seconds, in the place of ``accessTokenLifetime``.
    func make(
        clientID: String, owner: SimulatorAccount? = nil, lifetime: Int? = nil, now: Int,
        identifiers: inout IdentifierSource
    ) -> IssuedTokens {
        let account = owner ?? account
        let lifetime = lifetime ?? accessTokenLifetime
        let common: [(String, ChappieJSON)] = [
            ("iss", .string(issuer)),
            ("sub", .string("auth0|" + account.userID)),
            ("iat", .integer(now)),
            ("exp", .integer(now + lifetime)),
            ("https://api.openai.com/auth", claims(of: account)),
        ]
        let profile: ChappieJSON = ["email": .string(account.email), "email_verified": true]
        let idClaims = ChappieJSONObject(
            common + [
                ("aud", [.string(clientID)]),
                ("email", .string(account.email)),
                ("email_verified", true),
                ("name", .string(account.name)),
                ("jti", .string(identifiers.secret())),
            ])
        let accessClaims = ChappieJSONObject(
            common + [
                ("aud", ["https://api.openai.com/v1"]),
                ("client_id", .string(clientID)),
                ("scp", ["openid", "profile", "email", "offline_access"]),
                ("https://api.openai.com/profile", profile),
                ("jti", .string(identifiers.secret())),
            ])
        return IssuedTokens(
            idToken: Self.unsignedJWT(.object(idClaims)), accessToken: Self.unsignedJWT(.object(accessClaims)),
            refreshToken: identifiers.secret("rt_"), expiresIn: lifetime)
    }

    private func claims(of account: SimulatorAccount) -> ChappieJSON {
        [
            "chatgpt_account_id": .string(account.id),
            "chatgpt_user_id": .string(account.userID),
            "user_id": .string(account.userID),
            "chatgpt_plan_type": .string(account.plan),
            "chatgpt_account_is_fedramp": false,
            "organizations": [["id": "org-simulated", "is_default": true, "role": "owner", "title": "Personal"]],
        ]
    }

    /// A JSON Web Token without a signature: `alg` is `none` (RFC 7519, 6).
    ///
    /// Its third part holds a word where that RFC leaves it empty, because clients of this backend refuse a token with
    /// an empty part before they look inside.
    static func unsignedJWT(_ claims: ChappieJSON) -> String {
        let header: ChappieJSON = ["alg": "none", "typ": "JWT"]
        return [header.serialized(), claims.serialized(), "unsigned"].map { Base64URL.encode($0.utf8) }
            .joined(separator: ".")
    }
}

extension Backend {
    /// The token endpoint: authorization codes as a form, refresh tokens as JSON or as a form.
    mutating func token(_ request: BackendRequest, now: Int) -> BackendResponse {
        guard let field = fields(of: request) else {
            return grantError("invalid_request", "The body is neither a form nor a JSON object.")
        }
        switch field("grant_type") {
        case "authorization_code": return exchange(field, host: request.header("host") ?? "", now: now)
        case "refresh_token": return refresh(field, now: now)
        case .some: return grantError("unsupported_grant_type", "Only authorization_code and refresh_token are known.")
        case .none: return grantError("invalid_request", "The field grant_type is missing.")
        }
    }

    /// Revokes a token. The answer is the same for an unknown one (RFC 7009, 2.2).
    mutating func revoke(_ request: BackendRequest) -> BackendResponse {
        guard let token = fields(of: request)?("token") else {
            return grantError("invalid_request", "The field token is missing.")
        }
        tokens.revoke(token)
        return .json([:], headers: [noStore])
    }

    private mutating func exchange(_ field: (String) -> String?, host: String, now: Int) -> BackendResponse {
        guard let code = field("code"), let verifier = field("code_verifier"), let clientID = field("client_id"),
            let redirect = field("redirect_uri")
        else { return grantError("invalid_request", "code, code_verifier, client_id and redirect_uri are needed.") }
        // Any name and scheme that the client reached us by: a TLS front may stand before this server.
        guard ["http://", "https://"].contains(where: { redirect == "\($0)\(host)/deviceauth/callback" }) else {
            return grantError("invalid_grant", "redirect_uri must be {issuer}/deviceauth/callback.")
        }
        switch authorizations.redeem(code: code, verifier: verifier, clientID: clientID, now: now) {
        case .success(let accountID):
            let account = accountID.flatMap(settings.account(id:))
            return issued(tokens.signIn(clientID: clientID, as: account, now: now, identifiers: &identifiers))
        case .failure(let failure): return grantError("invalid_grant", failure.sentence)
        }
    }

    private mutating func refresh(_ field: (String) -> String?, now: Int) -> BackendResponse {
        guard let token = field("refresh_token") else {
            return grantError("invalid_request", "The field refresh_token is missing.")
        }
        switch tokens.refresh(token, clientID: field("client_id"), now: now, identifiers: &identifiers) {
        case .success(let fresh): return issued(fresh)
        case .failure(let failure): return Backend.refusal(failure)
        }
    }

    /// How a refresh is refused: 401 and a code in an object.
    static func refusal(_ failure: TokenLedger.RefreshFailure) -> BackendResponse {
        let (code, message) =
            switch failure {
            case .expired:
                ("refresh_token_expired", "Could not validate your refresh token. Please try signing in again.")
            case .reused:
                (
                    "refresh_token_reused",
                    "Your refresh token has already been used to generate a new access token. "
                        + "Please try signing in again."
                )
            case .invalidated:
                ("refresh_token_invalidated", "Your refresh token has been invalidated. Please try signing in again.")
            case .wrongClient:
                ("invalid_client", "The refresh token belongs to another client.")
            }
        return .error(401, code: code, message: message, headers: [("cache-control", "no-store")])
    }

    /// How a request without a good access token is refused.
    static func unauthorized(_ failure: TokenLedger.AccessFailure) -> BackendResponse {
        let (code, message) =
            switch failure {
            case .missing: ("missing_authorization", "Missing bearer authentication in header.")
            case .unknown:
                ("invalid_token", "Could not parse your authentication token. Please sign in again.")
            case .expired:
                ("token_expired", "Provided authentication token is expired. Please try signing in again.")
            case .revoked: ("token_revoked", "Your authentication token has been revoked.")
            }
        return .error(401, code: code, message: message)
    }

    private func issued(_ tokens: IssuedTokens) -> BackendResponse {
        .json(
            [
                "id_token": .string(tokens.idToken), "access_token": .string(tokens.accessToken),
                "refresh_token": .string(tokens.refreshToken), "token_type": "Bearer",
                "expires_in": .integer(tokens.expiresIn), "scope": "openid profile email offline_access",
            ], headers: [noStore])
    }

    /// An error in the form of RFC 6749, 5.2.
    private func grantError(_ code: String, _ description: String) -> BackendResponse {
        .json(
            ["error": .string(code), "error_description": .string(description)], status: 400, headers: [noStore])
    }

    func fields(of request: BackendRequest) -> ((String) -> String?)? {
        if request.mediaType == "application/x-www-form-urlencoded" {
            let form = FormFields(request.received.body)
            return { form[$0] }
        }
        guard let object = request.json?.object else { return nil }
        return { object[$0]?.string }
    }
}

extension DeviceAuthorizations.RedemptionFailure {
    fileprivate var sentence: String {
        switch self {
        case .unknownCode: "The authorization code is not known."
        case .usedCode: "The authorization code was used already."
        case .expiredCode: "The authorization code has expired."
        case .wrongVerifier: "code_verifier does not match."
        case .wrongClient: "The authorization code belongs to another client."
        }
    }
}
