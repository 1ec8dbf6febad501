@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import Glibc
import Synchronization
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// Tools that take free text, and arguments while the model writes them.
@Suite struct CustomToolTests {
    private static let grammar = "start: \"SELECT\" /[^;]+/"
    private static let queryCall: ChappieJSON = [
        "id": "ctc_1", "type": "custom_tool_call", "status": "completed", "call_id": "call_1", "name": "query",
        "namespace": "functions", "input": "SELECT 1",
    ]

    private func harness(
        _ wire: Wire, _ model: String, policy: ChappieToolPolicy = .automatic, approval: ChappieApprovalDecision? = nil,
        seen: @escaping @Sendable (ChappieToolCall) -> Void = { _ in }
    ) -> ClientHarness {
        let tool = ChappieHostTool(
            name: "query", description: "Asks.", textFormat: .lark(Self.grammar), policy: policy
        ) { call in
            seen(call)
            return "one row"
        }
        return ClientHarness(
            wire, [Reply(steps: [.events(items([Self.queryCall]))]), .answer("done", id: "resp_2")], tools: [tool],
            approval: { _ in approval ?? .denied(reason: "no") }, configure: { $0.model = model })
    }

    @Test(arguments: Wire.allCases, ["flat", "lite"])
    func `the handler gets the text, and the model gets the handler's output`(wire: Wire, model: String) async throws {
        let calls = Mutex<[ChappieToolCall]>([])
        let harness = harness(wire, model) { call in calls.withLock { $0.append(call) } }
        #expect(await harness.ask().text == "done")
        #expect(
            calls.withLock { $0 } == [
                ChappieToolCall(name: "query", callID: "call_1", arguments: "SELECT 1", isCustom: true)
            ])
        let requests = try harness.requests
        let list = (requests[0]["tools"] ?? requests[0]["input"]?[0]?["tools"])?.array
        let declared = model == "lite" ? list?[0]["tools"]?[0] : list?[0]
        #expect(
            declared == [
                "type": "custom", "name": "query", "description": "Asks.",
                "format": ["type": "grammar", "syntax": "lark", "definition": .string(Self.grammar)],
            ])
        if model == "lite" { #expect(list?[0]["type"] == "namespace" && list?[0]["name"] == "functions") }
        #expect(
            try harness.requests.last?["input"]?.array?.last == [
                "type": "custom_tool_call_output", "call_id": "call_1", "output": "one row",
            ])
    }

    @Test func aUserEditsTheText() async throws {
        let calls = Mutex<[String]>([])
        let harness = harness(.serverSentEvents, "flat", policy: .ask, approval: .approved(arguments: "SELECT 2")) {
            call in calls.withLock { $0.append(call.arguments) }
        }
        #expect(await harness.ask().text == "done")
        #expect(calls.withLock { $0 } == ["SELECT 2"])
    }

    @Test func argumentsForATextToolHaveFailed() async throws {
        let tool = ChappieHostTool(name: "query", textFormat: .text) { _ in
            Issue.record("It ran.")
            return ""
        }
        let item = call("query")
        let harness = ClientHarness(
            .serverSentEvents, [Reply(steps: [.events(items([item]))]), .answer("done", id: "r2")], tools: [tool])
        #expect(await harness.ask().text == "done")
        let output = try #require(try harness.requests.last?["input"]?.array?.last)
        #expect(output["output"] == "The tool failed: It takes free text and no JSON arguments.")
        #expect(try harness.requests[0]["tools"]?[0] == ["type": "custom", "name": "query", "description": ""])
    }

    @Test func aFormatIsReadAndWrittenAsTheServiceHasIt() throws {
        let (decoder, encoder) = (JSONDecoder(), JSONEncoder())
        for format in [ChappieToolTextFormat.text, .lark("start: /a/"), .regex("a+")] {
            #expect(try decoder.decode(ChappieToolTextFormat.self, from: encoder.encode(format)) == format)
        }
        for text in [
            "{}", #"{"type":"xml"}"#, #"{"type":"grammar"}"#, #"{"type":"grammar","syntax":"ebnf","definition":"x"}"#,
            #"{"type":"grammar","syntax":"lark"}"#,
        ] {
            #expect(throws: DecodingError.self) {
                try decoder.decode(ChappieToolTextFormat.self, from: Data(text.utf8))
            }
        }
    }

    @Test func `a harness declares a text tool that the host runs`() async throws {
        let manifest = try ChappiePluginManifest(
            json: Array(
                #"{"name":"m","tools":[{"name":"query","textFormat":{"type":"grammar","syntax":"regex","definition":"a+"}}]}"#
                    .utf8))
        #expect(manifest.tools[0].textFormat == .regex("a+"))
        let tool = ChappieHostTool(name: "query", textFormat: .text) { call in .init(output: call.arguments) }
        let harness = ClientHarness(
            .serverSentEvents, [Reply(steps: [.events(items([Self.queryCall]))]), .answer("done", id: "r2")],
            harness: manifest.resolvedHarness, tools: [tool])
        #expect(await harness.ask().text == "done")
        #expect(try harness.requests[0]["tools"]?[0]?["format"]?["syntax"] == "regex")
        #expect(try harness.requests.last?["input"]?.array?.last?["output"] == "SELECT 1")
    }

    @Test func `an empty grammar is refused before anything is sent`() async throws {
        let tool = ChappieHostTool(name: "query", textFormat: .regex("")) { _ in "" }
        let harness = ClientHarness(.serverSentEvents, tools: [tool])
        #expect(await harness.ask().error == .invalidTool("query", "its grammar must not be empty"))
    }

    // MARK: Deltas

    /// The events of a call that is being written.
    private static func written(
        _ pieces: [String], id: String = "call_1", name: String = "write", isDone: Bool = true
    ) -> [String] {
        let item = call(name, pieces.joined(), id: id)
        let added: ChappieJSON = ["type": "response.output_item.added", "item": item]
        let deltas = pieces.map { piece -> ChappieJSON in
            [
                "type": "response.function_call_arguments.delta", "item_id": .string("fc_\(id)"),
                "delta": .string(piece),
            ]
        }
        let done: [ChappieJSON] = isDone ? [["type": "response.output_item.done", "item": item]] : []
        return ([added] + deltas + done).map { $0.serialized() }
    }

    /// The pieces that a reader sees, and the ids of the calls that are asked for.
    private func read(_ harness: ClientHarness) async throws -> (pieces: [ChappieToolArgumentsDelta], calls: [String]) {
        var (pieces, calls) = ([ChappieToolArgumentsDelta](), [String]())
        for try await event in harness.client.stream("Hi") {
            if case .toolArgumentsDelta(let piece) = event { pieces.append(piece) }
            if case .toolCallRequested(let request) = event { calls.append(request.call.callID) }
        }
        return (pieces, calls)
    }

    private static let tool = ChappieHostTool(name: "write", inputSchema: ["type": "object"]) { _ in "written" }
    private static let completed = items([])

    @Test(arguments: Wire.allCases) func argumentsAreSaidWhileTheyAreWritten(wire: Wire) async throws {
        let other = Self.written([#"{"b":"#, "2}"], id: "call_2")
        let harness = ClientHarness(
            wire,
            [Reply(steps: [.events(Self.written([#"{"a":"#, "1}"]) + other + Self.completed)]), .answer("done")],
            tools: [Self.tool])
        let (pieces, calls) = try await read(harness)
        #expect(
            pieces == [
                ChappieToolArgumentsDelta(callID: "call_1", name: "write", delta: #"{"a":1}"#),
                ChappieToolArgumentsDelta(callID: "call_2", name: "write", delta: #"{"b":2}"#),
            ])
        #expect(calls == ["call_1", "call_2"])
    }

    @Test(arguments: Wire.allCases) func argumentsAreSaidOnceAlsoAfterABreak(wire: Wire) async throws {
        // Another attempt has other ids; the host goes on with the first.
        let harness = ClientHarness(
            wire,
            [
                Reply(steps: [.events(Self.written([#"{"a":"#, "[1,"], isDone: false)), .cut]),
                Reply(steps: [.events(Self.written([#"{"a""#, ":[1,2", "]}"], id: "call_9") + Self.completed)]),
                .answer("done"),
            ], tools: [Self.tool])
        let (pieces, calls) = try await read(harness)
        #expect(pieces.map(\.delta).joined() == #"{"a":[1,2]}"# && Set(pieces.map(\.callID)) == ["call_1"])
        #expect(calls == ["call_1"])
    }

    @Test func `arguments that differ after a break are withheld, and the new call runs`() async throws {
        for (name, pieces) in [("write", [#"{"b":"#, "1}"]), ("other", [#"{"a":"#, "1}"])] {
            let harness = ClientHarness(
                .serverSentEvents,
                [
                    Reply(steps: [.events(Self.written([#"{"a":"#], isDone: false)), .cut]),
                    Reply(steps: [.events(Self.written(pieces, id: "call_9", name: name) + Self.completed)]),
                    .answer("done"),
                ], tools: [Self.tool, ChappieHostTool(name: "other") { _ in "x" }])
            let (seen, calls) = try await read(harness)
            #expect(seen.map(\.delta) == [#"{"a":"#] && calls == ["call_9"])
        }
    }

    @Test func `pieces of a call that was not announced are left out`() async throws {
        let stray = #"{"type":"response.function_call_arguments.delta","item_id":"fc_7","delta":"{}"}"#
        let harness = ClientHarness(.webSocket, [Reply(steps: [.events([stray] + answering("done"))])])
        #expect(try await read(harness).pieces.isEmpty)
    }

    /// Said one by one, broken off, and said again: sixteen times the pieces cost about sixteen times as much; copies of what
    /// was said would make it 256 times.
    @Test func argumentsOfManyPiecesCostInProportion() throws {
        func seconds(_ count: Int) throws -> Double {
            let call = ChappieOutputItem(ChappieClientTests.call("write"))
            let piece = ResponsesEvent.toolArgumentsDelta("0123456789 abcdef", itemID: "fc_call_1", callID: nil)
            let start = Self.threadTime()
            var byteCount = 0
            var accumulator = TurnAccumulator { event in
                if case .toolArgumentsDelta(let piece) = event { byteCount += piece.delta.utf8.count }
            }
            for _ in 0..<2 {
                accumulator.attemptBegan()
                _ = try accumulator.received([.outputItemAdded(call, outputIndex: 0)])
                for _ in 0..<count { _ = try accumulator.received([piece]) }
            }
            #expect(byteCount == count * 17)
            return Self.threadTime() - start
        }
        let small = try (0..<3).map { _ in try seconds(4000) }.min() ?? 0
        let factor = try seconds(64_000) / max(small, 2e-3)
        print("growth: arguments: 4000 → 64000 pieces: × \(Int(factor.rounded()))")
        #expect(factor < 100)
    }

    /// Of the processor, in seconds.
    private static func threadTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
