import ChappieSDK
import ChappieSDKTesting
import Testing

/// A simulator, and what the front door makes for an app that talks to it; the credential is in memory.
struct Simulated: Sendable {
    let simulator: Simulator
    let store = InMemoryCredentialStore()
    var configuration: ChappieConfiguration

    /// - Parameters:
    ///   - scenario: one of the simulator's own.
    ///   - signedIn: whether a user is signed in when `body` begins.
    nonisolated(nonsending) static func run(
        _ scenario: String? = nil, signedIn: Bool = true, _ body: (Simulated) async throws -> Void
    ) async throws {
        let simulator = try await Simulator.start(
            SimulatorConfiguration(pollInterval: 0, scenario: try scenario.map(SimulatorScenario.init(named:))))
        let simulated = Simulated(
            simulator: simulator,
            configuration: ChappieConfiguration(
                rateLimitBackoff: .disabled,
                endpoints: ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend),
                network: ChappieNetworkPolicy(proxy: .none)))
        do {
            if signedIn {
                try await simulated.session().signIn { code in try simulator.approve(userCode: code.userCode) }
            }
            try await body(simulated)
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    @MainActor func session() async -> ChappieAuthSession {
        await Chappie.loadedAuthSession(configuration: configuration, store: .custom(store))
    }

    func client(
        tools: [ChappieHostTool] = [], streamingTransportPolicy: ChappieStreamingTransportPolicy = .httpSSEOnly,
        toolApprovalHandler: ChappieToolApprovalHandler? = nil
    ) -> ChappieClient {
        Chappie.client(
            configuration: configuration, tools: tools, store: .custom(store),
            streamingTransportPolicy: streamingTransportPolicy, toolApprovalHandler: toolApprovalHandler)
    }

    /// The bodies of the requests for a turn.
    var turns: [ChappieJSONValue] {
        simulator.receivedRequests.filter { $0.method == "POST" && $0.target.hasSuffix("/responses") }
            .compactMap { try? ChappieJSONValue(parsing: $0.body) }
    }
}
