import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import HTTPTypes
import Synchronization
import Testing

/// A model that answers as it is told, over server-sent events, and remembers what it was asked.
final class Model: Sendable {
    enum Answer: Sendable {
        case text(String)
        /// Messages with their phases.
        case messages([(text: String, phase: String)])
        /// Items as they are.
        case items([ChappieJSON])
        /// Events as they are; the stream ends after them.
        case events([ChappieJSON])
        case calls([(name: String, arguments: String)])
        /// Compacted: one encrypted item.
        case compaction
        /// The same, when the gate opens.
        case waitingCompaction(ScriptedGate)
        case failure(Int)
        /// An encrypted item of the conversation can't be read any more.
        case unreadable
        /// The beginning of an answer; nothing comes after it until the gate opens.
        case half(String, ScriptedGate)
        /// Comes when the gate opens.
        case waiting(ScriptedGate, String)
    }

    private let state: Mutex<(answers: [Answer], bodies: [ChappieJSON])>
    var bodies: [ChappieJSON] { state.withLock { $0.bodies } }
    var inputs: [[ChappieJSON]] { bodies.map { $0["input"]?.array ?? [] } }

    init(_ answers: [Answer]) { state = Mutex((answers, [])) }

    convenience init(_ answers: Answer...) { self.init(answers) }

    /// A client of a process of its own.
    func client(
        tools: [ChappieHostTool] = [], approving: ChappieToolApprovalHandler? = nil,
        of person: SeededAuth = SeededAuth()
    ) -> ChappieClient {
        let transport = ScriptedHTTPTransport { (request: HTTPExchangeRequest) async throws -> ScriptedHTTPAnswer in
            guard request.url.path().hasSuffix("/responses") else { return .response(status: .notFound) }
            let body = try ChappieJSON(parsing: request.body?.bytes ?? [])
            let (number, answer) = self.state.withLock { state in
                state.bodies.append(body)
                return (state.bodies.count, state.answers.isEmpty ? .failure(500) : state.answers.removeFirst())
            }
            switch answer {
            case .text(let text): return .answer(text, id: "resp_\(number)")
            case .messages(let messages):
                return Self.answer(
                    messages.map {
                        [
                            "type": "message", "role": "assistant", "phase": .string($0.phase),
                            "content": [["type": "output_text", "text": .string($0.text)]],
                        ]
                    })
            case .items(let items): return Self.answer(items)
            case .events(let events): return Self.answer(events: events)
            case .waiting(let gate, let text):
                try await gate.pass()
                return .answer(text, id: "resp_\(number)")
            case .half(let text, let gate):
                let delta: ChappieJSON = ["type": "response.output_text.delta", "delta": .string(text)]
                return ScriptedHTTPAnswer(
                    headerFields: [.contentType: "text/event-stream"],
                    body: [.chunk(Array("data: \(delta.serialized())\n\n".utf8)), .wait(until: gate)])
            case .unreadable:
                return .response(
                    status: .badRequest,
                    body: #"{"error":{"code":null,"message":"The encrypted content could not be verified."}}"#)
            case .failure(let status): return .response(status: .init(code: status), body: #"{"detail":"no"}"#)
            case .calls(let calls):
                return Self.answer(
                    calls.enumerated().map { index, call in
                        [
                            "type": "function_call", "id": .string("fc_\(number)_\(index)"),
                            "call_id": .string("call_\(number)_\(index)"), "name": .string(call.name),
                            "arguments": .string(call.arguments),
                        ]
                    })
            case .compaction: return Self.answer([Self.compacted])
            case .waitingCompaction(let gate):
                try await gate.pass()
                return Self.answer([Self.compacted])
            }
        }
        return ChappieClient(
            configuration: ChappieConfiguration(
                rateLimitBackoff: .disabled, streamingTransportPolicy: .httpSSEOnly, toolFailureBehavior: .tellModel),
            transport: transport, credentials: person.manager(transport: transport), tools: tools,
            toolApprovalHandler: approving)
    }

    private static let compacted: ChappieJSON = ["type": "compaction", "encrypted_content": "gAAA"]

    /// The items of a request, without the developer's, as words.
    static func words(_ input: [ChappieJSON]) -> [String] {
        input.compactMap { item in
            switch item["type"]?.string {
            case "message" where item["role"] != "developer": item["content"]?[0]?["text"]?.string
            case "function_call": "call \(item["name"]?.string ?? "")"
            case "function_call_output": "output \(item["output"]?.string ?? "")"
            case "compaction": "compacted"
            default: nil
            }
        }
    }

    private static func answer(_ items: [ChappieJSON]) -> ScriptedHTTPAnswer {
        let events: [ChappieJSON] =
            [["type": "response.created", "response": ["id": "resp_c"]]]
            + items.enumerated().map {
                ["type": "response.output_item.done", "output_index": .integer($0), "item": $1]
            } + [["type": "response.completed", "response": ["id": "resp_c", "status": "completed"]]]
        return answer(events: events)
    }

    private static func answer(events: [ChappieJSON]) -> ScriptedHTTPAnswer {
        .response(
            headerFields: [.contentType: "text/event-stream"],
            body: events.map { "data: \($0.serialized())\n\n" }.joined())
    }
}

/// Passes on, and fails at records of a kind, or at every read.
final class FaultyStore: ChappieThreadStore {
    let store = ChappieInMemoryThreadStore()
    private let fault: Mutex<ChappieThreadRecord.Kind?>
    private let isUnreadable = Mutex(false)

    init(failingAt kind: ChappieThreadRecord.Kind?) { fault = Mutex(kind) }

    func fails(at kind: ChappieThreadRecord.Kind?) { fault.withLock { $0 = kind } }
    func canBeRead(_ can: Bool) { isUnreadable.withLock { $0 = !can } }

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) throws(ChappieThreadStoreError) {
        if let kind = fault.withLock({ $0 }), records.contains(where: { $0.kind == kind }) {
            throw .unavailable("the disk is full")
        }
        try store.append(records, to: thread, at: position)
    }
    func summaries() -> [ChappieThreadSummary] { store.summaries() }
    func records(of thread: String, from position: Int) throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        if isUnreadable.withLock(\.self) { throw .unavailable("the disk can't be read") }
        return try store.records(of: thread, from: position)
    }
    func delete(_ thread: String) { store.delete(thread) }
}

