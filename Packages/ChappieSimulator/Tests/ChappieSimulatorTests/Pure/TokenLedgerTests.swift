import Testing

@testable import ChappieSimulator

struct TokenLedgerTests {
    private func ledger(refreshLifetime: Int? = nil, revokes: Bool = false) -> TokenLedger {
        TokenLedger(
            mint: TokenMint(
                issuer: "http://x", account: SimulatorAccount(), accessTokenLifetime: 100,
                refreshTokenLifetime: refreshLifetime), revokesFamilyOnReuse: revokes)
    }

    @Test func anAccessTokenIsGoodUntilItExpires() {
        var ids = IdentifierSource()
        var ledger = ledger()
        let tokens = ledger.signIn(clientID: "app", now: 0, identifiers: &ids)
        #expect(ledger.check(authorization: "Bearer \(tokens.accessToken)", now: 99) == nil)
        #expect(ledger.check(authorization: "bearer \(tokens.accessToken)", now: 99) == nil)
        #expect(ledger.check(authorization: "Bearer \(tokens.accessToken)", now: 100) == .expired)
        #expect(ledger.check(authorization: "Bearer \(tokens.accessToken)x", now: 0) == .unknown)
        #expect(ledger.check(authorization: "Bearer \(tokens.refreshToken)", now: 0) == .unknown)
        #expect(ledger.check(authorization: "Basic abc", now: 0) == .missing)
        #expect(ledger.check(authorization: "Bearer", now: 0) == .missing)
        #expect(ledger.check(authorization: nil, now: 0) == .missing)
    }

    @Test func aRefreshTokenWorksOnceAndTheFamilyLivesOn() throws {
        var ids = IdentifierSource()
        var ledger = ledger()
        let first = ledger.signIn(clientID: "app", now: 0, identifiers: &ids)
        let second = try ledger.refresh(first.refreshToken, clientID: "app", now: 1, identifiers: &ids).get()
        #expect(second.refreshToken != first.refreshToken)
        #expect(second.accessToken != first.accessToken)
        #expect(failure(ledger.refresh(first.refreshToken, clientID: "app", now: 2, identifiers: &ids)) == .reused)
        #expect(ledger.check(authorization: "Bearer \(first.accessToken)", now: 3) == nil)
        #expect(failure(ledger.refresh(second.refreshToken, clientID: nil, now: 3, identifiers: &ids)) == nil)
    }

    @Test func onlyTheFirstAccessTokenIsShortWhereThatIsAskedFor() throws {
        var ids = IdentifierSource()
        var ledger = TokenLedger(mint: ledger().mint, firstAccessTokenLifetime: 7)
        let first = ledger.signIn(clientID: "app", now: 0, identifiers: &ids)
        #expect(first.expiresIn == 7)
        #expect(ledger.check(authorization: "Bearer \(first.accessToken)", now: 7) == .expired)
        #expect(try ledger.refresh(first.refreshToken, clientID: nil, now: 7, identifiers: &ids).get().expiresIn == 100)
    }

    @Test func reuseEndsTheFamilyWhereThatIsAskedFor() throws {
        var ids = IdentifierSource()
        var ledger = ledger(revokes: true)
        let first = ledger.signIn(clientID: "app", now: 0, identifiers: &ids)
        let second = try ledger.refresh(first.refreshToken, clientID: "app", now: 1, identifiers: &ids).get()
        #expect(failure(ledger.refresh(first.refreshToken, clientID: "app", now: 2, identifiers: &ids)) == .reused)
        #expect(
            failure(ledger.refresh(second.refreshToken, clientID: "app", now: 2, identifiers: &ids)) == .invalidated)
        #expect(ledger.check(authorization: "Bearer \(second.accessToken)", now: 2) == .revoked)
    }

    @Test func refreshTokensExpireBelongToAClientAndMustBeKnown() {
        var ids = IdentifierSource()
        var ledger = ledger(refreshLifetime: 10)
        let tokens = ledger.signIn(clientID: "app", now: 0, identifiers: &ids)
        #expect(
            failure(ledger.refresh(tokens.refreshToken, clientID: "other", now: 1, identifiers: &ids)) == .wrongClient)
        #expect(failure(ledger.refresh(tokens.refreshToken, clientID: "app", now: 10, identifiers: &ids)) == .expired)
        #expect(failure(ledger.refresh("rt_nobody", clientID: "app", now: 1, identifiers: &ids)) == .invalidated)
    }

    @Test func revokingARefreshTokenEndsTheFamilyAndAnAccessTokenOnlyItself() {
        var ids = IdentifierSource()
        var ledger = ledger()
        let one = ledger.signIn(clientID: "app", now: 0, identifiers: &ids)
        let other = ledger.signIn(clientID: "app", now: 0, identifiers: &ids)
        ledger.revoke(one.refreshToken)
        ledger.revoke(other.accessToken)
        ledger.revoke("nobody's")
        #expect(ledger.check(authorization: "Bearer \(one.accessToken)", now: 1) == .revoked)
        #expect(failure(ledger.refresh(one.refreshToken, clientID: nil, now: 1, identifiers: &ids)) == .invalidated)
        #expect(ledger.check(authorization: "Bearer \(other.accessToken)", now: 1) == .revoked)
        #expect(failure(ledger.refresh(other.refreshToken, clientID: nil, now: 1, identifiers: &ids)) == nil)
    }

    @Test func rememberingTokensHasAnEnd() throws {
        var ids = IdentifierSource()
        var ledger = ledger()
        var tokens = ledger.signIn(clientID: "app", now: 0, identifiers: &ids)
        for now in 0...TokenLedger.limit {
            tokens = try ledger.refresh(tokens.refreshToken, clientID: "app", now: now, identifiers: &ids).get()
        }
        #expect(ledger.count <= TokenLedger.limit)
        #expect(ledger.check(authorization: "Bearer \(tokens.accessToken)", now: TokenLedger.limit) == nil)
    }

    private func failure(_ result: Result<IssuedTokens, TokenLedger.RefreshFailure>) -> TokenLedger.RefreshFailure? {
        if case .failure(let failure) = result { failure } else { nil }
    }
}
