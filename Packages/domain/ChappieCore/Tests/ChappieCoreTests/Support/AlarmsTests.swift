import Testing

@_spi(ChappieInternals) @testable import ChappieCore

/// The sleeps that share a timer.
@Suite(.timeLimit(.minutes(1))) struct AlarmsTests {
    private let alarms = Alarms()

    private func sleep(_ duration: Duration) -> Task<Void, any Error> {
        Task { [alarms] in
            let due = SystemClock().elapsed + duration
            try await alarms.sleep(until: due)
            #expect(SystemClock().elapsed >= due)
        }
    }

    @Test func `each sleep ends at its own time, in whatever order they begin`() async throws {
        let sleeps = [60, 20, 40, 1, -1].map { sleep(.milliseconds($0)) }
        for sleep in sleeps { try await sleep.value }
    }

    @Test func `a cancelled sleep ends at once, and the others go on`() async throws {
        let long = sleep(.seconds(3600))
        let short = sleep(.milliseconds(20))
        long.cancel()
        await #expect(throws: CancellationError.self) { try await long.value }
        try await short.value
    }

    @Test func `many sleeps begin and end at the same time`() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<500 {
                group.addTask {
                    if number.isMultiple(of: 2) {
                        try await sleep(.milliseconds(number % 20)).value
                    } else {
                        let cancelled: Task<Void, any Error> = sleep(.seconds(900))
                        cancelled.cancel()
                        await #expect(throws: CancellationError.self) { try await cancelled.value }
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
