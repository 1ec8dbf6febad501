import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieWebSocket

/// A reference answer, cut after every byte: a body of server-sent events, and frames that go through the real codec.
@Suite struct EveryCutTests {
    enum Wire: String, CaseIterable, Sendable { case sse, webSocket }

    /// The attempts of one turn, and the client that makes them.
    private struct Script {
        var openings: [ScriptedWebSocketOpening] = []
        var answers: [ScriptedHTTPAnswer] = []

        func client(_ policy: ChappieStreamingTransportPolicy) -> ChappieClient {
            let (clock, still) = (HastyClock(), ManualClock())
            let http = ScriptedHTTPTransport(clock: still, answers: answers)
            let seed = SeededAuth(expiresAt: clock.now.addingTimeInterval(86_400))
            return ChappieClient(
                configuration: ChappieConfiguration(streamingTransportPolicy: policy), transport: http,
                webSocket: ScriptedWebSocketTransport(clock: still, openings: openings),
                credentials: seed.manager(transport: http, clock: still), clock: clock, entropy: FixedEntropy())
        }

        mutating func add(_ answer: ReferenceAnswer, cutAfter count: Int? = nil, over wire: Wire) {
            switch wire {
            case .sse:
                var steps: [ScriptedHTTPAnswer.Step] = [.chunk(Array(answer.serverSentEvents.prefix(count ?? .max)))]
                if count != nil { steps.append(.cut) }
                answers.append(ScriptedHTTPAnswer(headerFields: [.contentType: "text/event-stream"], body: steps))
            case .webSocket:
                let steps: [ScriptedWebSocketStep] =
                    count.map { [.deliver(answer.messages(inFirst: $0)), .cut] }
                    ?? [.deliver(answer.events.map { $0.serialized() })]
                openings.append(.opened(replies: [steps]))
            }
        }
    }

    private static func policy(_ wire: Wire) -> ChappieStreamingTransportPolicy {
        ChappieStreamingTransportPolicy(
            prefersWebSocket: wire == .webSocket, maxWebSocketReconnectionAttempts: 2, fallsBackToHTTPSSE: false)
    }

    private static let reference = ReferenceAnswer(serial: 1)

    private func size(_ wire: Wire) -> Int {
        wire == .sse ? Self.reference.serverSentEvents.count : Self.reference.frames.count
    }

