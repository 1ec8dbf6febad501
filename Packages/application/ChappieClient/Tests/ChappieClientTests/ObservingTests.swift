import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// An observer receives what a turn does, and nothing of what is said in it.
@Suite(.timeLimit(.minutes(2))) struct ObservingTests {
    private let observer = RecordingObserver()

    private func attempts(_ details: [ChappieOperationDetail]) -> [ChappieAttemptReason] {
        details.compactMap { if case .attemptBegan(_, let reason) = $0 { reason } else { nil } }
    }

    @Test(arguments: Wire.allCases) func `a turn is followed with its requests and its tool`(wire: Wire) async {
        let tool = ChappieHostTool(name: "weather") { _ in "sunny" }
        let harness = ClientHarness(
            wire, [Reply(steps: [.events(items([call("weather")]))]), .answer("done", id: "resp_2")],
            tools: [tool], observer: observer)
        #expect(await harness.ask().text == "done")
        let request = ChappieObservedRequest(model: "flat", host: "chatgpt.com", port: 443)
        #expect(
            observer.operations == [
                .turn, .request(request),
                .tool(ChappieObservedTool(name: "weather", isFromProvider: false, callID: "call_1")), .request(request),
            ])
        let parents = observer.events.compactMap { event in
            if case .began(_, _, let parent) = event { parent ?? 0 } else { nil }
        }
        #expect(parents == [0, 1, 1, 1])
        let usage = ChappieTokenUsage(inputTokens: 10, outputTokens: 5, totalTokens: 15)
        #expect(
            observer.details == [
                .attemptBegan(wire.kind, .first), .firstChunk,
                .answered(ChappieObservedAnswer(id: "resp_1", finishReason: .toolCalls, usage: usage)),
                .attemptBegan(wire.kind, .first), .firstChunk,
                .answered(ChappieObservedAnswer(id: "resp_2", finishReason: .stop)),
            ])
        #expect(observer.endedCount == 4 && observer.failures.isEmpty)
        let waiting = observer.facts.filter { if case .turnsWaiting = $0 { true } else { false } }
        #expect(waiting == [.turnsWaiting(change: 1), .turnsWaiting(change: -1)])
    }

    @Test func `a connection is reported when it is opened and when it is closed`() async {
        for wire in Wire.allCases {
            let harness = ClientHarness(wire, [.answer("one"), .answer("two")], observer: observer)
            _ = await harness.ask()
            _ = await harness.ask()
            await harness.client.disconnect()
            #expect(changes(of: wire.kind) == (wire == .webSocket ? [1, -1] : [1, -1, 1, -1]))
        }
    }

    private func changes(of kind: ChappieTransportEvent.Kind) -> [Int] {
        observer.facts.compactMap { if case .connectionsOpen(kind, let change) = $0 { change } else { nil } }
    }

    private struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var wire = Wire.serverSentEvents
        let replies: [Reply]
        var openings: [ScriptedWebSocketOpening] = []
        var question = "Hi"
        let reasons: [ChappieAttemptReason]
        var replay: ChappieReplayOutcome?
    }

    private static let cases = [
        Case(testDescription: "no fault", replies: [.answer("Hello")], reasons: [.first]),
        Case(
            testDescription: "a rate limit", replies: [.refused(429), .answer("Hello")], reasons: [.first, .rateLimit]),
        Case(
            testDescription: "a break before the answer", replies: [Reply(steps: [.cut]), .answer("Hello")],
            reasons: [.first, .reconnect]),
        Case(
            testDescription: "a break in the answer", replies: [.half("Hel", then: .cut), .answer("Hello")],
            reasons: [.first, .reconnect], replay: .matched),
        Case(
            testDescription: "another answer after a break",
            replies: [.half("The sea", then: .cut), .answer("The sky")],
            reasons: [.first, .reconnect], replay: .diverged),
        Case(
            testDescription: "a server without compression", replies: [.refused(415), .answer("Hello")],
            question: String(repeating: "long ", count: 2000), reasons: [.first, .uncompressed]),
        Case(
            testDescription: "no WebSocket", wire: .webSocket, replies: [.answer("Hello")],
            openings: [.refused(.response(status: .upgradeRequired))], reasons: [.first, .fallback]),
    ]

    @Test(arguments: cases.indices, [true, false])
    func `each attempt has its reason, and a repeated answer its outcome`(index: Int, restarts: Bool) async {
        let it = Self.cases[index]
        let harness = ClientHarness(it.wire, it.replies, openings: it.openings, observer: observer) {
            $0.replayDivergence = restarts ? .restart : .fail
        }
        _ = await harness.ask(it.question)
        #expect(attempts(observer.details) == it.reasons, "\(it)")
        let replays = observer.details.compactMap { if case .replayed(let outcome) = $0 { outcome } else { nil } }
        #expect(replays == [it.replay].compactMap(\.self), "\(it)")
    }

    @Test func `a token that was refused and a sign-out are reported`() async throws {
        var new = SeededAuth()
        new.serial = 2
        let harness = ClientHarness(
            .serverSentEvents, [.refused(401), .answer("Hello")],
            others: [.response(body: new.tokenAnswer), .response(body: "{}")], observer: observer)
        #expect(await harness.ask().text == "Hello")
        #expect(attempts(observer.details) == [.first, .renewedToken])
        #expect(observer.operations.contains(.renewal(.refused)))
        #expect(observer.facts.contains { if case .lockAwaited(_, true) = $0 { true } else { false } })
        try await harness.credentials.signOut()
        #expect(observer.facts.last == .signOutEnded(.succeeded))
    }

    static let decisions: [(ChappieApprovalDecision?, ChappieObservedDecision)] = [
        (.approved(), .allowed), (.approved(arguments: [:]), .edited), (.denied(reason: "no"), .denied),
        (.answered(output: "rain"), .answered), (.deferred, .deferred), (nil, .unasked),
    ]

    @Test(arguments: decisions.indices) func `an approval is reported with the user's decision`(index: Int) async {
        let (decision, expected) = Self.decisions[index]
        let tool = ChappieHostTool(name: "weather", policy: .ask) { _ in "sunny" }
        var approval: ChappieToolApprovalHandler?
        if let decision { approval = { _ in decision } }
        let harness = ClientHarness(
            replies(calling: "weather"), tools: [tool], approval: approval, observer: observer)
        _ = await harness.ask()
        let waits: [ChappieFact] = [
            .approvalsWaiting(change: 1), .approvalDecided(expected), .approvalsWaiting(change: -1),
        ]
        #expect(
            observer.facts.filter { fact in
                switch fact {
                case .approvalsWaiting, .approvalDecided: true
                default: false
                }
            } == (decision == nil ? [.approvalDecided(expected)] : waits))
    }

    private func replies(calling name: String) -> [Reply] {
        [Reply(steps: [.events(items([call(name)]))]), .answer("done", id: "resp_2")]
    }

    @Test func `a limit of the plan and its windows are reported`() async {
        let limits =
            #"{"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":40},"secondary":{"used_percent":250}}}"#
        let refusal = #"{"error":{"type":"usage_limit_reached","message":"no more"}}"#
        let harness = ClientHarness(
            .serverSentEvents, [Reply(steps: [.events([limits] + answering("Hello"))]), .refused(429, refusal)],
            observer: observer)
        _ = await harness.ask()
        _ = await harness.ask()
        #expect(observer.facts.contains(.planUsed(.primary, fraction: 0.4)))
        #expect(observer.facts.contains(.planUsed(.secondary, fraction: 1)))
        #expect(observer.facts.contains(.planLimitReached))
        #expect(observer.failures.count == 2)
    }

    @Test func `a tool that fails or takes too long is a failed operation`() async {
        struct Broken: Error {}
        let tools = [
            ChappieHostTool(name: "broken") { _ in throw Broken() },
            ChappieHostTool(name: "failed") { _ in ChappieToolResult(output: "no", isError: true) },
        ]
        for tool in tools {
            let harness = ClientHarness(replies(calling: tool.name), tools: [tool], observer: observer)
            _ = await harness.ask()
        }
        #expect(observer.failures.count == 2)
        #expect(observer.failures.first is Broken)
        #expect(observer.failures.last as? ChappieClientError == .toolExecutionFailed("failed", ""))
    }

    @Test(arguments: [true, false])
    func `an answer of any length makes the same number of reports`(isInterested: Bool) async {
        let counts = await [10, 1000].asyncMap { count in
            let observer = RecordingObserver(isInterested: isInterested)
            let words = (0..<count).map { #"{"type":"response.output_text.delta","delta":"word\#($0) "}"# }
            let text = (0..<count).map { "word\($0) " }.joined()
            let steps = words.map { Reply.Step.events([$0]) }
            let end = Array(answering(text).dropFirst(2))
            let harness = ClientHarness(
                .serverSentEvents, [Reply(steps: steps + [.events(end)])], observer: observer)
            #expect(await harness.ask().text == text)
            return observer.events.count
        }
        #expect(counts[0] == counts[1] && counts[0] > 4)
    }

    @Test @MainActor func `no text of the user, the model, a tool or a sign-in reaches an observer`() async throws {
        var first = SeededAuth()
        first.serial = 1
        first.refreshToken = "rt_MARKER"
        var second = SeededAuth()
        second.serial = 2
        second.refreshToken = "rt_MARKER_2"
        let tool = ChappieHostTool(name: "weather", policy: .ask) { _ in "output MARKER" }
        let calls = items([call("weather", #"{"town":"MARKER"}"#), call("MARKER", id: "call_2")])
        let refusal = #"{"error":{"type":"usage_limit_reached","message":"MARKER"}}"#
        let harness = ClientHarness(
            .serverSentEvents,
            [
                .refused(401, "MARKER"), Reply(steps: [.events(calls)]), .half("MARKER ", then: .cut),
                .answer("MARKER answer", id: "resp 2 MARKER"), .answer("MARKER", id: "resp_3"),
                .refused(400, "MARKER"), .refused(429, refusal),
            ],
            others: [
                .response(body: #"{"device_auth_id":"MARKER","user_code":"MARKER","interval":"0"}"#),
                .response(
                    body: #"{"authorization_code":"MARKER","code_challenge":"x","code_verifier":"MARKER"}"#),
                .response(body: first.tokenAnswer), .response(body: second.tokenAnswer),
            ], signedIn: false, tools: [tool], approval: { _ in .approved(arguments: ["town": "MARKER"]) },
            observer: observer)
        let session = ChappieAuthSession(credentials: harness.credentials)
        _ = try await session.signIn { _ in }
        _ = await harness.ask("question MARKER")
        // A name that the account's list does not have may be anything that the user has typed.
        let request = ChappieResponseRequest(messages: [.user("MARKER")], model: "MARKER", serviceTier: "MARKER")
        _ = try? await harness.client.response(request)
        for _ in 0..<3 { _ = await harness.ask("MARKER") }
        // The observer may report only the kind of an error.
        var seen = ""
        for event in observer.events { if case .ended = event { continue } else { dump(event, to: &seen) } }
        #expect(observer.events.count > 30, "\(seen)")
        let secrets = [first, second].flatMap { [$0.accessToken, $0.idToken, "person@", "account-1", "user-1"] }
        for secret in secrets + ["MARKER"] { #expect(!seen.contains(secret), "\(seen)") }
        #expect(observer.facts.contains(.signInEnded(.device, .succeeded)))
    }
}

extension ClientHarness {
    fileprivate init(
        _ replies: [Reply], tools: [ChappieHostTool], approval: ChappieToolApprovalHandler? = nil,
        observer: any ChappieObserver
    ) {
        self.init(.serverSentEvents, replies, tools: tools, approval: approval, observer: observer)
    }
}

extension Sequence where Element: Sendable {
    fileprivate func asyncMap<Value: Sendable>(_ transform: (Element) async -> Value) async -> [Value] {
        var all: [Value] = []
        for element in self { all.append(await transform(element)) }
        return all
    }
}
