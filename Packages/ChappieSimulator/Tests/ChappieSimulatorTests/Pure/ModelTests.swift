import ChappieCore
import Testing

@testable import ChappieSimulator

struct ModelTests {
    private let lookUp: ChappieJSON = [
        "type": "function", "name": "look_up",
        "parameters": [
            "type": "object", "required": ["sku", "count", "kind"],
            "properties": [
                "sku": ["type": "string"], "count": ["type": "integer", "minimum": 3], "kind": ["enum": ["a", "b"]],
                "note": ["type": "string"],
            ],
        ],
    ]

    private func ask(_ text: String, tools: [ChappieJSON] = [], more: [(String, ChappieJSON)] = []) -> Prompt {
        Prompt(Simulator.turn(text, [("tools", .array(tools))] + more))
    }

    private func words(of reply: Reply) -> String? {
        for case .message(let pieces) in reply.outputs { return pieces.joined() }
        return nil
    }

    // MARK: Text

    @Test(arguments: [
        "", " ", "word", "two words", "  leading", "trailing  ", "a\n\nb\r\nc", "👩‍👩‍👧 é e\u{301} 日本語 текст",
        String(repeating: "x", count: 200), "\u{1F1E9}\u{1F1EA}\u{1F1EB}\u{1F1F7}",
    ])
    func piecesJoinToTheTextAndCutNoCharacter(text: String) {
        let pieces = TextPieces.split(text)
        #expect(pieces.joined() == text)
        #expect(pieces.allSatisfy { !$0.isEmpty && $0.count <= TextPieces.lengthLimit })
        #expect(pieces.reduce(0) { $0 + $1.count } == text.count)
    }

    @Test func repeatsWhatItWasAskedAndAlwaysInTheSameWay() throws {
        let prompt = ask("Hi & bye\nsecond `line`")
        let reply = EchoModel.reply(to: prompt)
        #expect(reply == EchoModel.reply(to: prompt))
        let text = try #require(words(of: reply))
        #expect(text.contains("> Hi & bye\n> second `line`"))
        #expect(text.contains("- Words: 5\n"))
        #expect(text.contains("```text\nHi & bye\n```"))
        #expect(reply.outputs.count == 1, "nobody asked for reasoning")
    }

    @Test func aFenceIsLongerThanTheBackticksItHolds() throws {
        let text = try #require(words(of: EchoModel.reply(to: ask("```swift"))))
        #expect(text.contains("````text\n```swift\n````"))
    }

    @Test func reasonsWhenEffortIsAskedFor() {
        let asked = EchoModel.reply(to: ask("Hi", more: [("reasoning", ["effort": "high"])]))
        guard case .reasoning(let summary) = asked.outputs.first else {
            Issue.record("no reasoning")
            return
        }
        #expect(summary.contains("high"))
        #expect(EchoModel.reply(to: ask("Hi", more: [("reasoning", ["effort": "none"])])).outputs.count == 1)
    }

    @Test func countsTheTurnAndIgnoresItemsItDoesNotKnow() {
        let input: ChappieJSON = [
            ["type": "message", "role": "developer", "content": [["type": "input_text", "text": "Be brief."]]],
            ["role": "user", "content": "one"],
            ["type": "message", "role": "assistant", "content": [["type": "output_text", "text": "1"]]],
            ["type": "hologram"],
            [
                "role": "user",
                "content": [["type": "input_text", "text": "two"], ["type": "input_image", "image_url": "data:x"]],
            ],
        ]
        let prompt = Prompt(["model": "m", "input": input])
        #expect(prompt.turn == 2)
        #expect(prompt.text == "two")
        #expect(prompt.imageCount == 1)
        #expect(prompt.toolOutputs.isEmpty)
    }

    // MARK: Directives

    @Test func repeatsWordsInAsManyPiecesAsItWasAskedFor() {
        guard case .message(let pieces) = EchoModel.reply(to: ask("Please repeat 20000 words")).outputs.first else {
            Issue.record("no message")
            return
        }
        #expect(pieces.count == 20_000)
        #expect(Directive.parse("repeat 999999999 words", tools: []) == [.repeatWords(Directive.wordLimit)])
        #expect(Directive.parse("repeat 0 words", tools: []).isEmpty)
        #expect(Directive.parse("repeat -1 words", tools: []).isEmpty)
    }

    @Test func repliesWithExactlyTheTextItWasGiven() {
        #expect(words(of: EchoModel.reply(to: ask("reply: 42\n\n  and more  "))) == "42\n\n  and more")
    }

