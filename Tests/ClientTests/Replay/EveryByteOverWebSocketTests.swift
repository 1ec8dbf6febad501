import ChappieClient
import ChappieCore
import ChappieTesting
import HTTPTypes
import Testing

@testable import ChappieWebSocket

/// The frames of an answer go through the real codec, up to the cut.
@Suite struct EveryByteOverWebSocketTests {
    private static let policy = ChappieStreamingTransportPolicy(
        maxWebSocketReconnectionAttempts: 2, fallsBackToHTTPSSE: false)

    /// A server's frames: every third message in two fragments, with a ping between them.
    private func wire(_ answer: ReferenceAnswer) -> [UInt8] {
        var wire: [UInt8] = []
        for (index, event) in answer.events.enumerated() {
            let payload = event.serializedBytes()
            guard index % 3 == 2 else {
                wire += frame(0x81, payload[...])
                continue
            }
            let middle = payload.count / 2
            wire += frame(0x01, payload[..<middle]) + frame(0x89, [1, 2]) + frame(0x80, payload[middle...])
        }
        return wire
    }

    private func frame(_ first: UInt8, _ payload: ArraySlice<UInt8>) -> [UInt8] {
        let count = payload.count
        let length: [UInt8] = count < 126 ? [UInt8(count)] : [126, UInt8(count >> 8), UInt8(count & 0xFF)]
        return [first] + length + payload
    }

    private func messages(in bytes: ArraySlice<UInt8>) -> [WebSocketMessage] {
        var codec = WebSocketCodec(limits: .default, compression: nil)
        var messages: [WebSocketMessage] = []
        for action in bytes.withUnsafeBytes({ codec.receivedBytes($0, nextMaskingKey: { 7 }) }) {
            if case .deliver(let more) = action { messages += more }
        }
        return messages
    }

    private func cut(_ bytes: ArraySlice<UInt8>) -> ScriptedWebSocketOpening {
        .opened(replies: [[.deliver(messages(in: bytes)), .cut]])
    }

    private func whole(_ answer: ReferenceAnswer) -> ScriptedWebSocketOpening {
        .opened(replies: [[.deliver(answer.events.map { $0.serialized() })]])
    }

    @Test func cutOnceAfterEveryByteTheAnswerIsWhole() async {
        let bytes = wire(ReferenceAnswer(serial: 1))
        let again = ReferenceAnswer(serial: 2)
        for offset in bytes.indices {
            let turn = await WitnessedTurn(
                WebSocketStage([cut(bytes[..<offset]), whole(again)], policy: Self.policy).client)
            guard turn.isWhole(again) else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        print("measured: every byte over WebSocket: \(bytes.count) offsets, cut once, the answer whole each time")
    }

    @Test func cutEveryTimeThereIsTheTypedErrorAndWhatWasShownIsExact() async {
        let answer = ReferenceAnswer(serial: 1)
        let bytes = wire(answer)
        for offset in bytes.indices {
            let openings = Array(repeating: cut(bytes[..<offset]), count: 3)
            let turn = await WitnessedTurn(WebSocketStage(openings, policy: Self.policy).client)
            let isLost =
                if case .transportFailed(let error)? = turn.error as? ChappieClientError {
                    error.code == .connectionLost
                } else { false }
            guard isLost || turn.isWhole(answer), Array(answer.text.utf8).starts(with: Array(turn.text.utf8)),
                ReferenceAnswer.reasoning.hasPrefix(turn.reasoning),
                ReferenceAnswer.calls.starts(with: turn.executed)
            else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        print(
            "measured: every byte over WebSocket: \(bytes.count) offsets, cut every time, the error typed and the text exact"
        )
    }

    @Test func whatBreaksOverWebSocketIsWholeOverHTTP() async {
        let bytes = wire(ReferenceAnswer(serial: 1))
        let again = ReferenceAnswer(serial: 2)
        let policy = ChappieStreamingTransportPolicy(maxWebSocketReconnectionAttempts: 0)
        for offset in bytes.indices {
            let answer = ScriptedHTTPAnswer(
                headerFields: [.contentType: "text/event-stream"], body: [.chunk(again.serverSentEvents)])
            let turn = await WitnessedTurn(
                WebSocketStage([cut(bytes[..<offset])], http: [answer], policy: policy).client)
            guard turn.isWhole(again), turn.transportEvents.last == .connected(.serverSentEvents) else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        print("measured: every byte over WebSocket: \(bytes.count) offsets, cut once, the rest over HTTP")
    }
}
