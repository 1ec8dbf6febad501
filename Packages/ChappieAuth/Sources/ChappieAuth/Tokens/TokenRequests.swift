import ChappieCore
import FoundationEssentials
import HTTPTypes

/// The requests of the token and revocation endpoints, byte for byte as the Codex CLI 0.163.0 sends them, under our own
/// name where a name is sent.
struct TokenRequests: Sendable {
    let endpoints: ChappieEndpoints

    /// Turns an authorization code into tokens (RFC 6749, 4.1.3); carries no originator and no user agent.
    func exchange(_ code: AuthorizationCode) -> HTTPExchangeRequest {
        let form = FormEncoding.encode([
            ("grant_type", "authorization_code"), ("client_id", endpoints.registration.clientID),
            ("code", code.code.text), ("redirect_uri", code.redirectURI), ("code_verifier", code.verifier.text),
        ])
        return HTTPExchangeRequest(
            method: .post, url: endpoints.profile.tokenURL,
            headerFields: [.contentType: "application/x-www-form-urlencoded", .accept: "*/*"], body: .init(bytes: form))
    }

    /// Renews the tokens (RFC 6749, 6, in JSON, without a scope).
    func refresh(_ refreshToken: Secret) -> HTTPExchangeRequest {
        named(
            endpoints.profile.tokenURL,
            [
                "client_id": .string(endpoints.registration.clientID), "grant_type": "refresh_token",
                "refresh_token": .string(refreshToken.text),
            ])
    }

    /// Ends a sign-in at the server (RFC 7009, 2.1, in JSON): the refresh token, or without one the access token.
    func revocation(of credential: Credential) -> HTTPExchangeRequest {
        guard let refreshToken = credential.refreshToken else {
            return named(
                endpoints.profile.revokeURL,
                ["token": .string(credential.accessToken.text), "token_type_hint": "access_token"])
        }
        return named(
            endpoints.profile.revokeURL,
            [
                "token": .string(refreshToken.text), "token_type_hint": "refresh_token",
                "client_id": .string(endpoints.registration.clientID),
            ])
    }

    private func named(_ url: URL, _ body: ChappieJSON) -> HTTPExchangeRequest {
        var fields: HTTPFields = [.contentType: "application/json"]
        fields[.originator] = endpoints.registration.originator
        fields[.userAgent] = endpoints.registration.userAgent
        fields[.accept] = "*/*"
        return HTTPExchangeRequest(
            method: .post, url: url, headerFields: fields, body: .init(bytes: body.serializedBytes()))
    }
}
