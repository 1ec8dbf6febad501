@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import TestFixtures
import Testing

@testable import ChappieMCP

/// Both servers of a sign-in, in memory. It answers each request by its path, and keeps all requests.
private final class OAuthWorld: HTTPTransport {
    struct State {
        var requests: [HTTPExchangeRequest] = []
        var answers: [String: [IssuerResponse]] = [:]
        /// The path whose next request finds a broken connection.
        var broken: String?
        /// The token that the tool server takes.
        var accepted = "access-1"
        var renewals = 0
    }

    let state = Mutex(State())

    /// The next answers for this path, before the usual one.
    func script(_ path: String, _ answers: IssuerResponse...) { state.withLock { $0.answers[path] = answers } }

    func breakNext(_ path: String) { state.withLock { $0.broken = path } }

    func requests(to path: String) -> [HTTPExchangeRequest] {
        state.withLock { $0.requests.filter { $0.url.path() == path } }
    }

    func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        let answer = try state.withLock { state throws(ChappieTransportError) in
            state.requests.append(request)
            let path = request.url.path()
            if state.broken == path {
                state.broken = nil
                throw ChappieTransportError(.connectionLost, stage: .responseHead, host: "b.example", reason: "gone")
            }
            if state.answers[path]?.isEmpty == false, let next = state.answers[path]?.removeFirst() { return next }
            return Self.usual(path, request, &state)
        }
        return HTTPExchangeResponse(
            status: .init(code: answer.status), headerFields: answer.headerFields, body: HTTPBody(bytes: answer.body))
    }

    private static func usual(
        _ path: String, _ request: HTTPExchangeRequest, _ state: inout State
    ) -> IssuerResponse {
        switch path {
        case "/mcp":
            let isKnown = request.headerFields[.authorization] == "Bearer \(state.accepted)"
            return isKnown ? OAuthFlowTests.answer([:]) : OAuthFlowTests.challenge()
        case "/.well-known/oauth-protected-resource/mcp": return OAuthFlowTests.answer(OAuthFlowTests.resource)
        case "/.well-known/oauth-authorization-server": return OAuthFlowTests.answer(OAuthFlowTests.issuer)
        case "/register": return OAuthFlowTests.answer(OAuthFlowTests.client)
        case "/token":
            guard String(decoding: request.body?.bytes ?? [], as: UTF8.self).contains("grant_type=refresh_token") else {
                return OAuthFlowTests.answer(OAuthFlowTests.tokens)
            }
            state.renewals += 1
            state.accepted = "renewed-\(state.renewals)"
            return OAuthFlowTests.answer([
                "access_token": .string(state.accepted), "expires_in": 3600,
                "refresh_token": .string("refresh-\(state.renewals + 1)"),
            ])
        default: return OAuthFlowTests.answer(nil, 404)
        }
    }
}

private struct NoDigest: SignInCryptography {
    func sha256(_ bytes: [UInt8]) -> [UInt8] { Array(bytes.prefix(32)) }
    func verifiesRS256(_: [UInt8], of _: [UInt8], modulus _: [UInt8], exponent _: [UInt8]) -> Bool { false }
}

/// One process at a time, in memory.
private final class OneAtATime: CredentialLock, CredentialNotes {
    private let line = AsyncLock()
    private let marks = Mutex<UInt8>(0)

    func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        let ticket = line.reserve()
        try? await line.enter(ticket)
        return CredentialLockHold { [line] in line.leave(ticket) }
    }

    func announceChange(of slot: CredentialSlot) -> [UInt8]? {
        marks.withLock { mark in
            mark += 1
            return [mark]
        }
    }

    func changeMark(for slot: CredentialSlot) -> [UInt8]? { marks.withLock { [$0] } }
}

struct AuthorizationTests {
    private let world = OAuthWorld()
    private let store = InMemoryCredentialStore(lock: OneAtATime())
    private let listener = InMemoryCallbackListener()
    private let url: URL

