import ChappieClient
import ChappieCore
import ChappieJSONSchema
import ChappieTesting
import Synchronization
import Testing

/// A conversation without a service, as a program's tests have one.
private final class Parrot: ChappieConversation {
    private let kinds = Mutex<[String]>([])
    private let gate: ScriptedGate?
    /// What was asked of it.
    var asked: [String] { kinds.withLock { $0 } }

    init(behind gate: ScriptedGate? = nil) { self.gate = gate }

    func begin(_ work: ChappieTurnWork, endsWithItsStream: Bool) -> ChappieStreamHandle {
        let (kind, text) =
            switch work {
            case .new(let request): ("new", request.messages.map(\.text).joined())
            case .resumption(let pending, let decisions): ("resumption \(decisions.count)", pending.context.sessionID)
            case .compaction: ("compaction", "")
            case .clearing: ("clearing", "")
            }
        kinds.withLock { $0.append(kind) }
        return ChappieStreamHandle(endsWithItsStream: endsWithItsStream) { [gate] emit in
            try await gate?.pass()
            let response = ChappieResponse(
                status: text == "early" ? .incomplete : .completed, outputText: text.isEmpty ? "silence" : text)
            emit(.textDelta(response.outputText))
            emit(.completed(response))
            return response
        }
    }

    func cancel() {}
}

/// The calls that every conversation has, over one that only starts turns.
struct DoubleConversationTests {
    private let parrot = Parrot()

    @Test func everyCallThatAsksStartsATurn() async throws {
        let conversation: any ChappieConversation = parrot
        #expect(try await conversation.send("one") == "one")
        #expect(try await conversation.send(.user("two")) == "two")
        #expect(
            try await conversation.send("[1]", as: [Int].self, schema: ["type": "array", "items": ["type": "integer"]])
                == [1])
        #expect(
            try await conversation.response(ChappieResponseRequest(messages: [.user("early")])).status == .incomplete)
        for events in [conversation.stream("three"), conversation.stream(.user("three"))] {
            var text = ""
            for try await event in events { if case .textDelta(let delta) = event { text += delta } }
            #expect(text == "three")
        }
        #expect(try await conversation.startStream(.user("four")).response().outputText == "four")
        try await conversation.compact()
        try await conversation.clear()
        await conversation.prewarm()
        #expect(parrot.asked == Array(repeating: "new", count: 7) + ["compaction", "clearing"])
    }

    @Test func anAnswerThatDoesNotDoIsAnError() async throws {
        await #expect(throws: ChappieClientError.self) { try await parrot.send("early") }
        await #expect(throws: ChappieClientError.self) {
            try await parrot.send("one", as: [Int].self, schema: ["type": "array", "items": ["type": "integer"]])
        }
        #expect(parrot.asked.count == 2)
        await #expect(throws: ChappieJSONSchemaError.self) {
            try await parrot.send("[1]", as: [Int].self, schema: ["type": "arrow"])
        }
        #expect(parrot.asked.count == 2)
    }

    @Test func theOneWhoWaitsForAnAnswerEndsItsTurn() async throws {
        let gate = ScriptedGate()
        let parrot = Parrot(behind: gate)
        let asking = Task { try await parrot.send("one") }
        await gate.reached()
        asking.cancel()
        await #expect(throws: CancellationError.self) { try await asking.value }
    }

    @Test(arguments: [false, true]) func `releasing the events ends only a turn that ends with its events`(
        endsWithItsStream: Bool
    ) async {
        let gate = ScriptedGate()
        let ended = ScriptedGate()
        ended.open()
        let result = Mutex("")
        // Neither the handle nor its events are held.
        _ = ChappieStreamHandle(endsWithItsStream: endsWithItsStream) { _ in
            defer { Task { try await ended.pass() } }
            do { try await gate.pass() } catch {
                result.withLock { $0 = "cancelled" }
                throw error
            }
            result.withLock { $0 = "done" }
            return ChappieResponse()
        }
        if !endsWithItsStream { gate.open() }
        await ended.reached()
        #expect(result.withLock { $0 } == (endsWithItsStream ? "cancelled" : "done"))
    }
}