struct RuntimeTests {
    private let store = ChappieInMemoryThreadStore()

    @Test func `commentary is stored in the thread and is not part of the answer`() async throws {
        let model = Model(.messages([("I'll look.", "commentary"), ("Four.", "final_answer")]), .text("Five."))
        let runtime = model.client().runtime(store: store)
        #expect(try await runtime.send("How many?") == "Four.")
        let id = try #require(await runtime.currentThread?.id)
        let again = model.client().runtime(store: store)
        let turn = try #require(try await again.openThread(id).turns.first)
        #expect(turn.outputText == "Four." && turn.commentary == "I'll look.")
        #expect(
            turn.response.commentary == "I'll look." && turn.outputItems.map(\.phase) == [.commentary, .finalAnswer])
        #expect(
            turn.events.prefix(3).dropFirst() == [
                .progressed(.commentaryDelta("I'll look.")), .progressed(.textDelta("Four.")),
            ])
        #expect(try await again.send("And one more?") == "Five.")
        let phases = model.inputs.last?.compactMap { ChappieOutputItem($0).phase }
        #expect(phases == [.commentary, .finalAnswer])
    }

    private struct Town: Decodable, ChappieJSONSchemaProviding, Equatable, Sendable {
        var name: String
        var since: Date
    }

    @Test func `an answer in a given form becomes a value and is stored`() async throws {
        let answer = #"{"name":"Ulm","since":"2026-11-24"}"#
        let model = Model(.text(answer), .text(#"{"name":"Ulm","since":"long"}"#))
        let runtime = model.client().runtime(store: store)
        let town = try await runtime.send("A town?", as: Town.self)
        #expect(town.name == "Ulm" && town.since.formatted(.iso8601) == "2026-11-24T00:00:00Z")
        #expect(model.bodies.last?["text"]?["format"]?["schema"] == Town.jsonSchema.json)
        do {
            _ = try await runtime.send("Another?", as: Town.self)
            Issue.record("it was taken")
        } catch ChappieClientError.invalidStructuredOutput(let violation, _) {
            #expect(violation.path == "/since")
        }
        await #expect(throws: ChappieJSONSchemaError.self) {
            try await runtime.send("?", as: Town.self, schema: ["type": "objekt"])
        }
        let turns = await runtime.currentThread?.turns ?? []
        #expect(turns.count == 2 && turns.first?.response.outputText == answer)
    }

    @Test func anAnswerIsStoredOnceAndReadAsItCame() async throws {
        let items: [ChappieJSON] = [
            ["type": "reasoning", "summary": [], "encrypted_content": "gAAAquokka"],
            ["type": "weather_call", "id": "w_1", "place": "Wombattown"],
            ["type": "message", "role": "assistant", "content": [["type": "output_text", "text": "Zanzibar."]]],
        ]
        let model = Model(.calls([("look", "{}")]), .items(items), .text("And more."))
        let tool = ChappieHostTool(name: "look", description: "Looks.") { _ in "seen" }
        let runtime = model.client(tools: [tool]).runtime(store: store)
        #expect(try await runtime.send("Where?") == "Zanzibar.")
        let id = try #require(await runtime.currentThread?.id)
        let stored = try store.records(of: id, from: 0).map { $0.body.serialized() }.joined()
        for word in ["gAAAquokka", "Wombattown", "Zanzibar"] {
            #expect(stored.split(separator: word, omittingEmptySubsequences: false).count == 2, "\(word)")
        }
        let thread = try ChappieThread(id: id, records: store.records(of: id, from: 0))
        let turn = try #require(thread.turns.first)
        #expect(turn.outputText == "Zanzibar." && turn.outputItems.map(\.json) == items)
        #expect(await runtime.currentThread == thread)
        #expect(try await runtime.send("And?") == "And more.")
        #expect(words(model.inputs[2]).suffix(4) == ["call look", "output seen", "Zanzibar.", "And?"])
    }

    @Test func `an answer that is not in its items is stored next to them`() async throws {
        let model = Model(.messages([("Only this.", "commentary")]))
        let runtime = model.client().runtime(store: store)
        #expect(try await runtime.send("What?") == "Only this.")
        let id = try #require(await runtime.currentThread?.id)
        let turn = try #require(try ChappieThread(id: id, records: store.records(of: id, from: 0)).turns.first)
        #expect(turn.outputText == "Only this." && turn.outputItems.map(\.text) == ["Only this."])
    }

    private func words(_ input: [ChappieJSON]) -> [String] { Model.words(input) }

    /// What is kept is what the client goes on with.
    private func expectKept(_ runtime: ChappieRuntime, _ client: ChappieClient) async throws {
        let current = try #require(await runtime.currentThread)
        let kept = try ChappieThread(id: current.id, records: store.records(of: current.id, from: 0))
        #expect(kept == current)
        #expect(store.summaries().first { $0.id == kept.id } == kept.summary)
        let context = await client.context()
        #expect(kept.context.items == context.items)
        #expect(kept.context.accountID == context.accountID && kept.context.measuredTokens == context.measuredTokens)
    }

    @Test func `a thread continues in another process as if nothing had happened`() async throws {
        let model = Model(.text("one"), .text("two"), .text("three"))
        let client = model.client()
        let runtime = client.runtime(store: store)
        #expect(try await runtime.send("first") == "one")
        #expect(try await runtime.send(.user("second")) == "two")
        try await expectKept(runtime, client)
        let id = try #require(await runtime.currentThread?.id)
        let later = model.client()
        let other = later.runtime(store: store)
        let thread = try await other.openThread(id)
        #expect(thread.turns.map(\.outputText) == ["one", "two"])
        #expect(thread.turns.allSatisfy { $0.status == .finished && !$0.model.isEmpty })
        #expect(try await other.send("third") == "three")
        #expect(words(model.inputs[2]) == ["first", "one", "second", "two", "third"])
        // Byte for byte: the prompt cache hits.
        let (before, after) = (model.inputs[1], model.inputs[2])
        #expect(after.prefix(before.count).map { $0.serialized() } == before.map { $0.serialized() })
        try await expectKept(other, later)
    }

    @Test func `a turn that cannot be stored is not part of the conversation`() async throws {
        for kind in [ChappieThreadRecord.Kind.turnStarted, .turnFinished] {
            let model = Model(.text("lost"), .text("kept"))
            let faulty = FaultyStore(failingAt: kind)
            let client = model.client()
            let runtime = client.runtime(store: faulty)
            await #expect(throws: ChappieThreadStoreError.unavailable("the disk is full")) {
                try await runtime.send("first")
            }
            // Nothing is asked before the turn is kept.
            #expect(model.inputs.count == (kind == .turnStarted ? 0 : 1))
            #expect(await client.context().items.isEmpty)
        }
    }

    @Test func `a turn that fails is stored as failed and isn't part of the conversation`() async throws {
        let model = Model(.text("one"), .failure(400), .text("three"))
        let client = model.client()
        let runtime = client.runtime(store: store)
        try await runtime.send("first")
        await #expect(throws: ChappieClientError.self) { try await runtime.send("second") }
        try await runtime.send("third")
        #expect(words(model.inputs[2]) == ["first", "one", "third"])
        let turns = try #require(await runtime.currentThread?.turns)
        #expect(turns.map(\.status) == [.finished, .failed, .finished])
        #expect(turns[1].error == "The server answered with status 400: no.")
        try await expectKept(runtime, client)
    }

    @Test func `a turn that is cancelled is interrupted and can be resumed`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "never"), .text("answer"))
        let client = model.client()
        let runtime = client.runtime(store: store)
        let task = Task { try await runtime.send("question") }
        await gate.reached()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(await runtime.currentThread?.turns.map(\.status) == [.interrupted])
        let id = try #require(await runtime.currentThread?.id)
        let later = model.client()
        let other = later.runtime(store: store)
        try await other.openThread(id)
        #expect(try await other.resumeTurn().outputText == "answer")
        #expect(words(model.inputs[1]) == ["question"])
        let turns = try #require(await other.currentThread?.turns)
        #expect(turns.count == 1 && turns[0].status == .finished)
        await #expect(throws: ChappieRuntimeError.nothingToResume) { try await other.resumeTurn() }
        try await expectKept(other, later)
        gate.open()
    }

    /// A crash is a store that takes nothing more from some moment on.
    @Test(arguments: [
        (ChappieThreadRecord.Kind.toolsCalled, 0, 0), (.toolsStarted, 0, 1), (.toolFinished, 1, 0),
        (.turnFinished, 1, 0),
    ])
    func aCallThatMayHaveRunIsNotRunAgain(crash: ChappieThreadRecord.Kind, before: Int, after: Int) async throws {
        let model = Model(.calls([("pay", "{}")]), .text("paid"), .text("done"), .text("done"))
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "pay", description: "Pays.") { _ in
            runs.withLock { $0 += 1 }
            return ChappieToolResult(output: "paid 5")
        }
        let faulty = FaultyStore(failingAt: crash)
        let runtime = model.client(tools: [tool]).runtime(store: faulty)
        await #expect(throws: ChappieThreadStoreError.unavailable("the disk is full")) {
            try await runtime.send("pay it")
        }
        #expect(runs.withLock { $0 } == before)
        let id = try #require(faulty.summaries().first?.id)
        let other = model.client(tools: [tool]).runtime(store: faulty.store)
        let thread = try await other.openThread(id)
        #expect(thread.resumableTurn?.status == .running)
        _ = try await other.resumeTurn()
        #expect(runs.withLock { $0 } == before + after)
        if crash == .toolFinished {
            let output = try #require(words(model.inputs[1]).last)
            #expect(output.contains("It may have done its work"))
        }
        if crash == .turnFinished { #expect(words(model.inputs[2]).suffix(2) == ["call pay", "output paid 5"]) }
        #expect(await other.currentThread?.turns.map(\.status) == [.finished])
    }

    @Test func `an approval requested in one process is answered once in another`() async throws {
        let model = Model(.calls([("look", "{}"), ("pay", #"{"sum":5}"#)]), .text("done"), .text("again"))
        let runs = Mutex<[String]>([])
        func tools() -> [ChappieHostTool] {
            [("look", ChappieToolPolicy.automatic), ("pay", .ask)].map { name, policy in
                ChappieHostTool(name: name, description: "It is \(name).", policy: policy) { call in
                    runs.withLock { $0.append("\(call.name) \(call.arguments)") }
                    return ChappieToolResult(output: "ok")
                }
            }
        }
        let runtime = model.client(tools: tools(), approving: { _ in .deferred }).runtime(store: store)
        do {
            try await runtime.send("pay it")
            Issue.record("The turn did not wait.")
        } catch ChappieClientError.approvalPending(let pending) {
            #expect(pending.approvals.map(\.call.name) == ["pay"])
        }
        let id = try #require(await runtime.currentThread?.id)
        let others = (0..<2).map { _ in model.client(tools: tools()).runtime(store: store) }
        for other in others {
            let thread = try await other.openThread(id)
            #expect(thread.resumableTurn?.approvals.map(\.call.name) == ["pay"])
        }
        let decisions = ["call_1_1": ChappieApprovalDecision.approved(arguments: ["sum": 4])]
        #expect(try await others[0].resumeTurn(decisions: decisions).outputText == "done")
        await #expect(throws: ChappieThreadStoreError.self) { try await others[1].resumeTurn(decisions: decisions) }
        #expect(runs.withLock { $0 } == ["look {}", #"pay {"sum":4}"#])
        #expect(
            words(model.inputs[1]) == ["pay it", "call look", "call pay", "output ok", "output ok"])
        let turn = try #require(await others[0].currentThread?.turns.last)
        #expect(turn.toolCalls.map(\.result?.outcome) == [.succeeded, .succeeded])
        #expect(turn.toolCalls[1].call.arguments == #"{"sum":4}"#)
    }

    @Test func twoProcessesMayWriteToOneThread() async throws {
        let model = Model(.text("a1"), .text("b1"), .text("a2"))
        let runtimes = (0..<2).map { _ in model.client().runtime(store: store) }
        try await runtimes[0].send("a asks")
        let id = try #require(await runtimes[0].currentThread?.id)
        try await runtimes[1].openThread(id)
        try await runtimes[1].send("b asks")
        try await runtimes[0].send("a asks again")
        #expect(words(model.inputs[2]) == ["a asks", "a1", "b asks", "b1", "a asks again"])
        let kept = try ChappieThread(id: id, records: store.records(of: id, from: 0))
        #expect(kept.turns.map(\.outputText) == ["a1", "b1", "a2"])
    }

    @Test func `a turn that ends after another process has written is also stored`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "late"), .text("quick"), .text("last"))
        let slow = model.client().runtime(store: store)
        let task = Task { try await slow.send("slow question") }
        await gate.reached()
        let id = try #require(store.summaries().first?.id)
        let other = model.client().runtime(store: store)
        try await other.openThread(id)
        try await other.send("quick question")
        gate.open()
        #expect(try await task.value == "late")
        try await slow.send("last question")
        #expect(
            words(model.inputs[2]) == [
                "quick question", "quick", "slow question", "late", "last question",
            ])
        let kept = try ChappieThread(id: id, records: store.records(of: id, from: 0))
        #expect(kept.turns.allSatisfy { $0.status == .finished })
    }

    @Test func aCompactionIsKept() async throws {
        let model = Model(.text("one"), .compaction, .text("two"), .text("three"))
        let client = model.client()
        let runtime = client.runtime(store: store)
        try await runtime.send("first")
        try await runtime.compact()
        try await runtime.send("second")
        try await expectKept(runtime, client)
        let other = model.client().runtime(store: store)
        try await other.openThread(try #require(await runtime.currentThread?.id))
        try await other.send("third")
        #expect(words(model.inputs[3]) == ["first", "compacted", "second", "two", "third"])
        // The thread keeps what the conversation no longer holds.
        #expect(await other.currentThread?.turns.map(\.outputText) == ["one", "two", "three"])
    }

    @Test func `turns take the place of a compaction that can't be read, in later processes as well`() async throws {
        let model = Model(.text("one"), .compaction, .text("two"), .unreadable, .text("three"), .text("four"))
        let client = model.client()
        let runtime = client.runtime(store: store)
        try await runtime.send("first")
        try await runtime.compact()
        try await runtime.send("second")
        try await runtime.send("third")
        let all = ["first", "one", "second", "two", "third"]
        #expect(words(model.inputs[3]) == ["first", "compacted", "second", "two", "third"])
        #expect(words(model.inputs[4]) == all)
        try await expectKept(runtime, client)
        let other = model.client().runtime(store: store)
        try await other.openThread(try #require(await runtime.currentThread?.id))
        try await other.send("fourth")
        #expect(words(model.inputs[5]) == all + ["three", "fourth"])
    }

    @Test func `a fork has the turns up to its position and its own ID`() async throws {
        let model = Model(.text("one"), .text("two"), .text("other two"))
        let client = model.client()
        let runtime = client.runtime(store: store)
        try await runtime.send("first")
        try await runtime.send("second")
        let id = try #require(await runtime.currentThread?.id)
        let fork = try await runtime.forkThread(id, at: 1)
        #expect(fork.id != id)
        #expect(fork.turns.map(\.outputText) == ["one"])
        #expect(fork.context.sessionID == fork.id)
        try await runtime.send("second, otherwise")
        #expect(words(model.inputs[2]) == ["first", "one", "second, otherwise"])
        try await expectKept(runtime, client)
        #expect(try ChappieThread(id: id, records: store.records(of: id, from: 0)).turns.count == 2)
        await #expect(throws: ChappieRuntimeError.noSuchTurn(3, of: 2)) { try await runtime.forkThread(id, at: 3) }
    }

    @Test func threadsAreNamedArchivedFoundAndRemoved() async throws {
        let model = Model(.text("one"), .text("two"))
        let runtime = model.client().runtime(store: store)
        try await runtime.send("about elephants")
        let first = try #require(await runtime.currentThread?.id)
        let second = try await runtime.newThread()
        #expect(try await runtime.listThreads().map(\.id) == [first])
        try await runtime.send("about zebras")
        try await runtime.renameThread(first, to: "Big animals")
        try await runtime.archiveThread(second)
        #expect(try await runtime.listThreads().map(\.name) == ["Big animals"])
        #expect(try await runtime.listThreads(includeArchived: true).count == 2)
        try await runtime.unarchiveThread(second)
        #expect(try await runtime.listThreads().map(\.id) == [second, first])
        #expect(try await runtime.search(ChappieThreadQuery("zeb")).map(\.thread.id) == [second])
        try await runtime.deleteThread(first)
        #expect(try await runtime.listThreads().map(\.id) == [second])
        await #expect(throws: ChappieThreadStoreError.notFound(thread: first)) { try await runtime.openThread(first) }
    }

    @Test func anExportIsCompleteAndComesBack() async throws {
        let model = Model(.calls([("look", #"{"z":1,"a":2}"#)]), .text("done"), .failure(400))
        let tool = ChappieHostTool(name: "look", description: "Looks.") { _ in "seen" }
        let runtime = model.client(tools: [tool]).runtime(store: store)
        try await runtime.send("look")
        _ = try? await runtime.send("fail")
        let thread = try #require(await runtime.currentThread)
        let text = thread.json.serialized()
        let read = try ChappieThread(json: ChappieJSON(parsing: text))
        #expect(read == thread && read.json.serialized() == text)
        let elsewhere = model.client().runtime(store: ChappieInMemoryThreadStore())
        try await elsewhere.importThread(read)
        #expect(try await elsewhere.openThread(thread.id) == thread)
        await #expect(throws: ChappieThreadStoreError.self) { try await elsewhere.importThread(read) }
        for broken in ["{}", #"{"format":"chappie.thread","id":"x","records":[{}]}"#, "[]"] {
            #expect(throws: ChappieThreadStoreError.self) { try ChappieThread(json: ChappieJSON(parsing: broken)) }
        }
    }

    @Test func anExportKeepsEveryMillisecond() throws {
        let records = (0..<1000).map {
            ChappieThreadRecord(
                position: $0, kind: .renamed, date: Date(timeIntervalSince1970: 1_790_000_000 + Double($0) / 1000))
        }
        let thread = try ChappieThread(id: "t", records: records)
        #expect(try ChappieThread(json: thread.json).records == records)
    }

    @Test func `a failed turn leaves the conversation's model as it was`() async throws {
        func ask(_ question: String, _ model: String? = nil, in runtime: ChappieRuntime) async throws {
            _ = try await runtime.response(ChappieResponseRequest(messages: [.user(question)], model: model))
        }
        let model = Model(.failure(400), .text("one"), .failure(400), .text("three"))
        let runtime = model.client().runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await ask("failed", "m-none", in: runtime) }
        #expect(await runtime.currentThread?.context.model == "")
        try await ask("first", in: runtime)
        let usual = try #require(model.bodies[1]["model"]?.string)
        await #expect(throws: ChappieClientError.self) { try await ask("second", "m-other", in: runtime) }
        #expect(await runtime.currentThread?.summary.model == usual && usual != "m-none")
        let other = model.client().runtime(store: store)
        try await other.openThread(try #require(await runtime.currentThread?.id))
        try await ask("third", in: other)
        #expect(model.bodies.map { $0["model"]?.string } == ["m-none", usual, "m-other", usual])
    }

    @Test(arguments: [
        ("gpt-4o", "gpt-4o"), ("gpt-6-sol", nil), ("gpt-6-sol-2026-09-01", nil), ("gpt-6-sol-20260901", nil),
        ("gpt-6-sol-0901", nil), ("gpt-6-sol-mini", "gpt-6-sol-mini"), ("", nil),
    ])
    func `the record names the model that answered beside the one that was asked`(
        answering: String, recorded: String?
    ) async throws {
        let model = Model(
            .events([
                ["type": "response.output_text.delta", "delta": "one"],
                [
                    "type": "response.completed",
                    "response": ["id": "r", "status": "completed", "model": .string(answering)],
                ],
            ]))
        let runtime = model.client().runtime(store: store)
        _ = try await runtime.response(ChappieResponseRequest(messages: [.user("first")], model: "gpt-6-sol"))
        let turn = try #require(await runtime.currentThread?.turns.first)
        #expect(turn.model == "gpt-6-sol" && turn.answeringModel == recorded)
        #expect(await runtime.currentThread?.summary.model == "gpt-6-sol")
    }

    @Test func aThreadIsListedWithTheModelThatAnswered() throws {
        let start = Date(timeIntervalSince1970: 1_790_000_000)
        let started = ChappieThreadRecord(position: 0, kind: .turnStarted, date: start, body: ["turn": "a"])
        let finished = ChappieThreadRecord(
            position: 1, kind: .turnFinished, date: start, body: ["turn": "a", "model": "m-2"])
        #expect(ChappieThreadSummary(id: "t", records: [started, finished])?.model == "m-2")
    }

    @Test func liveAndReplayedTurnsSpeakOfTheSame() async throws {
        let model = Model(.calls([("look", "{}")]), .text("done"))
        let tool = ChappieHostTool(name: "look", description: "Looks.") { _ in "seen" }
        let runtime = model.client(tools: [tool]).runtime(store: store)
        let listening = runtime.events
        try await runtime.send("look")
        var live: [ChappieTurnEvent] = []
        for await event in listening {
            live.append(event.event)
            if case .progressed(.completed) = event.event { break }
        }
        func told(_ events: [ChappieTurnEvent]) -> [String] {
            events.compactMap { event in
                switch event {
                case .started(let messages, _): "started \(messages.map(\.text))"
                case .progressed(.textDelta(let text)): "text \(text)"
                case .progressed(.toolCallRequested(let request)): "requested \(request.call.name)"
                case .progressed(.toolCallCompleted(let result)): "completed \(result.call.name) \(result.output)"
                case .progressed(.completed(let response)): "response \(response.outputText)"
                default: nil
                }
            }
        }
        let replayed = try #require(await runtime.currentThread?.events)
        #expect(told(live) == told(replayed.map(\.event)))
        #expect(told(live).count == 5)
    }

    @Test func whatIsRedactedIsNeverSeenByTheStore() async throws {
        let model = Model(.text("your number is 4711"), .text("again"))
        let redacting = ChappieRedactingThreadStore(wrapping: store) { $0.replacing("4711", with: "‹number›") }
        let runtime = model.client().runtime(store: redacting)
        try await runtime.send("my number is 4711")
        let id = try #require(store.summaries().first?.id)
        let stored = try store.records(of: id, from: 0).map { $0.body.serialized() }.joined()
        #expect(!stored.contains("4711") && stored.contains("‹number›"))
        #expect(store.summaries()[0].preview == "my number is ‹number›")
        #expect(try await redacting.records(of: id, from: 0).count == 2)
    }

    @Test func `arguments that the user edited are also redacted`() async throws {
        let model = Model(.calls([("pay", #"{"name":"Bob"}"#)]), .text("done"))
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) {
            ChappieToolResult(output: $0.arguments)
        }
        let redacting = ChappieRedactingThreadStore(wrapping: store) { $0.replacing("Alice", with: "‹name›") }
        let runtime = model.client(tools: [tool]) { _ in .deferred }.runtime(store: redacting)
        do {
            _ = try await runtime.send("pay it")
            Issue.record("the turn did not wait")
        } catch ChappieClientError.approvalPending {}
        let decision = ChappieApprovalDecision.approved(arguments: ["name": "Alice"])
        try await runtime.resumeTurn(decisions: ["call_1_0": decision])
        let id = try #require(store.summaries().first?.id)
        let stored = try store.records(of: id, from: 0).map { $0.body.serialized() }.joined()
        #expect(!stored.contains("Alice") && stored.contains("‹name›"))
    }

    // MARK: Two programs, and what goes wrong

    @Test func aNewNameFromElsewhereTakesNoApprovalAway() async throws {
        let model = Model(.calls([("pay", "{}")]), .text("one"), .calls([("pay", "{}")]), .text("two"))
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in "paid" }
        let questions = Mutex(0)
        let runtime = model.client(tools: [tool]) { _ in
            questions.withLock { $0 += 1 }
            return .approved(scope: .session)
        }.runtime(store: store)
        try await runtime.send("pay it")
        try await store.rename(try #require(await runtime.currentThread?.id), to: "Payments")
        #expect(try await runtime.send("again") == "two")
        #expect(await runtime.currentThread?.summary.title == "Payments")
        #expect(questions.withLock(\.self) == 1)
    }

    @Test func `a turn that another program took over runs its tools in that program`() async throws {
        let gate = ScriptedGate()
        let model = Model(.calls([("pay", "{}")]), .text("by the second"), .text("never"))
        let runs = Mutex<[String]>([])
        func tool(_ name: String) -> ChappieHostTool {
            ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in
                runs.withLock { $0.append(name) }
                return "paid"
            }
        }
        let first = model.client(tools: [tool("first")]) { _ in
            try? await gate.pass()
            return .approved()
        }.runtime(store: store)
        let asking = Task { try await first.send("pay it") }
        await gate.reached()
        let id = try #require(store.summaries().first?.id)
        let second = model.client(tools: [tool("second")]) { _ in .approved() }.runtime(store: store)
        try await second.openThread(id)
        #expect(try await second.resumeTurn().outputText == "by the second")
        gate.open()
        await #expect(throws: ChappieRuntimeError.turnTakenOver) { try await asking.value }
        #expect(runs.withLock { $0 } == ["second"])
        let kept = try ChappieThread(id: id, records: store.records(of: id, from: 0))
        #expect(kept.turns.map(\.status) == [.finished] && kept.context.messages.count == 2)
    }

    @Test func `a denial that comes late does not replace what the tool has done`() async throws {
        let answering = ScriptedGate()
        let asked = ScriptedGate()
        let model = Model(.calls([("pay", "{}")]), .waiting(answering, "by the second"))
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in "paid" }
        let first = model.client(tools: [tool]) { _ in
            try? await asked.pass()
            return .denied(reason: "No.")
        }.runtime(store: store)
        let asking = Task { try await first.send("pay it") }
        await asked.reached()
        let id = try #require(store.summaries().first?.id)
        let second = model.client(tools: [tool]) { _ in .approved() }.runtime(store: store)
        try await second.openThread(id)
        let resuming = Task { try await second.resumeTurn() }
        await answering.reached()
        // The tool has run there, and that program asks the model; the user says no here.
        asked.open()
        do {
            _ = try await asking.value
            Issue.record("the first program went on")
        } catch {
            #expect(error as? ChappieRuntimeError == .turnTakenOver)
        }
        let records = try store.records(of: id, from: 0)
        #expect(try outcomes(records) == [.succeeded])
        // Nor in a thread that another program has written.
        let index = try #require(records.firstIndex { $0.kind == .toolFinished })
        let body = records[index].body.serialized().replacing("succeeded", with: "denied")
        let late = ChappieThreadRecord(
            position: records.count, kind: .toolFinished, date: records[index].date,
            body: try ChappieJSON(parsing: body))
        #expect(try outcomes(records + [late]) == [.succeeded])
        answering.open()
        #expect(try await resuming.value.outputText == "by the second")

        func outcomes(_ records: [ChappieThreadRecord]) throws -> [ChappieToolExecutionResult.Outcome?] {
            try ChappieThread(id: id, records: records).turns[0].toolCalls.map(\.result?.outcome)
        }
    }

    @Test func aResumeThatFailsTakesNothingAway() async throws {
        let model = Model(.calls([("pay", "{}")]), .text("done"))
        let runs = Mutex(0)
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in
            runs.withLock { $0 += 1 }
            return "paid"
        }
        let runtime = model.client(tools: [tool], approving: { _ in .deferred }).runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("pay it") }
        let id = try #require(await runtime.currentThread?.id)
        let without = model.client().runtime(store: store)
        try await without.openThread(id)
        await #expect(throws: ChappieClientError.missingToolHandler("pay")) { try await without.resumeTurn() }
        let with = model.client(tools: [tool]).runtime(store: store)
        try await with.openThread(id)
        #expect(try await with.resumeTurn(decisions: ["call_1_0": .approved()]).outputText == "done")
        #expect(runs.withLock { $0 } == 1)
    }

    @Test func `a thread that was deleted in the meantime stays deleted`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "late"))
        let runtime = model.client().runtime(store: store)
        let task = Task { try await runtime.send("question") }
        await gate.reached()
        store.delete(try #require(store.summaries().first?.id))
        gate.open()
        await #expect(throws: ChappieThreadStoreError.self) { try await task.value }
        #expect(store.summaries().isEmpty)
    }

    @Test func aThreadThatBecameShorterIsReadAnew() async throws {
        let model = Model(.text("one"), .text("two"), .text("three"))
        let runtime = model.client().runtime(store: store)
        try await runtime.send("first")
        let short = try #require(await runtime.currentThread)
        try await runtime.send("second")
        store.delete(short.id)
        try store.append(short.records, to: short.summary, at: 0)
        try await runtime.send("third")
        #expect(words(model.inputs[2]) == ["first", "one", "third"])
    }

    @Test func aTurnThatIsGoneOnWithAsksAsItBegan() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "never"), .text("answer"))
        let runtime = model.client().runtime(store: store)
        let message = ChappieInputMessage(
            role: .user, parts: [.text("hard")], options: ChappieMessageOptions(reasoningEffort: .high, verbosity: .low)
        )
        let task = Task { try await runtime.send(message) }
        await gate.reached()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let turn = try #require(await runtime.currentThread?.turns.last)
        #expect(turn.messages == [message])
        try await runtime.resumeTurn()
        let efforts = model.bodies.map { $0["reasoning"]?["effort"]?.string }
        #expect(efforts == ["high", "high"])
    }

    @Test func aForkLeavesAnOpenTurnWhereItIs() async throws {
        let model = Model(.text("one"), .calls([("pay", "{}")]))
        let tool = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in "paid" }
        let runtime = model.client(tools: [tool], approving: { _ in .deferred }).runtime(store: store)
        try await runtime.send("first")
        await #expect(throws: ChappieClientError.self) { try await runtime.send("pay") }
        let id = try #require(await runtime.currentThread?.id)
        let fork = try await runtime.forkThread(id)
        #expect(fork.turns.map(\.outputText) == ["one"] && fork.resumableTurn == nil)
    }
}
