import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@Suite struct RateLimitTests {
    private let busy = ScriptedHTTPAnswer.response(
        status: .tooManyRequests, body: #"{"error":{"code":"rate_limit_exceeded"}}"#)

    private func busy(retryAfter: String) -> ScriptedHTTPAnswer {
        .response(status: .tooManyRequests, headerFields: [.retryAfter: retryAfter], body: "{}")
    }

    /// Runs a turn, moving the clock on by each expected pause and by nothing else.
    private func run(_ stage: Stage, pauses: [Duration]) async throws -> String {
        async let text = stage.client.send("Hi")
        for pause in pauses {
            await stage.clock.waitForSleepers(count: 1)
            stage.clock.advance(by: pause - .milliseconds(1))
            #expect(stage.clock.sleeperCount == 1, "the pause is shorter than \(pause)")
            stage.clock.advance(by: .milliseconds(1))
        }
        return try await text
    }

    @Test func pausesOneSecondThenTwo() async throws {
        let stage = Stage([busy, busy, stream(events(answering: "at last"))])
        #expect(try await run(stage, pauses: [.seconds(1), .seconds(2)]) == "at last")
        #expect(stage.transport.receivedRequests.count == 3)
    }

    @Test func followsTheServersPauseUpToTheMaximum() async throws {
        let stage = Stage([
            busy(retryAfter: "7"), busy(retryAfter: "Fri, 31 Dec 2037 23:59:59 GMT"), stream(events(answering: "yes")),
        ])
        #expect(try await run(stage, pauses: [.seconds(7), .seconds(30)]) == "yes")
    }

    @Test func givesUpAfterTwoRetries() async throws {
        let stage = Stage([busy, busy, busy])
        await #expect(throws: ChappieClientError.httpError(429, #"{"error":{"code":"rate_limit_exceeded"}}"#)) {
            try await run(stage, pauses: [.seconds(1), .seconds(2)])
        }
    }

    @Test func canBeSwitchedOff() async throws {
        let stage = Stage([busy], configuration: ChappieConfiguration(rateLimitBackoff: .disabled))
        await #expect(throws: ChappieClientError.self) { try await stage.client.send("Hi") }
        #expect(stage.transport.receivedRequests.count == 1)
    }

    @Test func aUsageLimitIsNeverRetried() async throws {
        let stage = Stage([
            .response(
                status: .tooManyRequests, headerFields: [.retryAfter: "1"],
                body: #"{"error":{"type":"usage_limit_reached","plan_type":"pro","resets_at":1704067242}}"#)
        ])
        do {
            _ = try await stage.client.send("Hi")
            Issue.record("no error")
        } catch ChappieClientError.usageLimitReached(let limit) {
            #expect(limit.plan == .pro)
            #expect(limit.resetsAt == Date(timeIntervalSince1970: 1_704_067_242))
        }
        #expect(stage.transport.receivedRequests.count == 1)
    }

    /// The connection breaks, or nothing more comes, where the server had announced more than the error.
    @Test(.timeLimit(.minutes(5)), arguments: [false, true])
    func aUsageLimitIsOneWhateverBecomesOfItsConnection(stalls: Bool) async throws {
        let limit = #"{"error":{"type":"usage_limit_reached","plan_type":"pro"}}"#
        let stage = Stage([
            ScriptedHTTPAnswer(
                status: .tooManyRequests, body: [.chunk(Array(limit.utf8)), stalls ? .stall : .cut])
        ])
        do {
            _ = try await stage.client.send("Hi")
            Issue.record("no error")
        } catch ChappieClientError.usageLimitReached(let limit) {
            #expect(limit.plan == .pro)
        }
        #expect(stage.transport.receivedRequests.count == 1)
    }

    @Test func aRateLimitInsideTheStreamCountsToo() async throws {
        let failed = stream(
            #"data: {"type":"response.failed","response":{"id":"r","error":{"code":"rate_limit_exceeded"}}}"# + "\n\n")
        let stage = Stage([failed, stream(events(answering: "yes"))])
        #expect(try await run(stage, pauses: [.seconds(1)]) == "yes")
    }

    @Test func aLimitInMidAnswerIsWaitedOutAndNothingIsShownTwice() async throws {
        let failed = stream(
            """
            data: {"type":"response.output_text.delta","delta":"shown"}

            data: {"type":"response.failed","response":{"id":"r","error":{"code":"rate_limit_exceeded"}}}


            """)
        let stage = Stage([failed, stream(events(answering: "shown once"))])
        async let deltas = stage.client.stream("Hi").reduce(into: [String]()) { deltas, event in
            if case .textDelta(let delta) = event { deltas.append(delta) }
        }
        await stage.clock.waitForSleepers(count: 1)
        stage.clock.advance(by: .seconds(1))
        #expect(try await deltas == ["shown", " once"])
        #expect(stage.transport.receivedRequests.count == 2)
    }

    @Test func theTurnStateIsEchoedWithinATurnAndForgottenAfterIt() async throws {
        let name = try #require(HTTPField.Name("x-codex-turn-state"))
        var first = busy
        first.headerFields[name] = "sticky-1"
        var second = busy
        second.headerFields[name] = "sticky-2"
        let stage = Stage([first, second, stream(events(answering: "a")), stream(events(answering: "b"))])
        _ = try await run(stage, pauses: [.seconds(1), .seconds(2)])
        _ = try await stage.client.send("again")
        #expect(stage.transport.receivedRequests.map { $0.headerFields[name] } == [nil, "sticky-1", "sticky-1", nil])
    }

    @Test func cancellingEndsAPause() async throws {
        let stage = Stage([busy])
        let handle = stage.client.startStream(.user("Hi"))
        await stage.clock.waitForSleepers(count: 1)
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.response() }
    }
}
