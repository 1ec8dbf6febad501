@_spi(ChappieInternals) import ChappieCore

/// The discovery document, and the plan route's token endpoint.
extension Backend {
    /// The discovery document (OpenID Connect Discovery 1.0, 3).
    var discovery: BackendResponse {
        func address(_ route: Route) -> ChappieJSON { .string(issuer + route.rawValue) }
        return .json([
            "issuer": .string(issuer), "authorization_endpoint": address(.authorize),
            "token_endpoint": address(.planToken), "revocation_endpoint": address(.planRevoke),
            "jwks_uri": address(.keys), "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
            "scopes_supported": .array(PlanGrant.scopes.map(ChappieJSON.string)),
            "token_endpoint_auth_methods_supported": ["none"],
        ])
    }

    /// Exchanges codes and refresh tokens, which come as forms with exactly the required fields.
    mutating func planToken(_ request: BackendRequest, now: Int, fault: IDTokenFault?) -> BackendResponse {
        do throws(BackendResponse) {
            let fields = try onlyFields(of: request)
            switch fields["grant_type"] {
            case "authorization_code":
                try demand(
                    ["grant_type", "client_id", "code", "code_verifier", "redirect_uri", "resource"], in: fields)
                return try exchange(fields, now: now, fault: fault)
            case "refresh_token":
                try demand(["grant_type", "client_id", "refresh_token", "resource"], in: fields)
                return try refresh(fields, now: now, fault: fault)
            default: throw Self.grantError("unsupported_grant_type", "grant_type is missing or not known.")
            }
        } catch {
            return error
        }
    }

    /// Ends a sign-in. An unknown token is not an error (RFC 7009, 2.2). The app stays registered.
    mutating func planRevoke(_ request: BackendRequest) -> BackendResponse {
        do throws(BackendResponse) {
            let fields = try onlyFields(of: request)
            try demand(["token", "token_type_hint", "client_id"], in: fields)
            try checkClient(fields)
            guard fields["token_type_hint"] == "refresh_token", let token = fields["token"] else {
                throw Self.grantError("unsupported_token_type", "Only refresh tokens are revoked.")
            }
            tokens.revoke(token)
            return BackendResponse(status: 200, headers: [noStore])
        } catch {
            return error
        }
    }

    private mutating func exchange(
        _ fields: [String: String], now: Int, fault: IDTokenFault?
    ) throws(BackendResponse) -> BackendResponse {
        try checkClient(fields)
        let clientID = fields["client_id"] ?? ""
        let grant = planAuthorizations.redeem(
            fields["code"] ?? "", clientID: clientID, redirectURI: fields["redirect_uri"] ?? "",
            verifier: fields["code_verifier"] ?? "", now: now)
        guard let grant else {
            throw Self.grantError(
                "invalid_grant", "The code is unknown, used or expired, or it was issued for another request.")
        }
        let account = planAuthorizations.registrations[clientID].flatMap { configuration.account(id: $0.accountID) }
        let issued = tokens.signIn(clientID: clientID, as: account, plan: grant, fault: fault, now: now)
        return answer(issued, scopes: grant.scopes)
    }

    private mutating func refresh(
        _ fields: [String: String], now: Int, fault: IDTokenFault?
    ) throws(BackendResponse) -> BackendResponse {
        try checkClient(fields)
        do throws(TokenLedger.RefreshFailure) {
            let issued = try tokens.refresh(
                fields["refresh_token"] ?? "", clientID: fields["client_id"], at: .plan, fault: fault, now: now)
            return answer(issued, scopes: tokens.planGrant(of: "Bearer " + issued.accessToken)?.grant.scopes ?? [])
        } catch {
            switch error {
            case .expired: throw Self.grantError("refresh_token_expired", "The refresh token has expired.")
            case .reused: throw Self.grantError("refresh_token_reused", "The refresh token was used already.")
            case .invalidated: throw Self.grantError("refresh_token_invalidated", "The refresh token is not known.")
            case .wrongClient: throw Self.grantError("invalid_grant", "The refresh token is another client's.")
            case .tooEarly: throw Self.grantError("invalid_grant", "It is before earliest_refresh_at.")
            }
        }
    }

    private func answer(_ tokens: IssuedTokens, scopes: [String]) -> BackendResponse {
        var answer: ChappieJSONObject = [
            "access_token": .string(tokens.accessToken), "refresh_token": .string(tokens.refreshToken),
            "token_type": "Bearer", "expires_in": .integer(tokens.expiresIn),
            "scope": .string(scopes.joined(separator: " ")),
        ]
        if !tokens.idToken.isEmpty { answer["id_token"] = .string(tokens.idToken) }
        answer["earliest_refresh_at"] = tokens.earliestRefresh.map(ChappieJSON.integer)
        return .json(.object(answer), headers: [noStore])
    }

    // MARK: Checks

    /// Returns the fields of a form, none of which may occur twice.
    private func onlyFields(of request: BackendRequest) throws(BackendResponse) -> [String: String] {
        guard let items = request.formItems else {
            throw Self.grantError("invalid_request", "The body must be a form.")
        }
        guard request.header("authorization") == nil else {
            throw Self.grantError("invalid_request", "A public client has no authorization.")
        }
        var fields: [String: String] = [:]
        for item in items where fields.updateValue(item.value, forKey: item.name) != nil {
            throw Self.grantError("invalid_request", "\(item.name.prefix(40)) comes twice.")
        }
        return fields
    }

    /// Checks that a form has these fields and no others. A field `resource` must name the resource.
    private func demand(_ names: [String], in fields: [String: String]) throws(BackendResponse) {
        if let missing = names.first(where: { fields[$0]?.isEmpty ?? true }) {
            throw Self.grantError("invalid_request", "\(missing) is missing.")
        }
        if let other = fields.keys.sorted().first(where: { !names.contains($0) }) {
            throw Self.grantError("invalid_request", "\(other.prefix(40)) is not a field of this request.")
        }
        if names.contains("resource"), fields["resource"] != PlanGrant.resource {
            throw Self.grantError("invalid_target", "resource must be \(PlanGrant.resource).")
        }
    }

    private func checkClient(_ fields: [String: String]) throws(BackendResponse) {
        guard planAuthorizations.registrations[fields["client_id"] ?? ""] == nil else { return }
        throw Self.grantError("invalid_client", "There is no client of this id.", status: 401)
    }

    /// Returns an error in the form of RFC 6749, 5.2.
    private static func grantError(_ code: String, _ description: String, status: Int = 400) -> BackendResponse {
        .json(
            ["error": .string(code), "error_description": .string(description)], status: status,
            headers: [("cache-control", "no-store")])
    }
}
