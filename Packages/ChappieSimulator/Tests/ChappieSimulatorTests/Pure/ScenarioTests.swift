import ChappieCore
import FoundationEssentials
import Testing

@testable import ChappieSimulator

struct ScenarioTests {
    @Test(arguments: SimulatorScenario.names)
    func everyBuiltInScenarioCanBeReadAndSaysWhatItDoes(name: String) throws {
        let scenario = try SimulatorScenario(named: name)
        #expect(scenario.name == name)
        #expect(!scenario.summary.isEmpty)
        #expect(!scenario.rules.isEmpty || scenario.settings != ScenarioSettings())
    }

    @Test func anUnknownNameIsAnErrorThatListsTheNames() {
        let error = #expect(throws: SimulatorError.self) { try SimulatorScenario(named: "nonsense") }
        #expect(error?.code == .unknownScenario)
        #expect(error?.reason.contains("usage-limit") == true)
    }

    @Test(arguments: [
        ("{", "The scenario is not valid JSON: a member name is missing at byte 1"),
        ("[]", "The scenario must be an object"),
        ("{\"rulez\":[]}", "rulez is not a member a scenario can have here"),
        ("{\"rules\":{}}", "rules must be a list"),
        ("{\"rules\":[{}]}", "rules[0] needs a member \"effect\""),
        (
            "{\"rules\":[{\"effect\":{}},{\"effect\":{\"status\":\"500\"}}]}",
            "rules[1].effect.status must be an integer"
        ),
        (
            "{\"rules\":[{\"effect\":{\"cut\":{\"afterBytes\":-1}}}]}",
            "rules[0].effect.cut.afterBytes must be an integer"
        ),
        ("{\"rules\":[{\"effect\":{\"cut\":{}}}]}", "rules[0].effect.cut needs one of beforeHead"),
        (
            "{\"rules\":[{\"effect\":{\"cut\":{\"afterBytes\":1,\"with\":\"bang\"}}}]}",
            "rules[0].effect.cut.with must be one of \"fin\", \"rst\""
        ),
        ("{\"rules\":[{\"match\":{\"nth\":0},\"effect\":{}}]}", "rules[0].match.nth must be an integer from 1"),
        ("{\"rules\":[{\"match\":{\"nth\":[1,true]},\"effect\":{}}]}", "rules[0].match.nth[1] must be an integer"),
        ("{\"rules\":[{\"effect\":{\"headers\":{\"a b\":\"c\"}}}]}", "rules[0].effect.headers.a b is not a header"),
        ("{\"rules\":[{\"effect\":{\"headers\":{\"a\":\"c\\r\\nd: e\"}}}]}", "rules[0].effect.headers.a must not hold"),
        ("{\"rules\":[{\"effect\":{\"status\":500,\"html\":true}}]}", "rules[0].effect can have only one of"),
        ("{\"rules\":[{\"effect\":{\"delayBeforeHead\":\"2\"}}]}", "rules[0].effect.delayBeforeHead must be a number"),
        (
            "{\"rules\":[{\"effect\":{\"events\":{\"ending\":\"sad\"}}}]}",
            "rules[0].effect.events.ending must be one of"
        ),
        ("{\"rules\":[{\"effect\":{\"events\":{\"extra\":[{}]}}}]}", "rules[0].effect.events.extra[0] needs a string"),
        (
            "{\"rules\":[{\"effect\":{\"handshake\":{\"accept\":\"maybe\"}}}]}",
            "rules[0].effect.handshake.accept must be one of \"right\", \"wrong\", \"absent\""
        ),
        (
            "{\"rules\":[{\"effect\":{\"handshake\":{\"deflate\":{\"serverMaxWindowBits\":8}}}}]}",
            "rules[0].effect.handshake.deflate.serverMaxWindowBits must be an integer from 9 to 15"
        ),
        ("{\"rules\":[{\"effect\":{\"frames\":{\"bytes\":\"8\"}}}]}", "rules[0].effect.frames.bytes must be pairs of"),
        ("{\"rules\":[{\"effect\":{\"frames\":{\"opcode\":16}}}]}", "rules[0].effect.frames.opcode must be an integer"),
        (
            "{\"rules\":[{\"effect\":{\"frames\":{\"close\":{\"code\":65536}}}}]}",
            "rules[0].effect.frames.close.code must be an integer"
        ),
        ("{\"rules\":[{\"match\":{\"over\":\"air\"},\"effect\":{}}]}", "rules[0].match.over must be one of"),
        (
            "{\"rules\":[{\"effect\":{\"status\":500,\"connectionLimit\":true}}]}",
            "rules[0].effect can have only one of"
        ),
        ("{\"settings\":{\"pollInterval\":1.5}}", "settings.pollInterval must be an integer"),
        ("{\"settings\":{\"deltasPerSecond\":0}}", "settings.deltasPerSecond must be a number"),
    ])
    func mistakesAreNamedByTheirKeyPath(json: String, message: String) {
        let error = #expect(throws: SimulatorError.self) { try SimulatorScenario(parsing: json) }
        #expect(error?.code == .invalidScenario)
        #expect(error?.reason.hasPrefix(message) == true, "\(error?.reason ?? "")")
    }

    /// The status that the scenario gives each of these requests in a row.
    private func statuses(
        _ json: String, _ requests: [(method: String, target: String, body: String, over: ScenarioMatch.Carrier)]
    ) throws -> [Int?] {
        var progress = ScenarioProgress(try SimulatorScenario(parsing: json))
        return requests.map { request in
            let received = ReceivedRequest(
                method: request.method, target: request.target, body: Array(request.body.utf8))
            return progress.effect(for: BackendRequest(received, over: request.over))?.status
        }
    }

    @Test func theFirstRuleThatAppliesWinsAndEveryRuleCounts() throws {
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

    @Test func aTurnIsTheSameOverHTTPAndWebSocketUnlessTheRuleSaysOtherwise() throws {
        let rules = """
            {"rules":[
             {"match":{"method":"POST","nth":[1,2]},"effect":{"status":500}},
             {"match":{"method":"POST","over":"websocket"},"effect":{"status":501}},
             {"match":{"over":"http"},"effect":{"status":502}},
             {"match":{"method":"PREWARM"},"effect":{"status":503}}]}
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
        let settings = configuration.applyingScenario()
        #expect(settings.pollInterval == 7)
        #expect(settings.approvesOnPoll == 2)
        #expect(settings.accessTokenLifetime == .seconds(60))
        #expect(settings.refreshTokenLifetime == .seconds(90))
        #expect(settings.account.plan == "pro")
        #expect(settings.usage.primaryUsedPercent == 99.5)
        #expect(settings.revokesFamilyOnReuse)
        #expect(settings.deltasPerSecond == 20)
        #expect([settings.webSocket, settings.webSocketDeflate] == [false, false])
        #expect(settings.webSocketPingInterval == .zero)
    }

    @Test func theDocumentedListOfBuiltInScenariosIsTrue() throws {
        let file = URL(filePath: #filePath).appending(path: "../../../../SCENARIOS.md").standardized
        let text = try String(contentsOf: file, encoding: .utf8)
        let rows = try SimulatorScenario.names.map { "| `\($0)` | \(try SimulatorScenario(named: $0).summary) |" }
        #expect(text.contains(rows.joined(separator: "\n") + "\n\n## Where"))
    }
}
