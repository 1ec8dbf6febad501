@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieTesting
import FoundationEssentials
import Synchronization
import Testing

/// The conversation as a value, its compaction, what can't be read any more, and answers of a given form.
@Suite struct ContextTests {
    private static let reasoning: ChappieJSON = [
        "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque",
    ]
    private static let compaction: ChappieJSON = ["type": "compaction", "id": "cmp_1", "encrypted_content": "short"]

    private func input(_ harness: ClientHarness) throws -> [ChappieJSON] {
        try #require(try harness.requests.last?["input"]?.array)
    }

    // MARK: As a value

    @Test func `a context that was stored continues with the same bytes`() async throws {
        let first = ClientHarness(.serverSentEvents, [.answer("one"), .answer("two")])
        #expect(await first.client.context().messageCount == 0)
        let id = await first.client.context().sessionID
        #expect(await first.ask("a").text == "one")
        #expect(await first.client.context().sessionID == id)
        let context = await first.client.context()
        let restored = try JSONDecoder().decode(ChappieClientContext.self, from: JSONEncoder().encode(context))
        #expect(restored == context)
        #expect(restored.messages.map(\.role) == [.user, .assistant])
        #expect(restored.messages.last?.parts == [.text("one")])

        let second = ClientHarness(.serverSentEvents, [.answer("two")])
        await second.client.resumeContext(restored)
        #expect(await second.ask("b").text == "two")
        #expect(await first.ask("b").text == "two")
        #expect(try second.requests.last == first.requests.last)
        #expect(try first.requests.first?["prompt_cache_key"]?.string == id)
    }

    @Test func unknownItemsAndMembersGoBackAsTheyCame() async throws {
        let strange: [ChappieJSON] = [
            [
                "type": "web_search_call", "id": "ws_1", "z": 1, "a": 12_345_678_901_234_567,
                "nested": ["b": 1, "a": 2],
            ],
            [
                "type": "message", "role": "assistant", "hologram": true,
                "content": [
                    ["type": "output_smell", "scent": "rose"], ["type": "output_text", "text": "x", "odd": 1],
                ],
            ],
        ]
        let harness = ClientHarness(.serverSentEvents, [Reply(steps: [.events(items(strange))]), .answer("two")])
        #expect(await harness.ask("a").text == "x")
        let context = await harness.client.context()
        let restored = try JSONDecoder().decode(ChappieClientContext.self, from: JSONEncoder().encode(context))
        await harness.client.resumeContext(restored)
        #expect(await harness.ask("b").text == "two")
        let sent = try input(harness)
        #expect(Array(sent[2...3]) == strange)
    }

    @Test func `another account gets the text under new IDs and nothing encrypted`() async throws {
        let harness = ClientHarness(.serverSentEvents, [.answer("two")])
        var context = ChappieClientContext(
            sessionID: "old", messages: [.user("a"), .assistant("one")], createdAt: Date(timeIntervalSince1970: 0))
        context.accountID = "somebody else's"
        await harness.client.resumeContext(context)
        let seen = await harness.ask("b")
        #expect(seen.text == "two")
        #expect(seen.notices.map(\.kind) == [.accountChanged])
        #expect(seen.notices.first?.message.contains("It continues with person@example.com") == true)
        #expect(try harness.requests.last?["prompt_cache_key"] != "old")
        #expect(try input(harness).count == 4)
    }

    /// Members of one workspace have the same account.
    @Test(arguments: [("user-2", "account-1"), ("user-1", "account-2"), ("user-2", "user-2")])
    func `another user's or account's reasoning is left out`(_ user: String, _ account: String) async throws {
        let thought: ChappieJSON = ["type": "reasoning", "encrypted_content": "theirs"]
        func context(_ account: String?, _ user: String?) -> ChappieClientContext {
            ChappieClientContext(
                sessionID: "old", model: "flat", items: [thought, ChappieInputMessage.user("a").inputItem],
                compactedSummary: nil, createdAt: Date(timeIntervalSince1970: 0),
                updatedAt: Date(timeIntervalSince1970: 0), accountID: account, userID: user, reasoningModel: "flat")
        }
        let harness = ClientHarness(.serverSentEvents, [.answer("one"), .answer("two", id: "resp_2")])
        await harness.client.resumeContext(context(account, user))
        #expect(await harness.ask("b").notices.map(\.kind) == [.accountChanged])
        #expect(try !input(harness).contains(thought))
        await harness.client.resumeContext(context("account-1", "user-1"))
        #expect(await harness.ask("b").notices.isEmpty)
        #expect(try input(harness).contains(thought))
    }

