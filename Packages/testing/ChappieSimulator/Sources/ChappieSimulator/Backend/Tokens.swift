@_spi(ChappieInternals) import ChappieCore

/// The three tokens of one answer of the token endpoint.
struct IssuedTokens: Sendable, Hashable {
    let idToken: String
    let accessToken: String
    let refreshToken: String
    /// The number of seconds until the access token expires.
    let expiresIn: Int
    /// The Unix time in seconds from which the refresh token may be used, for tokens of the plan route.
    var earliestRefresh: Int?
}

/// The issued tokens and their states.
///
/// A sign-in starts a family. Every refresh uses up the family's refresh token and makes the next one (RFC 9700,
/// 4.14.2). Older access tokens of a family remain valid until they expire or the family is revoked.
struct TokenLedger: Sendable {
    enum RefreshFailure: String, Error, Codable { case expired, reused, invalidated, wrongClient, tooEarly }

    /// The servers that accept a token.
    enum Audience { case backend, plan }

    /// The reason for which an access token is refused. The raw value is the code that the client sees.
    enum AccessFailure: String {
        case missing = "missing_authorization"
        case unknown = "invalid_token"
        case expired = "token_expired"
        case revoked = "token_revoked"
    }

    private struct Family: Sendable {
        let clientID: String
        let account: SimulatorAccount
        /// The grant of the plan route, or `nil` for a sign-in to ChatGPT's backend.
        var plan: PlanGrant?
        var isRevoked = false

        var audience: Audience { plan == nil ? .backend : .plan }
    }

    private struct Token: Sendable {
        let family: Int
        /// The time of expiry in Unix seconds, or `nil` for no end.
        let expiresAt: Int?
        /// The Unix time in seconds from which a refresh token may be used.
        var usableFrom = 0
        /// Whether a refresh token was used, or an access token was revoked.
        var isSpent = false
    }

    private let configuration: SimulatorConfiguration
    private let issuer: String
    private var families: [Family] = []
    private var refreshTokens: [String: Token] = [:]
    private var accessTokens: [String: Token] = [:]
    /// The families to which the ID tokens of the plan route belong.
    private var idTokens: [String: Int] = [:]
    /// The bearer tokens that have been ended.
    private var endedTokens: Set<String> = []
    private var keyIndex = 0

    init(_ configuration: SimulatorConfiguration, issuer: String) {
        self.configuration = configuration
        self.issuer = issuer
    }

    /// Starts a family and returns its first tokens.
    ///
    /// - Parameters:
    ///   - account: the account, or `nil` for the configuration's own.
    ///   - plan: the user's grant on the plan route.
    mutating func signIn(
        clientID: String, as account: SimulatorAccount? = nil, plan: PlanGrant? = nil, fault: IDTokenFault? = nil,
        now: Int
    ) -> IssuedTokens {
        families.append(Family(clientID: clientID, account: account ?? configuration.account, plan: plan))
        let lifetime = configuration.firstAccessTokenLifetime
        return issue(family: families.count - 1, lifetime: lifetime, nonce: plan?.nonce, fault: fault, now: now)
    }

    /// Uses up a refresh token and returns the next tokens.
    mutating func refresh(
        _ token: String, clientID: String?, at audience: Audience = .backend, fault: IDTokenFault? = nil, now: Int
    ) throws(RefreshFailure) -> IssuedTokens {
        guard let record = refreshTokens[token], !families[record.family].isRevoked,
            families[record.family].audience == audience
        else { throw .invalidated }
        if let clientID, clientID != families[record.family].clientID { throw .wrongClient }
        if record.isSpent {
            families[record.family].isRevoked = configuration.revokesFamilyOnReuse
            throw .reused
        }
        if let expiresAt = record.expiresAt, expiresAt <= now { throw .expired }
        guard record.usableFrom <= now else { throw .tooEarly }
        refreshTokens[token]?.isSpent = true
        return issue(family: record.family, fault: fault, now: now)
    }

    /// Revokes a token (RFC 7009, 2.1). A refresh token is revoked with its family, and an access token without it. An
    /// unknown token is not an error (2.2).
    mutating func revoke(_ token: String) {
        if let family = refreshTokens[token]?.family {
            families[family].isRevoked = true
            idTokens = idTokens.filter { $0.value != family }
        }
        accessTokens[token]?.isSpent = true
    }

