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

    @Test func `without a list, the last resort answers and the user is told once`() async throws {
        let harness = harness(
            .serverSentEvents, [.answer("one"), .answer("two", id: "resp_2")],
            lists: [.response(status: .notFound), .response(status: .notFound)])
        let first = await harness.ask("a")
        #expect(
            first.text == "one"
                && first.notices == [.init(.modelGuessed, "Couldn't load your model list. Using gpt-6-sol.")])
        #expect(await harness.ask("b").notices.isEmpty)
        #expect(try harness.requests.map { $0["model"] } == ["gpt-6-sol", "gpt-6-sol"])
        // A list that could not be had is not asked for before every turn.
        #expect(lists(harness) == 2)
        #expect(try await harness.client.model.reason == .lastResort, "the conversation does not stick to a guess")
    }

    @Test(arguments: [
        ScriptedHTTPAnswer.response(status: .internalServerError), .response(status: .init(code: 402)),
        .response(status: .tooManyRequests), .response(body: "\u{1F}\u{8B}"), ScriptedHTTPAnswer(body: [.cut]),
    ])
    func `a list that fails once is asked for again`(failure: ScriptedHTTPAnswer) async throws {
        let harness = harness(.serverSentEvents, [.answer("one")], lists: [failure, Self.list()])
        let seen = await harness.ask()
        #expect(seen.text == "one" && seen.notices.isEmpty)
        #expect(try harness.requests.map { $0["model"] } == ["new-sol"])
    }

    @Test(
        arguments: [
            (nil, ["gpt-6-luna"]), (.free, ["gpt-6-luna"]), (.go, ["gpt-6-luna"]),
            (.plus, ["gpt-6-sol", "gpt-6-luna"]), (.edu, ["gpt-6-sol", "gpt-6-luna"]), (.other("new"), ["gpt-6-luna"]),
        ] as [(ChappiePlan?, [String])])
    func `without a list the plan decides which models are asked`(plan: ChappiePlan?, asked: [String]) {
        var wish = ModelWish()
        for slug in asked {
            #expect(
                wish.choice(from: nil, of: plan, at: .scriptedStart)
                    == ChappieModelChoice(slug: slug, reason: .lastResort, replaces: wish.refusals.last?.slug))
            wish.refusals.append(ChappieModelRefusal(slug: slug, reason: .unknown))
        }
        #expect(wish.choice(from: nil, of: plan, at: .scriptedStart) == nil)
    }

    @Test(
        arguments: [
            (#""#, "gpt-6-sol", "Your model list is empty. Using gpt-6-sol."),
            (
                #"{"slug":"a","visibility":"hide"}"#, "a",
                "Your model list shows no model. Using a, which the list hides."
            ),
            (
                #"{"slug":"codex-auto-review","visibility":"hide"},{"slug":"a","visibility":"none"}"#, "a",
                "Your model list shows no model. Using a, which the list hides."
            ),
            (#"{"slug":"a","visibility":"workspace"}"#, "a", nil),
            (#"{"slug":"gpt-reserve"}"#, "gpt-6-sol", "Your model list has no model for questions. Using gpt-6-sol."),
            (#"{"slug":"gpt-reserve","priority":1},{"slug":"a","priority":2}"#, "a", nil),
            (#"{"slug":"a","priority":1,"minimal_client_version":"0.164"},{"slug":"b","priority":2}"#, "b", nil),
            (#"{"slug":"a","priority":1,"minimal_client_version":"0.99.0"},{"slug":"b","priority":2}"#, "a", nil),
            (#"{"slug":"a","minimal_client_version":"9.0.0"}"#, "a", nil),
        ] as [(String, String, String?)])
    func `a list without a usual model is reported as what it is`(
        entries: String, model: String, notice: String?
    ) async throws {
        let list = Self.list(#"{"models":[\#(entries)]}"#)
        let harness = harness(.serverSentEvents, [.answer("one"), .answer("two", id: "resp_2")], lists: [list])
        let seen = await harness.ask("a")
        #expect(seen.text == "one" && seen.notices.map(\.message) == [notice].compactMap(\.self))
        #expect(await harness.ask("b").notices.isEmpty)
        #expect(try harness.requests.map { $0["model"]?.string } == [model, model])
        #expect(lists(harness) == 1)
    }

    @Test func `a conversation goes on with its model while the list is empty`() async throws {
        let harness = harness(.serverSentEvents, [.answer("one")], lists: [Self.list(#"{"models":[]}"#)])
        await harness.client.resumeContext(
            ChappieClientContext(sessionID: "s", model: "old", messages: [.user("before")], createdAt: .now))
        #expect(await harness.ask().notices.isEmpty)
        #expect(try harness.requests.map { $0["model"] } == ["old"])
    }

    @Test func `a model that was refused is not chosen again for a day, in later runs too`() async throws {
        let cache = Memory()
        let list = #"{"models":[{"slug":"a","priority":1,"minimal_client_version":"0.1.0"},{"slug":"b","priority":2}]}"#
        let refused = Reply.refused(
            400, #"{"detail":"The 'a' model is not supported when using Codex with a ChatGPT account."}"#)
        func run(_ replies: [Reply], after hours: Double, newer: String? = nil) async throws -> (Seen, [String?]) {
            let harness = harness(
                .serverSentEvents, replies,
                lists: Array(repeating: Self.list(newer ?? list, tag: newer ?? "1"), count: 3),
                cache: cache, clock: HastyClock(now: .scriptedStart.addingTimeInterval(hours * 3600)))
            if newer != nil { _ = try await harness.client.models() }
            let seen = await harness.ask()
            await harness.client.finishRenewingList()
            return (seen, try harness.requests.map { $0["model"]?.string })
        }
        let first = try await run([refused, .answer("one")], after: 0)
        #expect(first.1 == ["a", "b"] && first.0.notices.map(\.kind) == [.modelReplaced])
        let second = try await run([.answer("two")], after: 23)
        #expect(second.1 == ["b"] && second.0.notices.isEmpty)
        #expect(try await run([.answer("three")], after: 25).1 == ["a"])
        _ = try await run([refused, .answer("four")], after: 25)
        #expect(try await run([.answer("five")], after: 26).1 == ["b"])
        // The list's entry has changed.
        let newer = list.replacing("0.1.0", with: "0.2.0")
        #expect(try await run([.answer("six")], after: 27, newer: newer).1 == ["a"])
    }

    @Test func `a refused model that asks for a newer client is said to need one`() async throws {
        let list = Self.list(
            #"{"models":[{"slug":"new","minimal_client_version":"0.170.0"},{"slug":"b","priority":2}]}"#)
        let harness = harness(
            .serverSentEvents,
            [
                .refused(
                    400, #"{"detail":"The 'new' model is not supported when using Codex with a ChatGPT account."}"#)
            ], lists: [list, list, list])
        await harness.client.selectModel("new")
        #expect(
            await harness.ask().error
                == .modelUnavailable(
                    ChappieModelRefusal(slug: "new", reason: .newerClientNeeded, suggestion: "b")))
        #expect(try await harness.client.models().map(\.slug) == ["b", "new"])
    }

    @Test(
        arguments: [
            (3.0, "The model a will be retired on 2026-11-23. Use b instead."),
            (-1, "The model a was retired on 2026-11-19. Use b instead."), (40, nil),
        ] as [(Double, String?)])
    func `the user of a model that is retired is told once`(days: Double, notice: String?) async throws {
        let date = Date.scriptedStart.addingTimeInterval(days * 86_400)
        let entry = #"{"slug":"a","upgrade":{"model":"b","retirement_at":\#(date.timeIntervalSince1970)}}"#
        let harness = harness(
            .serverSentEvents, [.answer("one"), .answer("two", id: "resp_2")],
            lists: [Self.list(#"{"models":[\#(entry),{"slug":"b"}]}"#)])
        await harness.client.selectModel("a")
        #expect(await harness.ask("a").notices == [notice].compactMap(\.self).map { .init(.modelRetires, $0) })
        #expect(await harness.ask("b").notices.isEmpty)
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

    @Test func `a list is used for a day without a request and then renewed during a turn`() async throws {
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

    @Test(arguments: Wire.allCases) func `a tag that differs causes a request for the list after the turn`(wire: Wire)
        async throws
    {
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

    @Test(arguments: Wire.allCases) func `a conversation of a retired model continues with its replacement`(wire: Wire)
        async throws
    {
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
            #expect(seen.text == "one" && Set(seen.notices.map(\.kind)) == [.modelReplaced, .compactionLost])
            #expect(await harness.ask("b").notices.isEmpty)
            let answered = try harness.requests.filter { $0["model"] != "old" }
            #expect(answered.map { $0["model"] } == (isListed ? ["new-luna", "new-luna"] : ["new-sol", "new-sol"]))
            let types = (answered[0]["input"]?.array ?? []).map { $0["type"]?.string }
            #expect(!types.contains("reasoning") && !types.contains("compaction"))
            #expect(await harness.client.context().model == (isListed ? "new-luna" : "new-sol"))
        }
    }

    @Test func `the best model is replaced by the next one if it is refused`() async throws {
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

    @Test func `a picture for a model that takes text only is refused before anything is sent`() async throws {
        let models = #"{"slug":"text","input_modalities":["text"]},{"slug":"a"},{"slug":"b","visibility":"hide"}"#
        let harness = harness(
            .serverSentEvents, [.answer("one")], lists: [Self.list(#"{"models":[\#(models)]}"#)])
        let dot = ChappieImage(source: .url("data:image/gif;base64,R0lGODlh"))
        await harness.client.selectModel("text")
        let error = await Seen(harness.client.stream(.user("What is this?", images: [dot]))).error
        #expect(
            error
                == .unsupportedInput(
                    "The model text takes text only.", "Ask without pictures, or name a model that takes them: a."))
        #expect(try harness.requests.isEmpty)
        // A model outside the list may take pictures.
        await harness.client.selectModel("unlisted")
        #expect(await Seen(harness.client.stream(.user("What is this?", images: [dot]))).text == "one")
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
