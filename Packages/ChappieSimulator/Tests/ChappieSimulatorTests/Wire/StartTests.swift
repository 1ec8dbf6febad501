import ChappieSimulator
import FoundationEssentials
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
        ]
        for configuration in bad { #expect(await failure(configuration)?.code == .invalidConfiguration) }
    }

    @Test func itsAddressesNameThePortAndTheSocketIsFreedByStop() async throws {
        let first = try await Simulator.start()
        #expect(first.issuer.absoluteString == "http://127.0.0.1:\(first.port)")
        #expect(first.backend.absoluteString == "http://127.0.0.1:\(first.port)/backend-api")
        #expect(first.verificationPage.absoluteString == "http://127.0.0.1:\(first.port)/codex/device")
        let port = first.port
        await first.stop()
        await first.stop()
        let second = try await Simulator.start(SimulatorConfiguration(host: "localhost", port: port))
        #expect(second.port == port)
        await second.stop()
    }

    @Test func listensOnIPv6WhenAsked() async throws {
        try await Simulator.during(SimulatorConfiguration(host: "::1")) { simulator in
            #expect(simulator.issuer.absoluteString == "http://[::1]:\(simulator.port)")
            let page = try Curl("GET", "http://[::1]:\(simulator.port)/codex/device", options: ["-g"])
            #expect(page.status == 200)
        }
    }
}
