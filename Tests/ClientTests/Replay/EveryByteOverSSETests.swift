import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

@Suite struct EveryByteOverSSETests {
    private func client(_ answers: [ScriptedHTTPAnswer]) -> ChappieClient {
        let clock = HastyClock()
        let transport = ScriptedHTTPTransport(clock: clock, answers: answers)
        let seed = SeededAuth(expiresAt: clock.now.addingTimeInterval(86_400))
        return ChappieClient(
            configuration: ChappieConfiguration(streamingTransportPolicy: .httpSSEOnly), transport: transport,
            credentials: seed.manager(transport: transport, clock: clock), clock: clock, entropy: FixedEntropy())
    }

    private func answer(_ bytes: [UInt8], isCut: Bool) -> ScriptedHTTPAnswer {
        var answer = ScriptedHTTPAnswer(headerFields: [.contentType: "text/event-stream"], body: [])
        if !bytes.isEmpty { answer.body.append(.chunk(bytes)) }
        if isCut { answer.body.append(.cut) }
        return answer
    }

    @Test func cutOnceAfterEveryByteTheAnswerIsWhole() async {
        let bytes = ReferenceAnswer(serial: 1).serverSentEvents
        let again = ReferenceAnswer(serial: 2)
        for offset in bytes.indices {
            let turn = await WitnessedTurn(
                client([
                    answer(Array(bytes[..<offset]), isCut: true), answer(again.serverSentEvents, isCut: false),
                ]))
            guard turn.isWhole(again) else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        print("measured: every byte over SSE: \(bytes.count) offsets, cut once, the answer whole each time")
    }

    @Test func cutEveryTimeThereIsTheTypedErrorAndWhatWasShownIsExact() async {
        let bytes = ReferenceAnswer(serial: 1).serverSentEvents
        let whole = Array(ReferenceAnswer(serial: 1).text.utf8)
        for offset in bytes.indices {
            let cut = answer(Array(bytes[..<offset]), isCut: true)
            let turn = await WitnessedTurn(client([cut, cut, cut]))
            let isLost =
                if case .transportFailed(let error)? = turn.error as? ChappieClientError {
                    error.code == .connectionLost
                } else { false }
            // The terminal event may be whole before the last bytes of its frame.
            guard isLost || turn.isWhole(ReferenceAnswer(serial: 1)), whole.starts(with: Array(turn.text.utf8)),
                ReferenceAnswer.reasoning.hasPrefix(turn.reasoning),
                ReferenceAnswer.calls.starts(with: turn.executed)
            else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        print(
            "measured: every byte over SSE: \(bytes.count) offsets, cut every time, the error typed and the text exact")
    }

    @Test func anotherAnswerAfterTheCutIsFoundOut() async {
        let bytes = ReferenceAnswer(serial: 1).serverSentEvents
        var other = ReferenceAnswer(serial: 2)
        other.text = "It rains everywhere."
        var divergences = 0
        for offset in bytes.indices {
            let turn = await WitnessedTurn(
                client([
                    answer(Array(bytes[..<offset]), isCut: true), answer(other.serverSentEvents, isCut: false),
                ]))
            if turn.error as? ChappieClientError == .streamingTransportReplayDiverged(turn.text), !turn.text.isEmpty {
                divergences += 1
                continue
            }
            guard turn.isWhole(other) else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        #expect(divergences > bytes.count / 3)
        print("measured: every byte over SSE: \(bytes.count) offsets, another answer, \(divergences) divergences named")
    }
}
