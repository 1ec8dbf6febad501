import ChappieCore
import Testing

@testable import ChappieClient

@Suite struct AnswerAllowanceTests {
    @Test func isUsedUpToTheLastByte() throws {
        var allowance = AnswerAllowance(limit: 10, host: "h")
        try allowance.received(4)
        try allowance.received(6)
        try allowance.received(0)
        #expect(
            throws: ChappieTransportError(
                .bodyTooLarge, stage: .responseBody, host: "h", reason: "the answer is over 10 bytes")
        ) { try allowance.received(1) }
    }

    @Test func theLargestPieceDoesNotOverflow() {
        var allowance = AnswerAllowance(host: "h")
        #expect(throws: ChappieTransportError.self) { try allowance.received(.max) }
    }

    @Test func isTheLastWordOverBothTransports() {
        let error = ChappieTransportError(.bodyTooLarge, stage: .responseBody, host: "h", reason: "r")
        for kind in [ChappieTransportEvent.Kind.webSocket, .serverSentEvents] {
            guard case .final(let final) = AttemptFailure(error, over: kind) else {
                Issue.record("not final over \(kind)")
                return
            }
            #expect(final as? ChappieClientError == .transportFailed(error))
        }
    }
}
