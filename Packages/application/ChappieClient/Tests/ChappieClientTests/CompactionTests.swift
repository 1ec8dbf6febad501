@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import Synchronization
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// When a conversation is compacted, which model does it, and what becomes of pictures and of what can't be read.
@Suite struct CompactionTests {
    private static let compaction: ChappieJSON = ["type": "compaction", "id": "cmp_1", "encrypted_content": "short"]
    private static let compacted = Reply(steps: [.events(items([compaction]))])
    private static let tooLong = Reply.failed(#"{"code":"context_length_exceeded","message":"too long"}"#)
    private static let made = "The conversation was summed up to make room."

    /// A client that compacts by itself, and its account's list.
    private func harness(
        _ replies: [Reply], over wire: Wire = .serverSentEvents,
        models: String = #"{"slug":"m","priority":1,"context_window":272000}"#, lists: Int = 1,
        tools: [ChappieHostTool] = [], share: Double? = 0.8
    ) -> ClientHarness {
        ClientHarness(
            wire, replies, others: (0..<lists).map { _ in .response(body: #"{"models":[\#(models)]}"#) },
            modelCache: EmptyModelCache(), tools: tools, configure: { $0.automaticCompaction = share })
    }

    /// A conversation of one question, as another process has kept it.
    private func context(
        _ items: [ChappieJSON] = [], tokens: Int? = nil, model: String = "m", writer: String? = nil
    ) -> ChappieClientContext {
        let said = [ChappieInputMessage.user("a").inputItem, ChappieInputMessage.assistant("one").inputItem]
        let date = Date(timeIntervalSince1970: 0)
        return ChappieClientContext(
            sessionID: "kept", model: model, items: said + items, compactedSummary: nil, createdAt: date,
            updatedAt: date, measuredTokens: tokens, reasoningModel: writer)
    }

    private func types(_ request: ChappieJSON?) -> [String] {
        (request?["input"]?.array ?? []).compactMap { $0["type"]?.string }
    }

    private func models(_ harness: ClientHarness) throws -> [String] {
        try harness.requests.compactMap { $0["model"]?.string }
    }

    // MARK: Before the limit

    @Test(arguments: Wire.allCases)
    func `a conversation of an earlier process is compacted before its window is full`(wire: Wire) async throws {
        let harness = harness([Self.compacted, .answer("two", id: "r2")], over: wire)
        await harness.client.resumeContext(context(tokens: 218_000))
        let seen = await harness.ask("b")
        #expect(seen.text == "two")
        #expect(seen.notices == [ChappieNotice(.compacted, Self.made)])
        #expect(try types(harness.requests.first).last == "compaction_trigger")
        #expect(try types(harness.requests.last).contains("compaction"))
    }

    @Test(arguments: [(nil, 2), (100_000, 3), (0, 2)] as [(Int?, Int)])
    func `the limit of the model list counts if it is the smaller one`(limit: Int?, requests: Int) async throws {
        let own = limit.map { #","auto_compact_token_limit":\#($0)"# } ?? ""
        let middle = requests == 3 ? [Self.compacted] : []
        let harness = harness(
            [.answer("zero")] + middle + [.answer("two")],
            models: #"{"slug":"m","priority":1,"context_window":272000\#(own)}"#)
        #expect(await harness.ask("warm").text == "zero")
        await harness.client.resumeContext(context(tokens: 120_000))
        #expect(await harness.ask("b").text == "two")
        #expect(try harness.requests.count == requests)
    }

    @Test func `a question counts with what was said before it`() async throws {
        let harness = harness([Self.compacted, .answer("two")])
        await harness.client.resumeContext(context(tokens: 200_000))
        #expect(await harness.ask(String(repeating: "word ", count: 20_000)).text == "two")
        #expect(try harness.requests.count == 2)
    }

    @Test func `a turn that fills the window is summed up before its next request`() async throws {
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "mail") { _ in
            runs.withLock { $0 += 1 }
            return "sent"
        }
        let full = #"{"type":"response.completed","response":{"id":"r","usage":{"total_tokens":230000}}}"#
        let item: ChappieJSON = ["type": "response.output_item.done", "output_index": 0, "item": call("mail")]
        let harness = harness(
            [Reply(steps: [.events([item.serialized(), full])]), Self.compacted, .answer("done")], tools: [tool])
        let seen = await harness.ask("mail them")
        #expect(seen.text == "done" && seen.notices.map(\.message) == [Self.made])
        #expect(runs.withLock(\.self) == 1)
        #expect(try types(harness.requests.last) == ["message", "message", "compaction"])
    }

    // MARK: After a refusal

    @Test(
        arguments: [
            .refused(400, #"{"error":{"code":"context_length_exceeded","message":"too long"}}"#),
            .refused(400, #"{"error":{"code":null,"message":"Your input exceeds the context window of this model."}}"#),
            tooLong, .refused(413, #"{"detail":"Request entity too large"}"#),
        ] as [Reply])
    func `a refusal for length is answered by a compaction`(refusal: Reply) async throws {
        let harness = harness([refusal, Self.compacted, .answer("two")])
        await harness.client.resumeContext(context())
        let seen = await harness.ask("b")
        #expect(seen.text == "two" && seen.notices.map(\.message) == [Self.made])
    }

    @Test func `a refusal for length never loops`() async throws {
        let tool = ChappieHostTool(name: "mail") { _ in "sent" }
        var replies: [Reply] = []
        for round in 1...40 {
            let asks = Reply(steps: [.events(items([call("mail", id: "call_\(round)")], id: "r\(round)"))])
            replies += [asks, Self.tooLong, Self.compacted]
        }
        let harness = harness(replies, tools: [tool])
        let seen = await harness.ask("mail them")
        #expect(seen.error == .toolLoopLimitExceeded(16))
        let always = self.harness((0..<20).map { _ in Self.tooLong })
        await always.client.resumeContext(context())
        #expect(await always.ask("b").error == .contextWindowExceeded)
        #expect(try always.requests.count <= 4)
    }

    @Test func `a question that is too long by itself says how long it is`() async throws {
        let harness = harness([Self.tooLong])
        await harness.client.resumeContext(context(tokens: 100_000))
        let error = await harness.ask(String(repeating: "word ", count: 424_000)).error
        #expect(error?.errorDescription == "The question and its files have about 530,000 tokens; m takes 272,000.")
        #expect(error?.recoverySuggestion == "Ask about a smaller part.")
        // Nothing is summed up for it.
        #expect(try harness.requests.count == 1)
    }

    @Test func `the advice names a model that takes the question`() async throws {
        let harness = harness(
            [Self.tooLong],
            models:
                #"{"slug":"m","priority":1,"context_window":272000},{"slug":"wide","priority":2,"context_window":1000000}"#
        )
        let error = await harness.ask(String(repeating: "word ", count: 424_000)).error
        #expect(error?.recoverySuggestion == "Use wide, or ask about a smaller part.")
    }

    // MARK: Pictures

    private static let picture = ChappieInputMessage.user(
        "What is it?",
        images: [ChappieImage(source: .url("data:image/png;base64," + String(repeating: "A", count: 400_000)))])

    @Test func `a compaction keeps no pictures and says so`() async throws {
        let harness = harness([Self.compacted, .answer("two")])
        await harness.client.resumeContext(context([Self.picture.inputItem, Self.picture.inputItem], tokens: 250_000))
        let seen = await harness.ask("b")
        #expect(seen.notices.map(\.message) == [Self.made + " 2 pictures were left out."])
        let last = try #require(try harness.requests.last).serialized()
        #expect(!last.contains("input_image"))
        #expect(last.utf8.count < 10_000)
        #expect(last.contains("What is it?"))
    }

    @Test func `a compaction that is too large with its pictures is asked for without them`() async throws {
        let refused = Reply.refused(413)
        let harness = harness([refused, refused, Self.compacted, .answer("two")])
        await harness.client.resumeContext(context([Self.picture.inputItem]))
        let seen = await harness.ask("b")
        #expect(seen.text == "two")
        let third = try harness.requests[2]
        #expect(types(third).last == "compaction_trigger" && !third.serialized().contains("input_image"))
    }

    @Test func `a refusal of the bytes says what is large`() async throws {
        let harness = harness([.refused(413)], share: nil)
        await harness.client.resumeContext(context((0..<3).map { _ in Self.picture.inputItem }))
        let error = await harness.ask("b").error
        #expect(
            error?.errorDescription
                == "The conversation has 1.2 MB, most of it 3 pictures. The service takes less.")
        #expect(error?.recoverySuggestion == "A compaction leaves the pictures out.")
        let question = self.harness([.refused(413)], share: nil)
        let own = await Seen(question.client.stream(Self.picture)).error
        #expect(
            own?.errorDescription?.hasPrefix("The question and its files have 0.4 MB, most of it a picture.") == true)
    }

    @Test func `a summary that leaves something out says so`() async throws {
        let harness = harness(
            [Self.tooLong, Self.tooLong, .answer("Short.")], share: nil)
        await harness.client.resumeContext(context(context().items + context().items))
        let notices = try await notices(of: harness)
        #expect(
            notices == ["The beginning was too long for the summary, which leaves out 4 messages."])
    }

    /// The sentences of a compaction that the user asked for.
    private func notices(of harness: ClientHarness) async throws -> [String] {
        let seen = await Seen(harness.client.begin(.compaction, endsWithItsStream: true).events)
        if let failure = seen.failure { throw failure }
        return seen.notices.map(\.message)
    }

    // MARK: The model

    private static let two =
        #"{"slug":"m","priority":1,"context_window":272000},{"slug":"small","priority":2,"context_window":128000}"#

    @Test func `the model that can read the conversation sums it up for a smaller one`() async throws {
        let harness = harness([Self.compacted, .answer("two")], models: Self.two)
        await harness.client.resumeContext(context(tokens: 200_000))
        let request = ChappieResponseRequest(messages: [.user("b")], model: "small")
        #expect(await Seen(harness.client.streamResponse(request)).text == "two")
        #expect(try models(harness) == ["m", "small"])
        // Also where a failed question has made the smaller one the conversation's.
        let asked = self.harness([Self.compacted], models: Self.two, share: nil)
        await asked.client.resumeContext(context(tokens: 200_000, model: "small"))
        _ = try await asked.client.compactContext()
        #expect(try models(asked) == ["m"])
    }

    @Test func `a model of another family gets words`() async throws {
        let families = Self.two.replacing(#""priority":1"#, with: #""priority":1,"comp_hash":"a""#)
            .replacing(#""priority":2"#, with: #""priority":2,"comp_hash":"b""#)
        let harness = harness([.answer("They said hello."), .answer("two")], models: families)
        await harness.client.resumeContext(context(tokens: 200_000))
        let request = ChappieResponseRequest(messages: [.user("b")], model: "small")
        #expect(await Seen(harness.client.streamResponse(request)).text == "two")
        #expect(try models(harness) == ["m", "small"])
        #expect(try harness.requests.last?.serialized().contains("They said hello.") == true)
    }

    @Test(arguments: [true, false])
    func `a compaction is made by a model that answers`(isListed: Bool) async throws {
        let list = isListed ? #"{"slug":"old","priority":2},{"slug":"m","priority":1}"# : #"{"slug":"m","priority":1}"#
        let refused = Reply.refused(
            400,
            #"{"detail":"The 'old' model is not supported when using Codex with a ChatGPT account."}"#)
        let harness = harness(
            (isListed ? [refused] : []) + [Self.compacted], models: list, lists: 2, share: nil)
        await harness.client.resumeContext(context(model: "old"))
        let notices = try await notices(of: harness)
        #expect(notices.count == 1 && notices[0].contains("old") && notices[0].hasSuffix("Using m."))
        #expect(try models(harness) == (isListed ? ["old", "m"] : ["m"]))
        #expect(await harness.client.context().items.contains(Self.compaction))
    }

    @Test func `a model that was named and is refused is named in the error`() async throws {
        let refused = Reply.refused(
            400,
            #"{"detail":"The 'old' model is not supported when using Codex with a ChatGPT account."}"#)
        let harness = harness([refused], lists: 2, share: nil)
        await harness.client.resumeContext(context())
        await harness.client.selectModel("old")
        await #expect {
            try await harness.client.compactContext()
        } throws: { error in
            guard case ChappieClientError.modelUnavailable(let refusal) = error else { return false }
            return refusal.slug == "old" && refusal.suggestion == "m"
        }
    }

    // MARK: What can't be read

    static let unreadable = [
        #"{"error":{"code":"invalid_encrypted_content","message":"no"}}"#,
        #"{"error":{"code":null,"message":"The encrypted content for item cmp_1 could not be verified. Reason: no."}}"#,
        #"{"detail":"The encrypted content for item cmp_1 could not be decrypted or parsed."}"#,
    ]

    @Test(arguments: unreadable)
    func `the user is told of a compaction that can't be read`(body: String) async throws {
        let harness = harness([.refused(400, body), .answer("two"), .answer("three")], share: nil)
        await harness.client.resumeContext(context([Self.compaction], writer: "m"))
        let seen = await harness.ask("b")
        #expect(seen.text == "two" && seen.notices.map(\.kind) == [.compactionLost])
        #expect(await harness.ask("c").notices.isEmpty)
        #expect(try harness.requests.count == 3 && !types(harness.requests[2]).contains("compaction"))
    }

    @Test(arguments: unreadable)
    func `a store's turns take the place of a compaction that can't be read`(body: String) async throws {
        let history = [ChappieInputMessage.user("a").inputItem, ChappieInputMessage.assistant("kept answer").inputItem]
        let refused = Reply.refused(400, body)
        let harness = harness([refused, .answer("two"), refused, Self.compacted], share: nil)
        await harness.client.resumeContext(context([Self.compaction], writer: "m")) { history }
        let seen = await harness.ask("b")
        #expect(seen.text == "two" && seen.notices.isEmpty)
        #expect(try harness.requests[1].serialized().contains("kept answer"))
        // Also when the conversation is summed up once more.
        await harness.client.resumeContext(context([Self.compaction], writer: "m")) { history }
        _ = try await harness.client.compactContext()
        #expect(try harness.requests.last?.serialized().contains("kept answer") == true)
    }

    @Test func `a refused item that is not the compaction leaves it in place`() async throws {
        let reasoning: ChappieJSON = [
            "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "short",
        ]
        let refused = Reply.refused(400, #"{"error":{"message":"Invalid 'input[0].id'.","param":"input[0].id"}}"#)
        let harness = harness([refused, .answer("two")], share: nil)
        await harness.client.resumeContext(context([Self.compaction, reasoning], writer: "m"))
        let seen = await harness.ask("b")
        #expect(seen.text == "two" && seen.notices.isEmpty, "\(seen)")
        let sent = try types(harness.requests.last)
        #expect(sent.contains("compaction") && !sent.contains("reasoning"))
    }

    @Test func `a question that fills the window by itself is not summed up in each round`() async throws {
        let tool = ChappieHostTool(name: "mail") { _ in "sent" }
        let full = #"{"type":"response.completed","response":{"id":"r","usage":{"total_tokens":230000}}}"#
        let item: ChappieJSON = ["type": "response.output_item.done", "output_index": 0, "item": call("mail")]
        let harness = harness(
            [Reply(steps: [.events([item.serialized(), full])]), .answer("done", id: "r2")], tools: [tool])
        let seen = await harness.ask(String(repeating: "word ", count: 1000))
        #expect(seen.text == "done" && seen.notices.isEmpty, "\(seen)")
        #expect(try harness.requests.count == 2)
    }

    @Test func `an overload during a compaction is not remembered`() async throws {
        let overload = #"{"code":"server_is_overloaded","message":"Overloaded."}"#
        let replies = Array(repeating: Reply.failed(overload), count: 4) + [.answer("two")]
        let harness = harness(replies, models: Self.two, lists: 3, share: nil)
        await harness.client.resumeContext(context())
        await #expect(throws: ChappieClientError.self) { try await harness.client.compactContext() }
        await harness.client.clearContext()
        #expect(await harness.ask("b").text == "two")
        #expect(try models(harness).last == "m")
    }

    @Test func `a compaction of another family is not dropped silently`() async throws {
        let families = Self.two.replacing(#""priority":1"#, with: #""priority":1,"comp_hash":"a""#)
            .replacing(#""priority":2"#, with: #""priority":2,"comp_hash":"b""#)
        let harness = harness([.answer("two")], models: families, share: nil)
        await harness.client.resumeContext(context([Self.compaction], writer: "m"))
        await harness.client.selectModel("small")
        #expect(await harness.ask("b").notices.map(\.kind) == [.compactionLost])
    }
}
