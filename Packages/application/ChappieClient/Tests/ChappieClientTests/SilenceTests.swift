import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieFiles
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

/// Networks that pass nothing, connections that died, and answers that take long.
@Suite(.timeLimit(.minutes(2))) struct SilenceTests {
    private let folder: TemporaryDirectory
    init() throws { folder = try TemporaryDirectory() }

    private func notes(_ variables: [String: String] = [:]) throws -> ChappieFileWebSocketNotes {
        let all = variables.merging(["HOME": "/x", "XDG_STATE_HOME": folder.path]) { $1 }
        return try #require(ChappieFileWebSocketNotes(proxy: .environment) { all[$0] })
    }

    // MARK: A network that passes no WebSocket

    private static let dead = ScriptedWebSocketOpening.opened(greeting: [.silence])

    private func harness(
        _ notes: ChappieFileWebSocketNotes, _ replies: [Reply] = [.answer("one")], blocked: Bool = true,
        policy: ChappieStreamingTransportPolicy = .default
    ) -> ClientHarness {
        ClientHarness(.webSocket, replies, openings: blocked ? [Self.dead] : [], policy: policy, notes: notes)
    }

    @Test func `a WebSocket on which no byte comes back is given up, and the next program does not try it`()
        async throws
    {
        let first = harness(try notes())
        let seen = await first.ask()
        #expect(seen.text == "one", "\(seen)")
        #expect(seen.events == [.fellBack(.serverSentEvents), .connected(.serverSentEvents)])
        #expect(seen.notices.map(\.kind) == [.webSocketBlocked])
        #expect(first.webSocket.peers[0].pingCount == 1 && first.http.receivedRequests.count == 1)
        let second = harness(try notes(), blocked: false)
        let next = await second.ask()
        #expect(next.events == [.connected(.serverSentEvents)] && next.notices.isEmpty)
        #expect(second.webSocket.receivedOpenings.isEmpty)
    }

    @Test func `a network is tried again after six hours, through another proxy, and on request`() async throws {
        let first = harness(try notes())
        _ = await first.ask()
        let later = harness(try notes(), blocked: false)
        try await later.clock.sleep(for: .seconds(6 * 3600))
        #expect(await later.ask().events == [.connected(.webSocket)])
        let elsewhere = harness(try notes(["https_proxy": "http://proxy.test:3128"]), blocked: false)
        #expect(await elsewhere.ask().events == [.connected(.webSocket)])
        let only = harness(
            try notes(), blocked: false, policy: ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false))
        #expect(await only.ask().events == [.connected(.webSocket)])
    }

    @Test func `a prewarm finds out that no WebSocket passes`() async throws {
        let harness = harness(try notes())
        await harness.client.prewarm()
        #expect(await harness.ask().events == [.connected(.serverSentEvents)])
        #expect(harness.webSocket.receivedOpenings.count == 1)
    }

    @Test func `without a fallback a blocked WebSocket is the error`() async throws {
        let strict = harness(try notes(), [], policy: ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false))
        guard case .transportFailed(let error)? = await strict.ask().error else {
            Issue.record("no transport error")
            return
        }
        #expect(error.code == .timedOut && error.stage == .firstByte)
    }

    // MARK: A kept connection that died silently

    @Test func `an idle connection answers a ping before it is used again`() async throws {
        let harness = ClientHarness(.webSocket, [.answer("one"), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        harness.webSocket.peers[0].play([.silence])
        try await harness.clock.sleep(for: .seconds(10))
        let seen = await harness.ask("b")
        #expect(seen.text == "two" && seen.events == [.connected(.webSocket)], "\(seen)")
        // Nothing was sent on the dead one.
        #expect(harness.webSocket.peers.map(\.sentMessages.count) == [1, 1])
    }

    @Test func `a connection that was just in use and died is replaced once`() async throws {
        let harness = ClientHarness(
            .webSocket, [.answer("one"), Reply(steps: [.stall]), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        let seen = await harness.ask("b")
        #expect(seen.text == "two" && seen.events == [.connected(.webSocket)], "\(seen)")
        #expect(try harness.frames(1)[0]["previous_response_id"] == nil)
    }

    // MARK: Answers that take long

    private static let review = #"""
        {"type":"response.metadata","response_id":"resp_1","metadata":{"type":"safety_buffering","use_cases":["cyber"],\
        "reasons":["user_risk"],"retry_model":"gpt-6-luna"}}
        """#.replacing("\\\n", with: "")

    @Test(arguments: Wire.allCases) func `a review that holds the answer back is named once`(wire: Wire) async throws {
        let whole = answering("Held back.")
        let reviewed = [whole[0], Self.review, Self.review] + whole[1...]
        let harness = ClientHarness(wire, [Reply(steps: [.events(reviewed)])])
        let seen = await harness.ask()
        #expect(seen.text == "Held back.")
        #expect(
            seen.notices == [
                ChappieNotice(
                    .answerReviewed,
                    """
                    The service checks this answer before it shows it; that can take minutes. The model gpt-6-luna would \
                    answer faster.
                    """)
            ])
    }

    /// Asks over server-sent events on a clock that a test moves, and expects that silence is a failure after `limit` alone.
    private func expectSilence(
        _ limit: Duration, effort: ChappieReasoningEffort = .automatic, model: String? = nil, after events: [String]
    ) async throws {
        let clock = ManualClock()
        let begun = Array(events.map { "data: \($0)\n\n" }.joined().utf8)
        let http = ScriptedHTTPTransport(clock: clock) { _ in
            ScriptedHTTPAnswer(headerFields: [.contentType: "text/event-stream"], body: [.chunk(begun), .stall])
        }
        let seed = SeededAuth(expiresAt: clock.now.addingTimeInterval(86_400))
        let client = ChappieClient(
            configuration: ChappieConfiguration(model: model, streamingTransportPolicy: .httpSSEOnly), transport: http,
            credentials: seed.manager(transport: http, clock: ManualClock()), clock: clock, entropy: FixedEntropy(),
            modelCache: SeededModelCache(listedAt: clock.now))
        let message = ChappieInputMessage(
            role: .user, parts: [.text("Hi")], options: ChappieMessageOptions(reasoningEffort: effort))
        let asking = Task { await Seen(client.stream(message)) }
        await clock.waitForSleepers(count: 1, due: limit)
        clock.advance(by: limit)
        let seen = await asking.value
        guard case .transportFailed(let error)? = seen.error else {
            Issue.record("\(seen)")
            return
        }
        #expect(error.code == .timedOut && error.stage == .responseBody)
        #expect(http.receivedRequests.count == 1, "no second request without asking")
    }

    @Test(arguments: [
        (ChappieReasoningEffort.low, 300), (.high, 600), (ChappieReasoningEffort(rawValue: "xhigh"), 900),
        (ChappieReasoningEffort(rawValue: "max"), 1200),
    ])
    func `the limit of silence grows with the effort`(effort: ChappieReasoningEffort, seconds: Int) async throws {
        try await expectSilence(.seconds(seconds), effort: effort, model: "lite", after: [answering("x")[0]])
    }

    @Test func `a review has half an hour`() async throws {
        try await expectSilence(.seconds(1800), after: [answering("x")[0], Self.review])
    }

    @Test(arguments: [ChappieTransportError.Stage.responseHead, .firstByte], [1, 2])
    func `a request of which nothing came is sent once more`(stage: ChappieTransportError.Stage, times: Int) async {
        let late = ChappieTransportError(.timedOut, stage: stage, host: "h", reason: "r")
        let silent = Reply(steps: [.raw(.failure(late))])
        let harness = ClientHarness(.serverSentEvents, Array(repeating: silent, count: times) + [.answer("one")])
        let seen = await harness.ask()
        #expect(harness.http.receivedRequests.count == 2)
        if times == 1 { #expect(seen.text == "one") } else { #expect(seen.error == .transportFailed(late)) }
    }

    // MARK: Messages that a WebSocket does not take

    @Test func `a message that is too big goes over events, and so does the rest of the conversation`() async throws {
        let harness = ClientHarness(
            .webSocket, [Reply(steps: [.close(1009)]), .answer("one"), .answer("two", id: "resp_2"), .answer("three")])
        #expect(await harness.ask("a").events == [.fellBack(.serverSentEvents), .connected(.serverSentEvents)])
        try await harness.clock.sleep(for: .seconds(3600))
        #expect(await harness.ask("b").events == [.connected(.serverSentEvents)])
        #expect(harness.webSocket.receivedOpenings.count == 1)
        await harness.client.clearContext()
        #expect(await harness.ask("c").events == [.connected(.webSocket)])
    }

    @Test(arguments: [UInt16(1003), 1007, 1008])
    func `a close that refuses the message goes over events at once`(code: UInt16) async {
        let harness = ClientHarness(.webSocket, [Reply(steps: [.close(code)]), .answer("one")])
        #expect(await harness.ask().events == [.fellBack(.serverSentEvents), .connected(.serverSentEvents)])
        #expect(harness.webSocket.receivedOpenings.count == 1)
    }

    @Test(arguments: [Reply.Step.close(1011), .cut].indices)
    func `a large message on which the connection breaks goes over events at once`(index: Int) async {
        let harness = ClientHarness(
            .webSocket, [Reply(steps: [[Reply.Step.close(1011), .cut][index]]), .answer("one")])
        let seen = await harness.ask(String(repeating: "x", count: 600_000))
        #expect(seen.events == [.fellBack(.serverSentEvents), .connected(.serverSentEvents)])
        #expect(harness.webSocket.receivedOpenings.count == 1)
    }

    // MARK: Codings

    private static let long = String(repeating: "x", count: 12_000)

    @Test(arguments: [
        (415, "{}"), (502, "<html>"), (400, #"{"error":{"message":"invalid zstd request body"}}"#),
        (400, #"{"error":{"code":"invalid_json","message":"The body is not valid."}}"#),
    ])
    func `a refusal of the compressed body is answered by a plain one, and later bodies are plain`(
        status: Int, body: String
    ) async {
        let harness = ClientHarness(
            .serverSentEvents, [.refused(status, body), .answer("one"), .answer("two", id: "resp_2")])
        let seen = await harness.ask(Self.long)
        #expect(seen.text == "one" && seen.pauses.isEmpty, "\(seen)")
        #expect(await harness.ask(Self.long).text == "two")
        #expect(harness.http.receivedRequests.map { $0.body?.coding } == [.zstd, .identity, .identity])
    }

    @Test func `another refusal is not answered by a plain body`() async {
        let body = #"{"error":{"message":"Invalid type for 'input[0]'.","param":"input[0]"}}"#
        let harness = ClientHarness(.serverSentEvents, [.refused(400, body)])
        #expect(await harness.ask(Self.long).error == .httpError(400, body))
        #expect(harness.http.receivedRequests.count == 1)
    }

    @Test func `an answer that is compressed is an error that names the coding`() async throws {
        let answer = ScriptedHTTPAnswer.response(
            headerFields: [.contentType: "text/event-stream", .contentEncoding: "gzip"], body: "\u{1F}\u{8B}compressed")
        let harness = ClientHarness(.serverSentEvents, [Reply(steps: [.raw(answer)])], others: [answer])
        guard case .transportFailed(let error)? = await harness.ask().error else {
            Issue.record("no transport error")
            return
        }
        #expect(error.reason == "the answer is compressed (gzip), although no compression was requested")
        let listing = await #expect(throws: ChappieClientError.self) { try await harness.client.usageLimits() }
        #expect(listing == .transportFailed(error))
    }
}
