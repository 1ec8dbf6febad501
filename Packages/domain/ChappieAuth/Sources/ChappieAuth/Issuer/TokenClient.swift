@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// A client of the token and revocation endpoints. For the device grant, the requests are the same, byte for byte, as
/// in the Codex CLI 0.163.0, except that they have our own name if a name is sent. A server with OpenID Connect
/// receives forms, the client id that it has issued, and the resource that the tokens are for (RFC 8707).
struct TokenClient: Sendable {
    /// The limit from the request to the end of the answer. A token endpoint that takes longer counts as unreachable.
    static let tokenDeadline = Duration.seconds(60)
    /// The limit of a revocation, the same as in the Codex CLI. Signing out never waits longer for a server.
    static let revocationDeadline = Duration.seconds(10)

    let endpoints: ChappieEndpoints
    let issuer: IssuerClient

    private var clientID: String { endpoints.registration.clientID }

    /// Exchanges an authorization code for a credential (RFC 6749, 4.1.3), without originator and user agent.
    ///
    /// The user has approved, and a network failure at this point must not force a new sign-in, so there is a second
    /// attempt. It does no harm if the result of the first attempt is unknown, because a code works once. If the first
    /// request did not arrive, the second one succeeds. Otherwise the server refuses it with `invalid_grant`, and also
    /// revokes the tokens in the lost answer (RFC 6749, 4.1.2).
    func exchange(_ code: AuthorizationCode) async throws(ChappieAuthError) -> Credential {
        try Credential(
            exchanged: try await redeem(code), grant: code.grant, at: issuer.clock.now,
            from: CredentialOrigin(endpoints))
    }

    /// Exchanges an authorization code, and returns the answer of the token endpoint.
    func redeem(_ code: AuthorizationCode) async throws(ChappieAuthError) -> TokenResponse {
        var fields = [
            ("grant_type", "authorization_code"), ("client_id", code.issuedClientID ?? clientID),
            ("code", code.code.text), ("redirect_uri", code.redirectURI), ("code_verifier", code.verifier.text),
        ]
        if endpoints.usesPlan { fields.append(("resource", OpenID.resource)) }
        let secrets = [code.code, code.verifier]
        return try TokenResponse(
            try await issuer.successOfTwo(
                .form(fields, to: endpoints.tokenURL), secrets: secrets, within: Self.tokenDeadline))
    }

    /// Renews the tokens (RFC 6749, 6, without a scope) in one attempt, because a refresh token that is used a second
    /// time ends the entire sign-in.
    ///
    /// - Parameter issuedClientID: The client that the tokens were granted to, or `nil` for the registration's client.
    func refresh(
        _ refreshToken: Secret, of issuedClientID: String? = nil
    ) async throws(ChappieAuthError) -> TokenResponse {
        let request = tokenRequest(refreshToken, issuedClientID ?? clientID)
        do throws(ChappieAuthError) {
            return try TokenResponse(
                try await issuer.success(request, secrets: [refreshToken], within: Self.tokenDeadline))
        } catch {
            throw withoutBlame(error)
        }
    }

    /// Replaces the error of a server that does not accept the issued client id. Such an error reveals nothing about
    /// the user, so another sign-in would not help.
    func withoutBlame(_ error: ChappieAuthError) -> ChappieAuthError {
        guard endpoints.usesPlan, error.isOfInvalidClient else { return error }
        return .authorizationDenied(
            "The sign-in service does not accept this app's registration (invalid_client). Nothing was changed.")
    }

    private func tokenRequest(_ refreshToken: Secret, _ clientID: String) -> HTTPExchangeRequest {
        let url = endpoints.tokenURL
        if endpoints.usesPlan {
            return .form(
                [
                    ("grant_type", "refresh_token"), ("client_id", clientID), ("refresh_token", refreshToken.text),
                    ("resource", OpenID.resource),
                ], to: url, as: endpoints.registration)
        }
        let body: ChappieJSON = [
            "client_id": .string(clientID), "grant_type": "refresh_token", "refresh_token": .string(refreshToken.text),
        ]
        return .json(body, to: url, as: endpoints.registration)
    }

