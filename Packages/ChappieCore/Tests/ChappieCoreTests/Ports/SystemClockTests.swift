@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct SystemClockTests {
    @Test func elapsedNeverGoesBack() {
        let clock = SystemClock()
        let readings = (0..<1000).map { _ in clock.elapsed }
        #expect(readings == readings.sorted())
    }

    @Test func sleepTakesAtLeastAsLongAsAsked() async throws {
        let clock = SystemClock()
        let start = clock.elapsed
        try await clock.sleep(for: .milliseconds(5))
        #expect(clock.elapsed - start >= .milliseconds(5))
    }

    @Test func aCancelledSleepEndsWithCancellation() async {
        let task = Task { try await SystemClock().sleep(for: .seconds(3600)) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
