import ChappieCore

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

    /// Revokes a token. The answer is the same whether anybody knew it (RFC 7009, 2.2).
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
        // Whatever name and scheme the client reached us by: a TLS front may stand before this server.
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
