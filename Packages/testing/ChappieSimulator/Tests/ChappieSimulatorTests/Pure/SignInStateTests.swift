import Testing

@testable import ChappieSimulator

struct SignInStateTests {
    @Test(arguments: ["BCDF-GHJKL", "bcdf-ghjkl", " bcdf ghjkl ", "BCDFGHJKL", "b-c-d-f—ghjkl", "bcdf\tghjkl\n"])
    func readsACodeInEverySpelling(typed: String) { #expect(UserCode(typed: typed)?.display == "BCDF-GHJKL") }

    @Test(arguments: ["", "  ", "--", "äöü"])
    func isNoCodeWithoutLetters(typed: String) { #expect(UserCode(typed: typed) == nil) }

    @Test func anAuthorizationCodeIsGoodOnceForItsOwnClientAndInTime() throws {
        var flows = DeviceAuthorizations()
        let flow = flows.begin(clientID: "app", now: 100)
        let isApproved = flows.decide(flow.userCode.display, approves: true, now: 100)
        #expect(isApproved)
        let verifier = DeviceAuthorizations.verifier
        guard case .approved(let code, nil)? = flows.poll(id: flow.id, userCode: flow.userCode.display, now: 101) else {
            Issue.record("not approved")
            return
        }
        let refused: [(String, String, String, Int, DeviceAuthorizations.RedemptionFailure)] = [
            ("ac_other", verifier, "app", 103, .unknownCode), (code, "wrong", "app", 103, .wrongVerifier),
            (code, verifier, "other", 103, .wrongClient), (code, verifier, "app", 100 + 900, .expiredCode),
        ]
        for (code, verifier, client, now, failure) in refused {
            #expect(throws: failure) {
                try flows.redeem(code: code, verifier: verifier, clientID: client, now: now)
            }
        }
        #expect(try flows.redeem(code: code, verifier: verifier, clientID: "app", now: 103) == nil)
        #expect(throws: DeviceAuthorizations.RedemptionFailure.usedCode) {
            try flows.redeem(code: code, verifier: verifier, clientID: "app", now: 103)
        }
    }

    // MARK: Tokens

    private func ledger(_ change: (inout SimulatorConfiguration) -> Void = { _ in }) -> TokenLedger {
        var configuration = SimulatorConfiguration(accessTokenLifetime: .seconds(100))
        change(&configuration)
        return TokenLedger(configuration, issuer: "http://x")
    }

    private func refresh(
        _ ledger: inout TokenLedger, _ tokens: IssuedTokens, as client: String? = "app", now: Int
    ) -> TokenLedger.RefreshFailure? {
        do throws(TokenLedger.RefreshFailure) {
            _ = try ledger.refresh(tokens.refreshToken, clientID: client, now: now)
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [false, true])
    func aRefreshTokenWorksOnceAndReuseEndsTheFamilyWhereThatIsAskedFor(revokes: Bool) throws {
        var ledger = ledger { $0.revokesFamilyOnReuse = revokes }
        let first = ledger.signIn(clientID: "app", now: 0)
        let second = try ledger.refresh(first.refreshToken, clientID: "app", now: 1)
        #expect(refresh(&ledger, first, now: 2) == .reused)
        for token in [first.accessToken, second.accessToken] {
            #expect(ledger.check(authorization: "Bearer \(token)", now: 3) == (revokes ? .revoked : nil))
        }
        #expect(refresh(&ledger, second, as: nil, now: 3) == (revokes ? .invalidated : nil))
    }

    @Test func refreshTokensExpireAndBelongToAClient() {
        var ledger = ledger { $0.refreshTokenLifetime = .seconds(10) }
        let tokens = ledger.signIn(clientID: "app", now: 0)
        #expect(refresh(&ledger, tokens, as: "other", now: 1) == .wrongClient)
        #expect(refresh(&ledger, tokens, now: 10) == .expired)
    }

    @Test func revokingARefreshTokenEndsTheFamilyAndAnAccessTokenOnlyItself() {
        var ledger = ledger()
        let (one, other) = (ledger.signIn(clientID: "app", now: 0), ledger.signIn(clientID: "app", now: 0))
        for token in [one.refreshToken, other.accessToken, "unknown"] { ledger.revoke(token) }
        for tokens in [one, other] {
            #expect(ledger.check(authorization: "Bearer \(tokens.accessToken)", now: 1) == .revoked)
        }
        #expect(refresh(&ledger, one, as: nil, now: 1) == .invalidated)
        #expect(refresh(&ledger, other, as: nil, now: 1) == nil)
    }
}
