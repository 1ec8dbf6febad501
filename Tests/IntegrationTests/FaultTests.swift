import ChappieClient
import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import Synchronization
import TestFixtures
import Testing

/// Faults over real sockets: each ends in the right text or in the right typed error, within its deadline.
@Suite(.timeLimit(.minutes(3))) struct FaultTests {
    /// Asks under a built-in scenario. Whatever comes of it, no token shows.
    private func turn(
        _ scenario: String, asking text: String = "Hello",
        over policy: ChappieStreamingTransportPolicy = Tenant.oneAttempt,
        requests: Int? = 1, silence: Duration? = nil
    ) async throws -> SeenTurn {
        var turn: SeenTurn?
        try await Loopback.run(try SimulatorScenario(named: scenario), silence: silence) { loopback in
            let seen = await SeenTurn(loopback.client(policy).stream(text))
            turn = seen
            let bearers = loopback.simulator.receivedRequests.compactMap { $0.header("authorization") }
            #expect(!bearers.isEmpty && !bearers.contains { "\(seen)".contains($0.dropFirst("Bearer ".count)) })
            if let requests { #expect(loopback.turnCount == requests) }
        }
        return try #require(turn)
    }

    @Test(arguments: [
        "drip", "drip-slow", "slow-head", "slow-body", "close-delimited", "unknown-events", "giant-event",
        "unauthorized-once", "rate-limit-retry-after",
    ])
    func theAnswerArrivesAllTheSame(scenario: String) async throws {
        let turn = try await turn(scenario, asking: "reply: Grüße 🌍 an **alle**", requests: nil)
        #expect(turn.text == "Grüße 🌍 an **alle**")
        #expect(turn.response?.outputText == turn.text)
    }

    private static let question = "a quiet evening 🌙 with äöü"
    /// The answer to it when nothing goes wrong.
    private static let answer = Task {
        var text = ""
        try await Loopback.run { loopback in text = try await loopback.client().send(question) }
        return text
    }

    /// These end in an error or in another answer. They have tests of their own, here and of the program.
    private static let noticed = Set(
        """
        unauthorized-storm pinned-workspace-elsewhere ws-401 usage-limit ws-usage-limit ws-error-usage-limit \
        usage-not-included html not-json too-giant-event ws-wrong-accept rate-limit \
        server-error-forever ws-426 diverge overloaded bad-request blocked redirect-elsewhere cut-forever cut-clean \
        hang-up hang-up-rst failed failed-context-length ws-cut-forever ws-rst stall-before-head \
        stall-before-body stall rate-limit-far-date goes-on goes-on-forever model-unsupported model-newer-version \
        model-not-found ws-stall ws-stall-forever ws-silent
        """.split(separator: " ").map(String.init))
    private static let quiet = SimulatorScenario.names.filter {
        !$0.hasPrefix("device-") && !$0.hasPrefix("plan-") && !noticed.contains($0)
    }

    /// A user signs in and asks, as the program does, and sees nothing of what goes wrong on the way.
    @Test(arguments: quiet) func aFaultDoesNoHarm(scenario: String) async throws {
        let isOverWebSocket = scenario.hasPrefix("ws-")
        let turn = try await turn(
            scenario, asking: Self.question, over: isOverWebSocket ? .default : .httpSSEOnly, requests: nil,
            silence: isOverWebSocket ? .seconds(3) : nil)
        let answer = try await Self.answer.value
        #expect(turn.failure.map { "\($0)" } == nil)
        #expect(turn.response?.outputText == answer, "\(turn)")
        #expect(turn.text == (turn.response?.commentary ?? "") + answer)
    }

    @Test func `every scenario listed as noticed is one of the simulator's`() {
        #expect(Self.noticed.isSubset(of: SimulatorScenario.names) && Self.quiet.count > 80)
    }

    @Test(
        arguments: [
            ("cut", .connectionLost, .responseBody), ("cut-rst", .connectionLost, .responseBody),
            ("cut-forever", .connectionLost, .responseBody), ("cut-clean", .connectionLost, .responseBody),
            ("hang-up", .connectionLost, nil), ("hang-up-rst", .connectionLost, nil),
            ("stall", .timedOut, .responseBody), ("stall-before-head", .timedOut, .responseHead),
            ("stall-before-body", .timedOut, .firstByte), ("redirect-elsewhere", .redirectRefused, nil),
        ] as [(String, ChappieTransportError.Code, ChappieTransportError.Stage?)])
    func aBrokenExchangeSaysWhatBroke(
        scenario: String, code: ChappieTransportError.Code, stage: ChappieTransportError.Stage?
    ) async throws {
        let start = ContinuousClock.now
        let turn = try await turn(scenario, silence: code == .timedOut ? .seconds(1) : nil)
        guard case .transportFailed(let error)? = turn.error else {
            Issue.record("\(turn)")
            return
        }
        #expect(error.code == code)
        if let stage { #expect(error.stage == stage) }
        #expect(error.host.hasPrefix("127.0.0.1"))
        #expect(ContinuousClock.now - start < .seconds(20) * Loopback.patience)
    }

    /// A model may think for long. The connection answers pings, so the turn waits, and asks nothing a second time.
    @Test(arguments: ["ws-stall", "ws-silent"]) func silenceOnALivingWebSocketIsNoFailure(scenario: String) async throws
    {
        let limit = Duration.seconds(3) * Loopback.patience
        try await Loopback.run(try SimulatorScenario(named: scenario), silence: .milliseconds(500)) { loopback in
            let request = ChappieResponseRequest(messages: [.user("Hello")], timeLimit: limit)
            await #expect(throws: ChappieClientError.timeLimitExceeded(limit)) {
                try await loopback.client(.default).response(request)
            }
            #expect(loopback.turnCount == 1)
        }
    }

    @Test(arguments: [
        ("server-error-forever", 500, 1), ("bad-request", 400, 1), ("blocked", 403, 1),
        ("rate-limit", 429, 3),
    ])
    func anHTTPErrorKeepsItsStatus(scenario: String, expected: Int, requests: Int) async throws {
        guard case .httpError(let status, _)? = try await turn(scenario, requests: requests).error else {
            Issue.record("no HTTP error")
            return
        }
        #expect(status == expected)
    }

    @Test func `a model without capacity is asked four times`() async throws {
        guard case .modelUnavailable(let refusal)? = try await turn("overloaded", requests: 4).error else {
            Issue.record("no refusal of the model")
            return
        }
        #expect(refusal.reason == .atCapacity && !refusal.slug.isEmpty)
    }

    @Test func aUsageLimitSaysWhenItResets() async throws {
        guard case .usageLimitReached(let limit)? = try await turn("usage-limit").error else {
            Issue.record("no usage limit")
            return
        }
        #expect(limit.resetsAt != nil)
        #expect(limit.plan == .plus)
    }

    @Test func aPageIsANetworks() async throws {
        guard case .gatewayAnswered(let answer)? = try await turn("html").error else {
            Issue.record("no page")
            return
        }
        #expect(answer.sender == .network && answer.status == 200)
    }

    @Test(arguments: ["not-json", "too-giant-event"])
    func nonsenseIsAnInvalidResponse(scenario: String) async throws {
        #expect(try await turn(scenario).error == .invalidResponse)
    }

    @Test func `a refused sign-in asks for a new one after one refresh`() async throws {
        try await Loopback.run(try SimulatorScenario(named: "unauthorized-storm")) { loopback in
            let turn = await SeenTurn(loopback.client().stream("Hello"))
            guard case .reauthenticationRequired(let reason)? = turn.error else {
                Issue.record("\(turn)")
                return
            }
            #expect(!reason.isEmpty)
            #expect(loopback.turnCount == 2)
            #expect(loopback.requests("/oauth/token").count == 2, "the sign-in's exchange and one refresh")
        }
    }

    @Test func `a failed early refresh keeps the token that is still valid`() async throws {
        #expect(try await turn("refresh-500", requests: nil).response?.status == .completed)
    }

    // MARK: Cuts

    /// Text, reasoning and two tool calls, cut at offsets spread over the answer. The client's CutTests cut after every
    /// event, the decoders' tests at every byte.
    @Test(arguments: [ChappieStreamingTransportPolicy.httpSSEOnly, Tenant.webSocketOnly], ["fin", "rst"])
    func `a cut answer is complete in the end, and no call is made twice`(
        policy: ChappieStreamingTransportPolicy, ending: String
    ) async throws {
        let offsets = (0..<20).map { 1 + $0 * 191 }
        let rules = offsets.map { offset in
            """
            {"match":{"path":"/backend-api/codex/responses","bodyContains":"mark \(offset);","to":1},\
            "effect":{"cut":{"afterBytes":\(offset),"with":"\(ending)"}}}
            """
        }
        let scenario = try SimulatorScenario(parsing: "{\"rules\":[\(rules.joined(separator: ","))]}")
        try await Loopback.run(scenario, clock: HastyClock()) { loopback in
            for mark in [0] + offsets {
                let question = """
                    mark \(mark);
                    force call weather {"city":"Zürich"}
                    force call weather {"city":"Bern"}
                    reply: Zürich 👩‍👩‍👧: 21 °C. Bern: “18 °C” — e\u{301}t voilà, and more words, so that much can be cut.
                    """
                let options = ChappieMessageOptions(reasoningEffort: .low)
                let message = ChappieInputMessage(role: .user, parts: [.text(question)], options: options)
                let turn = await SeenTurn(loopback.client(policy).stream(message))
                #expect(turn.text.hasPrefix("Zürich 👩‍👩‍👧: 21 °C.") && turn.text.hasSuffix("much can be cut."), "\(turn)")
                #expect(!turn.reasoning.isEmpty)
                #expect(turn.calls == [#"{"city":"Zürich"}"#, #"{"city":"Bern"}"#], "at \(mark)")
                #expect(turn.error == .missingToolHandler("weather"))
            }
            let cuts = loopback.turnCount - offsets.count - 1
            #expect(cuts >= offsets.count / 2, "\(cuts) of \(offsets.count) offsets were inside the answer")
        }
    }

    // MARK: A turn's cost

    /// A busy machine may miss the limit once, not three times.
    @Test(.tags(.measured)) func aCancelledStreamFreesItsSocketWithin100Milliseconds() async throws {
        var times: [Duration] = []
        for _ in 0..<3 {
            try await Loopback.run(try SimulatorScenario(named: "stall")) { loopback in
                let handle = loopback.client().startStream(.user("Hello"))
                for try await event in handle.events {
                    if case .created = event { break }
                }
                let open = loopback.simulator.openConnectionCount
                let start = ContinuousClock.now
                handle.cancel()
                await #expect(throws: CancellationError.self) { try await handle.response() }
                while loopback.simulator.openConnectionCount >= open { await Task.yield() }
                times.append(ContinuousClock.now - start)
            }
            if times.last.map({ $0 < .milliseconds(100) * Loopback.patience }) == true { return }
        }
        Issue.record("It took \(times).")
    }

    @Test(.tags(.measured), arguments: [ChappieStreamingTransportPolicy.httpSSEOnly, Tenant.webSocketOnly])
    func aCancelledExchangeFreesItsSocketWithin100Milliseconds(
        policy: ChappieStreamingTransportPolicy
    ) async throws {
        var times: [Duration] = []
        for _ in 0..<3 {
            try await Loopback.run { loopback in
                let client = loopback.client(policy)
                let begun = Mutex<(openConnections: Int, time: ContinuousClock.Instant)?>(nil)
                let reading = Task {
                    let exchange = ChappieExchange(input: [["role": "user", "content": "repeat 200000 words"]])
                    for try await event in client.stream(exchange) {
                        guard case .textDelta = event, begun.withLock({ $0 == nil }) else { continue }
                        begun.withLock { $0 = (loopback.simulator.openConnectionCount, .now) }
                        withUnsafeCurrentTask { $0?.cancel() }
                    }
                }
                await #expect(throws: CancellationError.self) { try await reading.value }
                let seen = begun.withLock { $0 }
                let (open, start) = try #require(seen)
                while loopback.simulator.openConnectionCount >= open { await Task.yield() }
                times.append(ContinuousClock.now - start)
            }
            if times.last.map({ $0 < .milliseconds(100) * Loopback.patience }) == true { return }
        }
        Issue.record("It took \(times).")
    }

    /// All questions and answers are of one size.
    @Test func `a later turn over WebSocket is as small as the second turn`() async throws {
        try await Loopback.run { loopback in
            let client = loopback.client(Tenant.webSocketOnly)
            for turn in 1001...1040 {
                let answer = String(repeating: "answer \(turn) ", count: 20)
                #expect(try await client.send("turn \(turn)\nreply: \(answer)").hasPrefix("answer \(turn)"))
            }
            let messages = loopback.simulator.receivedMessages
            try #require(messages.count == 40)
            #expect(loopback.simulator.webSocketConnections.count == 1)
            #expect(Double(messages[39].body.count) <= 1.2 * Double(messages[1].body.count))
            #expect(Double(messages[39].wireByteCount) <= 1.2 * Double(messages[1].wireByteCount))
        }
    }
}
