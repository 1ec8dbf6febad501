import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// What a person sees when the connection breaks, and the backend when it is asked again.
@Suite struct BreakTests {
    private let half = ScriptedWebSocketOpening.opened(replies: [
        [.deliver(messages(breakingOffAfter: "Hello, ")), .cut]
    ])

    private func whole(_ text: String = "Hello, world") -> ScriptedWebSocketOpening {
        .opened(replies: [[.deliver(messages(answering: text, id: "resp_2"))]])
    }

    private func error(_ json: String) -> ScriptedWebSocketOpening { .opened(replies: [[.deliver([json])]]) }

    @Test func aBreakInMidAnswerIsMendedAndNothingIsShownTwice() async throws {
        let stage = WebSocketStage([half, whole()])
        let (text, events, error) = await stage.ask()
        #expect(text == "Hello, world")
        #expect(error == nil)
        #expect(events.count == 3)
        guard case .reconnecting(attempt: 1, maximum: 5, _) = events[1] else {
            Issue.record("\(events)")
            return
        }
        #expect(try stage.frames(1)[0]["input"] == stage.frames(0)[0]["input"])
    }

    @Test func aBreakInALaterTurnIsMendedWithTheWholeConversation() async throws {
        let stage = WebSocketStage([
            .opened(replies: [
                [.deliver(messages(answering: "one"))], [.deliver(messages(breakingOffAfter: "tw")), .cut],
            ]), whole("two"),
        ])
        _ = await stage.ask("a")
        #expect(await stage.ask("b").text == "two")
        #expect(try stage.frames(0)[1]["previous_response_id"]?.string == "resp_1")
        let replay = try stage.frames(1)[0]
        #expect(replay["previous_response_id"] == nil)
        #expect(replay["input"]?.array?.count == 4)
    }

    @Test func anotherAnswerIsAnErrorThatNamesWhatWasShown() async {
        let stage = WebSocketStage([half, whole("Goodbye")])
        let (text, _, error) = await stage.ask()
        #expect(text == "Hello, ")
        #expect(error == .streamingTransportReplayDiverged("Hello, "))
    }

    @Test func afterFiveReconnectsTheAnswerComesOverHTTP() async {
        let stage = WebSocketStage(
            Array(repeating: half, count: 6), http: [stream(events(answering: "Hello, world"))])
        let (text, events, error) = await stage.ask()
        #expect(text == "Hello, world")
        #expect(error == nil)
        #expect(stage.webSocket.receivedOpenings.count == 6)
        #expect(events.contains(.fellBack(.serverSentEvents)))
        #expect(events.last == .connected(.serverSentEvents))
    }

    @Test func withoutFallbackTheErrorSaysThatTheConnectionBroke() async {
        let stage = WebSocketStage(
            Array(repeating: half, count: 2),
            policy: ChappieStreamingTransportPolicy(maxWebSocketReconnectionAttempts: 1, fallsBackToHTTPSSE: false))
        let (text, _, error) = await stage.ask()
        #expect(text == "Hello, ")
        guard case .transportFailed(let reason) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(reason.code == .connectionLost)
    }

