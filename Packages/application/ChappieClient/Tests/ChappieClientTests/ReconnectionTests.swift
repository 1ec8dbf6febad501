import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

/// A connection breaks: the user sees one answer, and the backend is asked again.
@Suite(.timeLimit(.minutes(2))) struct ReconnectionTests {
    // MARK: Over both transports

    static let breaks: [Reply.Step] = [
        .cut, .close(1001), .close(1008), .close(1011),
        .fail(ChappieTransportError(.protocolViolation, stage: .responseBody, host: "h", reason: "r")),
        .fail(ChappieTransportError(.timedOut, stage: .liveness, host: "h", reason: "r")),
    ]

    @Test(arguments: Wire.allCases, breaks.indices)
    func `a break in the middle of an answer is repaired, and nothing is shown twice`(wire: Wire, index: Int)
        async throws
    {
        let harness = ClientHarness(
            wire, [.half("Hello, ", then: Self.breaks[index]), .answer("Hello, world", id: "resp_2")])
        let seen = await harness.ask()
        #expect(seen.text == "Hello, world", "\(seen)")
        guard seen.events.count == 3, case .reconnecting(attempt: 1, _, _) = seen.events[1] else {
            Issue.record("\(seen)")
            return
        }
        let requests = try harness.requests
        #expect(requests[1]["input"] == requests[0]["input"])
    }

    private static let restarting: @Sendable (inout ChappieConfiguration) -> Void = { $0.replayDivergence = .restart }

    /// The texts of the messages that the last request holds, without the harness.
    private func remembered(_ harness: ClientHarness) throws -> [String] {
        let input = try #require(try harness.requests.last?["input"]?.array)
        return input.dropFirst().map { item in
            (item["content"]?.array ?? []).compactMap { $0["text"]?.string }.joined()
        }
    }

    @Test(arguments: Wire.allCases, breaks.indices)
    func `another answer after a break starts again, and it alone stays`(wire: Wire, index: Int) async throws {
        let harness = ClientHarness(
            wire,
            [.half("The sea is wide", then: Self.breaks[index]), .answer("The sky", id: "resp_2"), .answer("third")],
            configure: Self.restarting)
        let seen = await harness.ask("one")
        #expect(seen.discarded == ["The sea is wide"] && seen.text == "The sky" && seen.failure == nil, "\(seen)")
        #expect(seen.response?.outputText == "The sky")
        #expect(try await harness.client.send("two") == "third")
        let texts = await harness.client.context().items.map { $0["content"]?[0]?["text"]?.string }
        #expect(texts == ["one", "The sky", "two", "third"])
    }

    @Test(arguments: Wire.allCases) func `a response that failed is repeated in the same way`(wire: Wire) async {
        let harness = ClientHarness(
            wire, [.failed(#"{"code":"server_error"}"#, after: "The sea"), .answer("The sky")],
            configure: Self.restarting)
        let seen = await harness.ask()
        #expect(seen.discarded == ["The sea"] && seen.text == "The sky" && seen.failure == nil, "\(seen)")
    }

    /// A call runs when its response is complete, so that a call of an answer that broke has not run.
    @Test(arguments: Wire.allCases, [false, true])
    func `a call that was only announced does not run, and the repeated answer may leave it out`(
        wire: Wire, isRepeated: Bool
    ) async throws {
        let runs = Mutex<[String]>([])
        let tool = ChappieHostTool(name: "weather", policy: .automatic) { call in
            runs.withLock { $0.append(call.arguments) }
            return "rain"
        }
        let first = Reply(steps: [.events(items([call("weather", #"{"a":1}"#)], isWhole: false)), .cut])
        let second: Reply =
            isRepeated
            ? Reply(steps: [.events(items([call("weather", #"{"a":2}"#, id: "call_9")], id: "resp_2"))])
            : .answer("No tool is needed.", id: "resp_2")
        let harness = ClientHarness(
            wire, [first, second, .answer("It rains.", id: "resp_3")], clock: HastyClock(), tools: [tool],
            configure: Self.restarting)
        let seen = await harness.ask()
        #expect(seen.failure == nil && seen.discarded == [""])
        #expect(seen.response?.outputText == (isRepeated ? "It rains." : "No tool is needed."))
        #expect(runs.withLock { $0 } == (isRepeated ? [#"{"a":2}"#] : []))
    }

    @Test(arguments: Wire.allCases)
    func `an answer whose pieces nobody reads starts again unseen`(wire: Wire) async throws {
        let harness = ClientHarness(wire, [.half("The sea is wide", then: .cut), .answer("The sky", id: "resp_2")])
        #expect(try await harness.client.send("one") == "The sky")
        let strict = ClientHarness(
            wire, [.half("The sea is wide", then: .cut), .answer("The sky", id: "resp_2")],
            configure: { $0.replayDivergence = .fail })
        await #expect(throws: ChappieClientError.streamingTransportReplayDiverged("The sea is wide")) {
            try await strict.client.send("one")
        }
    }

    @Test(arguments: Wire.allCases, [0, 1])
    func `an answer without its last event is taken, and not asked for again`(wire: Wire, kind: Int) async throws {
        let whole = answering("Hello, world")
        let steps: [[Reply.Step]] = [
            [.events(Array(whole.dropLast())), .half(of: whole[3]), .cut],
            [
                .events(
                    whole.dropLast() + [whole[3].replacing("response.completed", with: "response.done")])
            ],
        ]
        let harness = ClientHarness(wire, [Reply(steps: steps[kind]), .answer("third", id: "resp_3")])
        let seen = await harness.ask("one")
        #expect(seen.text == "Hello, world" && seen.response?.status == .completed, "\(seen)")
        #expect(seen.events == [.connected(wire.kind)])
        #expect(try await harness.client.send("two") == "third")
        #expect(await harness.client.context().items.count == 4)
    }

    /// The reply after the first half of an answer, and whether it is another answer.
    static let endings: [(Reply, isDivergence: Bool)] = [
        (.answer("The sky", id: "resp_2"), true), (.half("The sea", then: .cut), false),
    ]

    @Test(arguments: Wire.allCases, endings.indices)
    func `a turn that breaks for good leaves its question and the text that was shown`(wire: Wire, index: Int)
        async throws
    {
        let (second, isDivergence) = Self.endings[index]
        let policy = ChappieStreamingTransportPolicy(
            prefersWebSocket: wire == .webSocket, maxWebSocketReconnectionAttempts: 1, fallsBackToHTTPSSE: false,
            maxHTTPSSEReconnectionAttempts: 1)
        let harness = ClientHarness(
            wire, [.half("The sea is wide", then: .cut), second, .answer("third")], policy: policy)
        let seen = await harness.ask("one")
        #expect(seen.text == "The sea is wide" && seen.response == nil)
        switch seen.error {
        case .streamingTransportReplayDiverged("The sea is wide"): #expect(isDivergence)
        case .transportFailed: #expect(!isDivergence)
        default: Issue.record("\(seen)")
        }
        #expect(try await harness.client.send("two") == "third")
        let note = "The connection broke here. The user has seen the text above."
        #expect(try remembered(harness) == ["one", "The sea is wide", note, "two"])
    }

    @Test(arguments: Wire.allCases) func `a later turn is repeated with the complete conversation`(wire: Wire)
        async throws
    {
        let harness = ClientHarness(
            wire, [.answer("one"), .half("tw", then: .cut), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        #expect(await harness.ask("b").text == "two")
        let replay = try harness.requests[2]
        #expect(replay["previous_response_id"] == nil)
        #expect(replay["input"]?.array?.count == 4)
    }

    @Test(arguments: Wire.allCases, [false, true])
    func `an error in the stream is treated as the HTTP error that it represents`(wire: Wire, hasStatus: Bool) async {
        let status = hasStatus ? #""status_code":503,"# : ""
        let harness = ClientHarness(
            wire, [.events(#"{"type":"error",\#(status)"error":{"message":"no"}}"#), .answer("Hello")])
        let seen = await harness.ask()
        #expect(seen.text == "Hello", "\(seen)")
        #expect(seen.pauses.count == 1)
    }

    @Test(arguments: Wire.allCases) func nonsenseIsPassedOver(wire: Wire) async {
        let nonsense = Reply(steps: [.events(["{", "[]", #"{"type":"new.event"}"#] + answering("one"))])
        #expect(await ClientHarness(wire, [nonsense]).ask().text == "one")
    }

    /// The second time, client and session say that only a new sign-in helps.
    @Test(arguments: Wire.allCases, [1, 2]) @MainActor func aRefusedTokenIsRenewedOnce(wire: Wire, refusals: Int) async
    {
        let refused = Reply.refused(401, #"{"error":{"code":"token_expired"}}"#)
        var fresh = SeededAuth()
        fresh.serial = 2
        let renewal = ScriptedHTTPAnswer.response(
            headerFields: [.contentType: "application/json"], body: fresh.tokenAnswer)
        let harness = ClientHarness(
            wire, Array(repeating: refused, count: refusals) + [.answer("Hello")], others: [renewal])
        let session = ChappieAuthSession(credentials: harness.credentials)
        let seen = await harness.ask()
        let bearers =
            wire == .webSocket
            ? harness.webSocket.receivedOpenings.map { $0.headerFields[.authorization] }
            : harness.http.receivedRequests.filter { $0.url.path() != "/oauth/token" }.map {
                $0.headerFields[.authorization]
            }
        #expect(bearers == [harness.seed, fresh].map { "Bearer \($0.accessToken)" })
        guard refusals == 2 else {
            #expect(seen.text == "Hello")
            return
        }
        if case .reauthenticationRequired? = seen.error {} else { Issue.record("\(seen)") }
        for await state in session.stateUpdates where state == .reauthenticationRequired { break }
    }

    // MARK: Between the transports

    @Test func `after five reconnects, the answer comes over HTTP`() async {
        let harness = ClientHarness(
            .webSocket, Array(repeating: .half("Hello, ", then: .cut), count: 6) + [.answer("Hello, world")])
        let seen = await harness.ask()
        #expect(seen.text == "Hello, world")
        #expect(harness.webSocket.receivedOpenings.count == 6)
        #expect(seen.events.suffix(2) == [.fellBack(.serverSentEvents), .connected(.serverSentEvents)])
    }

    @Test func `a refused upgrade uses HTTP at once and is tried again after a while`() async throws {
        let harness = ClientHarness(
            .webSocket, (1...3).map { .answer("\($0)", id: "resp_\($0)") },
            openings: [.refused(.response(status: .upgradeRequired))])
        #expect(await harness.ask("a").events == [.fellBack(.serverSentEvents), .connected(.serverSentEvents)])
        #expect(await harness.ask("b").events == [.connected(.serverSentEvents)])
        try await harness.clock.sleep(for: .seconds(30))
        #expect(await harness.ask("c").events == [.connected(.webSocket)])
        #expect(harness.webSocket.receivedOpenings.count == 2)
    }

    @Test(arguments: [200, 403, 404, 426, 500, 503], [false, true])
    func `every refusal falls back even if its body never ends`(status: Int, stalls: Bool) async {
        let page = ScriptedHTTPAnswer(
            status: .init(code: status), body: [.chunk(Array("<html>".utf8))] + (stalls ? [.stall] : []))
        let harness = ClientHarness(.webSocket, [.answer("one")], openings: [.refused(page)])
        #expect(await harness.ask().text == "one")
        #expect(harness.webSocket.receivedOpenings.count == 1)
    }

    /// The connection breaks, or nothing more comes, where the server had announced more than the error.
    @Test(arguments: [true, false], [ScriptedHTTPAnswer.Step.cut, .stall, .chunk([])].indices)
    func `a usage limit is reported whatever happens to its connection`(isHandshake: Bool, ending: Int) async {
        let limit = #"{"error":{"type":"usage_limit_reached","plan_type":"plus","resets_in_seconds":999}}"#
        let answer = ScriptedHTTPAnswer(
            status: .tooManyRequests,
            body: [.chunk(Array(limit.utf8)), [ScriptedHTTPAnswer.Step.cut, .stall, .chunk([])][ending]])
        let harness =
            isHandshake
            ? ClientHarness(.webSocket, openings: [.refused(answer)])
            : ClientHarness(.serverSentEvents, [Reply(steps: [.raw(answer)])])
        guard case .usageLimitReached(let limit)? = await harness.ask().error else {
            Issue.record("not the usage limit")
            return
        }
        #expect(limit.plan == .plus)
        let turns = harness.http.receivedRequests.count { $0.url.path().hasSuffix("/responses") }
        #expect(turns == (isHandshake ? 0 : 1))
    }

    @Test func `a message that is too large goes over HTTP before anything is sent`() async {
        let long = String(repeating: "x", count: 600)
        let harness = ClientHarness(.webSocket, [.answer("one")], messageLimit: 500)
        #expect(await harness.ask(long).text == "one")
        #expect(harness.webSocket.receivedOpenings.isEmpty)
        let strict = ClientHarness(
            .webSocket, policy: ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false), messageLimit: 500)
        guard case .messageTooLarge(let bytes, limit: 500)? = await strict.ask(long).error else {
            Issue.record("not too large")
            return
        }
        #expect(bytes > 600)
    }

    @Test func `a message too large for the kept connection leaves it for the next turn`() async {
        let harness = ClientHarness(
            .webSocket, [.answer("one"), .answer("two", id: "r2"), .answer("three", id: "r3")],
            messageLimit: 2000)
        _ = await harness.ask("a")
        #expect(await harness.ask(String(repeating: "x", count: 2000)).events.last == .connected(.serverSentEvents))
        #expect(harness.webSocket.peers[0].isOpen)
    }

    @Test(arguments: [
        (ChappieTransportError.Code.connectFailed, ChappieTransportError.Stage.connect), (.certificateRejected, .tls),
    ])
    func aHostThatCanNotBeReachedOrTrustedIsAnErrorAtOnce(
        code: ChappieTransportError.Code, stage: ChappieTransportError.Stage
    ) async {
        let error = ChappieTransportError(code, stage: stage, host: "chatgpt.com", reason: "gone")
        let harness = ClientHarness(.webSocket, openings: [.failed(error)])
        #expect(await harness.ask().error == .transportFailed(error))
        #expect(harness.clock.elapsed == .zero && harness.http.receivedRequests.isEmpty)
    }

    @Test func aBinaryMessageIsABreak() async {
        let binary = ScriptedWebSocketOpening.opened(replies: [[.deliver([.binary([1, 2, 3])])]])
        let harness = ClientHarness(.webSocket, [.answer("Hello")], openings: [binary])
        #expect(await harness.ask().text == "Hello")
        #expect(harness.webSocket.peers[0].isDropped)
    }

    // MARK: The kept connection

    @Test(arguments: ["websocket_connection_limit_reached", "previous_response_not_found"])
    func aLostConversationIsRepairedUnseen(code: String) async throws {
        let harness = ClientHarness(
            .webSocket,
            [.answer("one"), .refused(400, #"{"error":{"code":"\#(code)"}}"#), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        let seen = await harness.ask("b")
        #expect(seen.text == "two")
        #expect(seen.events == [.connected(.webSocket), .connected(.webSocket)])
        #expect(try harness.frames(1)[0]["input"]?.array?.count == 4)
    }

    @Test(arguments: [0, 1, 2]) func `a connection that died between turns is replaced unnoticed`(kind: Int) async {
        // The last kind is found out only when the request is out.
        let replies: [Reply] = [.answer("one")] + (kind == 2 ? [Reply(steps: [.cut])] : [])
        let harness = ClientHarness(.webSocket, replies + [.answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        if kind == 0 { harness.webSocket.peers[0].play([.close(.normal)]) }
        if kind == 1 { harness.webSocket.peers[0].play([.cut]) }
        let seen = await harness.ask("b")
        #expect(seen.text == "two")
        #expect(seen.events == [.connected(.webSocket)])
    }

    @Test func `an old connection is replaced before the server ends it`() async throws {
        let harness = ClientHarness(.webSocket, (1...3).map { .answer("\($0)", id: "resp_\($0)") })
        _ = await harness.ask("a")
        try await harness.clock.sleep(for: .seconds(54 * 60))
        _ = await harness.ask("b")
        #expect(harness.webSocket.receivedOpenings.count == 1)
        try await harness.clock.sleep(for: .seconds(60))
        let seen = await harness.ask("c")
        #expect(seen.text == "3")
        #expect(seen.events == [.connected(.webSocket)])
        #expect(try harness.frames(1)[0]["previous_response_id"] == nil)
        #expect(try harness.frames(1)[0]["input"]?.array?.count == 6)
    }

    @Test func `events after the answer are not taken for the next answer`() async throws {
        let stray = Array(answering("stray").prefix(2))
        let harness = ClientHarness(
            .webSocket, [Reply(steps: [.events(answering("one") + stray)]), .answer("two", id: "resp_2")])
        #expect(await harness.ask("a").text == "one")
        harness.webSocket.peers[0].play([.deliver(stray)])
        #expect(await harness.ask("b").text == "two")
        #expect(harness.webSocket.receivedOpenings.count == 1)
    }

    @Test func withoutAWebSocketAtTheServiceNoneIsTried() async {
        let harness = ClientHarness(
            .webSocket, [.answer("one")], configure: { $0.endpoints.usesWebSocket = false })
        #expect(await harness.ask().events == [.connected(.serverSentEvents)])
        #expect(harness.webSocket.receivedOpenings.isEmpty)
    }
}
