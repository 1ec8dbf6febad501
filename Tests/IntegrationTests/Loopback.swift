import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieCurl
import ChappieFiles
import ChappieHTTP
import ChappieSimulatorServer
import ChappieTesting
import ChappieWebSocket
import Foundation
import TestFixtures
import Testing

/// A simulator with accounts, and an app that talks to it over real sockets, composed as the SDK does it: one network, one
/// store, one folder of locks; for each account a slot, a manager, a session.
struct Loopback: Sendable {
    let simulator: Simulator
    let http: CurlHTTPTransport
    let locks: FileCredentialLock
    /// One for each account.
    let tenants: [Tenant]

    static let accounts = [
        SimulatorAccount(
            id: "acct-first", userID: "user-first", email: "first@example.com", plan: "plus",
            usage: SimulatorUsage(primaryUsedPercent: 11, secondaryUsedPercent: 1),
            models: ["gpt-6.1-sol", "gpt-6-sol"]),
        SimulatorAccount(
            id: "acct-second", userID: "user-second", email: "second@example.com", plan: "pro",
            usage: SimulatorUsage(primaryUsedPercent: 77, secondaryUsedPercent: 7), models: ["gpt-6-luna"]),
    ]

    /// How much longer than usual things may take: a sanitizer slows a program by some times, and `Scripts/test --sanitize`
    /// says so.
    static let patience = Patience.factor

    /// The folder of the folders of locks. It is in memory where the system has such a folder: new files on a disk that other
    /// tests keep busy may take longer than a store is given.
    private static let folders =
        FileManager.default.isWritableFile(atPath: "/dev/shm")
        ? "/dev/shm" : FileManager.default.temporaryDirectory.path

    /// - Parameters:
    ///   - signedIn: how many accounts are signed in when `body` begins.
    ///   - clock: the clients'.
    static func run(
        _ scenario: SimulatorScenario? = nil, signedIn: Int = 1, silence: Duration? = nil,
        clock: any ChappieClock = SystemClock(),
        _ body: (Loopback) async throws -> Void
    ) async throws {
        let simulator = try await Simulator.start(
            SimulatorConfiguration(
                pollInterval: 0, account: accounts[0], otherAccounts: [accounts[1]], scenario: scenario,
                recordedRequestLimit: 4096))
        var deadlines = ChappieDeadlines()
        if let silence {
            let limit = silence * patience
            deadlines = ChappieDeadlines(
                responseHead: limit, firstByte: limit, idle: limit, upgrade: limit, liveness: max(limit, .seconds(2)))
        }
        let network = CurlNetwork(policy: ChappieNetworkPolicy(proxy: .none, deadlines: deadlines))
        let http = CurlHTTPTransport(network: network)
        let folder = Self.folders + "/chappie-loopback-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let locks = FileCredentialLock(directory: folder)
        let store = InMemoryCredentialStore()
        let endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
        var tenants: [Tenant] = []
        for account in accounts {
            let configuration = ChappieConfiguration(
                keychainAccount: account.id, rateLimitBackoff: ChappieRateLimitBackoffPolicy(initialDelay: 0.01),
                endpoints: endpoints, network: ChappieNetworkPolicy(deadlines: deadlines))
            let newManager = { @Sendable (lock: any CredentialLock & CredentialNotes) in
                CredentialManager(
                    slot: configuration.credentialSlot, store: LocalCredentialStore(store, lock: lock),
                    transport: http, endpoints: configuration.endpoints)
            }
            let manager = newManager(locks)
            tenants.append(
                Tenant(
                    account: account, configuration: configuration, store: store, http: http,
                    webSocket: CurlWebSocketTransport(network: network), clock: clock, simulator: simulator,
                    newManager: newManager, manager: manager,
                    session: await ChappieAuthSession(credentials: manager)))
        }
        let loopback = Loopback(simulator: simulator, http: http, locks: locks, tenants: tenants)
        do {
            for tenant in tenants.prefix(signedIn) { try await tenant.signIn() }
            try await body(loopback)
        } catch {
            http.shutdown()
            await simulator.stop()
            throw error
        }
        http.shutdown()
        await simulator.stop()
    }

