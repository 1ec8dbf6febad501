import ChappieCore
import Testing

@testable import ChappieClient

@Suite struct AttemptFailureTests {
    private func word(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage,
        _ kind: ChappieTransportEvent.Kind = .webSocket
    ) -> String {
        let error = ChappieTransportError(code, stage: stage, host: "h", reason: "r")
        return switch AttemptFailure(error, over: kind) {
        case .final: "final"
        case .broken: "broken"
        case .silent: "silent"
        case .unreachable: "unreachable"
        case .upgradeFailed: "upgrade"
        default: "other"
        }
    }

    @Test func eachTransportErrorHasItsMeaning() {
        #expect(word(.unknownHost, .connect) == "unreachable")
        #expect(word(.connectFailed, .connect) == "unreachable")
        #expect(word(.proxyFailed, .connect) == "unreachable")
        #expect(word(.timedOut, .tls) == "unreachable")
        #expect(word(.certificateRejected, .tls) == "final")
        #expect(word(.insecureURL, .configuration) == "final")
        #expect(word(.invalidCAFile, .tls) == "final")
        #expect(word(.connectionLost, .message) == "broken")
        #expect(word(.connectionLost, .responseBody, .serverSentEvents) == "broken")
        #expect(word(.protocolViolation, .message) == "broken")
        #expect(word(.timedOut, .liveness) == "broken")
        #expect(word(.timedOut, .message) == "silent")
        #expect(word(.bodyTooLarge, .message) == "silent")
        #expect(word(.timedOut, .firstByte, .serverSentEvents) == "silent")
        #expect(word(.timedOut, .responseHead, .serverSentEvents) == "silent")
        #expect(word(.timedOut, .responseHead) == "upgrade")
        #expect(word(.connectionLost, .responseHead) == "upgrade")
        #expect(word(.protocolViolation, .responseHead) == "upgrade")
        #expect(word(.protocolViolation, .responseHead, .serverSentEvents) == "final")
    }

    @Test func aDivergenceNamesWhatWasShown() {
        guard
            case .final(let error) = AttemptFailure(ReplayDivergence(deliveredText: "Hel"), over: .webSocket)
        else {
            Issue.record("not final")
            return
        }
        #expect(error as? ChappieClientError == .streamingTransportReplayDiverged("Hel"))
    }
}
