import ChappieCore
import Synchronization
import Testing

@testable import ChappieFoundationModels

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

/// Events that the simulator does not send, as a session sees them.
@Suite(.timeLimit(.minutes(2))) struct EventTests {
    /// A model whose rounds are lists of events.
    private struct ScriptedModel: LanguageModel {
        struct Executor: LanguageModelExecutor {
            let rounds: [[ChappieStreamEvent]]
            private let number = Number()

            private final class Number: Sendable {
                let value = Mutex(0)
            }

            init(configuration: [[ChappieStreamEvent]]) { rounds = configuration }

            nonisolated(nonsending) func respond(
                to request: LanguageModelExecutorGenerationRequest, model: ScriptedModel,
                streamingInto channel: LanguageModelExecutorGenerationChannel
            ) async throws {
                let round = number.value.withLock { number in
                    defer { number += 1 }
                    return number
                }
                var output = EventOutput(strict: nil, ignored: [])
                for event in rounds[round] {
                    for event in try output.events(for: event) { await channel.send(event) }
                }
            }
        }

        let executorConfiguration: [[ChappieStreamEvent]]
        var capabilities: LanguageModelCapabilities { LanguageModelCapabilities([.toolCalling]) }
    }

    private static func item(_ json: ChappieJSON) -> ChappieOutputItem { ChappieOutputItem(json) }

    @Test func `arguments in pieces, a summary and cached tokens arrive in the session`() async throws {
        let reasoning = Self.item(["type": "reasoning", "id": "rs_1", "encrypted_content": "opaque"])
        let call = Self.item([
            "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "namespace": "functions",
            "arguments": #"{"town":"Oslo"}"#,
        ])
        let message = Self.item([
            "type": "message", "role": "assistant", "id": "msg_1",
            "content": [["type": "output_text", "text": "Rain."]],
        ])
        let usage = ChappieTokenUsage(
            inputTokens: 100, cachedInputTokens: 80, outputTokens: 20, reasoningTokens: 5, totalTokens: 120)
        func delta(_ text: String) -> ChappieStreamEvent {
            .toolArgumentsDelta(ChappieToolArgumentsDelta(callID: "call_1", name: "weather", delta: text))
        }
        let model = ScriptedModel(executorConfiguration: [
            [
                .created("resp_1"), .reasoningSummaryDelta("I "), .reasoningSummaryDelta("look."), .item(reasoning),
                delta(#"{"town""#), delta(#":"Oslo"}"#), .item(call),
                .completed(ChappieResponse(id: "resp_1", model: "m", items: [reasoning, call], usage: usage)),
            ],
            [
                .created("resp_2"), .textDelta("Ra"), .textDelta("in."), .item(message),
                .completed(ChappieResponse(id: "resp_2", model: "m", items: [message], usage: usage)),
            ],
        ])
        let session = LanguageModelSession(model: model, tools: [Weather()])
        #expect(try await session.respond(to: "Oslo?").content == "Rain.")
        #expect(session.transcript.kinds == ["instructions", "prompt", "reasoning", "calls", "output", "response"])
        #expect(session.usage.input.totalTokenCount == 200 && session.usage.input.cachedTokenCount == 160)
        #expect(session.usage.output.totalTokenCount == 40 && session.usage.output.reasoningTokenCount == 10)

        guard case .reasoning(let thought) = session.transcript[2], case .toolCalls(let calls) = session.transcript[3],
            case .response(let response) = session.transcript[5]
        else { return }
        #expect(thought.segments.text == "I look." && thought.signature == Data(reasoning.json.serializedBytes()))
        #expect(calls.map(\.arguments.jsonString) == [#"{"town":"Oslo"}"#])
        #expect(try calls[0].metadata["chappie.call"]?.value(String.self) == #"{"id":"fc_1","namespace":"functions"}"#)
        #expect(try response.metadata["chappie.items"]?.value(String.self) == #"[{"length":5,"id":"msg_1"}]"#)
        #expect(try response.metadata["chappie.model"]?.value(String.self) == "m")
    }
}
