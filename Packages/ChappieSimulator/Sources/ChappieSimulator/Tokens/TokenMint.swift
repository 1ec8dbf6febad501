import ChappieCore

/// Makes tokens with the claims clients read.
struct TokenMint: Sendable {
    let issuer: String
    /// Whose the tokens are, unless somebody else is named.
    let account: SimulatorAccount
    /// Seconds.
    let accessTokenLifetime: Int
    /// Seconds; `nil` for no end.
    let refreshTokenLifetime: Int?

    /// - Parameters:
    ///   - owner: whose they are; `nil` for ``account``.
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
            idToken: UnsignedJWT.encode(.object(idClaims)), accessToken: UnsignedJWT.encode(.object(accessClaims)),
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
}
