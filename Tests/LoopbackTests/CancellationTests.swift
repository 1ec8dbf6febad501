import ChappieClient
import ChappieCore
import ChappieSimulator
import Testing

@Suite struct CancellationTests {
    @Test func aCancelledStreamFreesItsSocketWithin100Milliseconds() async throws {
        try await Loopback.run(try SimulatorScenario(named: "stall")) { loopback in
            let handle = loopback.client.startStream(.user("Hello"))
            for try await event in handle.events {
                if case .textDelta = event { break }
            }
            let open = loopback.simulator.openConnectionCount
            let start = ContinuousClock.now
            handle.cancel()
            await #expect(throws: CancellationError.self) { try await handle.response() }
            let ended = ContinuousClock.now - start
            while loopback.simulator.openConnectionCount >= open { await Task.yield() }
            print("cancelled after \(ended), socket gone after \(ContinuousClock.now - start)")
            #expect(ended < .milliseconds(100) * Patience.factor)
        }
    }

    @Test func tokensNeverShowInTheEventsOfATurn() async throws {
        try await Loopback.run { loopback in
            var printed = ""
            for try await event in loopback.client.stream("Hello") { printed += "\(event)" }
            let bearers = loopback.simulator.receivedRequests.compactMap { $0.header("authorization") }
            try #require(!bearers.isEmpty)
            for bearer in bearers { #expect(!printed.contains(bearer.dropFirst("Bearer ".count))) }
        }
    }
}
