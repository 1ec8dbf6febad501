import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@Suite struct RefreshFailureTests {
    // MARK: Failures that pass

    @Test(arguments: [
        ScriptedHTTPAnswer.lost, .error(.internalServerError, "server_error"), .error(.tooManyRequests, "slow"),
        .page(.forbidden), .page(.badRequest), .page(.badGateway), .page(.unauthorized), .error(.badRequest, "unknown"),
        .error(.forbidden, "unsupported_country_region_territory"), .response(status: .forbidden),
        .response(status: .forbidden, headerFields: [.contentType: "text/plain"], body: "error code: 1020"),
        .json("not json"), .json("{}"), .json("[]"),
        .page(.ok), .json(#"{"access_token":"two words"}"#), .json(#"{"access_token":7}"#), .error(.notFound, "gone"),
        .error(.conflict, "conflict"),
    ])
    func aFailedEarlyRefreshKeepsUsingATokenThatIsStillGood(_ answer: ScriptedHTTPAnswer) async throws {
        let seed = person(endingIn: 200)
        let stand = Harness(seed, [Service.token: [answer], Service.backend: [.ok]])
        try await stand.send()
        try await stand.send()
        #expect(stand.bearers == [seed.accessToken, seed.accessToken])
        #expect(stand.service.count(Service.token) == 1, "a failure is not repeated at once")
        stand.clock.advance(by: .seconds(31))
        try await stand.send()
        #expect(stand.service.count(Service.token) == 2)
        #expect(stand.store[stand.slot] == seed.credential)
    }

    @Test(arguments: [
        (ScriptedHTTPAnswer.lost, nil), (.error(.serviceUnavailable, "overloaded"), 503), (.page(.forbidden), nil),
        (.error(.tooManyRequests, "slow"), 429),
    ])
    func aFailedRefreshOfAnEndedTokenIsAnErrorThatLeavesTheCredential(
        _ answer: ScriptedHTTPAnswer, _ status: Int?
    ) async throws {
        let seed = person(endingIn: -10)
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(seed, [Service.token: [answer, .tokens(renewed)], Service.backend: [.ok]])
        await #expect {
            try await stand.send()
        } throws: { error in
            switch error as? AuthorizationError {
            case .auth(.networkFailure)?: status == nil
            case .auth(.tokenExchangeFailed(let code, _))?: code == status
            default: false
            }
        }
        #expect(stand.store[stand.slot] == seed.credential)
        #expect(stand.service.count(Service.backend) == 0)
        #expect(try await stand.send() == 200)
        #expect(stand.bearers == [renewed.accessToken])
    }

    @Test func aStalledEarlyRefreshHoldsARequestUpForTenSecondsAtMost() async throws {
        let gate = ScriptedGate()
        let seed = person(endingIn: 200)
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(seed, [Service.token: [.tokens(renewed).after(gate)], Service.backend: [.ok]])
        let request = Task { try await stand.send() }
        await gate.reached()
        // The deadline of the exchange, and the patience of the request.
        await stand.clock.waitForSleepers(count: 2)
        stand.clock.advance(by: .seconds(10))
        #expect(try await request.value == 200)
        #expect(stand.bearers == [seed.accessToken])
        gate.open()
        while stand.storedText?.contains("rt_seeded_2") != true { await Task.yield() }
        #expect(try await stand.send() == 200)
        #expect(stand.bearers.last == renewed.accessToken)
        #expect(stand.service.count(Service.token) == 1)
    }

    // MARK: Failures that don't

    @Test(arguments: [
        (ScriptedHTTPAnswer.error(.unauthorized, "refresh_token_expired"), "expired"),
        (.error(.unauthorized, "refresh_token_reused"), "already renewed"),
        (.error(.unauthorized, "REFRESH_TOKEN_INVALIDATED"), "revoked"),
        (.error(.unauthorized, "other_code", "Something else."), "Something else."),
        (.json(#"{"error":"refresh_token_expired"}"#, status: .unauthorized), "expired"),
        (.json(#"{"code":"refresh_token_expired"}"#, status: .unauthorized), "expired"),
        (.json(#"{"error":"invalid_grant","error_description":"Gone."}"#, status: .badRequest), "Gone."),
        (.error(.conflict, "refresh_token_reused"), "already renewed"),
        (.response(status: .unauthorized), "status 401"),
    ])
    func aPermanentFailureSignsOutWithAReason(_ answer: ScriptedHTTPAnswer, _ words: String) async throws {
        for seconds in [-10.0, 200] {
            let stand = Harness(person(endingIn: seconds), [Service.token: [answer], Service.backend: [.ok]])
            for _ in 0..<3 {
                await #expect {
                    try await stand.send()
                } throws: { error in
                    guard case .reauthenticationRequired(let reason)? = error as? AuthorizationError else {
                        return false
                    }
                    return reason.contains(words) && reason.contains("sign in again")
                }
            }
            #expect(stand.service.count(Service.token) == 1, "it is not tried again")
            #expect(stand.store[stand.slot] == nil)
        }
    }

    @Test func anEndedTokenWithoutARefreshTokenNeedsANewSignIn() async throws {
        var seed = person(endingIn: -10)
        seed.refreshToken = nil
        let stand = Harness(seed)
        await #expect(throws: AuthorizationError.missingRefreshToken) { try await stand.send() }
        #expect(stand.store[stand.slot] == nil)
    }

    @Test func aNewSignInElsewhereEndsTheRejection() async throws {
        let stand = Harness(
            person(endingIn: -10),
            [Service.token: [.error(.unauthorized, "refresh_token_expired")], Service.backend: [.ok]])
        await #expect(throws: AuthorizationError.self) { try await stand.send() }
        let renewed = person(endingIn: 7200, serial: 2)
        stand.store[stand.slot] = renewed.credential
        #expect(try await stand.send() == 200)
        #expect(stand.bearers == [renewed.accessToken])
    }

    @Test func aRejectedCredentialThatCouldNotBeDeletedIsNotTakenUpAgain() async throws {
        let stand = Harness(
            person(endingIn: -10), [Service.token: [.error(.unauthorized, "refresh_token_expired")]])
        stand.store.fail(.delete, with: .locked("the keyring is locked"))
        for _ in 0..<2 { await #expect(throws: AuthorizationError.self) { try await stand.send() } }
        #expect(stand.service.count(Service.token) == 1)
    }

    // MARK: The store

    @Test func newTokensThatCouldNotBeSavedAreKeptAndNotUsedBeforeTheyAre() async throws {
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(
            person(endingIn: -10),
            [Service.token: [.tokens(renewed), .error(.unauthorized, "refresh_token_reused")], Service.backend: [.ok]])
        stand.store.fail(.save, with: .locked("the keyring is locked"), times: 2)
        for _ in 0..<2 {
            await #expect(throws: AuthorizationError.store(.locked("the keyring is locked"))) { try await stand.send() }
        }
        #expect(stand.service.count(Service.backend) == 0)
        #expect(try await stand.send() == 200)
        #expect(stand.bearers == [renewed.accessToken])
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
    }

    @Test func anEarlyRefreshThatCouldNotBeSavedSurfacesTheStore() async throws {
        let stand = Harness(
            person(endingIn: 200),
            [Service.token: [.tokens(person(endingIn: 7200, serial: 2))], Service.backend: [.ok]])
        stand.store.fail(.save, with: .denied("no"), times: 1)
        await #expect(throws: AuthorizationError.store(.denied("no"))) { try await stand.send() }
        #expect(try await stand.send() == 200)
    }

    @Test(arguments: [
        CredentialStoreError.absent("a"), .locked("l"), .denied("d"), .timedOut(.seconds(5)), .failed("f"),
    ])
    func aStoreThatCanNotBeReadIsItsOwnAnswer(_ error: CredentialStoreError) async throws {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok]])
        stand.store.fail(.load, with: error, times: 1)
        await #expect(throws: AuthorizationError.store(error)) { try await stand.send() }
        #expect(try await stand.send() == 200)
    }

    @Test func anEarlyRefreshIsLeftOutWhileTheStoreIsLocked() async throws {
        let seed = person(endingIn: 400)
        let stand = Harness(seed, [Service.backend: [.ok], Service.token: [.error(.internalServerError, "x")]])
        try await stand.send()
        stand.clock.advance(by: .seconds(200))
        stand.store.fail(.load, with: .locked("l"))
        #expect(try await stand.send() == 200)
        #expect(stand.service.count(Service.token) == 0)
    }

    @Test(arguments: [
        "", "null", "[]", "{", "{}", #"{"version":0}"#, #"{"version":1}"#, #"{"version":1,"tokens":{}}"#,
        #"{"version":1,"tokens":{"access_token":""}}"#, #"{"version":1,"tokens":{"access_token":"a\r\nb: c"}}"#,
        #"{"version":2,"tokens":{"access_token":"at"}}"#, "\u{0}\u{1}",
    ])
    func aCorruptDocumentIsReportedAndNotDeleted(_ document: String) async throws {
        let stand = Harness(nil)
        stand.store[stand.slot] = Secret(document)
        await #expect {
            try await stand.send()
        } throws: { error in
            if case .store(.corrupt)? = error as? AuthorizationError { true } else { false }
        }
        #expect(stand.store[stand.slot] == Secret(document))
    }

    // MARK: Clocks

    @Test func aTokenThatTheWrongClockCallsEndedIsUsedOnceItIsNew() async throws {
        // The wall is a day ahead, so that everything the server gives seems to have ended.
        let stand = Harness(
            person(endingIn: 3600),
            [Service.token: [.tokens(person(endingIn: 3600, serial: 2))], Service.backend: [.ok]])
        stand.clock.setWall(to: start.addingTimeInterval(86_400))
        for _ in 0..<5 { #expect(try await stand.send() == 200) }
        #expect(stand.service.count(Service.token) == 1)
    }

    @Test func aWallClockSetBackLeavesTheTokenInUseUntilTheBackendRefusesIt() async throws {
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(
            person(endingIn: -10), [Service.token: [.tokens(renewed)], Service.backend: [.refused, .ok]])
        stand.clock.setWall(to: start.addingTimeInterval(-86_400))
        #expect(try await stand.send() == 200)
        #expect(stand.bearers == [person(endingIn: -10).accessToken, renewed.accessToken])
    }

    @Test func aTokenEndpointThatNeverAnswersIsGivenUpAfterAMinute() async throws {
        let stand = Harness(
            person(endingIn: -10), [Service.token: [ScriptedHTTPAnswer(beforeHead: [.stall])], Service.backend: [.ok]])
        let request = Task { try await stand.send() }
        await stand.clock.waitForSleepers(count: 1)
        stand.clock.advance(by: .seconds(60))
        await #expect {
            try await request.value
        } throws: { error in
            if case .auth(.networkFailure(let words))? = error as? AuthorizationError {
                words.contains("issuer.test") && words.contains("60 s")
            } else {
                false
            }
        }
    }
}