    @Test(arguments: Wire.allCases) func cutOnceTheAnswerIsWhole(wire: Wire) async {
        let again = ReferenceAnswer(serial: 2)
        for offset in 0..<size(wire) {
            var script = Script()
            script.add(Self.reference, cutAfter: offset, over: wire)
            script.add(again, over: wire)
            let turn = await WitnessedTurn(script.client(Self.policy(wire)))
            guard turn.isWhole(again) else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        print("measured: every byte over \(wire): \(size(wire)) offsets, cut once, the answer whole each time")
    }

    @Test(arguments: Wire.allCases) func cutEveryTimeTheErrorIsTypedAndTheTextExact(wire: Wire) async {
        for offset in 0..<size(wire) {
            var script = Script()
            for _ in 1...3 { script.add(Self.reference, cutAfter: offset, over: wire) }
            let turn = await WitnessedTurn(script.client(Self.policy(wire)))
            let isLost =
                if case .transportFailed(let error)? = turn.error {
                    error.code == .connectionLost
                } else { false }
            // The terminal event may be whole before the last bytes of its frame.
            guard isLost || turn.isWhole(Self.reference),
                Array(Self.reference.text.utf8).starts(with: Array(turn.text.utf8)),
                ReferenceAnswer.reasoning.hasPrefix(turn.reasoning), ReferenceAnswer.calls.starts(with: turn.executed)
            else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        print("measured: every byte over \(wire): \(size(wire)) offsets, cut every time, the error typed")
    }

    @Test func aBreakOverWebSocketIsWholeOverHTTP() async {
        let again = ReferenceAnswer(serial: 2)
        let policy = ChappieStreamingTransportPolicy(maxWebSocketReconnectionAttempts: 0)
        for offset in 0..<size(.webSocket) {
            var script = Script()
            script.add(Self.reference, cutAfter: offset, over: .webSocket)
            script.add(again, over: .sse)
            let turn = await WitnessedTurn(script.client(policy))
            guard turn.isWhole(again), turn.transportEvents.last == .connected(.serverSentEvents) else {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        print("measured: every byte over WebSocket: \(size(.webSocket)) offsets, cut once, the rest over HTTP")
    }

    @Test func anotherAnswerAfterTheCutIsFoundOut() async {
        var other = ReferenceAnswer(serial: 2)
        other.text = "It rains everywhere."
        var divergences = 0
        for offset in 0..<size(.sse) {
            var script = Script()
            script.add(Self.reference, cutAfter: offset, over: .sse)
            script.add(other, over: .sse)
            let turn = await WitnessedTurn(script.client(Self.policy(.sse)))
            if turn.error == .streamingTransportReplayDiverged(turn.text), !turn.text.isEmpty {
                divergences += 1
            } else if !turn.isWhole(other) {
                Issue.record("cut after \(offset) bytes: \(turn)")
                return
            }
        }
        #expect(divergences > size(.sse) / 3)
        print("measured: every byte over SSE: \(size(.sse)) offsets, another answer, \(divergences) divergences named")
    }
}

/// An answer with everything in it: reasoning, text beyond ASCII, a message item, two tool calls.
private struct ReferenceAnswer: Sendable {
    /// Goes into the ids: each time the backend answers, they are others.
    let serial: Int
    var text = "Zürich 👩‍👩‍👧: 21 °C. Bern: “18 °C” — e\u{301}t voilà."

    static let reasoning = "**Two cities** — ask for both."
    static let calls = [#"{"city":"Zürich"}"#, #"{"city":"Bern"}"#]

    var events: [ChappieJSON] {
        let id = ChappieJSON.string("resp_\(serial)")
        func delta(_ kind: String, _ piece: String) -> ChappieJSON {
            ["type": .string("response.\(kind).delta"), "item_id": .string("i_\(serial)"), "delta": .string(piece)]
        }
        func done(_ item: ChappieJSON) -> ChappieJSON { ["type": "response.output_item.done", "item": item] }
        let calls = Self.calls.enumerated().map { index, arguments in
            done([
                "type": "function_call", "id": .string("fc_\(serial)_\(index)"),
                "call_id": .string("call_\(serial)_\(index)"), "name": "weather", "arguments": .string(arguments),
            ])
        }
        return [
            ["type": "response.created", "response": ["id": id, "status": "in_progress"]],
            ["type": "response.reasoning_summary_part.added", "summary_index": 0],
        ] + pieces(of: Self.reasoning, by: 9).map { delta("reasoning_summary_text", $0) } + [
            done([
                "type": "reasoning", "id": .string("rs_\(serial)"), "encrypted_content": .string("gAAA\(serial)"),
                "summary": [["type": "summary_text", "text": .string(Self.reasoning)]],
            ])
        ]
            // Another cutting each time, as a backend's own: the text counts.
            + pieces(of: text, by: 3 + serial % 4).map { delta("output_text", $0) } + [
                done([
                    "type": "message", "id": .string("msg_\(serial)"), "role": "assistant",
                    "content": [["type": "output_text", "text": .string(text)]],
                ])
            ] + calls + [
                ["type": "response.completed", "response": ["id": id, "status": "completed", "usage": .null]]
            ]
    }

    /// As the body of an HTTP answer.
    var serverSentEvents: [UInt8] {
        Array(events.map { "event: \($0["type"]?.string ?? "")\ndata: \($0.serialized())\n\n" }.joined().utf8)
    }

    /// As a server's frames: every third message in two fragments, with a ping between them.
    var frames: [UInt8] {
        var wire: [UInt8] = []
        for (index, event) in events.enumerated() {
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

    /// The messages that the codec finds in the first bytes of the frames.
    func messages(inFirst count: Int) -> [WebSocketMessage] {
        var codec = WebSocketCodec(limits: .default, compression: nil)
        var messages: [WebSocketMessage] = []
        for action in frames.prefix(count).withUnsafeBytes({ codec.receivedBytes($0, nextMaskingKey: { 7 }) }) {
            if case .deliver(let more) = action { messages += more }
        }
        return messages
    }

    private func frame(_ first: UInt8, _ payload: ArraySlice<UInt8>) -> [UInt8] {
        let count = payload.count
        let length: [UInt8] = count < 126 ? [UInt8(count)] : [126, UInt8(count >> 8), UInt8(count & 0xFF)]
        return [first] + length + payload
    }

    /// By Unicode scalars: a backend cuts inside what a person sees as one character.
    private func pieces(of text: String, by size: Int) -> [String] {
        let scalars = Array(text.unicodeScalars)
        return stride(from: 0, to: scalars.count, by: size).map { start in
            String(String.UnicodeScalarView(scalars[start..<min(start + size, scalars.count)]))
        }
    }
}

/// What a host saw of one turn, and what it did.
struct WitnessedTurn {
    var text = ""
    var reasoning = ""
    /// The tool calls as they were carried out, by their arguments.
    var executed: [String] = []
    var error: ChappieClientError?
    var transportEvents: [ChappieTransportEvent] = []

    init(_ client: ChappieClient, asking message: ChappieInputMessage = .user("weather?")) async {
        do {
            for try await event in client.stream(message) {
                switch event {
                case .textDelta(let delta): text += delta
                case .reasoningSummaryDelta(let delta): reasoning += delta
                // A host that carries a call out the moment it is told.
                case .item(let item) where item.isToolCall: executed.append(item.json["arguments"]?.string ?? "")
                case .transport(let event): transportEvents.append(event)
                default: break
                }
            }
        } catch { self.error = error as? ChappieClientError }
    }

    /// Whether the host saw and did the same, however it travelled.
    func hasSameContent(as other: WitnessedTurn) -> Bool {
        (text, reasoning, executed) == (other.text, other.reasoning, other.executed) && error == other.error
    }

    /// Whether this is the whole reference answer. It ends in the error for tools that the program does not have.
    fileprivate func isWhole(_ reference: ReferenceAnswer) -> Bool {
        Array(text.utf8) == Array(reference.text.utf8) && reasoning == ReferenceAnswer.reasoning
            && executed == ReferenceAnswer.calls && error == .missingToolHandler("weather")
    }
}
