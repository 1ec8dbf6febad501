@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The identity of this program at the authorization server.
struct OAuthClient: Sendable, Hashable {
    let id: String
    var secret: Secret?
    var proof = OAuthServer.ClientProof.none

    static func == (left: OAuthClient, right: OAuthClient) -> Bool {
        left.id == right.id && left.secret == right.secret && left.proof == right.proof
    }

    func hash(into hasher: inout Hasher) { hasher.combine(id) }

    /// Creates a client that its owner has registered, without a secret.
    init(id: String) { self.id = id }

    init(id: String, secret: Secret?, proof: OAuthServer.ClientProof) {
        self.id = id
        self.secret = secret
        self.proof = proof
    }

    /// Creates a client from the answer to a registration (RFC 7591, 3.2.1).
    init(_ json: ChappieJSON, asked proof: OAuthServer.ClientProof) throws(OAuthRefusal) {
        guard let id = UntrustedText.token(json["client_id"]?.string, limit: 2048) else {
            throw OAuthRefusal("its authorization server registered this program without a usable name")
        }
        self.id = id
        secret = Secret(token: json["client_secret"]?.string)
        let named = json["token_endpoint_auth_method"]?.string
        let found = named.map { OAuthServer.ClientProof(rawValue: $0) } ?? proof
        guard let found, found == .none || secret != nil else {
            throw OAuthRefusal("its authorization server registered this program in a way that can't be used")
        }
        self.proof = found
    }

    /// Returns a form for the token or the revocation endpoint, with the client's proof (RFC 6749, 2.3.1).
    func form(_ fields: [(name: String, value: String)], to url: URL) -> HTTPExchangeRequest {
        var fields = fields
        // Some servers require the client's id in the form although the proof is in a separate header field.
        fields.append(("client_id", id))
        if proof == .post, let secret { fields.append(("client_secret", secret.text)) }
        var request = HTTPExchangeRequest.form(fields, to: url)
        request.headerFields[.accept] = "application/json"
        if proof == .basic, let secret {
            let parts = [id, secret.text].map { part in
                // A form with one field without a name is an escaped text after "=".
                String(decoding: FormFields.encoded([("", part)]).dropFirst(), as: UTF8.self)
            }
            let pair = Data(parts.joined(separator: ":").utf8).base64EncodedString()
            request.headerFields[.authorization] = "Basic \(pair)"
        }
        return request
    }
}

/// A registration of this program that another sign-in may use.
struct OAuthRegistration: Sendable {
    let issuer: String
    /// The redirect address in the registration. Some servers also compare its port.
    let redirectURI: String
    let client: OAuthClient

    /// The port of the redirect address.
    var port: Int? { URL(string: redirectURI)?.port }
}

/// The tokens of a sign-in at a tool server, with the data that is needed to renew and end it.
struct OAuthGrant: Sendable {
    /// The server that the tokens are for. They are sent only to this server.
    let server: URL
    let resource: String
    let issuer: String
    let tokenURL: URL
    let revocationURL: URL?
    let client: OAuthClient
    /// The redirect address that this program has registered, or `nil` if the registration must not be used for another
    /// sign-in.
    var redirectURI: String?
    var scopes: [String]
    var accessToken: Secret
    var refreshToken: Secret?
    /// The time at which the access token must be renewed, or `nil` if its end is unknown.
    var renewAt: Date?

    /// The next step for a request.
    enum NextStep {
        case use(Secret)
        case renew(Secret)
        /// The server does not accept the token, and there is no token to renew it with.
        case signIn
        /// There is no sign-in.
        case nothing
    }

    /// Returns the next step for a request.
    ///
    /// - Parameter refused: A token that the server has answered with 401.
    func nextStep(refused: Secret?, at now: Date) -> NextStep {
        let isRefused = refused == accessToken
        guard isRefused || renewAt.map({ now >= $0 }) == true else { return .use(accessToken) }
        if let refreshToken { return .renew(refreshToken) }
        return isRefused ? .signIn : .use(accessToken)
    }

    /// Returns the request that renews the tokens (RFC 6749, 6; RFC 8707).
    func renewal(with refreshToken: Secret) -> HTTPExchangeRequest {
        client.form(
            [("grant_type", "refresh_token"), ("refresh_token", refreshToken.text), ("resource", resource)],
            to: tokenURL)
    }

    /// The request that ends the sign-in at the authorization server (RFC 7009, 2.1), or `nil` if the server accepts
    /// none.
    var revocation: HTTPExchangeRequest? {
        guard let revocationURL else { return nil }
        let token = refreshToken ?? accessToken
        let hint = refreshToken == nil ? "access_token" : "refresh_token"
        return client.form([("token", token.text), ("token_type_hint", hint)], to: revocationURL)
    }

    /// Returns the request that ends this sign-in after another one has replaced it, or `nil` if nothing is to be sent.
    ///
    /// The server may treat all sign-ins of the same client as one, as Google documents it, so that a revocation would
    /// also end the new one.
    func revocation(replacedBy new: OAuthGrant) -> HTTPExchangeRequest? {
        let isOneSignIn = issuer == new.issuer && client.id == new.client.id
        return isOneSignIn || refreshToken == nil || refreshToken == new.refreshToken ? nil : revocation
    }