    /// A client of the first account that finds the sign-in in the store, as another run of the program would: a manager
    /// does not renew tokens that it has just been given.
    ///
    func client(_ policy: ChappieStreamingTransportPolicy = Tenant.oneAttempt) -> ChappieClient {
        tenants[0].client(policy, credentials: tenants[0].newManager(locks))
    }

    /// The requests that were sent to `path`, without their queries.
    func requests(_ path: String) -> [ReceivedRequest] {
        simulator.receivedRequests.filter { $0.target.prefix { $0 != "?" } == path[...] }
    }

    /// How many Responses requests the simulator has seen, over HTTP and WebSocket.
    var turnCount: Int {
        requests("/backend-api/codex/responses").count { $0.method == "POST" } + simulator.receivedMessages.count
    }

    /// Every token and id that a request has brought or the store holds.
    var secrets: [String] {
        let stored = tenants.compactMap(\.storedTokens).flatMap { tokens in
            ["id_token", "access_token", "refresh_token"].compactMap { tokens[$0]?.string }
        }
        return simulator.receivedRequests.reduce(into: stored) { secrets, request in
            if let bearer = request.header("authorization") { secrets.append(String(bearer.dropFirst(7))) }
            let body = try? ChappieJSON(parsing: request.body)
            secrets += ["refresh_token", "device_auth_id"].compactMap { body?[$0]?.string }
        }
    }

    /// How often `refreshToken` was spent.
    func refreshes(with refreshToken: String) -> Int {
        requests("/oauth/token").count { request in
            (try? ChappieJSON(parsing: request.body))?["refresh_token"]?.string == refreshToken
        }
    }
}

/// One account of several in a process: a slot, a session and clients of its own, over a network that all share.
struct Tenant: Sendable {
    let account: SimulatorAccount
    let configuration: ChappieConfiguration
    let store: InMemoryCredentialStore
    let http: CurlHTTPTransport
    let webSocket: CurlWebSocketTransport
    let clock: any ChappieClock
    let simulator: Simulator
    /// Another manager of the same slot, as another process has one.
    let newManager: @Sendable (any CredentialLock & CredentialNotes) -> CredentialManager
    let manager: CredentialManager
    let session: ChappieAuthSession

    /// Server-sent events without second attempts, which have tests of their own.
    static let oneAttempt = ChappieStreamingTransportPolicy(prefersWebSocket: false, maxHTTPSSEReconnectionAttempts: 0)
    static let webSocketOnly = ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)

    /// A new conversation.
    func client(
        _ policy: ChappieStreamingTransportPolicy = webSocketOnly, credentials: CredentialManager? = nil,
        tools: [ChappieHostTool] = [], approval: ChappieToolApprovalHandler? = nil,
        configure: (inout ChappieConfiguration) -> Void = { _ in }
    ) -> ChappieClient {
        var configuration = configuration
        configuration.streamingTransportPolicy = policy
        configure(&configuration)
        return ChappieClient(
            configuration: configuration, transport: http, webSocket: webSocket, credentials: credentials ?? manager,
            tools: tools, toolApprovalHandler: approval, clock: clock)
    }

    /// Signs in to this tenant's slot, as `other` where one is given; returns the code that was shown.
    @MainActor @discardableResult
    func signIn(as other: SimulatorAccount? = nil) async throws -> String {
        let code = try await session.startDeviceCodeSignIn()
        try simulator.approve(userCode: code.userCode, as: (other ?? account).id)
        for await state in session.deviceLinkStateUpdates {
            if case .linked = state { break }
            if case .failed(let error) = state { throw error }
        }
        return code.userCode
    }

    /// What the slot holds.
    var stored: Secret? { store[configuration.credentialSlot] }

    /// The tokens in the slot.
    var storedTokens: ChappieJSON? {
        stored.flatMap { try? ChappieJSON(parsing: $0.withBytes(Array.init)) }?["tokens"]
    }

    /// The refresh token in the slot.
    var refreshToken: String? { storedTokens?["refresh_token"]?.string }

    /// Takes the refresh token out of the slot.
    func loseRefreshToken() throws { try changeTokens { $0["refresh_token"] = nil } }

    /// Leaves a credential in the slot from which no claims can be read.
    func loseAccount() throws {
        try changeTokens { tokens in
            tokens["id_token"] = nil
            tokens["account_id"] = nil
            tokens["access_token"] = "opaque"
        }
    }

    private func changeTokens(_ change: (inout ChappieJSONObject) -> Void) throws {
        let stored = try #require(stored)
        var document = try #require(ChappieJSON(parsing: stored.withBytes(Array.init)).object)
        var tokens = try #require(document["tokens"]?.object)
        change(&tokens)
        document["tokens"] = .object(tokens)
        store[configuration.credentialSlot] = Secret(ChappieJSON.object(document).serializedBytes())
    }
}