    @Test func clearingBeginsAnewAndSizesAreTheBackends() async throws {
        let usage = #"{"input_tokens":90000,"output_tokens":10000,"total_tokens":100000}"#
        let harness = ClientHarness(
            .serverSentEvents,
            [
                .events(
                    #"{"type":"response.output_text.delta","delta":"x"}"#,
                    #"{"type":"response.completed","response":{"id":"r","usage":\#(usage)}}"#)
            ])
        #expect(await harness.ask("a").text == "x")
        let size = await harness.client.contextSize(contextWindow: 400_000)
        #expect(size.estimatedTokens == 100_000)
        #expect(size.remainingTokens == 300_000)
        #expect(size.usedPercent == 25)
        let before = await harness.client.context()
        // Ids are made of the time and of entropy, which stands still here.
        try await harness.clock.sleep(for: .seconds(1))
        let cleared = await harness.client.clearContext()
        #expect(cleared.messageCount == 0 && cleared.sessionID != before.sessionID)
        #expect(await harness.client.contextSize(contextWindow: 0).usedPercent == 100)
    }

    // MARK: Compaction

    @Test func `the host's summary replaces everything`() async throws {
        let harness = ClientHarness(.serverSentEvents, [.answer("one"), .answer("two")])
        #expect(await harness.ask("a").text == "one")
        let context = await harness.client.compactContext(summary: "They said hello.")
        #expect(context.compactedSummary == "They said hello." && context.messageCount == 1)
        #expect(await harness.ask("b").text == "two")
        let sent = try input(harness)
        #expect(sent.count == 3 && sent[1]["content"]?[0]?["text"]?.string?.hasSuffix("They said hello.") == true)
    }

    @Test func aSummaryOfTheHostsDuringATurnStays() async throws {
        let gate = ScriptedGate()
        let tool = ChappieHostTool(name: "wait") { _ in
            try await gate.pass()
            return "done"
        }
        let harness = ClientHarness(
            .serverSentEvents,
            [.answer("forgotten"), Reply(steps: [.events(items([call("wait")]))]), .answer("two"), .answer("three")],
            tools: [tool])
        #expect(await harness.ask("a").text == "forgotten")
        let handle = harness.client.startStream(.user("b"))
        for try await event in handle.events {
            if case .toolCallRequested = event {
                await harness.client.compactContext(summary: "They said hello.")
                gate.open()
            }
        }
        #expect(await harness.ask("c").text == "three")
        let sent = try input(harness).map { $0.serialized() }
        #expect(sent.contains { $0.contains("They said hello.") } && !sent.contains { $0.contains("forgotten") })
        #expect(sent.contains { $0.contains("two") })
    }

    @Test(arguments: Wire.allCases) func `a conversation that is compacted five times still answers`(wire: Wire)
        async throws
    {
        var replies: [Reply] = []
        for round in 1...5 {
            replies += [.answer("answer \(round)", id: "r\(round)")]
            replies += [Reply(steps: [.events(items([Self.compaction], id: "c\(round)"))])]
        }
        let harness = ClientHarness(wire, replies + [.answer("last")])
        for round in 1...5 {
            #expect(await harness.ask("question \(round)").text == "answer \(round)")
            try await harness.client.compactContext()
        }
        #expect(await harness.ask("the end").text == "last")
        let sent = try input(harness)
        // The harness, the user's own words, what stands for the rest, and the question.
        #expect(sent.count == 8)
        #expect(sent.dropFirst().prefix(5).allSatisfy { $0["role"] == "user" })
        #expect(sent[6] == Self.compaction && sent[7]["role"] == "user")
        #expect(try harness.requests[1]["input"]?.array?.last == ["type": "compaction_trigger"])
    }

    /// What the backend does instead of compacting, and whether words take its place.
    static let failures: [(name: String, reply: Reply, isSummarised: Bool)] = [
        ("refused", .refused(400, #"{"error":{"message":"unknown item type"}}"#), true),
        ("not there", .refused(404), true),
        ("no compaction", .answer("What?"), true),
        ("two compactions", Reply(steps: [.events(items([compaction, compaction]))]), true),
        ("an empty compaction", Reply(steps: [.events(items([["type": "compaction"]]))]), true),
        ("ended early", .incomplete("half"), true),
        ("too long", .failed(#"{"code":"context_length_exceeded","message":"too long"}"#), true),
        ("refused by policy", .failed(#"{"code":"invalid_prompt","message":"no"}"#), true),
        ("rate limit", .refused(429), false),
        ("usage limit", .refused(429, #"{"error":{"type":"usage_limit_reached","resets_in_seconds":9999}}"#), false),
    ]

    @Test(arguments: Wire.allCases) func `a compaction that fails leaves a conversation that answers`(wire: Wire)
        async throws
    {
        for (name, reply, isSummarised) in Self.failures {
            let note = Comment("\(name), \(wire.rawValue)")
            let summary = isSummarised ? [Reply.answer("They said hello.", id: "s")] : []
            let harness = ClientHarness(
                wire, [.answer("one")] + [reply] + summary + [.answer("two", id: "r2")], backoff: .disabled)
            #expect(await harness.ask("a").text == "one", note)
            let before = await harness.client.context()
            do {
                let context = try await harness.client.compactContext()
                #expect(isSummarised && context.compactedSummary == "They said hello.", note)
            } catch {
                #expect(!isSummarised, note)
                #expect(await harness.client.context() == before, note)
            }
            #expect(await harness.ask("b").text == "two", note)
            #expect(try input(harness).contains { $0["type"] == "compaction_trigger" } == false, note)
        }
    }

    @Test func `a summary is among the user's messages and ranks no higher`() async throws {
        let harness = ClientHarness(
            .serverSentEvents, [.answer("one"), .refused(404), .answer("They said hello."), .answer("two")])
        #expect(await harness.ask("hello").text == "one")
        try await harness.client.compactContext()
        #expect(await harness.ask("on").text == "two")
        let sent = try input(harness).dropFirst()
        #expect(sent.map { $0["role"]?.string } == ["user", "user", "user"])
        #expect(sent.compactMap { $0["content"]?[0]?["text"]?.string }.first == "hello")
    }

    @Test(arguments: [(20_000, 1), (100_000, 3), (1_000_000, 3)])
    func theWordsThatAreKeptLeaveRoomInTheWindow(window: Int, kept: Int) async throws {
        let compacted = Reply(steps: [.events(items([Self.compaction]))])
        let list = #"{"models":[{"slug":"gpt-6.1-sol","visibility":"list","context_window":\#(window)}]}"#
        let harness = ClientHarness(
            .serverSentEvents, [.answer("1"), .answer("2"), .answer("3"), compacted],
            others: [.response(body: list)], modelCache: EmptyModelCache())
        // Some 4,000 tokens each.
        for _ in 1...3 { _ = await harness.ask(String(repeating: "word ", count: 3_200)) }
        let context = try await harness.client.compactContext()
        #expect(context.messages.count == kept)
    }

    @Test func `a summary request that is too long itself loses the older half`() async throws {
        let tooLong = Reply.failed(#"{"code":"context_length_exceeded","message":"too long"}"#)
        let harness = ClientHarness(
            .serverSentEvents,
            (1...4).map { .answer("answer \($0)") } + [tooLong, tooLong, .answer("Short."), .answer("on")])
        for number in 1...4 { #expect(await harness.ask("question \(number)").text == "answer \(number)") }
        let context = try await harness.client.compactContext()
        #expect(context.compactedSummary == "Short.")
        let asked = try harness.requests[6]["input"]?.array ?? [ChappieJSON]()
        #expect(asked.dropFirst().first?["content"]?[0]?["text"] == "question 3")
        #expect(await harness.ask("go on").text == "on")
    }

    @Test func `a summary that also fails leaves the conversation unchanged`() async throws {
        let refused = Reply.refused(400, #"{"error":{"message":"no"}}"#)
        let harness = ClientHarness(.serverSentEvents, [.answer("one"), refused, refused, .answer("two")])
        #expect(await harness.ask("a").text == "one")
        let before = await harness.client.context()
        await #expect(throws: ChappieClientError.self) { try await harness.client.compactContext() }
        #expect(await harness.client.context() == before)
        #expect(await harness.ask("b").text == "two")
    }

    @Test func `a conversation that fills its window is compacted if the host enabled it`() async throws {
        func big(_ text: String) -> Reply {
            .events(
                #"{"type":"response.output_text.delta","delta":"\#(text)"}"#,
                #"{"type":"response.completed","response":{"id":"r","usage":{"total_tokens":250000}}}"#)
        }
        for (share, requests) in [(nil, 2), (0.9, 3), (0.95, 2)] as [(Double?, Int)] {
            let compacted = Reply(steps: [.events(items([Self.compaction]))])
            let harness = ClientHarness(
                .serverSentEvents, [big("one")] + (requests == 3 ? [compacted] : []) + [.answer("two")],
                configure: { $0.automaticCompaction = share })
            #expect(await harness.ask("a").text == "one")
            #expect(await harness.ask("b").text == "two")
            #expect(try harness.requests.count == requests)
        }
        // An overflow that nobody foresaw.
        let harness = ClientHarness(
            .serverSentEvents,
            [
                .answer("one"), .failed(#"{"code":"context_length_exceeded"}"#),
                Reply(steps: [.events(items([Self.compaction]))]), .answer("two"),
            ], configure: { $0.automaticCompaction = 0.9 })
        #expect(await harness.ask("a").text == "one")
        #expect(await harness.ask("b").text == "two")
    }

    // MARK: Encrypted items

    /// An answer with reasoning before it.
    private static let thoughtful: Reply = {
        let done: ChappieJSON = ["type": "response.output_item.done", "item": reasoning]
        return Reply(steps: [.events([done.serialized()] + answering("one"))])
    }()

    @Test(arguments: Wire.allCases) func whatTheBackendCanNotDecryptIsLeftOutOnce(wire: Wire) async throws {
        let unreadable = Reply.refused(400, #"{"error":{"code":"invalid_encrypted_content","message":"no"}}"#)
        let harness = ClientHarness(
            wire, [Self.thoughtful, unreadable, .answer("two", id: "r2"), .answer("three", id: "r3")])
        #expect(await harness.ask("a").text == "one")
        #expect(await harness.client.context().items.contains(Self.reasoning))
        #expect(await harness.ask("b").text == "two")
        #expect(try input(harness).contains(Self.reasoning) == false)
        #expect(await harness.client.context().items.contains(Self.reasoning) == false)
        let always = ClientHarness(wire, [Self.thoughtful, unreadable, unreadable])
        #expect(await always.ask("a").text == "one")
        let second = await always.ask("b").error
        #expect(second == .conversationRefused("no"))
        #expect(try always.requests.count == 3)
    }

    @Test func reasoningIsForTheModelThatWroteIt() async throws {
        let harness = ClientHarness(.serverSentEvents, [Self.thoughtful, .answer("two"), .answer("three")])
        #expect(await harness.ask("a").text == "one")
        #expect(await harness.ask("b").text == "two")
        #expect(try input(harness).contains(Self.reasoning))
        await harness.client.selectModel("another")
        #expect(await harness.ask("c").text == "three")
        #expect(try input(harness).contains(Self.reasoning) == false)
    }

    @Test func aTurnThatFailsTakesNoReasoningAway() async throws {
        let harness = ClientHarness(
            .serverSentEvents, [Self.thoughtful, .refused(400, #"{"error":{"message":"no"}}"#), .answer("three")])
        #expect(await harness.ask("a").text == "one")
        await harness.client.selectModel("another")
        #expect(await harness.ask("b").error == .httpError(400, #"{"error":{"message":"no"}}"#))
        #expect(await harness.client.context().items.contains(Self.reasoning))
        #expect(await harness.ask("c").text == "three")
        #expect(await harness.client.context().items.contains(Self.reasoning) == false)
    }

    // MARK: Structured output

    private struct Town: Decodable, Equatable, Sendable {
        var name: String
        var people: Int
    }

    private static let schema: ChappieJSONSchema = [
        "type": "object", "properties": ["name": ["type": "string"], "people": ["type": "integer"]],
        "required": ["name", "people"], "additionalProperties": false,
    ]

    @Test(arguments: Wire.allCases) func anAnswerOfAGivenFormBecomesAValue(wire: Wire) async throws {
        let harness = ClientHarness(wire, [.answer(#"{"name":"Paris","people":2100000}"#)])
        let town = try await harness.client.send("The capital?", as: Town.self, schema: Self.schema)
        #expect(town == Town(name: "Paris", people: 2_100_000))
        let format = try #require(try harness.requests.last?["text"]?["format"])
        #expect(format["type"] == "json_schema")
        #expect(format["strict"] == true)
        #expect(format["schema"] == Self.schema.json)
    }

    @Test func `an answer that violates its schema is reported with its path`() async throws {
        let answers = [
            ("not JSON", ""), (#"{"name":"Paris"}"#, ""), (#"{"name":"Paris","people":"many"}"#, "/people"),
            (#"{"name":"Paris","people":1,"extra":1}"#, ""),
        ]
        for (answer, path) in answers {
            let harness = ClientHarness(.serverSentEvents, [.answer(answer)])
            do {
                _ = try await harness.client.send("?", as: Town.self, schema: Self.schema)
                Issue.record("\(answer) was taken")
            } catch ChappieClientError.invalidStructuredOutput(let violation, let text) {
                #expect(text == answer)
                #expect(path.isEmpty || violation.path == path)
            }
        }
        let early = ClientHarness(.serverSentEvents, [.incomplete(#"{\"na"#)])
        await #expect(throws: ChappieClientError.self) {
            try await early.client.send("?", as: Town.self, schema: Self.schema)
        }
    }

    private struct Event: Decodable, ChappieJSONSchemaProviding, Sendable { var due: Date }
    private struct Odd: Decodable, Sendable {
        struct Refusal: Error {}
        init(from decoder: any Decoder) throws { throw Refusal() }
    }

    @Test func aDayWithoutATimeIsADate() async throws {
        let harness = ClientHarness(.serverSentEvents, [.answer(#"{"due":"2026-11-24"}"#)])
        let event = try await harness.client.send("When?", as: Event.self)
        #expect(event.due.formatted(.iso8601) == "2026-11-24T00:00:00Z")
    }

    @Test func whatCantBeDecodedIsTheClientsError() async throws {
        let dates = ClientHarness(.serverSentEvents, [.answer(#"{"due":"tomorrow"}"#)])
        do {
            _ = try await dates.client.send("When?", as: Event.self)
            Issue.record("it was taken")
        } catch ChappieClientError.invalidStructuredOutput(let violation, let text) {
            #expect(violation.path == "/due" && text.contains("tomorrow"))
        }
        let odd = ClientHarness(.serverSentEvents, [.answer("{}")])
        do {
            _ = try await odd.client.send("?", as: Odd.self, schema: ["type": "object", "properties": [:]])
            Issue.record("it was taken")
        } catch ChappieClientError.invalidStructuredOutput(let violation, _) {
            #expect(violation.message.contains("Refusal"))
        }
    }
}
