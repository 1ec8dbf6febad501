@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The token and revocation endpoints, spoken byte for byte as the Codex CLI 0.163.0 does, under our own name where a name
/// is sent.
struct TokenClient: Sendable {
    /// From the request to the whole answer; a token endpoint that takes longer is not there.
    static let tokenDeadline = Duration.seconds(60)
    /// As the Codex CLI: signing out never waits longer for a server.
    static let revocationDeadline = Duration.seconds(10)

    let endpoints: ChappieEndpoints
    let issuer: IssuerClient

    private var clientID: String { endpoints.registration.clientID }

    /// Turns an authorization code into a credential (RFC 6749, 4.1.3), without originator and user agent.
    ///
    /// The user has approved, and a network that fails just then must not make them begin anew: there is a second try. It
    /// does no harm when the outcome of the first is unknown, since a code works once: the second one succeeds if the first
    /// has not arrived, and is otherwise refused with `invalid_grant`, which also ends what the lost answer granted (4.1.2).
    func exchange(_ code: AuthorizationCode) async throws(ChappieAuthError) -> Credential {
        let form = Self.form([
            ("grant_type", "authorization_code"), ("client_id", clientID), ("code", code.code.text),
            ("redirect_uri", code.redirectURI), ("code_verifier", code.verifier.text),
        ])
        let request = HTTPExchangeRequest(
            method: .post, url: endpoints.profile.tokenURL,
            headerFields: [.contentType: "application/x-www-form-urlencoded", .accept: "*/*"], body: .init(bytes: form))
        let secrets = [code.code, code.verifier]
        let answer = try await issuer.successOfTwo(request, secrets: secrets, within: Self.tokenDeadline)
        return try Credential(
            exchanged: TokenAnswer(answer), grant: code.grant, at: issuer.clock.now, from: CredentialOrigin(endpoints))
    }

    /// Renews the tokens (RFC 6749, 6, in JSON, without a scope), in one try: a refresh token that comes a second time ends
    /// the whole sign-in. The failure is `rejected` when the server no longer takes
    /// the refresh token; every other failure may pass.
    func refresh(_ refreshToken: Secret) async -> Result<TokenAnswer, CredentialFailure> {
        let body: ChappieJSON = [
            "client_id": .string(clientID), "grant_type": "refresh_token", "refresh_token": .string(refreshToken.text),
        ]
        let request = HTTPExchangeRequest.json(body, to: endpoints.profile.tokenURL, as: endpoints.registration)
        do throws(ChappieAuthError) {
            let answer = try await issuer.success(request, secrets: [refreshToken], within: Self.tokenDeadline)
            return .success(try TokenAnswer(answer))
        } catch {
            return .failure(error.requiresReauthentication ? .rejected(error) : .soft(error))
        }
    }

    /// Ends the sign-in at the server (RFC 7009, 2.1, in JSON): the refresh token, or without one the access token.
    ///
    /// - Throws: ``ChappieAuthError``; the caller decides whether that matters.
    func revoke(_ credential: Credential) async throws(ChappieAuthError) {
        var body: ChappieJSON = ["token": .string(credential.accessToken.text), "token_type_hint": "access_token"]
        if let refreshToken = credential.refreshToken {
            body = [
                "token": .string(refreshToken.text), "token_type_hint": "refresh_token", "client_id": .string(clientID),
            ]
        }
        let request = HTTPExchangeRequest.json(body, to: endpoints.profile.revokeURL, as: endpoints.registration)
        _ = try await issuer.success(request, secrets: credential.secrets, within: Self.revocationDeadline)
    }

    /// `application/x-www-form-urlencoded` (RFC 6749, appendix B): everything but letters, digits and `-._~` is escaped.
    static func form(_ fields: [(name: String, value: String)]) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        func escaped(_ text: String) -> [UInt8] {
            text.utf8.flatMap { byte in
                isUnreserved(byte) ? [byte] : [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 0x0F)]]
            }
        }
        return Array(
            fields.map { escaped($0.name) + [UInt8(ascii: "=")] + escaped($0.value) }.joined(separator: "&".utf8))
    }
}

/// The result of every grant, and all that the token exchange needs to know.
struct AuthorizationCode: Sendable {
    let code: Secret
    /// The PKCE verifier (RFC 7636, 4.1); the device grant gets it from the server.
    let verifier: Secret
    /// The redirect address that the grant was asked for with.
    let redirectURI: String
    let grant: ChappieGrant
}

/// The tokens in a successful answer of the token endpoint; each may be missing.
struct TokenAnswer: Sendable {
    let idToken: Secret?
    let accessToken: Secret?
    let refreshToken: Secret?
    /// The server wants no renewal before this moment that the client can do without.
    let earliestRefresh: Date?

    /// - Throws: ``ChappieAuthError/invalidResponse`` when it is not a JSON object with at least one token, or when a
    ///   token could not travel in a header.
    init(_ answer: IssuerAnswer) throws(ChappieAuthError) {
        guard let object = answer.object else { throw .invalidResponse }
        idToken = try Self.token("id_token", in: object)
        accessToken = try Self.token("access_token", in: object)
        refreshToken = try Self.token("refresh_token", in: object)
        let earliest = object["earliest_refresh_at"]
        earliestRefresh = PeerNumber.date(earliest?.double) ?? earliest?.string.flatMap(HTTPDate.rfc3339)
        guard idToken != nil || accessToken != nil || refreshToken != nil else { throw .invalidResponse }
    }

    private static func token(_ name: String, in object: ChappieJSONObject) throws(ChappieAuthError) -> Secret? {
        guard let value = object[name], !value.isNull, value != "" else { return nil }
        guard let token = Secret(token: value.string) else { throw .invalidResponse }
        return token
    }
}
