import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import HTTPTypes
import Testing

/// The simulator in memory answers as the one behind sockets does.
@Suite(.timeLimit(.minutes(3))) struct InMemoryTests {
    /// The end of a turn, as far as the wire has no part in it.
    private struct Outcome: Equatable {
        let text: String
        let status: String?
        let failure: String?

        init(_ turn: SeenTurn) {
            text = turn.text
            status = turn.response.map { "\($0.status)" }
            failure =
                switch turn.failure {
                case ChappieClientError.transportFailed(let error)?: "\(error.code)"
                case ChappieClientError.httpError(let status, _)?: "status \(status)"
                case let error?: String("\(error)".prefix { $0 != "(" })
                case nil: nil
                }
        }
    }

    private static let policies = [
        ChappieStreamingTransportPolicy(prefersWebSocket: false, maxHTTPSSEReconnectionAttempts: 0),
        Tenant.webSocketOnly,
    ]

    private func simulator(_ scenario: String? = nil, clock: any ChappieClock = SystemClock()) throws
        -> InMemorySimulator
    {
        try InMemorySimulator(
            SimulatorConfiguration(
                autoApprove: true, pollInterval: 0, scenario: try scenario.map(SimulatorScenario.init(named:)),
                clock: clock))
    }

    @Test(arguments: [0, 1])
    func aConversationNeedsNoSocket(policy: Int) async throws {
        let simulator = try simulator()
        let client = try await simulator.client(Self.policies[policy])
        #expect(try await client.send("reply: Grüße 🌍") == "Grüße 🌍")
        #expect(try await client.send("reply: and again") == "and again")
        #expect(try await !client.models().isEmpty)
        let turns = simulator.transport.receivedRequests.filter {
            $0.method == .post && $0.url.path().hasSuffix("/responses")
        }
        #expect(turns.count == (policy == 0 ? 2 : 0))
        #expect(simulator.webSocket.peers.map(\.sentMessages.count) == (policy == 0 ? [] : [2]))
    }

    @Test(
        arguments: [
            "unknown-events", "unauthorized-once", "cut", "cut-rst", "cut-forever", "hang-up", "server-error-forever",
            "blocked", "rate-limit", "usage-limit", "html", "not-json", "redirect-elsewhere", "incomplete", "diverge",
            "slow-head", "slow-body",
        ], [0, 1])
    func aScenarioEndsInMemoryAsOverASocket(name: String, policy: Int) async throws {
        let question = "reply: as many words as a cut needs, and then some more of them"
        let here = await SeenTurn(
            try simulator(name, clock: HastyClock(now: Date())).client(Self.policies[policy]).stream(question))
        try await Loopback.run(SimulatorScenario(named: name)) { loopback in
            let there = await SeenTurn(loopback.client(Self.policies[policy]).stream(question))
            #expect(Outcome(here) == Outcome(there))
        }
    }

    @Test(arguments: ["ws-426", "ws-hang-up", "ws-401-once", "ws-cut", "ws-hang-up-message"])
    func aFaultOfWebSocketLeavesTheWholeAnswer(scenario: String) async throws {
        let client = try await simulator(scenario).client(.default)
        #expect(try await client.send("reply: one whole answer") == "one whole answer")
    }

    @Test(arguments: ["stall", "drip", "close-delimited", "ws-hang", "ws-pings"])
    func aScenarioAboutAConnectionIsRefused(name: String) throws {
        let error = #expect(throws: SimulatorError.self) { try simulator(name) }
        #expect(error?.code == .needsSocket)
        #expect(error?.recoverySuggestion?.contains("chappie simulator") == true)
    }

    @Test func anotherAddressIsNotInThisProcess() async throws {
        let simulator = try simulator()
        let url = try #require(URL(string: "http://127.0.0.1:9/backend-api/wham/usage"))
        await #expect(throws: ChappieTransportError.self) {
            try await simulator.transport.send(HTTPExchangeRequest(url: url))
        }
        await #expect(throws: ChappieTransportError.self) { try await simulator.webSocket.open(url, headerFields: [:]) }
    }
}