    @Test func aRefusedUpgradeGoesOverHTTPAtOnceAndIsTriedAgainAfterAWhile() async throws {
        let stage = WebSocketStage(
            [.refused(.response(status: .upgradeRequired)), whole("three")],
            http: [stream(events(answering: "one")), stream(events(answering: "two", id: "resp_2"))])
        #expect(
            await stage.ask("a")
                == (
                    text: "one", events: [.fellBack(.serverSentEvents), .connected(.serverSentEvents)], error: nil
                ))
        #expect(await stage.ask("b").events == [.connected(.serverSentEvents)])
        try await stage.clock.sleep(for: .seconds(30))
        #expect(await stage.ask("c").events == [.connected(.webSocket)])
        #expect(stage.webSocket.receivedOpenings.count == 2)
    }

    @Test(arguments: [200, 403, 404, 500, 503])
    func otherRefusalsDoTheSame(status: Int) async {
        let stage = WebSocketStage(
            [.refused(.response(status: .init(code: status), body: "no"))], http: [stream(events(answering: "one"))])
        #expect(await stage.ask().text == "one")
        #expect(stage.webSocket.receivedOpenings.count == 1)
    }

    @Test(.timeLimit(.minutes(5)), arguments: [403, 426])
    func aRefusalWhoseBodyNeverEndsDoesNotHoldUpTheOtherWay(status: Int) async {
        let page = ScriptedHTTPAnswer(
            status: .init(code: status), body: [.chunk(Array("<html>".utf8)), .stall])
        let stage = WebSocketStage([.refused(page)], http: [stream(events(answering: "one"))])
        #expect(await stage.ask().text == "one")
    }

    @Test(.timeLimit(.minutes(5)), arguments: [false, true])
    func aUsageLimitInAHandshakeThatBreaksOffIsFinal(stalls: Bool) async {
        let limit = #"{"error":{"type":"usage_limit_reached","plan_type":"plus"}}"#
        let answer = ScriptedHTTPAnswer(
            status: .tooManyRequests, body: [.chunk(Array(limit.utf8)), stalls ? .stall : .cut])
        let stage = WebSocketStage([.refused(answer)])
        guard case .usageLimitReached = await stage.ask().error else {
            Issue.record("not the usage limit")
            return
        }
        #expect(stage.http.receivedRequests.isEmpty)
    }

    @Test func aUsageLimitInTheHandshakeIsFinal() async {
        let stage = WebSocketStage([
            .refused(
                .response(
                    status: .tooManyRequests, body: #"{"error":{"type":"usage_limit_reached","plan_type":"plus"}}"#))
        ])
        guard case .usageLimitReached = await stage.ask().error else {
            Issue.record("not the usage limit")
            return
        }
        #expect(stage.http.receivedRequests.isEmpty)
    }

    @Test func aUsageLimitInAFrameIsFinalAndBringsItsWindows() async {
        let stage = WebSocketStage([
            error(
                #"{"type":"error","status":429,"error":{"type":"usage_limit_reached","plan_type":"pro"},"headers":{"x-codex-primary-used-percent":"100.0","x-codex-primary-window-minutes":"15"}}"#
            )
        ])
        guard case .usageLimitReached(let limit) = await stage.ask().error else {
            Issue.record("not the usage limit")
            return
        }
        #expect(limit.rateLimit?.primary?.usedPercent == 100)
        #expect(stage.webSocket.receivedOpenings.count == 1)
        #expect(stage.http.receivedRequests.isEmpty)
    }

    @Test(arguments: ["websocket_connection_limit_reached", "previous_response_not_found"])
    func aLostConversationIsMendedUnseen(code: String) async throws {
        let lost = #"{"type":"error","status":400,"error":{"type":"invalid_request_error","code":"\#(code)"}}"#
        let stage = WebSocketStage([
            .opened(replies: [[.deliver(messages(answering: "one"))], [.deliver([lost])]]), whole("two"),
        ])
        _ = await stage.ask("a")
        #expect(
            await stage.ask("b") == (text: "two", events: [.connected(.webSocket), .connected(.webSocket)], error: nil))
        #expect(try stage.frames(1)[0]["input"]?.array?.count == 4)
    }

    @Test(arguments: [0, 1, 2])
    func aConnectionThatDiedBetweenTurnsIsReplacedUnseen(kind: Int) async throws {
        let stage = WebSocketStage([.opened(replies: [[.deliver(messages(answering: "one"))], [.cut]]), whole("two")])
        _ = await stage.ask("a")
        switch kind {
        case 0: stage.webSocket.peers[0].play([.close(.normal)])
        case 1: stage.webSocket.peers[0].play([.cut])
        default: break  // Found out only when the request is out.
        }
        #expect(await stage.ask("b") == (text: "two", events: [.connected(.webSocket)], error: nil))
    }

    @Test func aRefusedTokenInAFrameIsRenewedOnce() async throws {
        let refused = #"{"type":"error","status":401,"error":{"code":"token_expired"}}"#
        var fresh = SeededAuth()
        fresh.serial = 2
        let stage = WebSocketStage(
            [error(refused), whole()],
            http: [.response(headerFields: [.contentType: "application/json"], body: fresh.tokenAnswer)])
        #expect(await stage.ask().text == "Hello, world")
        #expect(stage.http.receivedRequests.map { $0.url.path() } == ["/oauth/token"])
        let bearers = stage.webSocket.receivedOpenings.map { $0.headerFields[.authorization] }
        #expect(bearers[0] != bearers[1])
        #expect(bearers[1] == "Bearer \(fresh.accessToken)")
    }

    @Test func aTokenRefusedAgainAfterRenewalIsAnError() async {
        let refused = #"{"type":"error","status_code":401,"error":{"code":"token_expired"}}"#
        var fresh = SeededAuth()
        fresh.serial = 2
        let stage = WebSocketStage(
            [error(refused), error(refused)],
            http: [.response(headerFields: [.contentType: "application/json"], body: fresh.tokenAnswer)])
        guard case .reauthenticationRequired = await stage.ask().error else {
            Issue.record("not refused")
            return
        }
    }

    @Test(arguments: [#""status":503,"#, #""status_code":500,"#, ""])
    func serverTroubleInAFrameIsTriedAgain(status: String) async {
        let stage = WebSocketStage([error(#"{"type":"error",\#(status)"error":{"message":"trouble"}}"#), whole()])
        let (text, events, error) = await stage.ask()
        #expect(text == "Hello, world")
        #expect(error == nil)
        #expect(events.count == 3)
    }

    @Test func aPlainRefusalInAFrameIsFinal() async {
        let stage = WebSocketStage([error(#"{"type":"error","status":400,"error":{"message":"bad tool"}}"#)])
        guard case .httpError(400, let body) = await stage.ask().error else {
            Issue.record("not an HTTP error")
            return
        }
        #expect(body.contains("bad tool"))
    }

    @Test func aFarRetryAfterIsBounded() async {
        let limited = error(
            #"{"type":"error","status":429,"error":{"message":"slow"},"headers":{"retry-after":"99999999"}}"#)
        let stage = WebSocketStage([limited, whole()])
        let (text, events, _) = await stage.ask()
        #expect(text == "Hello, world")
        #expect(events[1] == .waiting(attempt: 1, maximum: 2, delay: .seconds(30)))
        #expect(stage.clock.elapsed == .seconds(30))
    }

    @Test(arguments: [1001, 1008, 1011])
    func aCloseBeforeTheEndIsABreak(code: Int) async {
        let closed = ScriptedWebSocketOpening.opened(replies: [
            [.deliver(messages(breakingOffAfter: "Hello, ")), .close(WebSocketCloseReason(code: UInt16(code)))]
        ])
        #expect(await WebSocketStage([closed, whole()]).ask().text == "Hello, world")
    }

    @Test func aBinaryMessageIsABreak() async {
        let binary = ScriptedWebSocketOpening.opened(replies: [[.deliver([.binary([1, 2, 3])])]])
        let stage = WebSocketStage([binary, whole()])
        #expect(await stage.ask().text == "Hello, world")
        #expect(stage.webSocket.peers[0].isDropped)
    }

    @Test func nonsenseIsPassedOver() async {
        let stage = WebSocketStage([
            .opened(replies: [[.deliver(["{", "[]", #"{"type":"new.event"}"#] + messages(answering: "one"))]])
        ])
        #expect(await stage.ask().text == "one")
    }

    @Test func anAnswerWithoutMeasureIsGivenUpForGood() async {
        let piece = WebSocketMessage.text(String(repeating: "x", count: 1 << 20))
        let stage = WebSocketStage([
            .opened(replies: [[.deliver(Array(repeating: piece, count: 257)), .deliver(messages(answering: "late"))]])
        ])
        guard case .transportFailed(let error) = await stage.ask().error else {
            Issue.record("not given up")
            return
        }
        #expect(error.code == .bodyTooLarge)
        #expect(stage.webSocket.receivedOpenings.count == 1)
        #expect(stage.http.receivedRequests.isEmpty)
    }

    @Test func silenceGoesOnOverHTTP() async {
        let silent = ScriptedWebSocketOpening.opened(replies: [
            [.deliver(messages(breakingOffAfter: "Hello, ")), .silence]
        ])
        let stage = WebSocketStage([silent], http: [stream(events(answering: "Hello, world"))])
        let (text, events, _) = await stage.ask()
        #expect(text == "Hello, world")
        #expect(events.contains(.fellBack(.serverSentEvents)))
    }

    @Test func aMessageTooLargeGoesOverHTTPBeforeAnythingIsSent() async {
        let small = ChappieWebSocketProfile(messageLimit: 500)
        let long = String(repeating: "x", count: 600)
        let stage = WebSocketStage([], http: [stream(events(answering: "one"))], profile: small)
        #expect(await stage.ask(long).text == "one")
        #expect(stage.webSocket.receivedOpenings.isEmpty)
        let strict = WebSocketStage(
            [], policy: ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false), profile: small)
        guard case .messageTooLarge(let bytes, limit: 500) = await strict.ask(long).error else {
            Issue.record("not too large")
            return
        }
        #expect(bytes > 600)
    }

    @Test func theTurnStateIsEchoedInTheSameTurnOnly() async throws {
        let name = try #require(HTTPField.Name("x-codex-turn-state"))
        let stage = WebSocketStage([
            .opened(headerFields: [name: "ts-1"], replies: [[.deliver(messages(breakingOffAfter: "Hello, ")), .cut]]),
            .opened(
                headerFields: [name: "ts-2"],
                replies: [
                    [.deliver(messages(answering: "Hello, world"))], [.deliver(messages(answering: "again", id: "r3"))],
                ]),
        ])
        _ = await stage.ask("a")
        _ = await stage.ask("b")
        let state = try (stage.frames(0) + stage.frames(1)).map {
            $0["client_metadata"]?["x-codex-turn-state"]?.string
        }
        // The first request went out before there was one.
        #expect(state == [nil, "ts-1", nil])
    }

    @Test func anUnreachableHostIsAnErrorAtOnce() async {
        let error = ChappieTransportError(.unknownHost, stage: .connect, host: "chatgpt.com", reason: "gone")
        let stage = WebSocketStage([.failed(error)])
        #expect(await stage.ask().error == .transportFailed(error))
        #expect(stage.clock.elapsed == .zero)
    }

    @Test func aWrongCertificateIsNeverTriedAgain() async {
        let error = ChappieTransportError(.certificateRejected, stage: .tls, host: "chatgpt.com", reason: "self-signed")
        let stage = WebSocketStage([.failed(error)])
        #expect(await stage.ask().error == .transportFailed(error))
        #expect(stage.http.receivedRequests.isEmpty)
    }

    @Test func aNetworkThatIsGoneForAMomentIsWaitedFor() async {
        let gone = ChappieTransportError(.connectFailed, stage: .connect, host: "chatgpt.com", reason: "unreachable")
        let stage = WebSocketStage([half, .failed(gone), .failed(gone), whole()])
        #expect(await stage.ask().text == "Hello, world")
    }
}
