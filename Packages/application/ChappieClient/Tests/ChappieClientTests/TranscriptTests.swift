import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieClient

/// A transcript sends and keeps its items; a kept connection continues it.
@Suite struct TranscriptTests {
    private func transcript(_ harness: ChappieHarness = .none) -> Transcript {
        Transcript(
            account: ChappieAccountInfo(), id: "id", now: Date(timeIntervalSince1970: 0),
            configuration: ChappieConfiguration(harness: harness))
    }

    private func answer(
        _ items: [ChappieJSON], text: String = "", status: ChappieResponseStatus = .completed
    ) -> ChappieResponse {
        ChappieResponse(["id": "resp_1"], status).with(items: items.map(ChappieOutputItem.init), text: text)
    }

    private func body(_ transcript: Transcript, _ text: String) -> ChappieJSONObject {
        transcript.body(asking: [.user(text)], model: "m", options: ChappieMessageOptions())
    }

    private static let reasoning: ChappieJSON = [
        "type": "reasoning", "id": "rs_1", "encrypted_content": "opaque", "summary": [],
    ]
    private static let message: ChappieJSON = [
        "type": "message", "id": "msg_1", "role": "assistant", "unknown_member": 12_345_678_901_234,
        "content": [["type": "output_text", "text": "whole"]],
    ]

    @Test func `the harness comes first, and the prefix never changes`() throws {
        var transcript = transcript("Be brief.")
        let first = try #require(body(transcript, "one")["input"]?.array)
        #expect(first.first?["role"]?.string == "developer")
        #expect(first.first?["content"]?[0]?["text"]?.string == "Be brief.")
        transcript.append([.user("one")], answer: answer([Self.reasoning, Self.message]))
        let second = try #require(body(transcript, "two")["input"]?.array)
        #expect(ChappieJSON.array(second).serialized().hasPrefix(ChappieJSON.array(first).serialized().dropLast()))
        #expect(Array(second[2...3]) == [Self.reasoning, Self.message])
        #expect(second.count == 5)
    }

    @Test func aHarnessWithoutWordsSendsNoItem() {
        #expect(body(transcript(), "x")["input"]?.array?.count == 1)
    }

    /// An answer, the types of what is kept of it, and the last text.
    static let answers: [(items: [ChappieJSON], text: String, status: ChappieResponseStatus, [String], String?)] = [
        ([["type": "hologram"]], "seen", .completed, ["message"], "seen"),
        ([reasoning], "half", .incomplete, ["message"], "half"),
        ([reasoning, reasoning], "", .incomplete, [], nil),
        ([reasoning, message, reasoning], "", .incomplete, ["reasoning", "message"], "whole"),
        ([reasoning, message], "", .completed, ["reasoning", "message"], "whole"),
        ([reasoning], "seen", .completed, ["reasoning", "message"], "seen"),
    ]

    @Test func whatTheBackendTakesBackIsKept() {
        for (items, text, status, types, last) in Self.answers {
            var transcript = transcript()
            transcript.append([.user("x")], answer: answer(items, text: text, status: status))
            let kept = transcript.items.dropFirst()
            #expect(kept.map { $0["type"]?.string } == types)
            #expect(kept.last?["content"]?[0]?["text"]?.string == last)
        }
    }