    init() throws { url = try #require(URL(string: OAuthFlowTests.server)) }

    /// The sign-in as one process has it.
    private func authorization(clientID: String? = nil) -> ChappieMCPAuthorization {
        ChappieMCPAuthorization(
            server: url, name: "docs", clientID: clientID, store: store, transport: world)
    }

    /// Signs in: the test is the browser, which ends at `query`, with the state in the place of `STATE`.
    @discardableResult
    private func signIn(
        _ authorization: ChappieMCPAuthorization,
        _ query: String = "code=code-1&iss=https%3A%2F%2Fb.example&state=STATE"
    ) async throws -> [String] {
        try await authorization.signIn(listener: listener, cryptography: NoDigest()) { [listener] page in
            let state = page.url.query()?.split(separator: "&").first { $0.hasPrefix("state=") }?.dropFirst(6) ?? ""
            listener.get("/callback?" + query.replacing("STATE", with: state))
            listener.get("/auth/done")
        }
    }

    private func status(_ authorization: ChappieMCPAuthorization, _ address: URL? = nil) async throws -> Int {
        let transport = MiddlewareTransport(world, middleware: [MCPAuthorizing(authorization: authorization)])
        return try await transport.send(HTTPExchangeRequest(method: .post, url: address ?? url)).status.code
    }

    private func failure(_ work: () async throws -> Void) async -> (code: ChappieMCPError.Code?, words: String) {
        do {
            try await work()
            return (nil, "no error")
        } catch let error as ChappieMCPError {
            return (error.code, error.reason)
        } catch let error as OAuthRefusal {
            return (error.code, error.reason)
        } catch {
            return (nil, "\(error)")
        }
    }

    /// Lets the stored token be due.
    private func makeDue() throws {
        let slot = authorization().slot
        var grant = try #require(store[slot].flatMap { try? OAuthGrant($0, for: url) })
        grant.renewAt = Date(timeIntervalSince1970: 1)
        store[slot] = grant.document
    }

    @Test func `a sign-in is stored, used by another process and sent only to its server`() async throws {
        #expect(try await signIn(authorization()) == ["all", "offline_access"])
        #expect(listener.openCount == 0)
        let other = authorization()
        #expect(try await other.isSignedIn())
        #expect(try await status(other) == 200)
        let elsewhere = try #require(URL(string: "https://a.example/other"))
        _ = try await status(other, elsewhere)
        #expect(world.requests(to: "/other").allSatisfy { $0.headerFields[.authorization] == nil })
        // The sign-in looks twice for one that it replaces, each process reads once.
        #expect(store.calls.filter { $0 == .load }.count == 4)
    }

    @Test(
        arguments: [
            ("code=c&iss=https%3A%2F%2Fevil.example&state=STATE", "from another sign-in service"),
            ("code=c&state=STATE", "from another sign-in service"),
            ("error=access_denied&error_description=secret&state=STATE", "from another sign-in service"),
            ("error=access_denied&iss=https%3A%2F%2Fb.example&state=STATE", "was not allowed in the browser"),
        ])
    func anAnswerThatIsNotTheAskedServersEndsTheSignIn(query: String, words: String) async throws {
        let (code, said) = await failure { _ = try await signIn(authorization(), query) }
        #expect(code == .signInNeeded && said.contains(words) && !said.contains("secret"), "\(said)")
        #expect(world.requests(to: "/token").isEmpty && store[authorization().slot] == nil)
    }

    @Test func aStateThatIsNotTheSignInsIsPassedOver() async throws {
        let signedIn = try await authorization().signIn(
            listener: listener, cryptography: NoDigest()
        ) { [listener] page in
            listener.get("/callback?code=forged&iss=https%3A%2F%2Fb.example&state=guess")
            let state = page.url.query()?.split(separator: "&").first { $0.hasPrefix("state=") }?.dropFirst(6) ?? ""
            listener.get("/callback?code=real&iss=https%3A%2F%2Fb.example&state=\(state)")
            listener.get("/auth/done")
        }
        #expect(!signedIn.isEmpty)
        let sent = world.requests(to: "/token").map { String(decoding: $0.body?.bytes ?? [], as: UTF8.self) }
        #expect(sent.count == 1 && sent[0].contains("code=real"))
    }

    @Test func twoProcessesWithADueTokenRenewItOnce() async throws {
        try await signIn(authorization())
        try makeDue()
        let (first, second) = (authorization(), authorization())
        async let one = status(first)
        async let two = status(second)
        #expect(try await [one, two] == [200, 200])
        #expect(world.state.withLock(\.renewals) == 1)
    }

    @Test func `many simultaneous requests with a refused token renew it once`() async throws {
        let authorization = authorization()
        try await signIn(authorization)
        world.state.withLock { $0.accepted = "none" }
        try await withThrowingTaskGroup { group in
            for _ in 0..<20 { group.addTask { try await self.status(authorization) } }
            for try await status in group { #expect(status == 200) }
        }
        #expect(world.state.withLock(\.renewals) == 1)
    }

    /// The same world while its authorization server can't be reached.
    private struct WithoutIssuer: HTTPTransport {
        let world: OAuthWorld

        func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
            guard request.url.path() == "/token" else { return try await world.send(request) }
            throw ChappieTransportError(.connectionLost, stage: .connect, host: "b.example", reason: "it is down")
        }
    }

    @Test func `a token that is due is used while the authorization server is down`() async throws {
        try await signIn(authorization())
        try makeDue()
        let process = ChappieMCPAuthorization(
            server: url, name: "docs", store: store, transport: WithoutIssuer(world: world))
        #expect(try await status(process) == 200)
        // A token that the server refuses needs the authorization server.
        world.script("/mcp", OAuthFlowTests.challenge())
        let (code, words) = await failure { _ = try await status(process) }
        #expect(code == .signInFailed && words.contains("it is down"), "\(words)")
    }

    @Test func `a server that also refuses a new token is not asked forever`() async throws {
        let authorization = authorization()
        try await signIn(authorization)
        world.script("/mcp", OAuthFlowTests.challenge(), OAuthFlowTests.challenge(), OAuthFlowTests.challenge())
        let before = world.requests(to: "/mcp").count
        let (code, words) = await failure { _ = try await status(authorization) }
        #expect(code == .signInNeeded && words == "it does not accept its sign-in any more")
        #expect(world.requests(to: "/mcp").count == before + 2 && world.state.withLock(\.renewals) == 1)
    }

    @Test(
        arguments: [
            ("invalid_grant", true), ("invalid_client", true), ("temporarily_unavailable", false), (nil, false),
        ])
    func onlyTheServersOwnWordsEndASignIn(error: String?, ends: Bool) async throws {
        try await signIn(authorization())
        try makeDue()
        let json = error.map { ["error": .string($0), "error_description": "refresh-1 is old"] as ChappieJSON }
        world.script("/token", OAuthFlowTests.answer(json, 400))
        let process = authorization()
        let (code, words) = await failure { _ = try await status(process) }
        #expect(code == (ends ? .signInNeeded : .signInFailed) && !words.contains("refresh-1"), "\(words)")
        #expect((store[process.slot] == nil) == ends)
        if !ends { #expect(try await status(process) == 200) }
    }

    @Test func `a store that can't keep the next token doesn't lose the current one`() async throws {
        try await signIn(authorization())
        try makeDue()
        store.fail(.prepareToSave, with: .locked("the login keyring is locked"), times: 1)
        let process = authorization()
        let (code, words) = await failure { _ = try await status(process) }
        #expect(code == .signInFailed && words.contains("the keyring is locked"), "\(words)")
        #expect(world.state.withLock(\.renewals) == 0)
        #expect(try await status(process) == 200)
    }

    @Test(
        arguments: [
            ["token_type": "N_A", "access_token": "odd"], ["token_type": "mac", "access_token": "odd"],
            ["access_token": "a b"], ["access_token": 7], [:],
        ] as [ChappieJSONObject])
    func `a renewal without a usable access token keeps the new refresh token`(members: ChappieJSONObject) async throws
    {
        try await signIn(authorization())
        try makeDue()
        var answer = members
        answer["refresh_token"] = "refresh-new"
        world.script("/token", OAuthFlowTests.answer(.object(answer)))
        let process = authorization()
        let (code, words) = await failure { _ = try await status(process) }
        #expect(code == .signInFailed && words.contains("no token that can be used"), "\(words)")
        let stored = store[process.slot].flatMap { try? OAuthGrant($0, for: url) }
        #expect(stored?.refreshToken == Secret("refresh-new") && stored?.accessToken == Secret("access-1"))
        #expect(try await status(authorization()) == 200)
        let sent = world.requests(to: "/token").last.map { String(decoding: $0.body?.bytes ?? [], as: UTF8.self) }
        #expect(sent?.contains("refresh_token=refresh-new") == true)
    }

    @Test func `a renewal with an unusable refresh token keeps the access token and is the last`() async throws {
        try await signIn(authorization())
        try makeDue()
        world.state.withLock { $0.accepted = "access-2" }
        world.script(
            "/token", OAuthFlowTests.answer(["access_token": "access-2", "expires_in": "x", "refresh_token": "a b"]))
        let process = authorization()
        #expect(try await status(process) == 200)
        let stored = store[process.slot].flatMap { try? OAuthGrant($0, for: url) }
        #expect(stored?.accessToken == Secret("access-2") && stored?.refreshToken == nil)
        world.state.withLock { $0.accepted = "none" }
        let (code, _) = await failure { _ = try await status(process) }
        #expect(code == .signInNeeded && world.requests(to: "/token").count == 2)
    }

    // MARK: The exchange, and a second sign-in

    @Test(arguments: [500, 502, 504])
    func `a code is exchanged at the second try`(status: Int) async throws {
        world.script("/token", OAuthFlowTests.answer(nil, status))
        try await signIn(authorization())
        let sent = world.requests(to: "/token").map { $0.body?.bytes }
        #expect(sent.count == 2 && sent[0] == sent[1])
        #expect(try await self.status(authorization()) == 200)
    }

    @Test func `a connection that breaks during the exchange costs no approval`() async throws {
        world.breakNext("/token")
        try await signIn(authorization())
        #expect(world.requests(to: "/token").count == 2)
    }

    @Test func `a code that was used up by the first try is the failure of that try`() async throws {
        world.script(
            "/token", OAuthFlowTests.answer(nil, 504), OAuthFlowTests.answer(["error": "invalid_grant"], 400))
        let (code, words) = await failure { try await signIn(authorization()) }
        #expect(code == .signInFailed && words.contains("status 504"), "\(words)")
    }

    @Test func `a server that refuses the code is asked once`() async throws {
        world.script("/token", OAuthFlowTests.answer(["error": "invalid_grant"], 400))
        let (code, words) = await failure { try await signIn(authorization()) }
        #expect(code == .signInFailed && words.contains("invalid_grant"), "\(words)")
        #expect(world.requests(to: "/token").count == 1)
    }

    @Test func `a second sign-in keeps the registration and its port`() async throws {
        for _ in 0..<2 { try await signIn(authorization()) }
        #expect(world.requests(to: "/register").count == 1)
        #expect(listener.ports.count == 2 && listener.ports[0] == listener.ports[1])
        // The sign-ins of one client may be one to the server.
        #expect(world.requests(to: "/revoke").isEmpty)
    }

    @Test func `a second sign-in registers again and revokes the first if its port is taken`() async throws {
        try await signIn(authorization())
        let port = try #require(listener.ports.first)
        let holder = try listener.listen(at: [port]) { _, _ in [] }
        world.script("/register", OAuthFlowTests.answer(["client_id": "client-2"]))
        var tokens = try #require(OAuthFlowTests.tokens.object)
        tokens["refresh_token"] = "refresh-of-client-2"
        world.script("/token", OAuthFlowTests.answer(.object(tokens)))
        try await signIn(authorization())
        #expect(world.requests(to: "/register").count == 2)
        let revoked = world.requests(to: "/revoke").map { String(decoding: $0.body?.bytes ?? [], as: UTF8.self) }
        #expect(revoked.count == 1 && revoked[0].contains("token=refresh-1") && revoked[0].contains("client-1"))
        #expect(store[authorization().slot].flatMap { try? OAuthGrant($0, for: url) }?.client.id == "client-2")
        withExtendedLifetime(holder) {}
    }

    @Test func `a registration that did not lead back is not used again`() async throws {
        try await signIn(authorization())
        world.script("/token", OAuthFlowTests.answer(["error": "invalid_client"], 401))
        let (code, _) = await failure { try await signIn(authorization()) }
        #expect(code == .signInFailed && world.requests(to: "/register").count == 1)
        // The earlier sign-in is still there.
        #expect(try await status(authorization()) == 200)
        try await signIn(authorization())
        #expect(world.requests(to: "/register").count == 2)
    }

    @Test func `another issuer does not get the registration of the first`() async throws {
        try await signIn(authorization())
        var issuer = try #require(OAuthFlowTests.issuer.object)
        issuer["issuer"] = "https://b.example/"
        world.script("/.well-known/oauth-authorization-server", OAuthFlowTests.answer(.object(issuer)))
        _ = await failure { try await signIn(authorization()) }
        #expect(world.requests(to: "/register").count == 2)
    }

    @Test func aTokenThatIsSavedAtTheSecondTryIsKept() async throws {
        try await signIn(authorization())
        try makeDue()
        store.fail(.save, with: .timedOut(.seconds(1)), times: 1)
        #expect(try await status(authorization()) == 200)
        #expect(try await status(authorization()) == 200)
        #expect(world.state.withLock(\.renewals) == 1)
    }

    @Test func `new tokens that the store refused are used and offered again`() async throws {
        try await signIn(authorization())
        try makeDue()
        store.fail(.save, with: .locked("the login keyring is locked"), times: 5)
        let process = authorization()
        let (code, words) = await failure { _ = try await status(process) }
        #expect(code == .signInFailed && words.contains("locked"), "\(words)")
        #expect(try await status(process) == 200)
        let before = store[process.slot].flatMap { try? OAuthGrant($0, for: url) }
        await process.settle()
        let after = store[process.slot].flatMap { try? OAuthGrant($0, for: url) }
        #expect(before?.accessToken == Secret("access-1") && after?.accessToken == Secret("renewed-1"))
        #expect(try await status(authorization()) == 200 && world.state.withLock(\.renewals) == 1)
    }

    @Test func aKeyInTheAddressIsInNoName() throws {
        let keyed = try #require(URL(string: "https://a.example/mcp?key=secret"))
        func slot(_ url: URL) -> CredentialSlot {
            ChappieMCPAuthorization(server: url, name: "d", store: store, transport: world).slot
        }
        #expect(slot(keyed) != slot(url) && slot(keyed).issuer?.hasPrefix("https://a.example/mcp?") == true)
        #expect(slot(keyed).issuer?.contains("secret") == false && slot(url).issuer == OAuthFlowTests.server)
    }

    @Test func `an unreadable store is reported only if the server requires a sign-in`() async throws {
        store.fail(.load, with: .absent("no session bus"))
        let process = authorization()
        let (code, words) = await failure { _ = try await status(process) }
        #expect(code == .signInFailed && words.contains("no session bus"), "\(words)")
        world.script("/mcp", OAuthFlowTests.answer([:]))
        #expect(try await status(process) == 200)
    }

    @Test(
        arguments: [
            ("read write", "it requires more permissions than its sign-in has: read write"),
            ("$(reboot) `x` ok", "it requires more permissions than its sign-in has: ok"),
            ("", "it requires more permissions than its sign-in has"),
        ])
    func morePermissionsAreTheUsersToGive(scope: String, words: String) async throws {
        let authorization = authorization()
        try await signIn(authorization)
        let asked = OAuthFlowTests.answer(
            nil, 403, [.wwwAuthenticate: "Bearer error=\"insufficient_scope\", scope=\"\(scope)\""])
        world.script("/mcp", asked)
        let (code, said) = await failure { _ = try await status(authorization) }
        #expect(code == .permissionNeeded && said == words, "\(said)")
        // Another 403 is the server's answer.
        world.script("/mcp", OAuthFlowTests.answer(nil, 403))
        #expect(try await status(authorization) == 403)
    }

    @Test func `another process's sign-in and sign-out apply to the next request`() async throws {
        let running = authorization()
        let (code, _) = await failure { _ = try await status(running) }
        #expect(code == .signInNeeded)
        try await signIn(authorization())
        #expect(try await status(running) == 200)
        let out = try await authorization().signOut()
        #expect(out == ChappieMCPSignOut(wasSignedIn: true, isRevoked: false))
        #expect(world.requests(to: "/revoke").count == 1)
        let (after, _) = await failure { _ = try await status(running) }
        #expect(after == .signInNeeded)
        #expect(try await authorization().signOut() == ChappieMCPSignOut(wasSignedIn: false, isRevoked: false))
    }

    @Test func aSignInOfAnotherClientOrServerIsNotUsed() async throws {
        try await signIn(authorization())
        #expect(try await authorization(clientID: "client-1").isSignedIn())
        #expect(try await authorization(clientID: "another").isSignedIn() == false)
        let document = try #require(store[authorization().slot])
        let other = try #require(URL(string: "https://a.example/mcp2"))
        #expect(try OAuthGrant(document, for: other) == nil)
        for damaged in ["{}", "", "[1]", #"{"version":1,"server":"https://a.example/mcp"}"#] {
            store[authorization().slot] = Secret(damaged)
            #expect(try await authorization().isSignedIn() == false)
        }
        store[authorization().slot] = Secret(#"{"version":2,"servers":[]}"#)
        await #expect(throws: CredentialStoreError.tooNew("The stored sign-in at a.example", found: 2, known: 1)) {
            try await authorization().isSignedIn()
        }
    }

    @Test func aDocumentWithoutAnEndIsNotReadToIt() async throws {
        world.script(
            "/.well-known/oauth-protected-resource/mcp",
            IssuerResponse(status: 200, headerFields: [:], body: Array(repeating: 0x20, count: 2 << 20)))
        let (code, words) = await failure { _ = try await signIn(authorization()) }
        #expect(code == .signInFailed && words.contains("the answer is over 1048576 bytes"), "\(words)")
    }

    @Test func aSignInThatIsGivenUpClosesItsPort() async throws {
        let isShown = Promise<Void>()
        let task = Task {
            try await authorization().signIn(listener: listener, cryptography: NoDigest()) { _ in
                isShown.fulfil(.success(()))
            }
        }
        try await isShown.value()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(listener.openCount == 0)
    }
}
