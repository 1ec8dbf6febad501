import ChappieClient
import ChappieCore
import ChappieSimulator
import Testing

/// Faults over real sockets: each ends in the right text or in the right typed error, within its deadline.
@Suite struct FaultTests {
    private func failure(
        _ name: String, deadlines: ChappieDeadlines = ChappieDeadlines(), turns: Int = 1,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ChappieClientError? {
        var result: ChappieClientError?
        try await Loopback.run(try SimulatorScenario(named: name), deadlines: deadlines) { loopback in
            let (_, end) = await loopback.ask("Hello")
            #expect(loopback.turns == turns, sourceLocation: sourceLocation)
            if case .failure(let error) = end { result = error as? ChappieClientError }
        }
        return result
    }

    private func transportFailure(
        _ name: String, deadlines: ChappieDeadlines = ChappieDeadlines(),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ChappieTransportError {
        let error = try await failure(name, deadlines: deadlines, sourceLocation: sourceLocation)
        guard case .transportFailed(let transport)? = error else {
            throw Unexpected("\(name) ended in \(String(describing: error))")
        }
        return transport
    }

    private struct Unexpected: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    @Test(arguments: [
        "drip", "drip-slow", "slow-head", "slow-body", "close-delimited", "unknown-events", "giant-event",
        "unauthorized-once", "rate-limit-retry-after",
    ])
    func theAnswerArrivesAllTheSame(scenario: String) async throws {
        var reference = ""
        try await Loopback.run { reference = await $0.ask("Grüße 🌍 an **alle**").shown }
        try #require(reference.contains("Grüße 🌍"))
        try await Loopback.run(try SimulatorScenario(named: scenario)) { loopback in
            let (shown, end) = await loopback.ask("Grüße 🌍 an **alle**")
            #expect(shown == reference)
            let response = try end.get()
            #expect(response.outputText == reference)
        }
    }

    @Test(arguments: ["cut", "cut-rst", "cut-forever", "cut-clean"])
    func aBrokenAnswerIsALostConnection(scenario: String) async throws {
        let error = try await transportFailure(scenario)
        #expect(error.code == .connectionLost)
        #expect(error.stage == .responseBody)
        #expect(error.host.hasPrefix("127.0.0.1"))
    }

    @Test(arguments: ["hang-up", "hang-up-rst"])
    func noAnswerIsALostConnection(scenario: String) async throws {
        #expect(try await transportFailure(scenario).code == .connectionLost)
    }

    @Test(arguments: [
        ("stall", ChappieTransportError.Stage.responseBody), ("stall-before-head", .responseHead),
        ("stall-before-body", .firstByte),
    ])
    func silenceEndsAtTheDeadlineOfItsStage(scenario: String, stage: ChappieTransportError.Stage) async throws {
        let start = ContinuousClock.now
        let error = try await transportFailure(scenario, deadlines: Loopback.deadlines)
        #expect(error.code == .timedOut)
        #expect(error.stage == stage)
        #expect(ContinuousClock.now - start < .seconds(20) * Patience.factor)
    }

    @Test func refusalsForEverEndAfterOneRefresh() async throws {
        try await Loopback.run(try SimulatorScenario(named: "unauthorized-storm")) { loopback in
            let (_, end) = await loopback.ask("Hello")
            guard case .failure(ChappieClientError.reauthenticationRequired) = end else {
                Issue.record("\(end)")
                return
            }
            #expect(loopback.turns == 2)
            let tokenRequests = loopback.simulator.receivedRequests.count { $0.target == "/oauth/token" }
            #expect(tokenRequests == 2, "the sign-in's exchange and one refresh")
        }
    }

    @Test func aUsageLimitSaysWhenItResets() async throws {
        guard case .usageLimitReached(let limit)? = try await failure("usage-limit") else {
            Issue.record("no usage limit")
            return
        }
        #expect(limit.resetsAt != nil)
        #expect(limit.plan == .plus)
    }

    @Test func rateLimitsForEverEndAfterTwoRetries() async throws {
        guard case .httpError(429, _)? = try await failure("rate-limit", turns: 3) else {
            Issue.record("no HTTP error")
            return
        }
    }

    @Test(arguments: [("server-error-forever", 500), ("overloaded", 503), ("bad-request", 400), ("blocked", 403)])
    func otherErrorsKeepTheirStatus(scenario: String, status: Int) async throws {
        guard case .httpError(status, _)? = try await failure(scenario) else {
            Issue.record("no HTTP error")
            return
        }
    }

    @Test(arguments: ["html", "not-json", "too-giant-event"])
    func nonsenseIsAnInvalidResponse(scenario: String) async throws {
        #expect(try await failure(scenario) == .invalidResponse)
    }

    @Test func aRedirectElsewhereIsNotFollowed() async throws {
        #expect(try await transportFailure("redirect-elsewhere").code == .redirectRefused)
    }

    @Test(arguments: ["refresh-expired", "refresh-reused", "refresh-invalidated"])
    func aDeadRefreshTokenAsksForANewSignIn(scenario: String) async throws {
        guard case .reauthenticationRequired(let reason)? = try await failure(scenario, turns: 0) else {
            Issue.record("no reauthentication")
            return
        }
        #expect(!reason.isEmpty)
    }

    @Test func aFailedEarlyRefreshKeepsTheTokenThatIsStillGood() async throws {
        try await Loopback.run(try SimulatorScenario(named: "refresh-500")) { loopback in
            let (_, end) = await loopback.ask("Hello")
            let response = try end.get()
            #expect(response.status == .completed)
        }
    }
}
