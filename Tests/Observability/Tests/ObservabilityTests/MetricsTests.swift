import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieObservability
import Metrics
import MetricsTestKit
import Testing

/// Operations and facts become metrics with the documented names and dimensions.
@Suite struct MetricsTests {
    private let harness = Harness(agentName: "helper", toolNames: ["issues"])
    private let chat =
        "gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=gpt-6-sol "
        + "server.address=chatgpt.com server.port=443"

    @Test func `a request has its duration, its first chunk and its tokens`() throws {
        let request = try #require(harness.observer.began(.request(Harness.request), in: nil))
        request.learned(.attemptBegan(.webSocket, .first))
        request.learned(.firstChunk)
        request.learned(.attemptBegan(.serverSentEvents, .fallback))
        request.learned(.firstChunk)
        request.learned(.replayed(.matched))
        let usage = ChappieTokenUsage(inputTokens: 12, outputTokens: 3)
        request.learned(.answered(ChappieObservedAnswer(model: "gpt-6-sol", usage: usage)))
        request.ended(nil)
        let answered = "\(chat) gen_ai.response.model=gpt-6-sol"
        #expect(harness.series("gen_ai.client.operation.duration") == [answered])
        #expect(harness.series("gen_ai.client.operation.time_to_first_chunk") == [chat])
        #expect(
            harness.metrics.recorders(label: "gen_ai.client.operation.time_to_first_chunk").map(\.values.count) == [1])
        #expect(
            harness.series("gen_ai.client.token.usage") == [
                "\(answered) gen_ai.token.type=input", "\(answered) gen_ai.token.type=output",
            ])
        #expect(harness.metrics.recorders(label: "gen_ai.client.token.usage").flatMap(\.values).sorted() == [3, 12])
        #expect(
            harness.series("chappie.turn.attempts") == [
                "transport=sse reason=fallback", "transport=websocket reason=first",
            ])
        #expect(harness.series("chappie.turn.replays") == ["outcome=matched"])
    }

    @Test func `a duration is in seconds`() throws {
        let request = try #require(harness.observer.began(.request(Harness.request), in: nil))
        request.ended(nil)
        let seconds = harness.metrics.recorders(label: "gen_ai.client.operation.duration").flatMap(\.values)
        #expect(seconds.count == 1 && seconds.allSatisfy { 0 < $0 && $0 < 5 })
    }

    @Test func `a failed request has its kind of error`() throws {
        let request = try #require(harness.observer.began(.request(Harness.request), in: nil))
        request.ended(ChappieClientError.httpError(500, "secret"))
        #expect(harness.series("gen_ai.client.operation.duration") == ["\(chat) error.type=500"])
    }

    @Test func `a turn is active until its end, and named after its agent`() throws {
        let turn = try #require(harness.observer.began(.turn, in: nil))
        #expect(harness.metrics.meters(label: "chappie.turns.active").map(\.lastValue) == [1])
        turn.ended(CancellationError())
        #expect(harness.metrics.meters(label: "chappie.turns.active").map(\.lastValue) == [0])
        #expect(
            harness.series("gen_ai.invoke_agent.duration") == ["gen_ai.agent.name=helper error.type=cancelled"])
    }

    @Test func `only names of the program's own tools and of listed ones are reported`() throws {
        struct Broken: Error {}
        let tools = [("weather", false), ("issues", true), ("invented", true)]
        for (name, isFromProvider) in tools {
            let tool = ChappieObservedTool(name: name, isFromProvider: isFromProvider)
            harness.observer.began(.tool(tool), in: nil)?.ended(isFromProvider ? nil : Broken())
        }
        #expect(
            harness.series("gen_ai.execute_tool.duration") == [
                "gen_ai.tool.name=issues gen_ai.tool.type=function",
                "gen_ai.tool.name=mcp gen_ai.tool.type=function",
                "gen_ai.tool.name=weather gen_ai.tool.type=function error.type=tool_failed",
            ])
    }

    @Test func `a renewal is counted with its reason and its outcome`() {
        let ends: [(any Error)?] = [
            nil, ChappieAuthError.reauthenticationRequired("x"), ChappieAuthError.networkFailure("x"),
        ]
        for end in ends { harness.observer.began(.renewal(.due), in: nil)?.ended(end) }
        harness.observer.happened(.renewalTakenOver(.ended))
        #expect(
            harness.series("chappie.credential.renewals") == [
                "reason=due outcome=failed", "reason=due outcome=refused", "reason=due outcome=renewed",
                "reason=ended outcome=taken_over",
            ])
    }

    @Test func `an addition to a thread has its duration and its size`() {
        let operation = ChappieOperation.threadAppend(.postgres, byteCount: 700)
        harness.observer.began(operation, in: nil)?.ended(nil)
        harness.observer.happened(.threadConflict(.postgres))
        #expect(harness.series("chappie.threads.append.duration") == ["store=postgres outcome=succeeded"])
        #expect(harness.metrics.recorders(label: "chappie.threads.append.bytes").map(\.values) == [[700]])
        #expect(harness.series("chappie.threads.conflicts") == ["store=postgres"])
    }

    private static let facts: [(ChappieFact, String, String)] = [
        (.turnsWaiting(change: 1), "chappie.turns.waiting", ""),
        (.connectionsOpen(.webSocket, change: 1), "chappie.connections.open", "transport=websocket"),
        (.notice(.modelReplaced), "chappie.notices", "kind=model_replaced"),
        (.planUsed(.primary, fraction: 0.5), "chappie.plan.used", "window=primary"),
        (.planLimitReached, "chappie.plan.limit_reached", ""),
        (.approvalsWaiting(change: 1), "chappie.tool.approvals.waiting", ""),
        (.approvalDecided(.unasked), "chappie.tool.approvals", "decision=none"),
        (.lockAwaited(.seconds(2), isHeld: false), "chappie.credential.lock.wait", "outcome=busy"),
        (.credentialOvertaken, "chappie.credential.overtaken", ""),
        (.signInEnded(.import, .succeeded), "chappie.credential.sign_ins", "grant=import outcome=succeeded"),
        (.signOutEnded(.failed), "chappie.credential.sign_outs", "outcome=failed"),
        (.postgresPoolAwaited(.milliseconds(5)), "chappie.postgres.pool.wait", ""),
        (.postgresConnections(.open, change: 1), "chappie.postgres.connections", "state=open"),
        (.postgresRetried(.uncertain), "chappie.postgres.retries", "reason=uncertain"),
    ]

    @Test(arguments: facts.indices) func `each fact has its metric`(index: Int) {
        let (fact, label, dimensions) = Self.facts[index]
        harness.observer.happened(fact)
        #expect(harness.series(label) == [dimensions])
        let count = harness.metrics.recorders.count + harness.metrics.counters.count + harness.metrics.meters.count
        #expect(count == 1)
    }

    @Test func `ten thousand random models, tools and errors make fewer than two thousand series`() {
        let errors: [any Error] = (0..<10_000).map { ChappieClientError.httpError($0, "") }
        let others: [any Error] = [
            CancellationError(), ChappieClientError.contextWindowExceeded, ChappieClientError.invalidResponse,
            ChappieAuthError.missingCredential, ChappieAuthError.networkFailure(""),
        ]
        for number in 0..<10_000 {
            let model = number % 3 == 0 ? nil : "model-\(number)"
            let request = ChappieObservedRequest(model: model, host: "chatgpt.com", port: 443)
            let observed = harness.observer.began(.request(request), in: nil)
            observed?.learned(.firstChunk)
            let answer = ChappieObservedAnswer(model: "model-\(number % 97)", usage: ChappieTokenUsage(inputTokens: 1))
            observed?.learned(.answered(answer))
            observed?.ended(number % 2 == 0 ? errors[number] : others[number % others.count])
            let tool = ChappieObservedTool(name: "tool-\(number)", isFromProvider: number % 2 == 0)
            harness.observer.began(.tool(tool), in: nil)?.ended(errors[number])
            harness.observer.happened(.notice(.init(rawValue: "kind-\(number)")))
        }
        let count = harness.metrics.recorders.count + harness.metrics.counters.count + harness.metrics.meters.count
        #expect(count > 100 && count < 2000, "\(count)")
        #expect(harness.series("gen_ai.client.operation.duration").contains("otel.metric.overflow=true"))
        #expect(!harness.everything.contains("model-9999"))
    }
}