    @Test func callsADeclaredToolWithTheArgumentsOfTheMessage() {
        let reply = EchoModel.reply(
            to: ask("Please do:\ncall look_up {\"sku\": \"a}b\",\n \"count\": 2}\ncall look_up {}", tools: [lookUp]))
        #expect(
            reply.outputs == [
                .functionCall(name: "look_up", namespace: nil, arguments: "{\"sku\": \"a}b\",\n \"count\": 2}"),
                .functionCall(name: "look_up", namespace: nil, arguments: "{}"),
            ])
    }

    @Test func makesUpArgumentsThatFitTheSchema() {
        let reply = EchoModel.reply(to: ask("Could you use the tool `look_up`, please?", tools: [lookUp]))
        #expect(
            reply.outputs == [
                .functionCall(
                    name: "look_up", namespace: nil, arguments: "{\"sku\":\"example\",\"count\":3,\"kind\":\"a\"}")
            ])
    }

    @Test(arguments: [
        "call me tomorrow", "I will call look_up later", "use tools wisely", "use tool", "call ", "repeat",
    ])
    func proseIsNotADirective(text: String) {
        #expect(EchoModel.reply(to: ask(text, tools: [lookUp])).outputs.count == 1)
        #expect(Directive.parse(text, tools: DeclaredTool.list([lookUp])).isEmpty)
    }

    @Test func saysWhichToolsThereAreWhenOneIsMissing() throws {
        let text = try #require(words(of: EchoModel.reply(to: ask("call fly {\"to\": \"moon\"}", tools: [lookUp]))))
        #expect(text.contains("`fly`"))
        #expect(text.contains("`look_up`"))
        let forced = EchoModel.reply(to: ask("force call fly {}", tools: [lookUp]))
        #expect(forced.outputs == [.functionCall(name: "fly", namespace: nil, arguments: "{}")])
    }

    @Test(arguments: [
        ("exec_command", "function", "{\"cmd\":\"echo hi\"}"),
        ("shell", "function", "{\"command\":[\"bash\",\"-lc\",\"echo hi\"]}"),
        ("exec", "custom", "const r = await tools.exec_command({\"cmd\":\"echo hi\"}); text(r);\n"),
    ])
    func runsACommandWithTheShellToolThereIs(name: String, type: String, payload: String) {
        let tool: ChappieJSON = ["type": .string(type), "name": .string(name)]
        let output = EchoModel.reply(to: ask("run: echo hi", tools: [tool])).outputs.first
        #expect(
            output
                == (type == "custom"
                    ? .customCall(name: name, namespace: nil, input: payload)
                    : .functionCall(name: name, namespace: nil, arguments: payload)))
    }

    @Test func findsToolsInsideTheInputAndInNamespaces() {
        let nested: ChappieJSON = [
            "type": "additional_tools", "role": "developer",
            "tools": [
                ["type": "namespace", "name": "functions", "tools": [["type": "custom", "name": "exec"]]],
                ["type": "namespace", "name": "image_gen", "tools": [["type": "function", "name": "draw"]]],
            ],
        ]
        let prompt = Prompt(["model": "m", "input": [nested, ["role": "user", "content": "run: ls"]]])
        #expect(prompt.tools.map(\.name) == ["exec", "draw"])
        #expect(prompt.tools.map(\.namespace) == [nil, "image_gen"])
    }

    @Test func obeysToolChoice() {
        let none = ask("call look_up {}", tools: [lookUp], more: [("tool_choice", "none")])
        #expect(words(of: EchoModel.reply(to: none)) != nil)
        for choice: ChappieJSON in ["required", ["type": "function", "name": "look_up"]] {
            let outputs = EchoModel.reply(to: ask("Hello", tools: [lookUp], more: [("tool_choice", choice)])).outputs
            guard case .functionCall("look_up", _, _) = outputs.first else {
                Issue.record("not called for \(choice)")
                continue
            }
        }
    }

    @Test func reportsWhatTheToolsReturnedAndGoesOnOnlyWhenToldTo() throws {
        func turn(_ text: String) -> Prompt {
            Prompt([
                "model": "m", "tools": [lookUp],
                "input": [
                    ["role": "user", "content": .string(text)],
                    ["type": "function_call", "call_id": "c1", "name": "look_up", "arguments": "{}"],
                    ["type": "function_call_output", "call_id": "c1", "output": "3 left"],
                    [
                        "type": "custom_tool_call_output", "call_id": "c2",
                        "output": [["type": "input_text", "text": "a"], ["type": "input_text", "text": "b"]],
                    ],
                ],
            ])
        }
        let report = try #require(words(of: EchoModel.reply(to: turn("call look_up {}"))))
        #expect(report.contains("The tool `look_up` returned:\n\n```text\n3 left\n```"))
        #expect(report.contains("The tool returned:\n\n```text\nab\n```"))
        #expect(
            EchoModel.reply(to: turn("keep calling look_up {\"n\":1}")).outputs == [
                .functionCall(name: "look_up", namespace: nil, arguments: "{\"n\":1}")
            ])
    }

    @Test func answersACompactionTriggerWithACompactionItem() {
        let body: ChappieJSON = [
            "model": "m", "input": [["role": "user", "content": "call x {}"], ["type": "compaction_trigger"]],
        ]
        guard case .compaction = EchoModel.reply(to: Prompt(body)).outputs.first else {
            Issue.record("no compaction")
            return
        }
    }

    @Test func aGiantMessageGetsABoundedAnswer() {
        let text = "reply: " + String(repeating: "x ", count: 1_000_000)
        guard case .message(let pieces) = EchoModel.reply(to: ask(text)).outputs.first else {
            Issue.record("no message")
            return
        }
        #expect(pieces.count <= Directive.textLimit / 2)
    }

    @Test func objectsWithoutAnEndDoNotHoldItUp() {
        let text = String(repeating: "call look_up {\n", count: 20_000)
        let start = ContinuousClock.now
        #expect(Directive.parse(text, tools: DeclaredTool.list([lookUp])).count == Directive.lineLimit)
        #expect(ContinuousClock.now - start < .seconds(20))
    }

    @Test func findsTheEndOfAnObjectOnlyWhenItHasOne() {
        let text = "{\"a\":{\"b\":\"}\\\"\"}} rest"
        #expect(Directive.endOfObject(text[...]).map { String(text[..<$0]) } == "{\"a\":{\"b\":\"}\\\"\"}}")
        #expect(Directive.endOfObject("{\"a\":\"}") == nil)
        #expect(Directive.endOfObject(String(repeating: "{", count: 1000)[...]) == nil)
    }
}
