import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@Suite struct RefreshTests {
    // MARK: When

    @Test(arguments: [
        (-1.0, 1), (0, 1), (1, 1), (200, 1), (299, 1), (300, 1), (301, 0), (310, 0), (400, 0), (86_400, 0),
    ])
    func refreshesWhenFiveMinutesOrLessAreLeft(_ secondsLeft: TimeInterval, _ refreshes: Int) async throws {
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(
            person(endingIn: secondsLeft), [Service.token: [.tokens(renewed)], Service.backend: [.ok]])
        try await stand.send()
        #expect(stand.service.count(Service.token) == refreshes)
        #expect(stand.bearers == [refreshes == 1 ? renewed.accessToken : person(endingIn: secondsLeft).accessToken])
    }

    @Test(arguments: [(7.9, 0), (8.1, 1)])
    func aTokenWithoutAnEndIsRefreshedAfterEightDays(_ days: Double, _ refreshes: Int) async throws {
        var seed = person(endingIn: nil)
        seed.lastRefresh = start.addingTimeInterval(-days * 86_400)
        let stand = Harness(
            seed, [Service.token: [.tokens(person(endingIn: 7200, serial: 2))], Service.backend: [.ok]])
        try await stand.send()
        #expect(stand.service.count(Service.token) == refreshes)
    }

    @Test func theRequestIsTheOneThatTheServiceKnows() async throws {
        let stand = Harness(
            person(endingIn: 0),
            [Service.token: [.tokens(person(endingIn: 7200, serial: 2))], Service.backend: [.ok]])
        try await stand.send()
        let request = try #require(stand.service.requests(Service.token).first)
        #expect(request.method == .post)
        #expect(
            request.headerFields.map(\.name.canonicalName) == ["content-type", "originator", "user-agent", "accept"])
        #expect(request.headerFields[.accept] == "*/*")
        #expect(request.headerFields[.contentType] == "application/json")
        #expect(request.headerFields[.userAgent] == ChappieRegistration.defaultUserAgent)
        #expect(
            String(decoding: request.body?.bytes ?? [], as: UTF8.self)
                == #"{"client_id":"app_EMoamEEZ73f0CkXaXp7hrann","grant_type":"refresh_token","refresh_token":"rt_seeded_1"}"#
        )
    }

    // MARK: One at a time

    @Test func aProcessCanWaitForTheRefreshThatACancelledRequestBegan() async throws {
        let gate = ScriptedGate()
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(
            person(endingIn: 0), [Service.token: [.tokens(renewed).after(gate)], Service.backend: [.ok]])
        let request = Task { try await stand.send() }
        await gate.reached()
        request.cancel()
        await #expect(throws: CancellationError.self) { try await request.value }
        #expect(!stand.store.calls.contains(.save))
        let settling = Task { await stand.manager.settle() }
        gate.open()
        await settling.value
        #expect(stand.store.calls.contains(.save))
        await stand.manager.settle()
    }

    @Test func aProcessCanWaitForTheRevocationOfWhatASignInReplaced() async throws {
        let gate = ScriptedGate()
        let stand = Harness(person(endingIn: 7200), SessionHarness.signingIn(as: person(endingIn: 7200, serial: 2)))
        stand.service.play(Service.revoke, .ok.after(gate))
        let session = await ChappieAuthSession(credentials: stand.manager)
        let updates = await session.deviceLinkStateUpdates
        try await session.startDeviceCodeSignIn()
        #expect(await updates.next { ["linked", "failed"].contains($0.name) }?.name == "linked")
        await gate.reached()
        let settling = Task { await stand.manager.settle() }
        await stand.clock.waitForSleepers(count: 2)
        gate.open()
        await settling.value
        #expect(stand.clock.sleeperCount == 0)
    }

    @Test func fiftyCallersShareOneRefresh() async throws {
        let gate = ScriptedGate()
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(
            person(endingIn: 0), [Service.token: [.tokens(renewed).after(gate)], Service.backend: [.ok]])
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<50 { group.addTask { try await stand.send() } }
            await gate.reached()
            gate.open()
            for try await status in group { #expect(status == 200) }
        }
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.bearers == Array(repeating: renewed.accessToken, count: 50))
        #expect(stand.store.calls.count { $0 == .save } == 1)
    }

    @Test func aCancelledCallerDoesNotCancelTheRefreshForOthers() async throws {
        let gate = ScriptedGate()
        let stand = Harness(
            person(endingIn: 0),
            [Service.token: [.tokens(person(endingIn: 7200, serial: 2)).after(gate)], Service.backend: [.ok]])
        let first = Task { try await stand.send() }
        await gate.reached()
        let second = Task { try await stand.send() }
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        gate.open()
        #expect(try await second.value == 200)
        #expect(stand.service.count(Service.token) == 1)
    }

    @Test func theRefreshIsFinishedEvenIfEveryCallerIsCancelled() async throws {
        let gate = ScriptedGate()
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(
            person(endingIn: 0), [Service.token: [.tokens(renewed).after(gate)], Service.backend: [.ok]])
        let caller = Task { try await stand.send() }
        await gate.reached()
        caller.cancel()
        await #expect(throws: CancellationError.self) { try await caller.value }
        gate.open()
        try await stand.send()
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
    }

    @Test func onlyThePresentTokensReplaceTheStoredOnes() async throws {
        let renewed = person(endingIn: 7200, serial: 2)
        let stand = Harness(
            person(endingIn: 0),
            [Service.token: [.json(#"{"access_token":"\#(renewed.accessToken)"}"#)], Service.backend: [.ok]])
        try await stand.send()
        let stored = try ChappieJSON(parsing: try #require(stand.storedText))
        #expect(stored["tokens"]?["access_token"]?.string == renewed.accessToken)
        #expect(stored["tokens"]?["refresh_token"]?.string == "rt_seeded_1")
        #expect(stored["tokens"]?["id_token"]?.string == renewed.idToken)
        #expect(stored["last_refresh"]?.string == "2026-11-20T12:00:00Z")
    }

    @Test func unknownMembersOfTheStoredDocumentSurviveARefresh() async throws {
        let stand = Harness(nil, [Service.token: [.tokens(person(endingIn: 7200, serial: 2))], Service.backend: [.ok]])
        let old = person(endingIn: 0)
        stand.store[stand.slot] = Secret(
            #"{"version":1,"issuer":"https://issuer.test","backend":"https://backend.test","later":{"a":[1,2.50]},"tokens":{"access_token":"\#(old.accessToken)","refresh_token":"rt_1","account_id":"account-1","proof_key":"k"}}"#
        )
        try await stand.send()
        let stored = try ChappieJSON(parsing: try #require(stand.storedText))
        #expect(stored["later"]?.serialized() == #"{"a":[1,2.50]}"#)
        #expect(stored["tokens"]?["proof_key"]?.string == "k")
        #expect(stored["tokens"]?["refresh_token"]?.string == "rt_seeded_2")
    }

    // MARK: Other processes

    @Test func tokensThatAnotherProcessRenewedAreUsedWithoutTheNetwork() async throws {
        let stand = Harness(person(endingIn: 400), [Service.backend: [.ok]])
        try await stand.send()
        let renewed = person(endingIn: 7200, serial: 2)
        stand.store[stand.slot] = renewed.credential
        stand.clock.advance(by: .seconds(200))
        try await stand.send()
        #expect(stand.service.count(Service.token) == 0)
        #expect(stand.bearers.last == renewed.accessToken)
    }

    @Test func renewedTokensThatAreAboutToEndAsWellAreRefreshedWithTheirOwnRefreshToken() async throws {
        let stand = Harness(
            person(endingIn: 400),
            [Service.backend: [.ok], Service.token: [.tokens(person(endingIn: 7200, serial: 3))]])
        try await stand.send()
        stand.store[stand.slot] = person(endingIn: 401, serial: 2).credential
        stand.clock.advance(by: .seconds(200))
        try await stand.send()
        let body = String(decoding: stand.service.requests(Service.token).first?.body?.bytes ?? [], as: UTF8.self)
        #expect(body.contains("rt_seeded_2"))
    }

    @Test(arguments: [("account-2", "user-1"), ("account-1", "user-2")])
    func anotherAccountInTheSlotIsAPermanentMismatch(account: String, user: String) async throws {
        let stand = Harness(person(endingIn: 400), [Service.backend: [.ok]])
        try await stand.send()
        var other = person(endingIn: 7200, serial: 2)
        other.accountID = account
        other.userID = user
        stand.store[stand.slot] = other.credential
        stand.clock.advance(by: .seconds(200))
        for _ in 0..<2 {
            await #expect {
                try await stand.send()
            } throws: { error in
                guard case AuthorizationError.reauthenticationRequired(let reason)? = error as? AuthorizationError
                else {
                    return false
                }
                return reason.contains("another account")
            }
        }
        #expect(stand.service.count(Service.token) == 0)
        #expect(stand.store[stand.slot] == other.credential)
    }

    @Test func aSlotThatAnotherProcessEmptiedIsSignedOut() async throws {
        let stand = Harness(person(endingIn: 400), [Service.backend: [.ok]])
        try await stand.send()
        stand.store[stand.slot] = nil
        stand.clock.advance(by: .seconds(200))
        await #expect(throws: AuthorizationError.missingCredential) { try await stand.send() }
        stand.store[stand.slot] = person(endingIn: 7200, serial: 2).credential
        #expect(try await stand.send() == 200)
    }

    @Test func aReusedRefreshTokenIsForgivenWhenAnotherProcessWasFaster() async throws {
        let gate = ScriptedGate()
        let stand = Harness(
            person(endingIn: 0),
            [Service.token: [.error(.unauthorized, "refresh_token_reused").after(gate)], Service.backend: [.ok]])
        let request = Task { try await stand.send() }
        await gate.reached()
        let renewed = person(endingIn: 7200, serial: 2)
        stand.store[stand.slot] = renewed.credential
        gate.open()
        #expect(try await request.value == 200)
        #expect(stand.bearers == [renewed.accessToken])
        #expect(stand.store[stand.slot] == renewed.credential)
    }
}
