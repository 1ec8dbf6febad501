import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
import ChappieSDK
import FoundationEssentials
import Glibc
import Synchronization
import Testing

@testable import chappie

@Suite struct ChatCommandTests {
    @Test(
        arguments: [
            ("/model", .model(nil)), ("/model gpt-5.5 ", .model("gpt-5.5")), ("/MODEL x", .model("x")),
            ("/usage", .usage),
            ("/compact", .compact), ("/clear", .clear), ("/new", .clear), ("/save", .save(nil)),
            ("/save my notes.md", .save("my notes.md")), ("/tools", .tools), ("/transport", .transport),
            ("/help", .help), ("/quit", .quit), ("/exit", .quit), ("/nonsense", .unknown("/nonsense")),
            ("/clear the table", .unknown("/clear")), ("hello", nil), (" /help", nil), ("/etc/hosts is what?", nil),
            ("/", nil), ("//", nil), ("/usr", .unknown("/usr")), ("/help\nme", nil), ("/1", nil), ("a /help", nil),
        ] as [(String, ChatCommand?)])
    func aLineThatBeginsWithASlashIsACommand(_ line: String, _ expected: ChatCommand?) {
        #expect(ChatCommand(line) == expected)
    }

    @Test func everyCommandThatHelpListsIsOne() {
        for name in ChatCommand.names {
            if case .unknown = ChatCommand(name) { Issue.record("\(name) is unknown") }
            #expect(ChatCommand(name) != nil && ChatCommand.helpText.contains(name))
        }
    }

    @Test(arguments: [
        ("/modle", "Did you mean /model?"), ("/cl", "Did you mean /clear?"), ("/zz", "There is no /zz. /help"),
        ("/sav", "/save"),
        ("/x", "begin it with a blank"), ("/clear", "takes nothing after it"),
    ])
    func anUnknownCommandIsAnsweredWithASentence(_ name: String, _ says: String) {
        #expect(ChatCommand.correction(of: name).contains(says))
    }

    @Test(
        arguments: [
            ("/model g", ["/model gpt-5.5", "/model gpt-5"]), ("hello", []), ("/mo", nil),
        ] as [(String, [String]?)])
    func tabKnowsCommandsAndModels(_ text: String, _ expected: [String]?) {
        let completions = ChatCommand.completions(of: text) { ["gpt-5.5", "gpt-5"] }
        #expect(
            completions == expected
                || expected == nil && completions.contains("/model ") && completions.contains("/help"))
    }
}

@Suite struct ChatHistoryTests {
    private let folder = TemporaryFolder()

    private var history: ChatHistory { ChatHistory(environment: folder.environment()) }

    @Test func entriesComeBackInOrderFromAFileOfTheUserAlone() throws {
        for entry in ["one", "two\nlines", "ä 漢字 \"quoted\"", " secret", "", String(repeating: "x", count: 9000)] {
            let isKept = history.add(entry)
            #expect(isKept == ["one", "two\nlines", "ä 漢字 \"quoted\""].contains(entry))
        }
        #expect(history.entries() == ["one", "two\nlines", "ä 漢字 \"quoted\""])
        let path = try #require(history.path)
        #expect(path == folder.path + "/.local/state/chappie/chat-history.jsonl")
        var facts = stat()
        #expect(stat(path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
    }

    @Test func theFileIsCutToTheNewestEntries() throws {
        let path = try #require(history.path)
        let lines = (0..<(2 * ChatHistory.limit + 1)).map { "\"\($0)\"\n" }.joined()
        #expect(PrivateFile.replace(path, with: Array(lines.utf8)))
        let entries = history.entries()
        #expect(entries.count == ChatHistory.limit && entries.last == "\(2 * ChatHistory.limit)")
        #expect(try SmallFile.read(path).count { $0 == UInt8(ascii: "\n") } == ChatHistory.limit)
    }

    @Test(arguments: ["no json\n\"good\"\n\n{}\n", "\"good\""]) func whatMakesNoSenseIsLeftOut(_ content: String) throws
    {
        #expect(PrivateFile.replace(try #require(history.path), with: Array(content.utf8)))
        #expect(history.entries() == ["good"])
    }

    @Test func aFileThatOthersCanReadIsNotRead() throws {
        #expect(history.add("one"))
        chmod(try #require(history.path), 0o644)
        #expect(history.entries() == [])
    }

    @Test func withoutAPlaceNothingIsKept() {
        #expect(ChatHistory(path: nil).add("one") && ChatHistory(path: nil).entries() == [])
    }
}

@Suite struct ChatTests {
    @Test func aConversationIsSavedAsMarkdown() {
        var transcript = ChatTranscript()
        #expect(transcript.isEmpty)
        transcript.add(question: "a?\n", answer: "# b\n\n", by: "gpt-5.5")
        transcript.add(question: "c?", answer: "d", by: "other")
        #expect(
            transcript.markdown == "## You\n\na?\n\n## gpt-5.5\n\n# b\n\n## You\n\nc?\n\n## other\n\nd\n")
    }

    @Test(
        arguments: [
            (.auto, .init(output: true, styles: true), true), (.auto, .init(output: true), false),
            (.auto, .init(styles: true), false), (.always, .init(), true),
            (.never, .init(output: true, styles: true), false),
        ] as [(MarkdownChoice, Console.Terminals, Bool)])
    func markdownIsDrawnOnTerminals(_ choice: MarkdownChoice, _ terminals: Console.Terminals, _ draws: Bool) {
        #expect((choice.stream(on: Recorder().console(terminals)) != nil) == draws)
    }

    @Test(arguments: [false, true]) func anAnswerIsDrawnAndWholeBeforeAToolIsAskedAbout(json: Bool) async throws {
        let recorder = Recorder()
        let console = recorder.console(.init(error: true))
        let asked = Mutex<[String]>([])
        var printer = AnswerPrinter(
            console, try GlobalOptions.parse(json ? ["--json"] : []),
            markdown: MarkdownStream(width: 40, height: nil, isStyled: false), showsTools: true,
            onApproval: { request in asked.withLock { $0.append(request.id) } })
        let call = ChappieToolCall(name: "t", callID: "c")
        let events: [ChappieStreamEvent] = [
            .textDelta("**a"), .textDelta("** b\n\n- c"), .toolCallRequested(.init(call: call)),
            .approvalRequested(.init(call: call)), .textDelta("`d`"),
            .completed(ChappieResponse(id: "r", status: .completed)),
        ]
        try await printer.print(
            AsyncThrowingStream { stream in
                for event in events { stream.yield(event) }
                stream.finish()
            })
        try await console.drained()
        #expect(printer.response?.id == "r")
        #expect(asked.withLock { $0 } == ["c"])
        guard !json else { return #expect(recorder.text(of: .output).contains(#""text":"**a""#)) }
        #expect(recorder.text(of: .output) == "a b\n\n• c\n\nd\n")
        #expect(recorder.streams.first == .output && recorder.text(of: .error).hasPrefix("· t {}\n"))
    }
}