/// A turn as its stream told of it.
struct SeenTurn: Sendable {
    /// The answer, and what was said on the way to it.
    var text = ""
    var reasoning = ""
    /// The arguments of the tool calls.
    var calls: [String] = []
    var limits: [ChappieUsageLimitSnapshot] = []
    var response: ChappieResponse?
    var failure: (any Error)?

    init(_ events: AsyncThrowingStream<ChappieStreamEvent, any Error>) async {
        do {
            for try await event in events {
                switch event {
                case .textDelta(let delta), .commentaryDelta(let delta): text += delta
                case .reasoningSummaryDelta(let delta): reasoning += delta
                case .item(let item) where item.isToolCall: calls.append(item.json["arguments"]?.string ?? "")
                case .usageLimits(let snapshot): limits.append(snapshot)
                case .completed(let whole): response = whole
                default: continue
                }
            }
        } catch { failure = error }
    }

    var error: ChappieClientError? { failure as? ChappieClientError }
}

/// A turn as it reached the server, over either transport, with the headers that it came under.
struct ReceivedTurn {
    /// The account whose token it brought.
    let accountID: String
    let sessionID: String
    /// `nil` for server-sent events.
    let webSocket: Int?
    let body: ChappieJSON

    /// The newest thing that was said.
    var question: String { body["input"]?.array?.last?["content"]?[0]?["text"]?.string ?? "" }
    var previousResponseID: String? { body["previous_response_id"]?.string }
    var inputCount: Int { body["input"]?.array?.count ?? 0 }

    /// All turns, those of each conversation in their order.
    ///
    /// Checks on the way, of every request with a token, that its header fields name that token's account and one
    /// conversation, in headers and body alike.
    static func all(_ simulator: Simulator) throws -> [ReceivedTurn] {
        var turns: [ReceivedTurn] = []
        var handshakes: [Int: (accountID: String, sessionID: String)] = [:]
        for request in simulator.receivedRequests {
            guard let authorization = request.header("authorization") else { continue }
            let accountID = try accountID(ofToken: authorization)
            #expect(request.header("chatgpt-account-id") == accountID)
            guard request.target.hasSuffix("/codex/responses") else { continue }
            let sessionID = try #require(request.header("session-id"))
            #expect(request.header("thread-id") == sessionID)
            if request.method == "GET" {
                handshakes[request.connection] = (accountID, sessionID)
            } else {
                let body = try ChappieJSON(parsing: #require(request.decodedBody))
                turns.append(ReceivedTurn(accountID: accountID, sessionID: sessionID, webSocket: nil, body: body))
            }
        }
        for message in simulator.receivedMessages {
            let (accountID, sessionID) = try #require(handshakes[message.connection])
            let body = try ChappieJSON(parsing: message.body)
            turns.append(
                ReceivedTurn(accountID: accountID, sessionID: sessionID, webSocket: message.connection, body: body))
        }
        for turn in turns { #expect(turn.body["prompt_cache_key"]?.string == turn.sessionID) }
        return turns
    }

    /// Reads the claims itself: what the server takes the token for is not asked.
    static func accountID(ofToken authorization: String) throws -> String {
        let parts = authorization.split(separator: ".")
        try #require(parts.count == 3)
        let claims = try ChappieJSON(parsing: #require(Base64URL.decode(String(parts[1]))))
        return try #require(claims["https://api.openai.com/auth"]?["chatgpt_account_id"]?.string)
    }
}
