@_spi(ChappieInternals) import ChappieCore
import Testing

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
