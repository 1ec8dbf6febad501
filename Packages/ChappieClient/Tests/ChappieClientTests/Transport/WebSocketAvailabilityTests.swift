import Testing

@testable import ChappieClient

@Suite struct WebSocketAvailabilityTests {
    @Test func pausesGrowAndEnd() {
        var availability = WebSocketAvailability()
        var now = Duration.seconds(1000)
        #expect(availability.mayTry(at: now))
        for pause in [30, 60, 120, 240, 480, 900, 900] {
            availability.failed(at: now)
            #expect(!availability.mayTry(at: now + .seconds(pause - 1)))
            now += .seconds(pause)
            #expect(availability.mayTry(at: now))
        }
        availability.succeeded()
        availability.failed(at: now)
        #expect(availability.mayTry(at: now + .seconds(30)))
    }
}