    /// Ends a bearer token and the sign-in that it came from.
    mutating func endAccess(of authorization: String?) {
        guard let token = Self.bearer(authorization) else { return }
        endedTokens.insert(token)
        if let family = accessTokens[token]?.family { families[family].isRevoked = true }
    }

    /// Returns the reason for refusing a request whose header field has the value `authorization`, or `nil` if it is
    /// accepted.
    func check(authorization: String?, for audience: Audience = .backend, now: Int) -> AccessFailure? {
        guard let token = Self.bearer(authorization) else { return .missing }
        if endedTokens.contains(token) { return .revoked }
        if audience == .backend, madeByOwner(token) != nil { return nil }
        guard let record = accessTokens[token], families[record.family].audience == audience else { return .unknown }
        if record.isSpent || families[record.family].isRevoked { return .revoked }
        return record.expiresAt ?? .max <= now ? .expired : nil
    }

    /// Returns the account of an access or refresh token, or `nil` for an unknown one.
    func owner(of token: String) -> SimulatorAccount? {
        (accessTokens[token] ?? refreshTokens[token]).map { families[$0.family].account } ?? madeByOwner(token)
    }

    /// Returns the account whose owner has made this access token in the workspace's settings. Such a token consists of
    /// `at-` and the account's id.
    private func madeByOwner(_ token: String) -> SimulatorAccount? {
        guard token.hasPrefix("at-") else { return nil }
        return configuration.accounts.first { $0.id == token.dropFirst(3) }
    }

    /// Returns the client and the grant of an access token of the plan route.
    func planGrant(of authorization: String?) -> (clientID: String, grant: PlanGrant)? {
        let record = Self.bearer(authorization).flatMap { accessTokens[$0] }
        guard let family = record.map({ families[$0.family] }), let grant = family.plan else { return nil }
        return (family.clientID, grant)
    }

    /// Returns the client to which an ID token was issued, or `nil` if the token is unknown or its sign-in was revoked.
    func client(ofIDToken token: String) -> String? { idTokens[token].map { families[$0].clientID } }

    /// The published keys.
    var publicKeys: [ChappieJSON] { [signingKey.publicKey] }
    private var signingKey: TestSigningKey { TestSigningKey.all[keyIndex] }
    mutating func rotateKeys() { keyIndex = (keyIndex + 1) % TestSigningKey.all.count }

    /// Returns the bearer token in the value of the header field, or `nil` if there is none.
    static func bearer(_ authorization: String?) -> String? {
        let words = (authorization ?? "").split(separator: " ", maxSplits: 1)
        return words.count == 2 && words[0].lowercased() == "bearer" ? String(words[1]) : nil
    }

    // MARK: Issuing

    private mutating func issue(
        family: Int, lifetime: Duration? = nil, nonce: String? = nil, fault: IDTokenFault? = nil, now: Int
    ) -> IssuedTokens {
        let lifetime = (lifetime ?? configuration.accessTokenLifetime).wholeSeconds
        if let plan = families[family].plan {
            return issue(plan, family: family, lifetime: lifetime, nonce: nonce, fault: fault, now: now)
        }
        let (idClaims, accessClaims) = claims(of: families[family], now: now, lifetime: lifetime)
        let tokens = IssuedTokens(
            idToken: Self.unsignedJWT(idClaims), accessToken: Self.unsignedJWT(accessClaims),
            refreshToken: randomSecret("rt_"), expiresIn: lifetime)
        refreshTokens[tokens.refreshToken] = Token(
            family: family, expiresAt: configuration.refreshTokenLifetime.map { now + $0.wholeSeconds })
        accessTokens[tokens.accessToken] = Token(family: family, expiresAt: now + lifetime)
        return tokens
    }

