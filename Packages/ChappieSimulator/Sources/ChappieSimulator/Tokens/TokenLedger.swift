/// Which tokens are out, and what became of them.
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
    /// - Parameter account: whose it is; `nil` for the mint's own.
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

    /// Revokes (RFC 7009, 2.1): a refresh token takes its family along, an access token only itself. A token nobody
    /// knows is not an error (2.2).
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

    /// Whose access or refresh token that is; `nil` when nobody knows it.
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
