@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@Suite struct AuthorizationMiddlewareTests {
    @Test func addsTheHeadersOfTheSignIn() async throws {
        var seed = person(endingIn: 7200)
        seed.isFedRAMPAccount = true
        let stand = Harness(seed, [Service.backend: [.ok]])
        var request = Service.backendRequest
        request.headerFields[.accept] = "text/event-stream"
        try await stand.send(request)
        let fields = try #require(stand.service.requests(Service.backend).first).headerFields
        let sent = fields.map { "\($0.name.rawName.lowercased()): \($0.value)" }
        #expect(
            sent == [
                "accept: text/event-stream", "authorization: Bearer \(seed.accessToken)",
                "chatgpt-account-id: account-1", "x-openai-fedramp: true", "originator: chappie",
                "user-agent: \(ChappieRegistration.defaultUserAgent)",
            ])
    }

    @Test func leavesTheFedRAMPHeaderOutForEverybodyElse() async throws {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok]])
        try await stand.send()
        let fields = try #require(stand.service.requests(Service.backend).first).headerFields
        #expect(!fields.contains { $0.name.canonicalName == "x-openai-fedramp" })
    }

    @Test(arguments: [
        "https://evil.test/backend-api/codex/models", "http://backend.test/backend-api/codex/models",
        "https://backend.test:8443/backend-api/codex/models", "https://backend.test.evil.test/",
        "https://issuer.test/backend-api", "https://backend.test@evil.test/", "file:///backend-api", "data:,x",
    ])
    func neverSendsTheSignInToAnotherOrigin(_ address: String) async throws {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok]])
        let request = HTTPExchangeRequest(url: try #require(URL(string: address)))
        await #expect {
            try await stand.send(request)
        } throws: { error in
            if case .foreignOrigin? = error as? AuthorizationError { true } else { false }
        }
        #expect(stand.service.count(request.url.path()) == 0)
        #expect(stand.store.calls.isEmpty)
    }

    @Test(arguments: [
        "https://BACKEND.test/backend-api/codex/models", "https://backend.test:443/backend-api/codex/models",
    ])
    func otherSpellingsOfTheBackendAreTheBackend(_ address: String) async throws {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok]])
        #expect(try await stand.send(HTTPExchangeRequest(url: try #require(URL(string: address)))) == 200)
    }

    @Test(arguments: [("account-2", "user-1"), ("account-1", "user-2")])
    func aRefusedRequestIsNotTriedAgainInAnothersName(account: String, user: String) async throws {
        let gate = ScriptedGate()
        let seed = person(endingIn: 7200)
        let stand = Harness(seed, [Service.backend: [.refused.after(gate), .ok], Service.revoke: [.ok]])
        let request = Task { try await stand.send() }
        await gate.reached()
        var other = person(endingIn: 7200, serial: 2)
        other.accountID = account
        other.userID = user
        _ = try await stand.manager.importCredential(other.credential)
        gate.open()
        await #expect {
            try await request.value
        } throws: { error in
            if case .reauthenticationRequired? = error as? AuthorizationError { true } else { false }
        }
        #expect(stand.bearers == [seed.accessToken])
        #expect(try await stand.send() == 200)
        #expect(stand.bearers == [seed.accessToken, other.accessToken])
        #expect(stand.service.count(Service.token) == 0)
    }

    @Test func whatIsOneAccountsOwnIsNotSentForAnother() async throws {
        let seed = person(endingIn: 7200)
        let stand = Harness(seed, [Service.backend: [.ok], Service.revoke: [.ok]])
        let owner = try #require(try await stand.manager.accountInfo())
        let transport = MiddlewareTransport(
            stand.service.transport, middleware: [stand.manager.authorization(onlyFor: owner)])
        #expect(try await transport.send(Service.backendRequest).status == .ok)
        var other = person(endingIn: 7200, serial: 2)
        other.accountID = "account-2"
        _ = try await stand.manager.importCredential(other.credential)
        await #expect {
            try await transport.send(Service.backendRequest)
        } throws: { error in
            if case .reauthenticationRequired? = error as? AuthorizationError { true } else { false }
        }
        #expect(stand.bearers == [seed.accessToken])
    }

    @Test func aRequestWithoutASignInIsNotSent() async {
        let stand = Harness(nil)
        await #expect(throws: AuthorizationError.missingCredential) { try await stand.send() }
        #expect(stand.service.count(Service.backend) == 0)
    }

    @Test func aSignInWithoutAnAccountIsAnError() async {
        var seed = person(endingIn: 7200)
        seed.accountID = nil
        let stand = Harness(seed)
        await #expect(throws: AuthorizationError.missingAccountID) { try await stand.send() }
    }

    @Test(arguments: [200, 204, 304, 400, 403, 404, 429, 500, 503])
    func everyStatusButA401IsAResponse(_ status: Int) async throws {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.response(status: .init(code: status))]])
        #expect(try await stand.send() == status)
        #expect(stand.service.count(Service.backend) == 1)
    }

    @Test func anUnexpected401IsRefreshedAndTriedAgainWithTheSameRequest() async throws {
        let seed = person(endingIn: 7200)
        let renewed = person(endingIn: 9000, serial: 2)
        let stand = Harness(seed, [Service.token: [.tokens(renewed)], Service.backend: [.refused, .ok]])
        var request = Service.backendRequest
        request.method = .post
        request.body = .init(bytes: Array("{}".utf8), coding: .zstd)
        #expect(try await stand.send(request) == 200)
        #expect(stand.bearers == [seed.accessToken, renewed.accessToken])
        #expect(stand.service.requests(Service.backend).map(\.body) == [request.body, request.body])
    }

    @Test func aSecond401IsAnErrorAndLeavesTheCredential() async throws {
        let renewed = person(endingIn: 9000, serial: 2)
        let stand = Harness(
            person(endingIn: 7200), [Service.token: [.tokens(renewed)], Service.backend: [.refused]])
        await #expect {
            try await stand.send()
        } throws: { error in
            guard case .reauthenticationRequired(let reason)? = error as? AuthorizationError else { return false }
            return reason.contains("Provided authentication token is expired.")
        }
        #expect(stand.service.count(Service.backend) == 2)
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
    }

    @Test func tokensFromTheStoreAreTriedBeforeARefresh() async throws {
        let elsewhere = person(endingIn: 8000, serial: 2)
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok, .refused, .ok]])
        try await stand.send()
        stand.store[stand.slot] = elsewhere.credential
        #expect(try await stand.send() == 200)
        #expect(stand.bearers.last == elsewhere.accessToken)
        #expect(stand.service.count(Service.token) == 0)
    }

    @Test func staleTokensFromTheStoreAreRefreshedToo() async throws {
        let renewed = person(endingIn: 9000, serial: 3)
        let stand = Harness(
            person(endingIn: 7200),
            [Service.token: [.tokens(renewed)], Service.backend: [.ok, .refused, .refused, .ok]])
        try await stand.send()
        stand.store[stand.slot] = person(endingIn: 8000, serial: 2).credential
        #expect(try await stand.send() == 200)
        #expect(stand.bearers.last == renewed.accessToken)
        #expect(stand.service.count(Service.token) == 1)
    }

    @Test func aLate401OfAnOlderTokenDoesNotBurnTheNewerOne() async throws {
        let gate = ScriptedGate()
        let renewed = person(endingIn: 9000, serial: 2)
        let stand = Harness(
            person(endingIn: 7200),
            [Service.token: [.tokens(renewed)], Service.backend: [.refused.after(gate), .refused, .ok]])
        let late = Task { try await stand.send() }
        await gate.reached()
        #expect(try await stand.send() == 200)
        gate.open()
        #expect(try await late.value == 200)
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.bearers.suffix(2) == [renewed.accessToken, renewed.accessToken])
    }

    @Test func aStormOf401sIsOneRefreshForFiftyCallers() async throws {
        let gate = ScriptedGate()
        let renewed = person(endingIn: 9000, serial: 2)
        let refusals = Array(repeating: ScriptedHTTPAnswer.refused, count: 50)
        let stand = Harness(
            person(endingIn: 7200),
            [Service.token: [.tokens(renewed).after(gate)], Service.backend: refusals + [.ok]])
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<50 { group.addTask { try await stand.send() } }
            await stand.service.waitForRequests(Service.backend, count: 50)
            await gate.reached()
            gate.open()
            for try await status in group { #expect(status == 200) }
        }
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.service.count(Service.backend) == 100)
    }

    @Test func aRecoveryThatFailsSoftlySaysSoAndLeavesTheCredential() async throws {
        let seed = person(endingIn: 7200)
        let stand = Harness(seed, [Service.token: [.lost], Service.backend: [.refused]])
        await #expect {
            try await stand.send()
        } throws: { error in
            if case .auth(.networkFailure)? = error as? AuthorizationError { true } else { false }
        }
        #expect(stand.store[stand.slot] == seed.credential)
    }

    @Test func errorsOfTheTransportPassThrough() async {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.lost]])
        await #expect(throws: ChappieTransportError.self) { try await stand.send() }
    }

    @Test func aCancelledTaskSendsNothing() async {
        let stand = Harness(person(endingIn: 7200), [Service.backend: [.ok]])
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await stand.send()
        }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(stand.service.count(Service.backend) == 0)
    }

    @Test func accountInfoComesFromTheClaimsWithoutTheNetwork() async throws {
        let stand = Harness(person(endingIn: -10))
        let info = try await stand.manager.accountInfo()
        #expect(
            info
                == ChappieAccountInfo(
                    email: "person@example.com", userID: "user-1", accountID: "account-1", plan: .plus,
                    isFedRAMPAccount: false))
        #expect(stand.service.count(Service.token) == 0)
        #expect(try await Harness(nil).manager.accountInfo() == nil)
    }
}
