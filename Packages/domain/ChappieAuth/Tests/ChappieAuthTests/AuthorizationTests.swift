@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@Suite struct AuthorizationTests {
    private let seed = person(endingIn: 7200)
    private let renewed = person(endingIn: 9000, serial: 2)

    private func isReauthentication(_ error: any Error) -> Bool {
        if case .reauthenticationRequired? = error as? ChappieAuthError { true } else { false }
    }

    // MARK: Requests and their addresses

    @Test(arguments: [true, false])
    func addsTheHeadersOfTheSignIn(_ isFedRAMP: Bool) async throws {
        var seed = seed
        seed.isFedRAMPAccount = isFedRAMP
        let stand = Harness(seed, [Service.backend: [.ok]])
        var request = Service.backendRequest
        request.headerFields[.accept] = "text/event-stream"
        try await stand.send(request)
        #expect(
            stand.service.requests(Service.backend).first?.fields == [
                "accept: text/event-stream", "authorization: Bearer \(seed.accessToken)",
                "chatgpt-account-id: account-1",
            ] + (isFedRAMP ? ["x-openai-fedramp: true"] : []) + [
                "originator: chappie", "user-agent: \(ChappieRegistration.defaultUserAgent)",
            ])
    }

    @Test(arguments: [
        "https://evil.test/backend-api/codex/models", "http://backend.test/backend-api/codex/models",
        "https://backend.test:8443/backend-api/codex/models", "https://backend.test.evil.test/",
        "https://issuer.test/backend-api", "https://backend.test@evil.test/", "file:///backend-api", "data:,x",
    ])
    func neverSendsTheSignInToAnotherOrigin(_ address: String) async throws {
        let stand = Harness(seed, [Service.backend: [.ok]])
        let request = HTTPExchangeRequest(url: try #require(URL(string: address)))
        await #expect {
            try await stand.send(request)
        } throws: { error in
            (error as? ChappieTransportError)?.code == .invalidURL
        }
        #expect(stand.service.count(request.url.path()) == 0)
        #expect(stand.store.calls.isEmpty)
    }

    @Test(arguments: [
        "https://BACKEND.test/backend-api/codex/models", "https://backend.test:443/backend-api/codex/models",
    ])
    func otherSpellingsOfTheBackendAreTheBackend(_ address: String) async throws {
        let stand = Harness(seed, [Service.backend: [.ok]])
        #expect(try await stand.send(HTTPExchangeRequest(url: try #require(URL(string: address)))) == 200)
    }

    @Test func aRequestWithoutASignInOrAnAccountIsNotSent() async {
        var nameless = seed
        nameless.accountID = nil
        let cases: [(SeededAuth?, ChappieAuthError)] = [(nil, .missingCredential), (nameless, .missingAccountID)]
        for (seed, error) in cases {
            let stand = Harness(seed)
            await #expect(throws: error) { try await stand.send() }
            #expect(stand.service.count(Service.backend) == 0)
        }
    }

    @Test func aCancelledTaskSendsNothing() async {
        let stand = Harness(seed, [Service.backend: [.ok]])
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
        #expect(
            try await stand.manager.accountInfo()
                == ChappieAccountInfo(
                    email: "person@example.com", userID: "user-1", accountID: "account-1", plan: .plus))
        #expect(stand.service.count(Service.token) == 0)
        #expect(try await Harness(nil).manager.accountInfo() == nil)
    }

    // MARK: One account

    @Test(arguments: [("account-2", "user-1"), ("account-1", "user-2")])
    func aRequestOfOneAccountIsNotSentInAnothersName(account: String, user: String) async throws {
        let gate = ScriptedGate()
        let stand = Harness(seed, [Service.backend: [.refused.after(gate), .ok], Service.revoke: [.ok]])
        let owner = try #require(try await stand.manager.accountInfo())
        let request = Task { try await stand.send() }
        await gate.reached()
        var other = renewed
        (other.accountID, other.userID) = (account, user)
        _ = try await stand.manager.importCredential(other.credential)
        gate.open()
        await #expect(performing: { try await request.value }, throws: isReauthentication)
        let authorization = stand.manager.authorization(onlyFor: owner)
        await #expect(
            performing: { try await authorization.authorized { _ in AuthorizedAttempt.value(1) } },
            throws: isReauthentication)
        #expect(stand.bearers == [seed.accessToken])
        #expect(try await stand.send() == 200)
        #expect(stand.bearers == [seed.accessToken, other.accessToken])
        #expect(stand.service.count(Service.token) == 0)
    }

    // MARK: Refusals

    @Test(arguments: [200, 204, 304, 400, 403, 404, 429, 500, 503])
    func everyStatusButA401IsAResponse(_ status: Int) async throws {
        let stand = Harness(seed, [Service.backend: [.response(status: .init(code: status))]])
        #expect(try await stand.send() == status)
        #expect(stand.service.count(Service.backend) == 1)
    }

    @Test func anUnexpected401IsRefreshedAndTriedAgainWithTheSameRequest() async throws {
        let stand = Harness(seed, [Service.token: [.tokens(renewed)], Service.backend: [.refused, .ok]])
        var request = Service.backendRequest
        request.method = .post
        request.body = .init(bytes: Array("{}".utf8), coding: .zstd)
        #expect(try await stand.send(request) == 200)
        #expect(stand.bearers == [seed.accessToken, renewed.accessToken])
        #expect(stand.service.requests(Service.backend).map(\.body) == [request.body, request.body])
    }

    @Test func aSecond401IsAnErrorAndLeavesTheCredential() async throws {
        let stand = Harness(seed, [Service.token: [.tokens(renewed)], Service.backend: [.refused]])
        await #expect {
            try await stand.send()
        } throws: { error in
            isReauthentication(error) && "\(error)".contains("Provided authentication token is expired.")
        }
        #expect(stand.service.count(Service.backend) == 2)
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.storedText?.contains("rt_seeded_2") == true)
    }

    /// Tokens that another process has stored are tried before a refresh.
    @Test(arguments: [1, 2])
    func tokensFromTheStoreAreTriedBeforeARefresh(_ refusals: Int) async throws {
        let elsewhere = person(endingIn: 8000, serial: 3)
        let refused = Array(repeating: ScriptedHTTPAnswer.refused, count: refusals)
        let stand = Harness(seed, [Service.token: [.tokens(renewed)], Service.backend: [.ok] + refused + [.ok]])
        try await stand.send()
        stand.store[stand.slot] = elsewhere.credential
        #expect(try await stand.send() == 200)
        #expect(stand.bearers.last == (refusals == 1 ? elsewhere : renewed).accessToken)
        #expect(stand.service.count(Service.token) == refusals - 1)
    }

    @Test func aStormOf401sIsOneRefreshForFiftyCallers() async throws {
        let gate = ScriptedGate()
        let refusals = Array(repeating: ScriptedHTTPAnswer.refused, count: 50)
        let stand = Harness(
            seed, [Service.token: [.tokens(renewed).after(gate)], Service.backend: refusals + [.ok]])
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<50 { group.addTask { try await stand.send() } }
            await stand.service.waitForRequests(Service.backend, count: 50)
            await gate.reached()
            gate.open()
            for try await status in group { #expect(status == 200) }
        }
        #expect(stand.service.count(Service.token) == 1)
        #expect(stand.service.count(Service.backend) == 100)
        #expect(stand.store.calls.count { $0 == .save } == 1)
    }

    @Test func errorsOfTheTransportPassThrough() async {
        let stand = Harness(seed, [Service.backend: [.lost]])
        await #expect(throws: ChappieTransportError.self) { try await stand.send() }
    }
}
