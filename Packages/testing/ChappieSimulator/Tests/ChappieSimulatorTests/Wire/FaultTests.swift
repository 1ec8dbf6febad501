import ChappieCore
import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct FaultTests {
    private func rule(_ effect: String) -> String {
        "{\"rules\":[{\"match\":{\"path\":\"/backend-api/codex/responses\"},\"effect\":{\(effect)}}]}"
    }

    @Test func cutsAReferenceAnswerAtEvery97thByte() async throws {
        let whole = try await Simulator.during { try $0.ask("Hi").body }
        #expect(whole.utf8.count > 2000)
        for length in stride(from: 0, to: whole.utf8.count, by: 97) {
            let cut = rule("\"framing\":\"close\",\"cut\":{\"afterBytes\":\(length)}")
            let answer = try await Simulator.during(scenario: cut) { try $0.ask("Hi") }
            #expect(answer.exitStatus == 0)
            #expect(answer.body.utf8.count == length)
        }
    }

    // 18: a transfer that ended early. 56: a reset. 52: nothing at all. 28: out of time.
    @Test(arguments: [
        ("cut", 18), ("cut-rst", 56), ("hang-up", 52), ("hang-up-rst", 56), ("cut-clean", 0), ("drip", 0),
        ("close-delimited", 0), ("stall", 28), ("stall-before-head", 28), ("stall-before-body", 28),
    ])
    func endsTheWayItSays(name: String, exitStatus: Int) async throws {
        let patience = exitStatus == 28 ? ["--max-time", "2"] : []
        let answer = try await Simulator.during(named: name) { try $0.ask("Hi", options: patience) }
        #expect(answer.exitStatus == exitStatus)
        if ["cut", "stall"].contains(name) {
            #expect(answer.events.types.count { $0 == "response.output_text.delta" } == 2)
        }
    }

    @Test(arguments: ["delayBeforeHead", "delayBeforeBody"])
    func delaysComeWhereTheyBelong(place: String) async throws {
        try await Simulator.during(scenario: rule("\"\(place)\":0.3")) { simulator in
            let start = ContinuousClock.now
            let answer = try simulator.ask("Hi")
            #expect(answer.events.types.last == "response.completed")
            #expect(ContinuousClock.now - start >= .milliseconds(300))
        }
    }

    @Test func aUsageLimitSaysWhenItResets() async throws {
        let configuration = SimulatorConfiguration(clock: StillClock())
        let answer = try await Simulator.during(configuration, named: "usage-limit") { try $0.ask("Hi") }
        #expect(answer.json["error"]?["type"] == "usage_limit_reached")
        #expect(answer.json["error"]?["plan_type"] == "plus")
        #expect(answer.json["error"]?["resets_at"]?.int == 1_795_003_600)
        #expect(answer.headers["x-codex-primary-used-percent"] == "100.0")
    }

    @Test func headersCanBeSetAndTakenAwayOnAnyAnswer() async throws {
        let scenario = rule("\"headers\":{\"openai-model\":null,\"retry-after\":2}")
        let answer = try await Simulator.during(scenario: scenario) { try $0.ask("Hi") }
        #expect(answer.status == 200)
        #expect(answer.headers["openai-model"] == nil)
        #expect(answer.headers["retry-after"] == "2")
        let answers = try await Simulator.during(named: "rate-limit-retry-after") { simulator in
            try (0..<3).map { _ in try simulator.ask("Hi") }
        }
        #expect(answers.map(\.status) == [429, 429, 200])
    }

    @Test func theLogTellsWhatTheScenarioDid() async throws {
        let lines = try await Simulator.logged(named: "hang-up") { _ = try $0.ask("Hi") }
        #expect(lines.first == "POST /backend-api/codex/responses no answer (scenario)")
    }
}
