import ChappieSDK
import ChappieSDKTesting
import Synchronization
import Testing

/// What a tool is given: its schema is derived. Not of an actor, also where everything else is of the main one.
private nonisolated struct Place: Decodable, Equatable, ChappieJSONSchemaProviding { var town: String }

@Suite struct ToolTests {
    private static let schema: ChappieJSONValue = .object([
        "type": .string("object"), "required": .array([.string("town")]),
        "properties": .object(["town": .object(["type": .string("string"), "minLength": .number(1)])]),
    ])
    private static let question = #"call weather {"town": "Oslo"}"#

    private static func weather(_ policy: ChappieToolPolicy = .automatic) -> ChappieHostTool {
        ChappieHostTool(
            name: "weather", description: "The weather in a town.", inputSchema: schema, policy: policy,
            timeout: .seconds(30)
        ) { call in
            #expect(call.name == "weather")
            #expect(!call.callID.isEmpty)
            #expect(call.argumentsJSON?["town"] != nil)
            let place: Place = try call.decode()
            #expect(try call.decode(Place.self) == place)
            guard place.town != "Atlantis" else { throw Flood.sunk }
            return ChappieToolResult(output: "sun in \(place.town)")
        }
    }

    private enum Flood: Error { case sunk }

    @Test func aToolIsCalledAndItsResultIsTold() async throws {
        try await Simulated.run { simulated in
            let typed = ChappieHostTool(name: "typed", description: "The same.", input: Place.self) { (input: Place) in
                ChappieToolResult(output: "rain in \(input.town)")
            }
            let plain = ChappieHostTool(name: "plain", description: "No arguments.", runsAlone: true) { _ in "fog" }
            let client = simulated.client(tools: [Self.weather(), typed, plain])
            var (requests, results): ([ChappieToolExecutionRequest], [ChappieToolExecutionResult]) = ([], [])
            let question = Self.question + "\n" + #"call typed {"town": "Rome"}"# + "\ncall plain {}"
            for try await event in client.stream(question) {
                if case .toolCallRequested(let request) = event { requests.append(request) }
                if case .toolCallCompleted(let result) = event { results.append(result) }
            }
            #expect(
                requests.map(\.call.name) == ["weather", "typed", "plain"] && requests.allSatisfy { $0.round == 1 })
            #expect(Set(results.map(\.output)) == ["sun in Oslo", "rain in Rome", "fog"])
            #expect(results.allSatisfy { $0.outcome == .succeeded && !$0.result.isError })
            // Side by side, and told in the order of the calls.
            let told = simulated.turns[1]["input"]?.array?.suffix(3).map { $0["output"]?.string }
            #expect(told == ["sun in Oslo", "rain in Rome", "fog"])
        }
    }

    @Test func theUserDecides() async throws {
        let decisions: [(ChappieApprovalDecision, ChappieToolExecutionResult.Outcome, String)] = [
            (.approved(), .succeeded, "sun in Oslo"),
            (.approved(arguments: ["town": "Rome"]), .succeeded, "sun in Rome"),
            (.denied(reason: "Not today."), .denied, "Not today."), (.answered(output: "snow"), .answered, "snow"),
            (.approved(scope: .session), .succeeded, "sun in Oslo"),
        ]
        try await Simulated.run { simulated in
            let asked = Mutex<[ChappieApprovalRequest]>([])
            let next = Mutex(decisions[...])
            let client = Chappie.client(
                configuration: simulated.configuration, tools: [Self.weather(.ask)], store: .custom(simulated.store),
                streamingTransportPolicy: .httpSSEOnly
            ) { request in
                asked.withLock { $0.append(request) }
                return next.withLock { $0.removeFirst().0 }
            }
            for (decision, outcome, output) in decisions {
                var result: ChappieToolExecutionResult?
                for try await event in client.stream(Self.question) {
                    switch event {
                    case .approvalRequested(let request): #expect(request.call.name == "weather")
                    case .toolCallCompleted(let completed): result = completed
                    default: break
                    }
                }
                #expect(result?.outcome == outcome && result?.output.contains(output) == true, "\(decision)")
            }
            // Approved for the session: not asked again.
            _ = try await client.send(Self.question)
            #expect(asked.withLock(\.count) == decisions.count)
            let first = asked.withLock { $0.first }
            let request = try #require(first)
            #expect(request.id == request.call.callID && request.toolDescription == "The weather in a town.")
            #expect(request.inputSchema == Self.schema)
        }
        for (decision, _, _) in decisions {
            switch decision {
            case .approved(arguments: let arguments, scope: let scope):
                #expect(arguments?["town"] == (scope == .once && arguments != nil ? "Rome" : nil))
            case .denied(reason: let reason): #expect(reason == "Not today.")
            case .answered(output: let output): #expect(output == "snow")
            case .deferred: Issue.record("not deferred")
            }
        }
    }

    @Test func aTurnWaitsForAUserWhoIsAway() async throws {
        try await Simulated.run { simulated in
            let client = simulated.client(tools: [Self.weather(.ask)]) { _ in .deferred }
            do {
                _ = try await client.send(Self.question)
                Issue.record("answered")
            } catch ChappieClientError.approvalPending(let turn) {
                #expect(turn.approvals.map(\.call.name) == ["weather"] && turn.completed.isEmpty)
                let answer = try await client.resume(turn, decisions: [turn.approvals[0].id: .approved()])
                #expect(answer.outputText.contains("sun in Oslo"))
            }
        }
    }

    @Test func whatIsDeniedOrFailsIsToldOrThrown() async throws {
        let atlantis = #"call weather {"town": "Atlantis"}"#
        try await Simulated.run { simulated in
            // By default the policy `.deny` ends the turn, and of everything else the model is told.
            await #expect {
                _ = try await simulated.client(tools: [Self.weather(.deny)]).send(Self.question)
            } throws: { error in
                if case .toolApprovalDenied("weather", let reason) = error as? ChappieClientError {
                    !reason.isEmpty
                } else {
                    false
                }
            }
            #expect(try await simulated.client(tools: [Self.weather(.ask)]).send(Self.question).contains("denied"))
            #expect(try await simulated.client(tools: [Self.weather()]).send(atlantis).contains("sunk"))
            let unfit = try await simulated.client(tools: [Self.weather()]).send(#"call weather {"town": 7}"#)
            #expect(unfit.contains("/town"))

            var telling = simulated
            telling.configuration.toolFailureBehavior = .tellModel
            #expect(try await telling.client(tools: [Self.weather(.deny)]).send(Self.question).contains("denied"))
            var throwing = simulated
            throwing.configuration.toolFailureBehavior = .throwError
            do {
                _ = try await throwing.client(tools: [Self.weather()]).send(atlantis)
                Issue.record("answered")
            } catch ChappieClientError.toolExecutionFailed(let name, let message) {
                #expect(name == "weather" && message == "sunk")
            }
            let denying = throwing.client(tools: [Self.weather(.ask)]) { _ in .denied(reason: "No.") }
            await #expect(throws: ChappieClientError.toolApprovalDenied("weather", "No.")) {
                _ = try await denying.send(Self.question)
            }
            await #expect(throws: ChappieClientError.missingToolHandler("ghost")) {
                _ = try await simulated.client(tools: [Self.weather()]).send("force call ghost {}")
            }
            var impatient = simulated
            impatient.configuration.toolLoopLimit = 2
            do {
                _ = try await impatient.client(tools: [Self.weather()]).send(
                    "keep " + Self.question.replacing("call", with: "calling"))
                Issue.record("answered")
            } catch ChappieClientError.toolLoopLimitExceeded(let limit) {
                #expect(limit == 2)
            }
        }
    }

    @Test func toolsComeAndGo() async throws {
        final class Shelf: ChappieToolProvider {
            let names = Mutex<[String]>([])
            func tools() async throws -> [ChappieHostTool] {
                names.withLock { $0 }.map { name in ChappieHostTool(name: name) { _ in "from \(name)" } }
            }
        }
        try await Simulated.run { simulated in
            let shelf = Shelf()
            let client = Chappie.client(
                configuration: simulated.configuration, toolProviders: [shelf], store: .custom(simulated.store),
                streamingTransportPolicy: .httpSSEOnly, toolApprovalHandler: { _ in .approved() })
            await #expect(throws: ChappieClientError.missingToolHandler("lamp")) {
                _ = try await client.send("force call lamp {}")
            }
            shelf.names.withLock { $0 = ["lamp"] }
            let answer = try await client.send("call lamp {}")
            #expect(answer.contains("from lamp"))
            #expect(try await client.availableTools().map(\.name) == ["lamp"])
        }
    }

    @Test func aHarnessAndItsPluginsAreTheFirstItem() async throws {
        try await Simulated.run { simulated in
            let harness = ChappieHarness(
                name: "Shop", summary: "A shop.", instructions: "Sell tea.", capabilities: ["count tea"],
                tools: [ChappieHarnessTool(name: "weather", description: "Weather.", inputSchema: Self.schema)],
                plugins: [ChappieHarnessPlugin(name: "Returns", instructions: "Returns take 14 days.")])
            let name = "Ada"
            for (harness, words) in [
                (harness, ["Sell tea.", "count tea", "Returns take 14 days."]), ("You are \(name).", ["You are Ada."]),
                (ChappieHarnessSamples.writing, [ChappieHarnessSamples.writing.instructions]), (.none, []),
                (.default, [ChappieHarness.defaultInstructions]),
            ] {
                let before = simulated.turns.count
                _ = try await Chappie.client(
                    configuration: simulated.configuration, harness: harness, tools: [Self.weather()],
                    store: .custom(simulated.store), streamingTransportPolicy: .httpSSEOnly
                ).send("reply: yes")
                // After the tools, which the model takes in the input.
                let input = simulated.turns[before]["input"]?.array ?? []
                let first = input.first { $0["type"] != "additional_tools" }
                #expect(first?["role"]?.string == (words.isEmpty ? "user" : "developer"))
                let text = first?["content"]?[0]?["text"]?.string ?? ""
                #expect(words.allSatisfy(text.contains), "\(text)")
            }
            // The name that wins is the one beside the configuration.
            _ = try await Chappie.client(
                configuration: simulated.configuration, harness: .none, store: .custom(simulated.store),
                streamingTransportPolicy: .httpSSEOnly
            ).send("reply: yes")
            let roles = simulated.turns.last?["input"]?.array?.map { $0["role"] }
            #expect(roles == ["developer", "user"], "the tools come first")
        }
    }
}
