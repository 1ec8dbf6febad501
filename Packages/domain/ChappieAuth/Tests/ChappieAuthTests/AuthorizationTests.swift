import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

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

    /// The second credential has lost what it says about its account.
    @Test func `a request without a sign-in or an account is not sent`() async {
        let bare =
            #"{"version":1,"issuer":"https://issuer.test","backend":"https://backend.test","tokens":"#
            + #"{"access_token":"opaque","refresh_token":"rt_1"},"last_refresh":"2026-11-20T12:00:00Z"}"#
        let cases: [(Secret?, ChappieAuthError)] = [(nil, .missingCredential), (Secret(bare), .missingAccountID)]
        for (document, error) in cases {
            let stand = Harness(nil)
            stand.store[stand.slot] = document
            await #expect(throws: error) { try await stand.send() }
            #expect(stand.service.count(Service.backend) == 0)
        }
    }

    @Test func `a request of an account without an id names none`() async throws {
        var nameless = seed
        nameless.accountID = nil
        let stand = Harness(nameless, [Service.backend: [.ok]])
        try await stand.send()
        let fields = try #require(stand.service.requests(Service.backend).first?.headerFields)
        #expect(fields[.chatGPTAccountID] == nil && fields[.originator] == "chappie")
        #expect(try await stand.manager.accountInfo()?.userID == "user-1")
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

    @Test func `account info comes from the claims without the network`() async throws {
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
    func `a request of one account is not sent in another account's name`(account: String, user: String) async throws {
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

    // MARK: Workspaces that are pinned to a region

    private static let check = "/backend-api/wham/accounts/check"

    /// Sends a request whose answer 401 is a refusal for the region.
    private func sendPinned(_ stand: Harness) async throws -> Int {
        try await stand.manager.authorization.authorized { fields in
            let request = HTTPExchangeRequest(url: Service.backendRequest.url, headerFields: fields)
            let response = try await stand.service.transport.send(request)
            if response.status.code == 401 { throw RegionRefusal(status: 401, message: "No.", requestID: "req_1") }
            return .value(response.status.code)
        }
    }

    private func pinned(_ routing: String) -> Harness {
        var seed = seed
        seed.residency = "eu"
        let other = #"{"id":"account-0","account_routing_override":"us"}"#
        let answer = #"{"accounts":[\#(other),{"id":"account-1",\#(routing)}],"default_account_id":"account-0"}"#
        return Harness(seed, [Service.backend: [.refused, .ok], Self.check: [.json(answer)]])
    }

    @Test func `the region of the workspace goes along`() async throws {
        var seed = seed
        seed.residency = "eu"
        let stand = Harness(seed, [Service.backend: [.ok]])
        try await stand.send()
        let fields = try #require(stand.service.requests(Service.backend).first?.headerFields)
        #expect(fields[.residency] == "eu" && fields[.routingOverride] == nil)
        #expect(stand.service.count(Self.check) == 0)
    }

    @Test func `a refusal for the region asks once for a route and keeps it`() async throws {
        let stand = pinned(#""workspace_backend_origin":"https://backend.test","account_routing_override":"us_cr""#)
        #expect(try await sendPinned(stand) == 200)
        #expect(try await sendPinned(stand) == 200)
        let sent = stand.service.requests(Service.backend).map { $0.headerFields[.routingOverride] }
        #expect(sent == [nil, "us_cr", "us_cr"])
        let asked = stand.service.requests(Self.check)
        #expect(asked.count == 1 && asked[0].headerFields[.residency] == "eu")
        #expect(asked[0].headerFields[.chatGPTAccountID] == "account-1")
        #expect(stand.service.count(Service.token) == 0, "the sign-in is not in doubt")
    }

    /// An answer without a route is kept as well, and another origin is named but never used.
    @Test(
        arguments: [
            (#""account_routing_override":"NO_CONSTRAINT""#, nil), (#""account_routing_override":null"#, nil),
            (#""account_routing_override":"""#, nil), (#""account_routing_override":"a\nb""#, nil),
            (#""workspace_backend_origin":"https://eu.test/""#, "https://eu.test"),
            (#""workspace_backend_origin":"NO_CONSTRAINT""#, nil),
            (#""workspace_backend_origin":"https://u:p@eu.test""#, nil),
        ] as [(String, String?)])
    func `a refusal without a route is final`(_ routing: String, _ origin: String?) async throws {
        let stand = pinned(routing)
        for requests in 1...2 {
            stand.service.play(Service.backend, .refused)
            let refusal = await #expect(throws: RegionRefusal.self) { try await sendPinned(stand) }
            #expect(refusal?.region == "eu")
            #expect(refusal?.otherOrigin == origin)
            #expect(refusal?.requestID == "req_1")
            #expect(stand.service.count(Service.backend) == requests)
        }
        #expect(stand.service.count(Self.check) == 1)
        #expect(stand.service.count(Service.token) == 0)
    }

    @Test func `a route that is refused as well ends the request`() async throws {
        let stand = pinned(#""account_routing_override":"us""#)
        stand.service.play(Service.backend, .refused)
        await #expect(throws: RegionRefusal.self) { try await sendPinned(stand) }
        #expect(stand.service.count(Service.backend) == 2 && stand.service.count(Self.check) == 1)
    }

    // MARK: Refusals

    @Test(arguments: [200, 204, 304, 400, 403, 404, 429, 500, 503])
    func everyStatusButA401IsAResponse(_ status: Int) async throws {
        let stand = Harness(seed, [Service.backend: [.response(status: .init(code: status))]])
        #expect(try await stand.send() == status)
        #expect(stand.service.count(Service.backend) == 1)
    }

    @Test func `an unexpected 401 causes a refresh and a retry of the same request`() async throws {
        let stand = Harness(seed, [Service.token: [.tokens(renewed)], Service.backend: [.refused, .ok]])
        var request = Service.backendRequest
        request.method = .post
        request.body = .init(bytes: Array("{}".utf8), coding: .zstd)
        #expect(try await stand.send(request) == 200)
        #expect(stand.bearers == [seed.accessToken, renewed.accessToken])
        #expect(stand.service.requests(Service.backend).map(\.body) == [request.body, request.body])
    }

    @Test func `a second 401 is an error and leaves the credential`() async throws {
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
