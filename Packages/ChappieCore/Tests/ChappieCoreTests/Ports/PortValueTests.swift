@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ChappieNetworkPolicyTests {
    @Test func theDefaultsAreAsDocumented() {
        let policy = ChappieNetworkPolicy.default
        #expect(policy.proxy == .environment && policy.extraCAFile == nil && policy.deadlines == .default)
        let deadlines = ChappieDeadlines()
        #expect(deadlines.connect == .seconds(15) && deadlines.responseHead == .seconds(60))
        #expect(deadlines.firstByte == .seconds(120) && deadlines.idle == .seconds(300))
    }

    @Test func deadlinesAreAtLeastAMillisecond() {
        let deadlines = ChappieDeadlines(
            connect: .zero, responseHead: .seconds(-5), firstByte: .microseconds(1), idle: .milliseconds(2))
        #expect(deadlines.connect == .milliseconds(1) && deadlines.responseHead == .milliseconds(1))
        #expect(deadlines.firstByte == .milliseconds(1) && deadlines.idle == .milliseconds(2))
    }
}

@Suite struct ChappieTransportErrorTests {
    static let codes: [ChappieTransportError.Code] = [
        .invalidURL, .insecureURL, .invalidCAFile, .proxyFailed, .unknownHost, .connectFailed, .certificateRejected,
        .tlsFailed, .timedOut,
        .connectionLost, .protocolViolation, .redirectRefused, .bodyTooLarge, .unavailable,
    ]

    @Test("names host, stage and reason, and what to do", arguments: codes)
    func isForPeople(_ code: ChappieTransportError.Code) throws {
        let error = ChappieTransportError(
            code, stage: .connect, host: "example.org:8443", reason: "nothing listens there")
        let text = try #require(error.errorDescription)
        #expect(
            text.contains("connecting to") && text.contains("example.org:8443")
                && text.contains("nothing listens there"))
        #expect(try #require(error.recoverySuggestion).hasSuffix("."))
    }

    @Test func leavesTheHostOutWhereThereIsNone() {
        let error = ChappieTransportError(
            .invalidURL, stage: .configuration, host: "", reason: "the address has no host")
        #expect(error.errorDescription == "Failed preparing a request: the address has no host.")
    }
}

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
