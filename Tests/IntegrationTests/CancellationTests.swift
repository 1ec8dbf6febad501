import ChappieClient
import ChappieCore
import ChappieSimulator
import Testing

@Suite struct CancellationTests {
    /// A busy machine may miss the limit once, not three times.
    @Test func aCancelledStreamFreesItsSocketWithin100Milliseconds() async throws {
        var times: [Duration] = []
        for _ in 0..<3 {
            try await Loopback.run(try SimulatorScenario(named: "stall")) { loopback in
                let handle = loopback.client.startStream(.user("Hello"))
                for try await event in handle.events {
                    if case .textDelta = event { break }
                }
                let open = loopback.simulator.openConnectionCount
                let start = ContinuousClock.now
                handle.cancel()
                await #expect(throws: CancellationError.self) { try await handle.response() }
                while loopback.simulator.openConnectionCount >= open { await Task.yield() }
                times.append(ContinuousClock.now - start)
            }
            if times.last.map({ $0 < .milliseconds(100) * Patience.factor }) == true { return }
        }
        Issue.record("It took \(times).")
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
