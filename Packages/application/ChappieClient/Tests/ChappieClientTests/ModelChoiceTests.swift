@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// Which model answers: the one that is named, that of the conversation, the account's best; and what a refusal means.
@Suite struct ModelChoiceTests {
    private static let november = #"""
        {"models":[
        {"slug":"new-sol","priority":3,"visibility":"list","use_responses_lite":true,"comp_hash":"3000",
        "default_reasoning_level":"low","supported_reasoning_levels":[{"effort":"low"},{"effort":"high"},{"effort":"max"},
        {"effort":"ultra"}]},
        {"slug":"new-luna","priority":4,"visibility":"list","use_responses_lite":true,"comp_hash":"3000"},
        {"slug":"hidden","priority":0,"visibility":"hide","use_responses_lite":true},
        {"slug":"old","priority":9,"visibility":"hide","comp_hash":"2911","upgrade":{"model":"new-luna"}}]}
        """#

    private static func list(_ body: String = november, tag: String = "\"1\"") -> ScriptedHTTPAnswer {
        .response(headerFields: [.eTag: tag], body: body)
    }

    private func harness(
        _ wire: Wire, _ replies: [Reply], lists: [ScriptedHTTPAnswer] = [list()],
        cache: any ChappieModelCache = EmptyModelCache(), clock: (any ChappieClock)? = nil,
        configure: (inout ChappieConfiguration) -> Void = { _ in }
    ) -> ClientHarness {
        ClientHarness(wire, replies, others: lists, clock: clock, modelCache: cache, configure: configure)
    }

    private func lists(_ harness: ClientHarness) -> Int {
        harness.http.receivedRequests.count { $0.url.path().hasSuffix("/codex/models") }
    }

    @Test(arguments: Wire.allCases) func withoutANameTheBestListedModelAnswers(wire: Wire) async throws {
        let harness = harness(wire, [.answer("one"), .answer("two", id: "resp_2")])
        #expect(await harness.ask("a").text == "one")
        #expect(await harness.ask("b").text == "two")
        #expect(try harness.requests.map { $0["model"] } == ["new-sol", "new-sol"])
        #expect(lists(harness) == 1)
        #expect(try await harness.client.model == ChappieModelChoice(slug: "new-sol", reason: .conversation))
    }

    @Test func theChoiceIsKnownBeforeTheFirstTurn() async throws {
        let harness = harness(.serverSentEvents, [])
        #expect(try await harness.client.model == ChappieModelChoice(slug: "new-sol", reason: .bestListed))
        await harness.client.selectModel("x")
        #expect(try await harness.client.model == ChappieModelChoice(slug: "x", reason: .named))
    }

    @Test func withoutAListTheLastResortAnswersAndTheUserIsToldOnce() async throws {
        let harness = harness(
            .serverSentEvents, [.answer("one"), .answer("two", id: "resp_2")], lists: [.response(status: .notFound)])
        let first = await harness.ask("a")
        #expect(first.text == "one" && first.notices.map(\.kind) == [.modelGuessed])
        #expect(await harness.ask("b").notices.isEmpty)
        #expect(try harness.requests.map { $0["model"] } == ["gpt-6-luna", "gpt-6-luna"])
        // A list that could not be had is not asked for before every turn.
        #expect(lists(harness) == 1)
        #expect(try await harness.client.model.reason == .lastResort, "the conversation does not stick to a guess")
    }

    @Test func aModelThatARequestNamesIsForOneTurn() async throws {
        let harness = harness(
            .serverSentEvents, [.answer("one"), .answer("two", id: "resp_2"), .answer("three", id: "resp_3")])
        _ = await harness.ask("a")
        _ = try await harness.client.response(ChappieResponseRequest(messages: [.user("b")], model: "new-luna"))
        #expect(await harness.client.context().model == "new-sol")
        _ = await harness.ask("c")
        #expect(try harness.requests.map { $0["model"] } == ["new-sol", "new-luna", "new-sol"])
    }

    /// Keeps documents in memory.
    private actor Memory: ChappieModelCache {
        var documents: [String: [UInt8]] = [:]
        func load(_ name: String) -> [UInt8]? { documents[name] }
        func save(_ document: [UInt8], _ name: String) { documents[name] = document }
    }

    @Test func aListIsUsedForADayWithoutAskingAndRenewedBesideATurnAfterIt() async throws {
        let cache = Memory()
        _ = await harness(.serverSentEvents, [.answer("one")], cache: cache).ask()
        let nextDay = HastyClock(now: .scriptedStart.addingTimeInterval(23 * 3600))
        let second = harness(.serverSentEvents, [.answer("two")], lists: [], cache: cache, clock: nextDay)
        #expect(await second.ask().text == "two")
        #expect(lists(second) == 0)
        let gate = ScriptedGate()
        let later = HastyClock(now: .scriptedStart.addingTimeInterval(25 * 3600))
        var slow = Self.list(#"{"models":[{"slug":"newest","use_responses_lite":true}]}"#, tag: "\"2\"")
        slow.body.insert(.wait(until: gate), at: 0)
        let third = harness(
            .serverSentEvents, [.answer("three"), .answer("four")], lists: [slow], cache: cache, clock: later)
        // The turn is over although the list has not come.
        #expect(await third.ask().text == "three")
        #expect(try third.requests[0]["model"] == "new-sol")
        let listing = await third.client.listing
        gate.open()
        await listing?.value
        #expect(lists(third) == 1)
        await third.client.clearContext()
        #expect(try await third.client.model.slug == "newest")
    }

    @Test(arguments: Wire.allCases) func aTagThatDiffersHasTheListAskedForAfterTheTurn(wire: Wire) async throws {
        let told = #"{"type":"codex.response.metadata","headers":{"x-models-etag":"\"2\""}}"#
        let answer = Reply(steps: [.events([told] + answering("one"))])
        let newer = Self.list(#"{"models":[{"slug":"newest","use_responses_lite":true}]}"#, tag: "\"2\"")
        let harness = harness(wire, [answer, answer], lists: [Self.list(), newer])
        #expect(await harness.ask().text == "one")
        await harness.client.listing?.value
        #expect(lists(harness) == 2)
        await harness.client.clearContext()
        #expect(try await harness.client.model.slug == "newest")
        _ = await harness.ask()
        // The same tag asks for nothing.
        await harness.client.listing?.value
        #expect(lists(harness) == 2)
    }

    @Test(
        arguments: Wire.allCases,
        [
            (
                400, #"{"detail":"The 'old' model is not supported when using Codex with a ChatGPT account."}"#,
                ChappieModelRefusal.Reason.retired
            ),
            (400, #"{"detail":"'old' requires a newer version of Codex. Please upgrade."}"#, .newerClientNeeded),
            (
                404,
                #"{"error":{"message":"Model not found old","type":"invalid_request_error","param":"model","code":null}}"#,
                .unknown
            ),
        ])
    func aNamedModelThatIsRefusedIsAnErrorWithAWayOut(
        wire: Wire, refusal: (status: Int, body: String, reason: ChappieModelRefusal.Reason)
    ) async throws {
        let harness = harness(wire, [.refused(refusal.status, refusal.body)], lists: [Self.list(), Self.list()])
        await harness.client.selectModel("old")
        let seen = await harness.ask()
        #expect(
            seen.error
                == .modelUnavailable(
                    ChappieModelRefusal(slug: "old", reason: refusal.reason, suggestion: "new-luna")))
        #expect(try harness.requests.count == 1)
    }

    @Test(arguments: Wire.allCases) func aConversationOfARetiredModelGoesOnWithItsReplacement(wire: Wire) async throws {
        for isListed in [true, false] {
            let list = isListed ? Self.november : Self.november.replacing("\"old\"", with: "\"gone\"")
            let refused = Reply.refused(
                400, #"{"detail":"The 'old' model is not supported when using Codex with a ChatGPT account."}"#)
            let harness = harness(
                wire, (isListed ? [refused] : []) + [.answer("one"), .answer("two", id: "resp_2")],
                lists: [Self.list(list), Self.list(list)])
            let reasoning: ChappieJSON = ["type": "reasoning", "encrypted_content": "x", "summary": []]
            let compaction: ChappieJSON = ["type": "compaction", "encrypted_content": "y"]
            let said = ChappieInputMessage.user("before").inputItem
            await harness.client.resumeContext(
                ChappieClientContext(
                    sessionID: "s", model: "old", items: [compaction, said, reasoning], compactedSummary: nil,
                    createdAt: .scriptedStart, updatedAt: .scriptedStart, reasoningModel: "old"))
            let seen = await harness.ask("a")
            #expect(seen.text == "one" && seen.notices.map(\.kind) == [.modelReplaced])
            #expect(await harness.ask("b").notices.isEmpty)
            let answered = try harness.requests.filter { $0["model"] != "old" }
            #expect(answered.map { $0["model"] } == (isListed ? ["new-luna", "new-luna"] : ["new-sol", "new-sol"]))
            let types = (answered[0]["input"]?.array ?? []).map { $0["type"]?.string }
            #expect(!types.contains("reasoning") && !types.contains("compaction"))
            #expect(await harness.client.context().model == (isListed ? "new-luna" : "new-sol"))
        }
    }

    @Test func theBestModelThatIsRefusedGivesWayToTheNext() async throws {
        let refused = Reply.refused(
            400, #"{"detail":"The 'new-sol' model is not supported when using Codex with a ChatGPT account."}"#)
        let harness = harness(.serverSentEvents, [refused, .answer("one")], lists: [Self.list(), Self.list()])
        let seen = await harness.ask()
        #expect(seen.text == "one" && seen.notices.map(\.kind) == [.modelReplaced])
        #expect(try harness.requests.map { $0["model"] } == ["new-sol", "new-luna"])
    }

    /// Models that are all refused, and those that are asked.
    private static let refused: [(listed: [String], conversation: String?, asked: [String])] = [
        (["gpt-6-luna"], nil, ["gpt-6-luna"]), (["a"], nil, ["a"]), (["a", "b"], nil, ["a", "b"]),
        (["a", "gpt-6-luna"], nil, ["a", "gpt-6-luna"]), (["gpt-6-luna", "a"], nil, ["gpt-6-luna", "a"]),
        (["a", "gpt-6-luna", "b"], nil, ["a", "gpt-6-luna", "b"]), (["a", "b", "c", "d"], nil, ["a", "b", "c"]),
        (["gpt-6-luna"], "gpt-6-luna", ["gpt-6-luna"]), (["a"], "a", ["a"]),
        (["a", "gpt-6-luna"], "gpt-6-luna", ["gpt-6-luna", "a"]), (["a", "gpt-6-luna"], "a", ["a", "gpt-6-luna"]),
        (["a", "b", "gpt-6-luna"], "b", ["b", "a", "gpt-6-luna"]), (["a", "b"], "gone", ["a", "b"]),
    ]

    @Test(arguments: Wire.allCases, refused)
    func `a turn asks each model once, three at most, if all are refused`(
        wire: Wire, example: (listed: [String], conversation: String?, asked: [String])
    ) async throws {
        let entries = example.listed.map { #"{"slug":"\#($0)","use_responses_lite":true}"# }
        let list = Self.list(#"{"models":[\#(entries.joined(separator: ","))]}"#)
        let refusals = (example.asked + ["one more"]).map {
            Reply.refused(
                400, #"{"detail":"The '\#($0)' model is not supported when using Codex with a ChatGPT account."}"#)
        }
        let harness = harness(wire, refusals, lists: Array(repeating: list, count: 9))
        if let model = example.conversation {
            await harness.client.resumeContext(
                ChappieClientContext(sessionID: "s", model: model, messages: [.user("before")], createdAt: .now))
        }
        guard case .modelUnavailable(let refusal)? = await harness.ask().error else {
            Issue.record("another error")
            return
        }
        #expect(try harness.requests.map { $0["model"]?.string } == example.asked)
        #expect(refusal.slug == example.asked.last)
        #expect(!example.asked.contains(refusal.suggestion ?? ""))
    }

    // MARK: Efforts

    @Test(arguments: [
        ("automatic", "low"), ("low", "low"), ("medium", "low"), ("xhigh", "high"), ("ultra", "max"), ("none", "low"),
        ("minimal", "low"), ("odd", "low"),
    ])
    func anEffortThatTheModelLacksBecomesTheNearestBelowIt(wanted: String, sent: String) async throws {
        let harness = harness(.serverSentEvents, [.answer("one")])
        let effort = ChappieReasoningEffort(rawValue: wanted)
        var message = ChappieInputMessage.user("a")
        message.options.reasoningEffort = effort
        let seen = await Seen(harness.client.stream(message))
        #expect(try harness.requests[0]["reasoning"]?["effort"]?.string == sent)
        #expect(seen.notices.map(\.kind) == (wanted == sent || wanted == "automatic" ? [] : [.effortChanged]))
    }

    @Test func ultraIsWhatTheModelNamesForIt() {
        var model = ChappieModel(slug: "m", supportedReasoningLevels: [.low, .high, .ultra])
        #expect(model.effort(for: .ultra) == .high)
        model.multiAgentReasoningEffort = .low
        #expect(model.effort(for: .ultra) == .low)
        model.multiAgentReasoningEffort = .max
        #expect(model.effort(for: .ultra) == .high)
        #expect(ChappieModel(slug: "m").effort(for: .ultra) == .max)
    }
}