    /// Issues the tokens of the plan route. The ID token is signed, and the others have no meaning for clients.
    private mutating func issue(
        _ plan: PlanGrant, family: Int, lifetime: Int, nonce: String?, fault: IDTokenFault?, now: Int
    ) -> IssuedTokens {
        let (client, account) = (families[family].clientID, families[family].account)
        let token = IDToken(
            issuer: issuer, clientID: client, account: account, nonce: nonce, issuedAt: now, expiresAt: now + lifetime)
        // The form of a token whose claims name neither account nor plan.
        let accessClaims: ChappieJSON = [
            "iss": .string(issuer), "sub": .string("auth0|" + account.userID), "aud": "https://api.openai.com/v1",
            "client_id": .string(client), "scope": .string(plan.scopes.joined(separator: " ")),
            "iat": .integer(now), "nbf": .integer(now), "exp": .integer(now + lifetime),
            "jti": .string(randomSecret()), "https://api.openai.com/auth": ["per_user_salt": "simulated"],
        ]
        let earliest = max(now, now + (configuration.earliestRefresh?.wholeSeconds ?? lifetime - 360))
        let tokens = IssuedTokens(
            idToken: token.signed(by: signingKey, fault: fault), accessToken: Self.unsignedJWT(accessClaims),
            refreshToken: randomSecret("rt_"), expiresIn: lifetime, earliestRefresh: earliest)
        refreshTokens[tokens.refreshToken] = Token(
            family: family, expiresAt: now + (configuration.refreshTokenLifetime?.wholeSeconds ?? 30 * 86_400),
            usableFrom: earliest)
        accessTokens[tokens.accessToken] = Token(family: family, expiresAt: now + lifetime)
        idTokens[tokens.idToken] = family
        return tokens
    }

    /// Returns the claims that clients read, those of the ID token and those of the access token.
    private func claims(of family: Family, now: Int, lifetime: Int) -> (ChappieJSON, ChappieJSON) {
        let account = family.account
        var namespace: ChappieJSONObject = [
            "chatgpt_account_id": .string(account.id), "chatgpt_user_id": .string(account.userID),
            "user_id": .string(account.userID), "chatgpt_plan_type": .string(account.plan),
            "chatgpt_account_is_fedramp": false,
            "organizations": [["id": "org-simulated", "is_default": true, "role": "owner", "title": "Personal"]],
        ]
        if !account.isNamed { namespace["chatgpt_account_id"] = nil }
        namespace["chatgpt_compute_residency"] = account.pin.map { .string($0.region) }
        let common: [(String, ChappieJSON)] = [
            ("iss", .string(issuer)), ("sub", .string("auth0|" + account.userID)), ("iat", .integer(now)),
            ("exp", .integer(now + lifetime)), ("jti", .string(randomSecret())),
            ("https://api.openai.com/auth", .object(namespace)),
        ]
        let identity: [(String, ChappieJSON)] = [
            ("aud", [.string(family.clientID)]), ("email", .string(account.email)), ("email_verified", true),
            ("name", .string(account.name)),
        ]
        let access: [(String, ChappieJSON)] = [
            ("aud", ["https://api.openai.com/v1"]), ("client_id", .string(family.clientID)),
            ("scp", ["openid", "profile", "email", "offline_access"]),
            ("https://api.openai.com/profile", ["email": .string(account.email), "email_verified": true]),
        ]
        return (.object(ChappieJSONObject(common + identity)), .object(ChappieJSONObject(common + access)))
    }

    /// Returns a JSON Web Token without a signature, whose `alg` is `none` (RFC 7519, 6).
    ///
    /// Its third part contains a word, although that RFC leaves it empty. Clients of this backend refuse a token with
    /// an empty part before they look inside.
    private static func unsignedJWT(_ claims: ChappieJSON) -> String {
        [#"{"alg":"none","typ":"JWT"}"#, claims.serialized(), "unsigned"].map { Base64URL.encode($0.utf8) }
            .joined(separator: ".")
    }
}

extension Backend {
    /// Answers a request to the token endpoint. Authorization codes come as a form, and refresh tokens as JSON or as a
    /// form.
    mutating func token(_ request: BackendRequest, now: Int) -> BackendResponse {
        guard let fields = request.fields else {
            return grantError("invalid_request", "The body is neither a form nor a JSON object.")
        }
        switch fields["grant_type"] {
        case "authorization_code": return exchange(fields, host: request.header("host") ?? "", now: now)
        case "refresh_token": return refresh(fields, now: now)
        case .some: return grantError("unsupported_grant_type", "Only authorization_code and refresh_token are known.")
        case .none: return grantError("invalid_request", "The field grant_type is missing.")
        }
    }

