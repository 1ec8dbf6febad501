import ChappieSimulatorServer
import FoundationEssentials
import TestFixtures
import Testing

@Suite(.timeLimit(.minutes(3)))
struct StartTests {
    private func failure(_ configuration: SimulatorConfiguration) async -> SimulatorError? {
        await #expect(throws: SimulatorError.self) { try await Simulator.start(configuration) }
    }

    @Test func aPortInUseIsASentence() async throws {
        let simulator = try await Simulator.start()
        let error = await failure(SimulatorConfiguration(port: simulator.port))
        #expect(error?.code == .portInUse)
        #expect(error?.errorDescription == "Port \(simulator.port) of 127.0.0.1 is already in use.")
        #expect(error?.recoverySuggestion?.isEmpty == false)
        await simulator.stop()
    }

    @Test(arguments: ["0.0.0.0", "192.168.1.1", "example.com", "::"])
    func listensOnLoopbackOnly(host: String) async {
        #expect(await failure(SimulatorConfiguration(host: host))?.code == .notLoopback)
    }

    @Test func settingsHaveBounds() async {
        let bad = [
            SimulatorConfiguration(port: 70_000), SimulatorConfiguration(pollInterval: -1),
            SimulatorConfiguration(deltasPerSecond: 0), SimulatorConfiguration(deltasPerSecond: .nan),
            SimulatorConfiguration(accessTokenLifetime: .seconds(-1)),
            SimulatorConfiguration(webSocketPingInterval: .seconds(-1)),
            SimulatorConfiguration(usage: SimulatorUsage(primaryUsedPercent: 1e300)),
            SimulatorConfiguration(otherAccounts: [SimulatorAccount()]),
        ]
        for configuration in bad { #expect(await failure(configuration)?.code == .invalidConfiguration) }
    }
}
