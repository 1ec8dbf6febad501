import ChappieCore
import ChappieSimulatorServer
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

    private func ask(_ text: String, _ more: [(String, ChappieJSON)] = [], tools: [ChappieJSON] = []) -> [ReplyOutput] {
        EchoModel.reply(to: Prompt(Simulator.turn(text, [("tools", .array(tools))] + more)))
    }

    private func words(of reply: [ReplyOutput]) -> String? {
        reply.compactMap { if case .message(let pieces, _, _) = $0 { pieces.joined() } else { nil } }.first
    }

    private func call(
        _ name: String, _ payload: String, kind: DeclaredTool.Kind = .function, in namespace: String? = nil
    ) -> ReplyOutput {
        .call(.init(kind: kind, name: name, namespace: namespace, payload: payload))
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

    @Test func repeatsWhatItWasAskedInAFenceThatHoldsIt() throws {
        let text = try #require(words(of: ask("Hi & bye\nsecond `line`")))
        #expect(text.contains("> Hi & bye\n> second `line`"))
        #expect(text.contains("- Words: 5\n"))
        #expect(text.contains("```text\nHi & bye\n```"))
        #expect(words(of: ask("```swift"))?.contains("````text\n```swift\n````") == true)
    }

    @Test func reasonsWhenEffortIsAskedFor() {
        guard case .reasoning(let summary)? = ask("Hi", [("reasoning", ["effort": "high"])]).first else {
            Issue.record("no reasoning")
            return
        }
        #expect(summary.contains("high"))
        #expect(ask("Hi", [("reasoning", ["effort": "none"])]).count == 1)
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

    @Test(arguments: [
        ("repeat 20 words", Directive.repeatWords(20)), ("Repeat 999999999 words", .repeatWords(200_000)),
        ("some lines\nreply: 42\n\n  and more  ", .reply("42\n\n  and more")), ("run: ls -l", .run(command: "ls -l")),
        ("force call fly", .call(name: "fly", arguments: nil, isForced: true)),
        ("call fly {\"to\": \"moon\"}", .call(name: "fly", arguments: "{\"to\": \"moon\"}")),
        ("keep calling look_up {}", .call(name: "look_up", arguments: "{}", isKept: true)),
        ("use tool look_up", .call(name: "look_up", arguments: nil)), ("comment: I look. ", .comment("I look.")),
        ("take 2 steps", .steps(2)), ("Take 1 step", .steps(1)),
    ])
    func readsADirective(text: String, directive: Directive) {
        #expect(Directive.parse(text, tools: DeclaredTool.list([lookUp])) == [directive])
    }

    @Test(arguments: [
        "call me tomorrow", "I will call look_up later", "use tools wisely", "use tool", "call ", "repeat",
        "repeat 0 words", "take two steps", "take 2 steps back", "take 0 steps",
        "repeat -1 words",
    ])
    func proseIsNotADirective(text: String) {
        #expect(Directive.parse(text, tools: DeclaredTool.list([lookUp])).isEmpty)
    }

    @Test func callsADeclaredToolWithTheArgumentsOfTheMessageOrOfItsSchema() {
        let text = "Please do:\ncall look_up {\"sku\": \"a}b\"}\nuse tool look_up\nreply: soon"
        let made = "{\"sku\":\"example\",\"count\":3,\"kind\":\"a\"}"
        #expect(
            ask(text, tools: [lookUp]) == [
                .message(pieces: ["soon"], phase: .commentary), call("look_up", "{\"sku\": \"a}b\"}"),
                call("look_up", made),
            ])
    }

    @Test func anAnswerOfAGivenFormHasDatesWhereThatAsksForDates() {
        let schema: ChappieJSON = [
            "type": "object", "required": ["day", "title"],
            "properties": ["day": ["type": "string", "format": "date-time"], "title": ["type": "string"]],
        ]
        let text: ChappieJSON = ["format": ["type": "json_schema", "schema": schema]]
        #expect(
            words(of: ask("When?", [("text", text)])) == #"{"day":"2026-11-22T12:00:00Z","title":"example"}"#)
    }

    @Test func saysWhichToolsThereAreWhenOneIsMissing() throws {
        let text = try #require(words(of: ask("call fly {\"to\": \"moon\"}", tools: [lookUp])))
        #expect(text.contains("`fly`"))
        #expect(text.contains("`look_up`"))
        #expect(ask("force call fly {}", tools: [lookUp]) == [call("fly", "{}")])
    }

    @Test(arguments: [
        ("exec_command", DeclaredTool.Kind.function, "{\"cmd\":\"echo hi\"}"),
        ("shell", .function, "{\"command\":[\"bash\",\"-lc\",\"echo hi\"]}"),
        ("exec", .custom, "const r = await tools.exec_command({\"cmd\":\"echo hi\"}); text(r);\n"),
    ])
    func runsACommandWithTheShellToolThereIs(name: String, kind: DeclaredTool.Kind, payload: String) {
        let tool: ChappieJSON = ["type": .string(kind.rawValue), "name": .string(name)]
        #expect(ask("run: echo hi", tools: [tool]) == [call(name, payload, kind: kind)])
    }

    @Test func findsToolsInsideTheInputAndInNamespaces() {
        let nested: ChappieJSON = [
            "type": "additional_tools", "role": "developer",
            "tools": [
                ["type": "namespace", "name": "functions", "tools": [["type": "custom", "name": "exec"]]],
                ["type": "namespace", "name": "image_gen", "tools": [["type": "function", "name": "draw"]]],
            ],
        ]
        let prompt = Prompt(["model": "m", "input": [nested, ["role": "user", "content": "call draw {}"]]])
        #expect(prompt.tools.map(\.name) == ["exec", "draw"])
        #expect(prompt.tools.map(\.namespace) == ["functions", "image_gen"])
        #expect(EchoModel.reply(to: prompt) == [call("draw", "{}", in: "image_gen")])
    }

    // MARK: Turns of several answers

    @Test func saysWhatItWasToldToSayFirst() throws {
        let said: ReplyOutput = .message(pieces: ["Let ", "me ", "see."], phase: .commentary)
        let answer: ReplyOutput = .message(pieces: ["yes"])
        #expect(ask("comment: Let me see.\nreply: yes") == [said, answer])
        #expect(
            ask("comment: Let me see.\ncall look_up {}", tools: [lookUp]) == [said, call("look_up", "{}")])
        let scenario = ScenarioEffect(commentary: "Let me see.")
        #expect(EchoModel.reply(to: Prompt(Simulator.turn("reply: yes")), effect: scenario) == [said, answer])
    }

    @Test func takesStepsThatEndNoTurnBeforeItAnswers() throws {
        func turn(_ steps: [String]) -> [ReplyOutput] {
            let input: [ChappieJSON] =
                [["role": "user", "content": "comment: First\ntake 2 steps\nreply: done"]]
                + steps.map { ["type": "message", "role": "assistant", "phase": "commentary", "content": .string($0)] }
            return EchoModel.reply(to: Prompt(["model": "m", "input": .array(input)]))
        }
        func step(_ number: String) -> ReplyOutput {
            .message(pieces: ["Step ", "\(number) ", "of ", "2."], phase: .commentary)
        }
        #expect(turn([]) == [.message(pieces: ["First"], phase: .commentary), step("1"), .unfinishedTurn])
        #expect(turn(["First", "Step 1 of 2."]) == [step("2"), .unfinishedTurn])
        #expect(turn(["First", "Step 1 of 2.", "Step 2 of 2."]) == [.message(pieces: ["done"])])
    }

    @Test func commentaryIsNoTurnOfItsOwn() {
        let input: ChappieJSON = [
            ["role": "user", "content": "one"],
            ["type": "message", "role": "assistant", "phase": "commentary", "content": "I look."],
            ["type": "message", "role": "assistant", "phase": "final_answer", "content": "1"],
            ["role": "user", "content": "two"],
        ]
        #expect(Prompt(["model": "m", "input": input]).turn == 2)
    }

    @Test func obeysToolChoice() {
        #expect(words(of: ask("call look_up {}", [("tool_choice", "none")], tools: [lookUp])) != nil)
        for choice: ChappieJSON in ["required", ["type": "function", "name": "look_up"]] {
            #expect(words(of: ask("Hello", [("tool_choice", choice)], tools: [lookUp])) == nil)
        }
    }

    @Test func reportsWhatTheToolsReturnedAndGoesOnOnlyWhenToldTo() throws {
        func turn(_ text: String) -> [ReplyOutput] {
            let input: ChappieJSON = [
                ["role": "user", "content": .string(text)],
                ["type": "function_call", "call_id": "c1", "name": "look_up", "arguments": "{}"],
                ["type": "function_call_output", "call_id": "c1", "output": "3 left"],
                [
                    "type": "custom_tool_call_output", "call_id": "c2",
                    "output": [["type": "input_text", "text": "a"], ["type": "input_text", "text": "b"]],
                ],
            ]
            return EchoModel.reply(to: Prompt(["model": "m", "tools": [lookUp], "input": input]))
        }
        let report = try #require(words(of: turn("call look_up {}")))
        #expect(report.contains("The tool `look_up` returned:\n\n```text\n3 left\n```"))
        #expect(report.contains("The tool returned:\n\n```text\nab\n```"))
        #expect(turn("keep calling look_up {\"n\":1}") == [call("look_up", "{\"n\":1}")])
    }

    @Test func answersACompactionTriggerWithACompactionItem() {
        let input: ChappieJSON = [["role": "user", "content": "call x {}"], ["type": "compaction_trigger"]]
        let reply = EchoModel.reply(to: Prompt(["model": "m", "input": input]))
        #expect(
            reply == [
                .compaction(encryptedContent: SealedContent.seal("compacted:call x {}", for: "m"))
            ])
    }
}