    /// Revokes a token. The answer is the same for an unknown one (RFC 7009, 2.2).
    mutating func revoke(_ request: BackendRequest) -> BackendResponse {
        guard let token = request.fields?["token"] else {
            return grantError("invalid_request", "The field token is missing.")
        }
        tokens.revoke(token)
        return .json([:], headers: [noStore])
    }

    private mutating func exchange(_ fields: [String: String], host: String, now: Int) -> BackendResponse {
        guard let code = fields["code"], let verifier = fields["code_verifier"], let clientID = fields["client_id"],
            let redirect = fields["redirect_uri"]
        else { return grantError("invalid_request", "code, code_verifier, client_id and redirect_uri are needed.") }
        if let approved = clientAuthorizations.redeem(
            code, clientID: clientID, redirectURI: redirect, verifier: verifier, now: now)
        {
            return issued(
                tokens.signIn(clientID: clientID, as: configuration.account(id: approved.accountID), now: now))
        }
        // The client may have used any name and scheme, because a TLS proxy may be in front of this server.
        guard ["http", "https"].contains(where: { redirect == "\($0)://\(host)/deviceauth/callback" }) else {
            return grantError("invalid_grant", "redirect_uri must be {issuer}/deviceauth/callback.")
        }
        do throws(DeviceAuthorizations.RedemptionFailure) {
            let accountID = try authorizations.redeem(code: code, verifier: verifier, clientID: clientID, now: now)
            let account = accountID.flatMap(configuration.account(id:))
            return issued(tokens.signIn(clientID: clientID, as: account, now: now))
        } catch {
            return grantError("invalid_grant", error.rawValue)
        }
    }

    private mutating func refresh(_ fields: [String: String], now: Int) -> BackendResponse {
        guard let token = fields["refresh_token"] else {
            return grantError("invalid_request", "The field refresh_token is missing.")
        }
        do throws(TokenLedger.RefreshFailure) {
            return issued(try tokens.refresh(token, clientID: fields["client_id"], now: now))
        } catch {
            return Backend.refusal(error)
        }
    }

    /// Returns the refusal of a refresh, which is 401 and a code in an object.
    static func refusal(_ failure: TokenLedger.RefreshFailure) -> BackendResponse {
        let problem =
            switch failure {
            case .expired: "Could not validate your refresh token."
            case .reused: "Your refresh token has already been used to generate a new access token."
            case .invalidated: "Your refresh token has been invalidated."
            case .wrongClient: "The refresh token belongs to another client."
            case .tooEarly: "Your refresh token may not be used yet."
            }
        return .error(
            401, code: failure == .wrongClient ? "invalid_client" : "refresh_token_\(failure.rawValue)",
            message: problem + " Please try signing in again.", headers: [("cache-control", "no-store")])
    }

    /// Returns the refusal of a request without a valid access token.
    static func unauthorized(_ failure: TokenLedger.AccessFailure) -> BackendResponse {
        let message =
            switch failure {
            case .missing: "Missing bearer authentication in header."
            case .unknown: "Could not parse your authentication token. Please sign in again."
            case .expired: "Provided authentication token is expired. Please try signing in again."
            case .revoked: "Your authentication token has been revoked."
            }
        return .error(401, code: failure.rawValue, message: message)
    }

    private func issued(_ tokens: IssuedTokens) -> BackendResponse {
        .json(
            [
                "id_token": .string(tokens.idToken), "access_token": .string(tokens.accessToken),
                "refresh_token": .string(tokens.refreshToken), "token_type": "Bearer",
                "expires_in": .integer(tokens.expiresIn), "scope": "openid profile email offline_access",
            ], headers: [noStore])
    }

    /// Returns an error in the form of RFC 6749, 5.2.
    private func grantError(_ code: String, _ description: String) -> BackendResponse {
        .json(
            ["error": .string(code), "error_description": .string(description)], status: 400, headers: [noStore])
    }
}
