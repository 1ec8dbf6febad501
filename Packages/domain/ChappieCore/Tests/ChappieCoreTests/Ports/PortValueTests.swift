@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct PortValueTests {
    @Test func `the default deadlines are the documented ones`() {
        let deadlines = ChappieDeadlines.default
        #expect(deadlines.connect == .seconds(15) && deadlines.upgrade == .seconds(15))
        #expect(deadlines.responseHead == .seconds(60) && deadlines.firstByte == .seconds(120))
        #expect(deadlines.idle == .seconds(300) && deadlines.liveness == .seconds(60))
    }

    @Test func deadlinesAreAtLeastAMillisecond() {
        let deadlines = ChappieDeadlines(
            connect: .zero, responseHead: .seconds(-5), firstByte: .microseconds(1), idle: .milliseconds(2))
        #expect(deadlines.connect == .milliseconds(1) && deadlines.responseHead == .milliseconds(1))
        #expect(deadlines.firstByte == .milliseconds(1) && deadlines.idle == .milliseconds(2))
    }

    @Test(
        arguments: [
            .invalidURL, .insecureURL, .invalidCAFile, .proxyFailed, .unknownHost, .connectFailed, .certificateRejected,
            .tlsFailed, .timedOut, .connectionLost, .protocolViolation, .redirectRefused, .bodyTooLarge, .unavailable,
        ] as [ChappieTransportError.Code])
    func aTransportErrorSaysWhereAndWhatToDo(_ code: ChappieTransportError.Code) {
        let error = ChappieTransportError(code, stage: .connect, host: "example.org:8443", reason: "nothing listens")
        let verb = code == .timedOut ? "Timed out" : "Failed"
        #expect(error.errorDescription == "\(verb) connecting to example.org:8443: nothing listens.")
        #expect(error.recoverySuggestion?.hasSuffix(".") == true)
        let homeless = ChappieTransportError(code, stage: .responseBody, host: "", reason: "no host")
        #expect(homeless.errorDescription == "\(verb) reading the answer: no host.")
    }

    @Test func theMachinesClocksRunAndCanBeCancelled() async throws {
        let clock = SystemClock()
        let readings = (0..<1000).map { _ in clock.elapsed }
        #expect(readings == readings.sorted())
        try await clock.sleep(for: .milliseconds(5))
        #expect(try clock.elapsed - #require(readings.last) >= .milliseconds(5))
        let task = Task { try await clock.sleep(for: .seconds(3600)) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
