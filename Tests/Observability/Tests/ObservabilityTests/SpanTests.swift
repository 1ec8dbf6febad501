import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieObservability
import InMemoryTracing
import Testing
import Tracing

/// Operations become spans with the documented names and attributes.
@Suite struct SpanTests {
    private let harness = Harness(agentName: "helper")
    private var spans: [FinishedInMemorySpan] { harness.tracer.finishedSpans }

    @Test func `spans of requests and tools are children of their turn's`() async throws {
        let turn = try #require(harness.observer.began(.turn, in: nil))
        harness.observer.began(.request(Harness.request), in: turn)?.ended(nil)
        let tool = ChappieObservedTool(name: "weather", isFromProvider: false, callID: "call_1")
        let call = try #require(harness.observer.began(.tool(tool), in: turn))
        await call.within { [tracer = harness.tracer] in tracer.startSpan("query").end() }
        call.ended(nil)
        turn.learned(.compacted)
        turn.ended(nil)
        #expect(
            spans.map(\.operationName) == ["chat gpt-6-sol", "query", "execute_tool weather", "invoke_agent helper"])
        #expect(spans.map(\.kind) == [.client, .internal, .internal, .internal])
        #expect(
            spans.map(\.parentSpanID) == [spans[3].spanID, spans[2].spanID, spans[3].spanID, nil])
        #expect(spans[3].events.map(\.name) == ["compacted"])
        #expect(harness.attributes("execute_tool weather")["gen_ai.tool.call.id"] == "call_1")
        #expect(spans.allSatisfy { $0.status == nil })
    }

    @Test func `a turn is a child of the program's own span`() async throws {
        let own = harness.tracer.startSpan("request")
        ServiceContext.$current.withValue(own.context) { harness.observer.began(.turn, in: nil)?.ended(nil) }
        own.end()
        #expect(spans.map(\.parentSpanID) == [own.spanID, nil])
    }

    @Test func `a request has the attributes of the conventions`() throws {
        let asked = ChappieObservedRequest(
            model: "gpt-6-sol", host: "chatgpt.com", port: 443, isStructured: true, serviceTier: .priority)
        let request = try #require(harness.observer.began(.request(asked), in: nil))
        request.learned(.attemptBegan(.webSocket, .first))
        request.learned(.firstChunk)
        request.learned(.attemptBegan(.webSocket, .reconnect))
        request.learned(.attemptBegan(.serverSentEvents, .fallback))
        request.learned(.replayed(.matched))
        let usage = ChappieTokenUsage(inputTokens: 12, cachedInputTokens: 8, outputTokens: 3, reasoningTokens: 2)
        request.learned(
            .answered(
                ChappieObservedAnswer(
                    model: "gpt-6-sol", id: "resp_1", finishReason: .toolCalls, usage: usage, serviceTier: .flex)))
        request.ended(nil)
        #expect(
            harness.attributes("chat gpt-6-sol") == [
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-6-sol", "gen_ai.response.model": "gpt-6-sol",
                "server.address": "chatgpt.com", "server.port": "443", "gen_ai.request.stream": "true",
                "gen_ai.output.type": "json", "gen_ai.response.id": "resp_1",
                "gen_ai.response.finish_reasons": "tool_calls", "gen_ai.response.time_to_first_chunk": "seconds",
                "gen_ai.usage.input_tokens": "12", "gen_ai.usage.output_tokens": "3",
                "gen_ai.usage.cache_read.input_tokens": "8", "gen_ai.usage.reasoning.output_tokens": "2",
                "openai.api.type": "responses", "openai.request.service_tier": "priority",
                "openai.response.service_tier": "flex",
            ])
        #expect(spans.first?.events.map(\.name) == ["reconnecting", "fell_back", "replay_held_back"])
    }

    @Test func `a failure has its kind and no message`() {
        harness.observer.began(.renewal(.due), in: nil)?.ended(ChappieAuthError.networkFailure("MARKER"))
        harness.observer.began(.turn, in: nil)?.ended(ChappieClientError.toolExecutionFailed("MARKER", "MARKER"))
        harness.observer.began(.request(Harness.request), in: nil)?.ended(
            ChappieClientError.httpError(500, "MARKER"))
        #expect(spans.map(\.status?.code) == [.error, .error, .error])
        #expect(spans.map(\.status?.message) == [nil, nil, nil])
        #expect(harness.attributes("chappie.credential.renew")["error.type"] == "connection_lost")
        #expect(!harness.everything.contains("MARKER"), "\(harness.everything)")
    }
}
