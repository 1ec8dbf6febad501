import ChappieAuth
import ChappieClient
import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Synchronization
import Testing

/// Has every turn wait at a gate before it is kept.
private final class GatedStore: ChappieThreadStore {
    let store = ChappieInMemoryThreadStore()
    private let gate: ScriptedGate

    init(_ gate: ScriptedGate) { self.gate = gate }

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        do {
            try await gate.pass()
        } catch {
            throw .unavailable("the gate is closed")
        }
        try store.append(records, to: thread, at: position)
    }
    func summaries() -> [ChappieThreadSummary] { store.summaries() }
    func records(of thread: String, from position: Int) throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        try store.records(of: thread, from: position)
    }
    func delete(_ thread: String) { store.delete(thread) }
}

/// A client and a runtime are used by the same calls.
struct ConversationTests {
    private let store = ChappieInMemoryThreadStore()
    private let pay = ChappieHostTool(name: "pay", description: "Pays.", policy: .ask) { _ in "paid" }

    /// The texts of what the model was asked, request by request.
    private func words(_ model: Model) -> [[String]] {
        model.inputs.map { $0.compactMap { $0["role"] == "developer" ? nil : $0["content"]?[0]?["text"]?.string } }
    }

    @Test(arguments: [false, true]) func aConversationIsLeftAndMadeShorter(isKept: Bool) async throws {
        let model = Model(.text("one"), .compaction, .text("two"), .text("three"))
        let client = model.client()
        let conversation: any ChappieConversation = isKept ? client.runtime(store: store) : client
        try await conversation.send("first")
        try await conversation.compact()
        #expect(try await conversation.send("second") == "two")
        #expect(model.inputs[2].contains { $0["type"] == "compaction" })
        try await conversation.clear()
        #expect(try await conversation.send("third") == "three")
        #expect(words(model).last == ["third"])
        #expect(store.summaries().count == (isKept ? 2 : 0))
    }

    @Test(arguments: [false, true]) func aTurnThatWaitsIsGoneOnWith(isKept: Bool) async throws {
        let model = Model(.calls([("pay", "{}")]), .text("done"), .calls([("pay", "{}")]))
        let client = model.client(tools: [pay], approving: { _ in .deferred })
        let conversation: any ChappieConversation = isKept ? client.runtime(store: store) : client
        var pending: [ChappiePendingTurn] = []
        for question in ["first", "second"] {
            do { try await conversation.send(question) } catch ChappieClientError.approvalPending(let turn) {
                pending.append(turn)
            }
            guard pending.count == 1 else { break }
            let decisions = ["call_1_0": ChappieApprovalDecision.approved()]
            #expect(try await conversation.resume(pending[0], decisions: decisions).outputText == "done")
        }
        #expect(pending.count == 2)
        guard isKept else { return }
        // The thread's last turn is another one now.
        await #expect(throws: ChappieRuntimeError.nothingToResume) { try await conversation.resume(pending[0]) }
        #expect(
            try store.records(of: try #require(store.summaries().first?.id), from: 0).last?.kind == .approvalPending)
    }

    @Test func aTurnOfTheClientWaitsForOneOfItsRuntime() async throws {
        let gate = ScriptedGate()
        let model = Model(.text("one"), .text("two"))
        let client = model.client()
        let runtime = client.runtime(store: GatedStore(gate))
        let kept = runtime.startStream(.user("kept"))
        await gate.reached()
        let direct = client.startStream(.user("direct"))
        gate.open()
        #expect(try await kept.response().outputText == "one")
        #expect(try await direct.response().outputText == "two")
        #expect(words(model) == [["kept"], ["kept", "one", "direct"]])
        let last = runtime.startStream(.user("last"))
        await client.cancel()
        await #expect(throws: CancellationError.self) { try await last.response() }
    }

    @Test func withoutASignInNothingIsBegun() async throws {
        let transport = ScriptedHTTPTransport(answers: [])
        let credentials = SeededAuth().manager(transport: transport)
        let runtime = ChappieClient(transport: transport, credentials: credentials).runtime(store: store)
        try await credentials.signOut()
        await #expect(throws: ChappieClientError.missingCredential) { try await runtime.send("question") }
        #expect(store.summaries().isEmpty)
        try await runtime.clear()
    }

    @Test func `a listener receives each event of a turn once and in order`() async throws {
        let runtime = Model(.text("one")).client().runtime(store: store)
        let listening = runtime.events
        var streamed: [ChappieTurnEvent] = []
        for try await event in runtime.stream("first") { streamed.append(.progressed(event)) }
        var heard: [ChappieTurnEvent] = []
        for await event in listening {
            heard.append(event.event)
            if case .progressed(.completed) = event.event { break }
        }
        #expect(Array(heard.dropFirst()) == streamed && streamed.count > 1)
    }
}