    /// Returns the credential of an access token that its owner has created. The service names the owner.
    ///
    /// - Throws: ``ChappieAuthError``: `authorizationDenied` if the token is not accepted.
    func credential(of accessToken: Secret) async throws(ChappieAuthError) -> Credential {
        guard !endpoints.usesPlan else {
            throw .authorizationDenied("This service takes no access token: its users sign in through a browser.")
        }
        let words = accessToken.text
        guard !words.hasPrefix("sk-") else {
            throw .authorizationDenied(
                "This is an API key, and not an access token of a ChatGPT workspace, which begins with at-.")
        }
        var fields: HTTPFields = [.authorization: "Bearer \(words)", .accept: "application/json"]
        fields[.originator] = endpoints.registration.originator
        fields[.userAgent] = endpoints.registration.userAgent
        fields[.residency] = Credential.region(JWTClaims(accessToken)?.residency)
        let request = HTTPExchangeRequest(method: .get, url: endpoints.whoAmIURL, headerFields: fields)
        let answer: IssuerResponse
        do {
            answer = try await issuer.successOfTwo(request, secrets: [accessToken], within: Self.tokenDeadline)
        } catch {
            guard let issuerError = error.issuerError, [401, 403].contains(issuerError.status), error.obstacle == nil
            else {
                throw error
            }
            let detail = issuerError.summary
            throw .authorizationDenied("The access token is not accepted (\(detail)). It may have ended.")
        }
        guard let object = answer.object else { throw .invalidResponse }
        let owner = ChappieAccountInfo(owner: .object(object))
        guard owner.ownerID != nil || owner.email != nil else { throw .invalidResponse }
        return Credential(accessToken: accessToken, of: owner, at: issuer.clock.now, from: CredentialOrigin(endpoints))
    }

    /// Ends the sign-in at the server (RFC 7009, 2.1). Revokes the refresh token or, if it is missing and the server is
    /// ChatGPT's device flow, the access token.
    ///
    /// - Throws: ``ChappieAuthError``. The caller decides whether it matters.
    func revoke(_ credential: Credential) async throws(ChappieAuthError) {
        // The owner of the token may use it elsewhere.
        if credential.isAccessToken { return }
        if endpoints.usesPlan { return try await revokeRefreshToken(of: credential) }
        var body: ChappieJSON = ["token": .string(credential.accessToken.text), "token_type_hint": "access_token"]
        if let refreshToken = credential.refreshToken {
            body = [
                "token": .string(refreshToken.text), "token_type_hint": "refresh_token", "client_id": .string(clientID),
            ]
        }
        let request = HTTPExchangeRequest.json(body, to: endpoints.revokeURL, as: endpoints.registration)
        _ = try await issuer.success(request, secrets: credential.secrets, within: Self.revocationDeadline)
    }

    private func revokeRefreshToken(of credential: Credential) async throws(ChappieAuthError) {
        // An access token without a refresh token ends by itself within the hour.
        guard let refreshToken = credential.refreshToken else { return }
        let share = Self.revocationDeadline / 4
        let configuration = try? await issuer.configuration(endpoints, within: share)
        let fields = [
            ("token", refreshToken.text), ("token_type_hint", "refresh_token"),
            ("client_id", credential.issuedClientID ?? clientID),
        ]
        let request = HTTPExchangeRequest.form(
            fields, to: configuration?.revocationURL ?? endpoints.revokeURL, as: endpoints.registration)
        do throws(ChappieAuthError) {
            _ = try await issuer.successOfTwo(request, secrets: credential.secrets, within: share)
        } catch {
            throw .networkFailure(
                "You are signed out here, but the service has not confirmed it. "
                    + (error.errorDescription ?? "The reason is unknown.")
                    + " Disconnect this app in ChatGPT's settings to be sure.")
        }
    }
}

/// The result of every grant, with all values for the token exchange.
struct AuthorizationCode: Sendable {
    let code: Secret
    /// The PKCE verifier (RFC 7636, 4.1). The device grant receives it from the server.
    let verifier: Secret
    /// The redirect address in the request for the grant.
    let redirectURI: String
    let grant: ChappieGrant
    /// The client that the code was granted to, or `nil` for the registration's client.
    var issuedClientID: String?
}
