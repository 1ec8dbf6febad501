import ChappieCore
import FoundationEssentials
import Testing

@testable import ChappieSimulator

struct ScenarioTests {
    @Test func `every built-in scenario can be read, and the document describes it`() throws {
        let scenarios = try SimulatorScenario.names.map { try SimulatorScenario(named: $0) }
        #expect(scenarios.map(\.name) == SimulatorScenario.names)
        #expect(scenarios.allSatisfy { !$0.rules.isEmpty || $0.settings != ScenarioSettings() })
        let file = URL(filePath: #filePath).appending(path: "../../../../SCENARIOS.md").standardized
        let list = try String(contentsOf: file, encoding: .utf8).split(separator: "### Built-in scenarios")[1]
        let rows = list.split(separator: "\n").filter { $0.hasPrefix("| `") }.map { $0.split(separator: "`")[1] }
        #expect(rows.map { String($0) } == SimulatorScenario.names)
    }

    @Test func anUnknownNameIsAnErrorThatListsTheNames() {
        let error = #expect(throws: SimulatorError.self) { try SimulatorScenario(named: "nonsense") }
        #expect(error?.code == .unknownScenario)
        #expect(error?.reason.contains("usage-limit") == true)
    }

    @Test(arguments: [
        ("{", "The scenario is not valid JSON: "), ("[]", "The scenario: "),
        (#"{"rulez":[]}"#, "rulez is not a member a scenario can have here"), (#"{"rules":{}}"#, "rules: "),
        (#"{"rules":[{}]}"#, "rules[0] needs a member \"effect\""),
        (#"{"rules":[{"effect":{}},{"effect":{"status":"500"}}]}"#, "rules[1].effect.status: "),
        (#"{"rules":[{"effect":{}},{"effect":{"cut":{"afterByte":5}}}]}"#, "rules[1].effect.cut.afterByte is not a"),
        (#"{"rules":[{"effect":{"cut":{"afterBytes":-1}}}]}"#, "The scenario: "),
        (#"{"rules":[{"effect":{"cut":{"afterBytes":1,"with":"bang"}}}]}"#, "rules[0].effect.cut.with: "),
        (#"{"rules":[{"match":{"nth":[1,true]},"effect":{}}]}"#, "rules[0].match.nth"),
        (#"{"rules":[{"match":{"over":"air"},"effect":{}}]}"#, "rules[0].match.over: "),
        (#"{"rules":[{"effect":{"delayBeforeHead":"2"}}]}"#, "rules[0].effect.delayBeforeHead: "),
        (#"{"rules":[{"effect":{"events":{"ending":"sad"}}}]}"#, "rules[0].effect.events.ending: "),
        (#"{"rules":[{"effect":{"handshake":{"deflate":{"bits":8}}}}]}"#, "rules[0].effect.handshake.deflate.bits is "),
        (#"{"rules":[{"effect":{"frames":{"bytes":"8"}}}]}"#, "rules[0].effect.frames.bytes: must be pairs of"),
        (#"{"rules":[{"effect":{"frames":{"bytes":"8x"}}}]}"#, "rules[0].effect.frames.bytes: must be pairs of"),
        (#"{"rules":[{"effect":{"frames":{"close":{"code":65536}}}}]}"#, "The scenario: "),
        (#"{"settings":{"otherAccounts":[{"email":"a"}]}}"#, "settings.otherAccounts[0] needs a member \"id\""),
    ])
    func mistakesAreNamedByTheirKeyPath(json: String, message: String) {
        let error = #expect(throws: SimulatorError.self) { try SimulatorScenario(parsing: json) }
        #expect(error?.code == .invalidScenario)
        #expect(error?.reason.hasPrefix(message) == true, "\(error?.reason ?? "")")
    }

    /// The status that the scenario gives each of these requests in a row.
    private func statuses(
        _ json: String, _ requests: [(method: String, target: String, body: String, over: ScenarioMatch.Carrier)]
    ) throws -> [UInt16?] {
        var progress = ScenarioProgress(try SimulatorScenario(parsing: json))
        return requests.map { request in
            let received = ReceivedRequest(
                method: request.method, target: request.target, body: Array(request.body.utf8))
            return progress.effect(for: BackendRequest(received, over: request.over))?.status
        }
    }

    @Test func `the first rule that applies wins, and every rule counts its matches`() throws {
        let rules = """
            {"rules":[
             {"match":{"path":"/a","method":"post","nth":[2,3]},"effect":{"status":500}},
             {"match":{"path":"/*","from":3,"to":4},"effect":{"status":501}},
             {"match":{"bodyContains":"needle"},"effect":{"status":502}}]}
            """
        let given = try statuses(
            rules,
            [
                ("POST", "/a", "", .http), ("POST", "/a?q=1", "", .http), ("GET", "/a", "", .http),
                ("POST", "/a", "", .http), ("POST", "/a", "", .http), ("GET", "/b", "a needle in hay", .http),
                ("GET", "/b", "need", .http),
            ])
        #expect(given == [nil, 500, 501, 500, nil, 502, nil])
    }

    @Test func `a turn is the same over HTTP and WebSocket unless the rule names one`() throws {
        let rules = """
            {"rules":[
             {"match":{"method":"POST","nth":[1,2]},"effect":{"status":500}},
             {"match":{"method":"POST","over":"websocket"},"effect":{"status":501}},
             {"match":{"over":"http"},"effect":{"status":502}},
             {"match":{"method":"PREWARM","nth":1},"effect":{"status":503}}]}
            """
        let given = try statuses(
            rules,
            [
                ("PREWARM", "/a", "", .websocket), ("POST", "/a", "", .websocket), ("POST", "/a", "", .http),
                ("POST", "/a", "", .websocket), ("POST", "/a", "", .http), ("GET", "/a", "", .http),
            ])
        #expect(given == [503, 500, 500, 501, 502, 502])
    }

    @Test func settingsWinOverTheConfiguration() throws {
        var configuration = SimulatorConfiguration(pollInterval: 3)
        configuration.scenario = try SimulatorScenario(
            parsing: """
                {"settings":{"autoApprove":true,"pollInterval":7,"accessTokenLifetime":60,"refreshTokenLifetime":90,
                 "plan":"pro","primaryUsedPercent":99.5,"deltasPerSecond":20,"revokesFamilyOnReuse":true,
                 "webSocket":false,"webSocketDeflate":false,"webSocketPingInterval":0}}
                """)
        let settings = try configuration.validated()
        #expect(settings.pollInterval == 7)
        #expect(settings.autoApprove)
        #expect(settings.accessTokenLifetime == .seconds(60))
        #expect(settings.refreshTokenLifetime == .seconds(90))
        #expect(settings.account.plan == "pro")
        #expect(settings.usage.primaryUsedPercent == 99.5)
        #expect(settings.revokesFamilyOnReuse)
        #expect(settings.deltasPerSecond == 20)
        #expect([settings.webSocket, settings.webSocketDeflate] == [false, false])
        #expect(settings.webSocketPingInterval == .zero)
    }
}