    /// The registration for another sign-in. The token endpoint has confirmed it at each renewal, so a registration
    /// without a refresh token may no longer exist.
    var registration: OAuthRegistration? {
        guard refreshToken != nil, let redirectURI else { return nil }
        return OAuthRegistration(issuer: issuer, redirectURI: redirectURI, client: client)
    }

    /// All values that must not appear in an error.
    var secrets: [Secret] { [accessToken, refreshToken, client.secret].compactMap(\.self) }

    /// Takes over the answer to a renewal. The renewal has used up the refresh token, so everything usable in the
    /// answer counts.
    ///
    /// - Throws: ``OAuthRefusal`` if the answer has no usable access token. A new refresh token is taken over in any
    ///   case.
    mutating func take(_ answer: ChappieJSON, at now: Date) throws(OAuthRefusal) {
        if let member = answer["refresh_token"], member != .null {
            refreshToken = Secret(token: member.string)
        }
        let tokens = try OAuthTokens(answer)
        accessToken = tokens.accessToken
        scopes = tokens.scopes ?? scopes
        renewAt = tokens.renewAt(from: now)
    }
}

/// A successful answer of the token endpoint (RFC 6749, 5.1).
struct OAuthTokens: Sendable {
    let accessToken: Secret
    let refreshToken: Secret?
    let scopes: [String]?
    /// The lifetime in seconds, if the answer has a plausible number.
    let lifetime: Double?

    init(_ json: ChappieJSON) throws(OAuthRefusal) {
        guard let token = Secret(token: json["access_token"]?.string),
            json["token_type"]?.string.map({ $0.lowercased() == "bearer" }) ?? true
        else { throw OAuthRefusal("its authorization server gave no token that can be used") }
        accessToken = token
        refreshToken = Secret(token: json["refresh_token"]?.string)
        scopes = json["scope"]?.string.map(OAuthScopes.read)
        lifetime = json["expires_in"]?.double.flatMap { (0...315_360_000).contains($0) ? $0 : nil }
    }

    /// Returns the time at which the token must be renewed. It is a minute before the token's end, but not before nine
    /// tenths of the token's life.
    func renewAt(from now: Date) -> Date? {
        lifetime.map { now.addingTimeInterval($0 - min(60, $0 / 10)) }
    }
}

// MARK: The stored form

extension OAuthGrant {
    private static let version = 1

    /// The document for the credential store.
    var document: Secret {
        var json: ChappieJSONObject = [
            "version": .integer(Self.version), "server": .string(server.absoluteString), "resource": .string(resource),
            "issuer": .string(issuer), "token_endpoint": .string(tokenURL.absoluteString),
            "client_id": .string(client.id), "client_proof": .string(client.proof.rawValue),
            "scope": .string(scopes.joined(separator: " ")), "access_token": .string(accessToken.text),
        ]
        json["revocation_endpoint"] = revocationURL.map { .string($0.absoluteString) }
        json["client_secret"] = client.secret.map { .string($0.text) }
        json["redirect_uri"] = redirectURI.map { .string($0) }
        json["refresh_token"] = refreshToken.map { .string($0.text) }
        json["renew_at"] = renewAt.map { .integer(Int($0.timeIntervalSince1970)) }
        return Secret(ChappieJSON.object(json).serializedBytes())
    }

    /// Creates a grant from a stored document.
    ///
    /// - Returns: `nil` if the document is not of a sign-in at `server`.
    /// - Throws: `tooNew`.
    init?(_ document: Secret, for server: URL) throws(CredentialStoreError) {
        guard let origin = Origin(server), let json = try? ChappieJSON(parsing: document.withBytes(Array.init)),
            let version = json["version"]?.int
        else { return nil }
        guard version <= Self.version else {
            throw .tooNew("The stored sign-in at \(origin.host)", found: version, known: Self.version)
        }
        guard json["server"]?.string == server.absoluteString,
            let resource = json["resource"]?.string, let issuer = json["issuer"]?.string,
            let tokenURL = OAuthAddress.usable(json["token_endpoint"]?.string, for: origin),
            let clientID = UntrustedText.token(json["client_id"]?.string, limit: 2048),
            let proof = json["client_proof"]?.string.flatMap(OAuthServer.ClientProof.init),
            let accessToken = Secret(token: json["access_token"]?.string)
        else { return nil }
        self.server = server
        self.resource = resource
        self.issuer = issuer
        self.tokenURL = tokenURL
        revocationURL = OAuthAddress.usable(json["revocation_endpoint"]?.string, for: origin)
        client = OAuthClient(id: clientID, secret: Secret(token: json["client_secret"]?.string), proof: proof)
        redirectURI = json["redirect_uri"]?.string
        scopes = OAuthScopes.read(json["scope"]?.string ?? "")
        self.accessToken = accessToken
        refreshToken = Secret(token: json["refresh_token"]?.string)
        renewAt = PeerNumber.date(json["renew_at"]?.double)
    }
}
