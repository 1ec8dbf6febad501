@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// A user who is already signed in, for tests, with unsigned tokens and the stored credential made of them.
///
/// ```swift
/// let manager = SeededAuth().manager(transport: transport, clock: clock)
/// let client = ChappieClient(transport: transport, credentials: manager)
/// ```
public struct SeededAuth: Sendable {
    /// The address in the id token.
    public var email: String? = "person@example.com"
    /// The user in the tokens.
    public var userID: String? = "user-1"
    /// The account in the tokens.
    public var accountID: String? = "account-1"
    /// The plan in the tokens.
    public var plan: String? = "plus"
    /// Whether the tokens name a FedRAMP account.
    public var isFedRAMPAccount = false
    /// The region to which the tokens pin the workspace. `nil`, the default, means none.
    public var residency: String?
    /// The time at which the access token ends. `nil` omits the claim.
    public var expiresAt: Date?
    /// The time at which the tokens were obtained. `nil` omits it.
    public var lastRefresh: Date?
    /// The refresh token.
    public var refreshToken: String? = "rt_seeded_1"
    /// The endpoints to which the credential belongs. Default: the service's own.
    public var endpoints = ChappieEndpoints.chatGPT
    /// Whether the user's plan may be used, for endpoints of ``ChappieGrant/continueWithChatGPT(appName:)``. Those
    /// tokens name no account and no plan.
    public var isPlanUseGranted = true
    /// A number in the access token, by which two tokens of the same user differ.
    public var serial = 1

    /// Creates a credential whose access token ends at `expiresAt`. Default: in ten days.
    public init(expiresAt: Date? = Date().addingTimeInterval(10 * 24 * 60 * 60)) { self.expiresAt = expiresAt }

    /// Returns a JWT without a signature (RFC 7519, 6), with the claims in the order given.
    public static func token(_ claims: ChappieJSON) -> String {
        let header: ChappieJSON = ["alg": "none", "typ": "JWT"]
        return "\(Base64URL.encode(header.serializedBytes())).\(Base64URL.encode(claims.serializedBytes()))."
    }

    /// The id token, made of the members above.
    public var idToken: String {
        let email = ("email", email.map { ChappieJSON.string($0) })
        guard isIssued else { return Self.token(.object(claims([email]))) }
        return Self.token(
            .object(
                claims([
                    ("iss", .string(endpoints.issuer.absoluteString)), ("aud", .string(Self.issuedClientID)),
                    ("sub", userID.map { .string($0) }), email,
                ])))
    }

    /// The client id that the issuer has given to the program, for endpoints of
    /// ``ChappieGrant/continueWithChatGPT(appName:)``.
    public static let issuedClientID = "oaiapp_seeded"

    private var isIssued: Bool { endpoints.usesPlan }

    /// The access token, made of the members above.
    public var accessToken: String {
        let end = expiresAt.map { ChappieJSON.integer(Int($0.timeIntervalSince1970)) }
        return Self.token(.object(claims([("jti", .string("access-\(serial)")), ("exp", end)])))
    }

    /// The token endpoint's answer with these tokens.
    public var tokenAnswer: String { ChappieJSON.object(tokens).serialized() }

    /// The document that a ``CredentialStore`` stores for this user.
    public var credential: Secret {
        var tokens = tokens
        if !isIssued { tokens["account_id"] = accountID.map { .string($0) } }
        let grant = ChappieJSON.string(endpoints.grant.rawValue)
        var document = ChappieJSONObject([("version", 1), ("grant", grant), ("tokens", .object(tokens))])
        if isIssued {
            let scopes = OpenID.scopes.filter { isPlanUseGranted || $0 != OpenID.planScope }
            document["client_id"] = .string(endpoints.registration.clientID)
            document["issued_client_id"] = .string(Self.issuedClientID)
            document["scopes"] = .array(scopes.map { .string($0) })
        }
        document["issuer"] = .string(endpoints.issuer.absoluteString)
        document["backend"] = Origin(endpoints.backend).map { .string($0.description) }
        document["last_refresh"] = lastRefresh.map { .string($0.formatted(.iso8601)) }
        return Secret(ChappieJSON.object(document).serializedBytes())
    }

    /// Returns a manager that finds this credential in a separate store.
    public func manager(
        transport: any HTTPTransport, endpoints: ChappieEndpoints = .chatGPT, clock: any ChappieClock = SystemClock()
    ) -> CredentialManager {
        var seed = self
        seed.endpoints = endpoints
        let slot = CredentialSlot(issuer: endpoints.credentialIssuer)
        return CredentialManager(
            slot: slot, store: InMemoryCredentialStore([slot: seed.credential]), transport: transport,
            endpoints: endpoints, clock: clock)
    }

    /// Returns a session in which this user is signed in, with a separate store. Without a `transport`, every request
    /// fails.
    /// fails.
    ///
    /// ```swift
    /// let session = SeededAuth().session()
    /// #expect(session.state.isSignedIn)
    /// ```
    @MainActor
    public func session(
        transport: any HTTPTransport = ScriptedHTTPTransport(answers: []), endpoints: ChappieEndpoints = .chatGPT,
        clock: any ChappieClock = SystemClock()
    ) -> ChappieAuthSession {
        ChappieAuthSession(credentials: manager(transport: transport, endpoints: endpoints, clock: clock))
    }

    private var tokens: ChappieJSONObject {
        var tokens = ChappieJSONObject([("id_token", .string(idToken)), ("access_token", .string(accessToken))])
        tokens["refresh_token"] = refreshToken.map { .string($0) }
        return tokens
    }

    /// Returns the members of `own` that have a value, and the claims that both tokens carry.
    private func claims(_ own: [(String, ChappieJSON?)]) -> ChappieJSONObject {
        var namespace = ChappieJSONObject()
        namespace["chatgpt_plan_type"] = plan.map { .string($0) }
        namespace["chatgpt_user_id"] = userID.map { .string($0) }
        namespace["chatgpt_account_id"] = accountID.map { .string($0) }
        namespace["chatgpt_compute_residency"] = residency.map { .string($0) }
        if isFedRAMPAccount { namespace["chatgpt_account_is_fedramp"] = true }
        let shared = ("https://api.openai.com/auth", ChappieJSON.object(namespace))
        let own = own.compactMap { name, value in value.map { (name, $0) } }
        return ChappieJSONObject(own + (isIssued ? [] : [shared]))
    }
}
