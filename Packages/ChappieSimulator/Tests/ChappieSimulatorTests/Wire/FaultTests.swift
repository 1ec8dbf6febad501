import ChappieCore
import ChappieSimulator
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
        ("cut", Int32(18)), ("cut-rst", 56), ("hang-up", 52), ("hang-up-rst", 56), ("cut-clean", 0), ("failed", 0),
        ("no-completed", 0), ("drip", 0), ("close-delimited", 0), ("crlf", 0), ("bom", 0), ("giant-event", 0),
    ])
    func endsTheWayItSays(name: String, exitStatus: Int32) async throws {
        let answer = try await Simulator.during(named: name) { try $0.ask("Hi") }
        #expect(answer.exitStatus == exitStatus)
    }

    @Test(arguments: [("stall", 8), ("stall-before-head", 0), ("stall-before-body", 0)])
    func fallsSilentWhereItSays(name: String, events: Int) async throws {
        let answer = try await Simulator.during(named: name) { try $0.ask("Hi", options: ["--max-time", "0.5"]) }
        #expect(answer.exitStatus == 28)
        #expect(answer.events.count == events)
        #expect(answer.status == (name == "stall-before-head" ? 0 : 200))
    }

    @Test func aCutHappensAsOftenAsItSays() async throws {
        let answers = try await Simulator.during(named: "cut") { [try $0.ask("Hi"), try $0.ask("Hi")] }
        #expect(answers[0].events.count == 8)
        #expect(answers[1].events.types.last == "response.completed")
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

    @Test(arguments: [
        ("unauthorized-storm", 401), ("usage-limit", 429), ("rate-limit", 429), ("server-error-forever", 500),
        ("overloaded", 503), ("bad-request", 400), ("blocked", 403), ("html", 200), ("not-json", 200),
        ("redirect-elsewhere", 307),
    ])
    func answersTheStatusItSays(name: String, status: Int) async throws {
        let answers = try await Simulator.during(named: name) { [try $0.ask("Hi"), try $0.ask("Hi")] }
        #expect(answers.map(\.status) == [status, status])
    }

    @Test func aUsageLimitSaysWhenItResets() async throws {
        let configuration = SimulatorConfiguration(clock: StillClock())
        let answer = try await Simulator.during(configuration, named: "usage-limit") { try $0.ask("Hi") }
        #expect(answer.json["error"]?["type"] == "usage_limit_reached")
        #expect(answer.json["error"]?["plan_type"] == "plus")
        #expect(answer.json["error"]?["resets_at"]?.int == 1_795_003_600)
        #expect(answer.json["error"]?["resets_in_seconds"] == 3600)
        #expect(answer.headers["x-codex-primary-used-percent"] == "100.0")
    }

    @Test func headersCanBeSetOnAnyAnswer() async throws {
        let scenario = rule("\"headers\":{\"x-codex-primary-used-percent\":\"81.5\",\"retry-after\":2}")
        let answer = try await Simulator.during(scenario: scenario) { try $0.ask("Hi") }
        #expect(answer.status == 200)
        #expect(answer.headers["x-codex-primary-used-percent"] == "81.5")
        #expect(answer.headers["retry-after"] == "2")
        let answers = try await Simulator.during(named: "rate-limit-retry-after") { simulator in
            try (0..<3).map { _ in try simulator.ask("Hi") }
        }
        #expect(answers.map { $0.headers["retry-after"] } == ["1", "1", nil])
        #expect(answers.map(\.status) == [429, 429, 200])
    }

    @Test func theLogTellsWhatTheScenarioDid() async throws {
        let lines = try await Simulator.logged(named: "hang-up") { _ = try $0.ask("Hi") }
        #expect(lines.first == "POST /backend-api/codex/responses no answer (scenario)")
    }
}
