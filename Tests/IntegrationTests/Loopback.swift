import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieCurl
import ChappieHTTP
import ChappieSimulator
import ChappieTesting
import ChappieWebSocket

/// A signed-in client that talks to a simulator over real sockets.
struct Loopback {
    let simulator: Simulator
    let client: ChappieClient
    /// Another conversation under the same sign-in.
    let newClient: @Sendable () -> ChappieClient

    /// Deadlines short enough for a test, long enough for a busy machine.
    static let deadlines = ChappieDeadlines(
        connect: .seconds(5), responseHead: .seconds(1), firstByte: .seconds(1), idle: .seconds(1))

    /// Server-sent events without second attempts: those have tests of their own.
    static let firstFailureCounts = ChappieStreamingTransportPolicy(
        prefersWebSocket: false, maxHTTPSSEReconnectionAttempts: 0)

    static func run(
        _ scenario: SimulatorScenario? = nil, deadlines: ChappieDeadlines = ChappieDeadlines(),
        backoff: ChappieRateLimitBackoffPolicy = ChappieRateLimitBackoffPolicy(initialDelay: 0.01),
        policy: ChappieStreamingTransportPolicy = Loopback.firstFailureCounts,
        clock: any ChappieClock = SystemClock(),
        _ body: (Loopback) async throws -> Void
    ) async throws {
        let simulator = try await Simulator.start(
            SimulatorConfiguration(
                autoApprove: true, pollInterval: 0, scenario: scenario, recordedRequestLimit: 4096))
        let patient = ChappieDeadlines(
            connect: deadlines.connect * Patience.factor, responseHead: deadlines.responseHead * Patience.factor,
            firstByte: deadlines.firstByte * Patience.factor, idle: deadlines.idle * Patience.factor)
        let network = CurlNetwork(policy: ChappieNetworkPolicy(proxy: .none, deadlines: patient))
        let transport = CurlHTTPTransport(network: network)
        let webSocket = CurlWebSocketTransport(network: network)
        let endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
        let slot = CredentialSlot()
        let store = InMemoryCredentialStore()
        do {
            // One manager signs in and another finds what it stored, as two runs of a program would: a manager does not
            // renew tokens that it has just been given.
            try await signIn(
                CredentialManager(
                    slot: slot, store: store, transport: transport, endpoints: endpoints, lock: NoCredentialLock()))
            let newClient: @Sendable () -> ChappieClient = {
                var configuration = ChappieConfiguration(
                    rateLimitBackoff: backoff, streamingTransportPolicy: policy, endpoints: endpoints)
                configuration.network.deadlines = patient
                return ChappieClient(
                    configuration: configuration, transport: transport, webSocket: webSocket,
                    credentials: CredentialManager(
                        slot: slot, store: store, transport: transport, endpoints: endpoints, lock: NoCredentialLock()),
                    clock: clock)
            }
            try await body(Loopback(simulator: simulator, client: newClient(), newClient: newClient))
        } catch {
            transport.shutdown()
            await simulator.stop()
            throw error
        }
        transport.shutdown()
        await simulator.stop()
    }

    @MainActor
    private static func signIn(_ manager: CredentialManager) async throws {
        let session = ChappieAuthSession(credentials: manager)
        try await session.startDeviceCodeSignIn()
        for await state in session.deviceLinkStateUpdates {
            if case .linked = state { return }
            if case .failed(let error) = state { throw error }
        }
    }

    /// Streams an answer; gives the text that was shown and how it ended.
    func ask(_ text: String) async -> (shown: String, end: Result<ChappieResponse, any Error>) {
        var shown = ""
        var response: ChappieResponse?
        do {
            for try await event in client.stream(text) {
                if case .textDelta(let delta) = event { shown += delta }
                if case .completed(let whole) = event { response = whole }
            }
        } catch { return (shown, .failure(error)) }
        return (shown, response.map { .success($0) } ?? .failure(ChappieClientError.invalidResponse))
    }

    /// How many Responses requests the simulator has seen, over HTTP and WebSocket.
    var turns: Int {
        simulator.receivedRequests.count { $0.method == "POST" && $0.target.hasSuffix("/codex/responses") }
            + simulator.receivedMessages.count
    }
}
