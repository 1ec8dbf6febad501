import Testing

@testable import ChappieSimulator

struct SignInStateTests {
    @Test(arguments: ["BCDF-GHJKL", "bcdf-ghjkl", " bcdf ghjkl ", "BCDFGHJKL", "b-c-d-f—ghjkl", "bcdf\tghjkl\n"])
    func takesACodeHoweverItIsTyped(typed: String) {
        #expect(UserCode(typed: typed)?.normalized == "BCDFGHJKL")
        #expect(UserCode(typed: typed)?.display == "BCDF-GHJKL")
    }

    @Test(arguments: ["", "  ", "--", "äöü", String(repeating: "B", count: 65)])
    func isNoCodeWithoutLettersOrWithTooMany(typed: String) { #expect(UserCode(typed: typed) == nil) }

    @Test func madeCodesHaveNineConsonants() {
        var identifiers = IdentifierSource()
        for _ in 0..<100 {
            let code = identifiers.userCode()
            #expect(code.normalized.count == 9)
            #expect(code.normalized.allSatisfy { "BCDFGHJKLMNPQRSTVWXZ".contains($0) })
            #expect(UserCode(typed: code.display) == code)
        }
    }

    @Test func aSignInGoesFromPendingToExchangedOnce() throws {
        var ids = IdentifierSource()
        var flows = DeviceAuthorizations()
        let flow = flows.begin(clientID: "app", now: 100, identifiers: &ids)
        func poll(_ flows: inout DeviceAuthorizations, now: Int) -> DeviceAuthorizations.PollResult {
            flows.poll(id: flow.id, userCode: flow.userCode.display, now: now, identifiers: &ids)
        }
        #expect(poll(&flows, now: 100) == .pending)
        #expect(flows.approve(flow.userCode, now: 100, identifiers: &ids))
        #expect(!flows.approve(flow.userCode, now: 100, identifiers: &ids), "a code is approved once")
        guard case .approved(let code, let verifier) = poll(&flows, now: 101) else {
            Issue.record("not approved")
            return
        }
        #expect(poll(&flows, now: 102) == .approved(authorizationCode: code, verifier: verifier))
        func redeem(_ code: String, _ verifier: String, _ client: String, _ now: Int)
            -> DeviceAuthorizations.RedemptionFailure?
        {
            switch flows.redeem(code: code, verifier: verifier, clientID: client, now: now) {
            case .success: nil
            case .failure(let failure): failure
            }
        }
        #expect(redeem("ac_other", verifier, "app", 103) == .unknownCode)
        #expect(redeem(code, "wrong", "app", 103) == .wrongVerifier)
        #expect(redeem(code, verifier, "other", 103) == .wrongClient)
        #expect(redeem(code, verifier, "app", 100 + 900) == .expiredCode)
        #expect(redeem(code, verifier, "app", 103) == nil)
        #expect(redeem(code, verifier, "app", 103) == .usedCode)
        #expect(flows.poll(id: flow.id, userCode: flow.userCode.display, now: 104, identifiers: &ids) == .gone)
    }

    @Test func aRefusalIsFinalAndACodeExpiresAfterFifteenMinutes() {
        var ids = IdentifierSource()
        var flows = DeviceAuthorizations()
        let refused = flows.begin(clientID: "app", now: 0, identifiers: &ids)
        let late = flows.begin(clientID: "app", now: 0, identifiers: &ids)
        let isRefused = flows.refuse(refused.userCode, now: 1)
        #expect(isRefused)
        #expect(!flows.approve(refused.userCode, now: 1, identifiers: &ids))
        #expect(flows.poll(id: refused.id, userCode: refused.userCode.display, now: 2, identifiers: &ids) == .refused)
        #expect(flows.poll(id: late.id, userCode: late.userCode.display, now: 899, identifiers: &ids) == .pending)
        #expect(flows.poll(id: late.id, userCode: late.userCode.display, now: 900, identifiers: &ids) == .gone)
        #expect(!flows.approve(late.userCode, now: 900, identifiers: &ids))
        #expect(flows.poll(id: late.id, userCode: "BCDF-GHJKL", now: 1, identifiers: &ids) == .gone)
    }

    @Test func autoApprovalComesOnTheSecondPollAndMemoryIsBounded() {
        var ids = IdentifierSource()
        var flows = DeviceAuthorizations(approvesOnPoll: 2)
        let first = flows.begin(clientID: "app", now: 0, identifiers: &ids)
        #expect(flows.poll(id: first.id, userCode: first.userCode.display, now: 0, identifiers: &ids) == .pending)
        guard case .approved = flows.poll(id: first.id, userCode: first.userCode.display, now: 1, identifiers: &ids)
        else {
            Issue.record("the second poll was not approved")
            return
        }
        for _ in 0..<DeviceAuthorizations.limit { _ = flows.begin(clientID: "app", now: 1, identifiers: &ids) }
        #expect(flows.poll(id: first.id, userCode: first.userCode.display, now: 1, identifiers: &ids) == .gone)
    }
}
