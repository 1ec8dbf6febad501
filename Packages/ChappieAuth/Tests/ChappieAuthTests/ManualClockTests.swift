import ChappieTesting
import FoundationEssentials
import Testing

@Suite struct ManualClockTests {
    @Test func sleepersResumeInTheOrderOfTheirDeadlines() async throws {
        let clock = ManualClock()
        try await withThrowingTaskGroup(of: Int.self) { group in
            for seconds in [3, 1, 2] {
                group.addTask {
                    try await clock.sleep(for: .seconds(seconds))
                    return seconds
                }
            }
            await clock.waitForSleepers(count: 3)
            for expected in 1...3 {
                clock.advance(by: .seconds(1))
                let seconds = try await group.next()
                #expect(seconds == expected)
                #expect(clock.sleeperCount == 3 - expected)
            }
        }
    }

    @Test func aCancelledSleeperWakesAtOnce() async {
        let clock = ManualClock()
        let task = Task { try await clock.sleep(for: .seconds(1)) }
        await clock.waitForSleepers(count: 1)
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(clock.sleeperCount == 0)
    }

    @Test func settingTheWallLetsNoTimePass() {
        let clock = ManualClock()
        clock.setWall(to: Date(timeIntervalSince1970: 0))
        #expect(clock.now == Date(timeIntervalSince1970: 0))
        #expect(clock.elapsed == .zero)
        clock.advance(by: .milliseconds(1500))
        #expect(clock.now == Date(timeIntervalSince1970: 1.5))
        #expect(clock.elapsed == .milliseconds(1500))
    }
}
