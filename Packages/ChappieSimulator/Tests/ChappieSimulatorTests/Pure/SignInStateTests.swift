import Testing

@testable import ChappieSimulator

struct SignInStateTests {
    // MARK: Codes

    @Test(arguments: ["BCDF-GHJKL", "bcdf-ghjkl", " bcdf ghjkl ", "BCDFGHJKL", "b-c-d-f—ghjkl", "bcdf\tghjkl\n"])
    func readsACodeInEverySpelling(typed: String) {
        #expect(UserCode(typed: typed)?.normalized == "BCDFGHJKL")
        #expect(UserCode(typed: typed)?.display == "BCDF-GHJKL")
    }

    @Test(arguments: ["", "  ", "--", "äöü", String(repeating: "B", count: 65)])
    func isNoCodeWithoutLettersOrWithTooMany(typed: String) { #expect(UserCode(typed: typed) == nil) }

    @Test func newCodesHaveNineConsonants() {
        for _ in 0..<100 {
            let code = UserCode()
            #expect(code.normalized.count == 9)
            #expect(code.normalized.allSatisfy { "BCDFGHJKLMNPQRSTVWXZ".contains($0) })
            #expect(UserCode(typed: code.display) == code)
        }
    }

    // MARK: Device authorizations

    private func poll(
        _ flows: inout DeviceAuthorizations, _ flow: DeviceAuthorization, _ now: Int
    ) -> DeviceAuthorizations.PollResult {
        flows.poll(id: flow.id, userCode: flow.userCode.display, now: now)
    }

    @Test func aSignInGoesFromPendingToExchangedOnce() throws {
        var flows = DeviceAuthorizations()
        let flow = flows.begin(clientID: "app", now: 100)
        #expect(poll(&flows, flow, 100) == .pending)
        #expect([flows.approve(flow.userCode, now: 100), flows.approve(flow.userCode, now: 100)] == [true, false])
        guard case .approved(let code, let verifier) = poll(&flows, flow, 101) else {
            Issue.record("not approved")
            return
        }
        #expect(poll(&flows, flow, 102) == .approved(authorizationCode: code, verifier: verifier))
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
        #expect(poll(&flows, flow, 104) == .gone)
    }

    @Test func aRefusalIsFinalAndACodeExpiresAfterFifteenMinutes() {
        var flows = DeviceAuthorizations()
        let (refused, late) = (flows.begin(clientID: "app", now: 0), flows.begin(clientID: "app", now: 0))
        #expect([flows.refuse(refused.userCode, now: 1), flows.approve(refused.userCode, now: 1)] == [true, false])
        #expect(poll(&flows, refused, 2) == .refused)
        #expect(poll(&flows, late, 899) == .pending)
        #expect(poll(&flows, late, 900) == .gone)
        let isApproved = flows.approve(late.userCode, now: 900)
        #expect(!isApproved)
        #expect(flows.poll(id: late.id, userCode: "BCDF-GHJKL", now: 1) == .gone)
    }

    @Test func autoApprovalComesOnTheSecondPollAndMemoryIsBounded() {
        var flows = DeviceAuthorizations(approvesOnPoll: 2)
        let first = flows.begin(clientID: "app", now: 0)
        #expect(poll(&flows, first, 0) == .pending)
        guard case .approved = poll(&flows, first, 1) else {
            Issue.record("the second poll was not approved")
            return
        }
        for _ in 0..<DeviceAuthorizations.limit { _ = flows.begin(clientID: "app", now: 1) }
        #expect(poll(&flows, first, 1) == .gone)
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

    @Test func anAccessTokenIsGoodUntilItExpires() {
        var ledger = ledger()
        let tokens = ledger.signIn(clientID: "app", now: 0)
        let cases: [(String?, Int, TokenLedger.AccessFailure?)] = [
            ("Bearer \(tokens.accessToken)", 99, nil), ("bearer \(tokens.accessToken)", 99, nil),
            ("Bearer \(tokens.accessToken)", 100, .expired), ("Bearer \(tokens.accessToken)x", 0, .unknown),
            ("Bearer \(tokens.refreshToken)", 0, .unknown), ("Basic abc", 0, .missing), ("Bearer", 0, .missing),
            (nil, 0, .missing),
        ]
        for (header, now, failure) in cases { #expect(ledger.check(authorization: header, now: now) == failure) }
    }

    @Test(arguments: [false, true])
    func aRefreshTokenWorksOnceAndReuseEndsTheFamilyWhereThatIsAskedFor(revokes: Bool) throws {
        var ledger = ledger { $0.revokesFamilyOnReuse = revokes }
        let first = ledger.signIn(clientID: "app", now: 0)
        let second = try ledger.refresh(first.refreshToken, clientID: "app", now: 1)
        #expect(second.refreshToken != first.refreshToken)
        #expect(second.accessToken != first.accessToken)
        #expect(refresh(&ledger, first, now: 2) == .reused)
        for token in [first.accessToken, second.accessToken] {
            #expect(ledger.check(authorization: "Bearer \(token)", now: 3) == (revokes ? .revoked : nil))
        }
        #expect(refresh(&ledger, second, as: nil, now: 3) == (revokes ? .invalidated : nil))
    }

    @Test func onlyTheFirstAccessTokenIsShortWhereThatIsAskedFor() throws {
        var ledger = ledger { $0.firstAccessTokenLifetime = .seconds(7) }
        let first = ledger.signIn(clientID: "app", now: 0)
        #expect(first.expiresIn == 7)
        #expect(ledger.check(authorization: "Bearer \(first.accessToken)", now: 7) == .expired)
        #expect(try ledger.refresh(first.refreshToken, clientID: nil, now: 7).expiresIn == 100)
    }

    @Test func refreshTokensExpireBelongToAClientAndMustBeKnown() {
        var ledger = ledger { $0.refreshTokenLifetime = .seconds(10) }
        let tokens = ledger.signIn(clientID: "app", now: 0)
        #expect(refresh(&ledger, tokens, as: "other", now: 1) == .wrongClient)
        #expect(refresh(&ledger, tokens, now: 10) == .expired)
        #expect(throws: TokenLedger.RefreshFailure.invalidated) {
            try ledger.refresh("rt_unknown", clientID: "app", now: 1)
        }
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

    @Test func rememberingTokensHasAnEnd() throws {
        var ledger = ledger()
        var tokens = ledger.signIn(clientID: "app", now: 0)
        for now in 0...TokenLedger.limit {
            tokens = try ledger.refresh(tokens.refreshToken, clientID: "app", now: now)
        }
        #expect(ledger.count <= TokenLedger.limit)
        #expect(ledger.check(authorization: "Bearer \(tokens.accessToken)", now: TokenLedger.limit) == nil)
    }
}