    @Test func `the body has the members that the backend requires`() {
        let transcript = transcript()
        let body = transcript.body(
            asking: [.user(String(repeating: " ", count: 4096))], model: "gpt-6-sol",
            options: ChappieMessageOptions(fastMode: true, verbosity: .low))
        #expect(
            body.names == [
                "model", "stream", "input", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "store",
                "include",
                "prompt_cache_key", "text",
            ])
        #expect(body["store"] == false)
        #expect(body["reasoning"]?["effort"]?.string == "low")
        let request = transcript.request(body)
        #expect(request.url.absoluteString == "https://chatgpt.com/backend-api/codex/responses")
        let names = request.headerFields.map(\.name.canonicalName).sorted()
        #expect(
            names == [
                "accept", "content-type", "session-id", "thread-id", "version", "x-client-request-id",
                "x-codex-routing-hint", "x-codex-window-id",
            ])
        #expect(request.body?.coding == .zstd)
        #expect(transcript.request(["model": "m"]).body?.coding == .identity)
    }

    @Test func idsAreVersionSeven() throws {
        struct Fixed: Entropy {
            func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: 0xFF, count: count) }
        }
        let id = UUIDv7.make(now: Date(timeIntervalSince1970: 1_645_557_742), entropy: Fixed())
        #expect(id == "017f22e2-79b0-7fff-bfff-ffffffffffff")
    }

    // MARK: The kept connection

    private static func item(_ text: String) -> ChappieJSON { ["type": "message", "text": .string(text)] }

    private static func request(
        _ input: [String], _ more: [(String, ChappieJSON)] = [], model: ChappieJSON = "m"
    ) -> ChappieJSONObject {
        ChappieJSONObject([("model", model), ("stream", true), ("input", .array(input.map(item)))] + more)
    }

    private func chain(
        _ body: ChappieJSONObject = request(["h", "one"]), id: String = "resp_1", items: [String] = ["ONE"],
        status: ChappieResponseStatus = .completed
    ) -> ResponseChain? {
        ResponseChain(
            body, ChappieResponse(["id": .string(id)], status),
            history: (body["input"]?.array ?? []) + items.map(Self.item))
    }

    @Test func onlyWhatIsNewIsSaid() {
        for metadata: [(String, ChappieJSON)] in [[], [("client_metadata", ["a": "b"])]] {
            let request = chain()?.request(Self.request(["h", "one", "ONE", "two"], metadata))
            #expect(request?.names == ["model", "stream", "previous_response_id", "input"] + metadata.map(\.0))
            #expect(request?["previous_response_id"] == "resp_1")
            #expect(request?["input"] == [Self.item("two")])
        }
        let warm = chain(Self.request(["h"], [("generate", false)]), id: "warm", items: [])
        #expect(warm?.request(Self.request(["h", "one"]))["input"] == [Self.item("one")])
    }

    static let others = [
        request(["h", "one", "two"]), request(["h", "one", "ONE"]), request(["x", "one", "ONE", "two"]),
        request(["h", "one", "other", "two"]), request([]),
        request(["h", "one", "ONE", "two"], model: "another"),
    ]

    @Test(arguments: others) func anythingElseIsSaidWhole(request: ChappieJSONObject) {
        #expect(chain()?.request(request) == request)
    }

    @Test func `an answer that has no ID or no items or ended early is not continued`() {
        #expect(chain(id: "") == nil)
        #expect(chain(items: []) == nil)
        #expect(chain(status: .incomplete) == nil)
    }

    @Test func pausesBeforeAnotherWebSocketGrowAndEnd() {
        let connection = ConversationConnection()
        var now = Duration.seconds(1000)
        #expect(connection.mayTry(at: now))
        for pause in [30, 60, 120, 240, 480, 900, 900] {
            connection.gaveUp(at: now)
            #expect(!connection.mayTry(at: now + .seconds(pause - 1)))
            now += .seconds(pause)
            #expect(connection.mayTry(at: now))
        }
        connection.gaveUp(at: now)
        connection.worked()
        #expect(connection.mayTry(at: now))
        connection.gaveUp(at: now)
        #expect(connection.mayTry(at: now + .seconds(30)))
    }
}

extension Transcript {
    /// A request of these messages.
    fileprivate func body(
        asking messages: [ChappieInputMessage], model: String, options: ChappieMessageOptions
    ) -> ChappieJSONObject { body(adding: messages.map(\.inputItem), RequestFrame(model: model, options: options)) }

    /// Keeps a turn without tools.
    fileprivate mutating func append(_ messages: [ChappieInputMessage], answer: ChappieResponse) {
        append(
            messages.map(\.inputItem) + Self.kept(of: answer), model: "m", isForOneTurn: false, measuredTokens: nil,
            now: Date(timeIntervalSince1970: 0))
    }
}
