import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieMarkdown
import ChappieRuntime
import ChappieSDK
import FoundationEssentials
import Glibc
import Synchronization
import Testing

@testable import chappie

@Suite struct ChatCommandTests {
    @Test(
        arguments: [
            ("/model", .model(nil)), ("/model gpt-6-sol ", .model("gpt-6-sol")), ("/MODEL x", .model("x")),
            ("/usage", .usage),
            ("/compact", .compact), ("/clear", .clear), ("/new", .clear), ("/save", .save(nil)),
            ("/save my notes.md", .save("my notes.md")), ("/tools", .tools), ("/transport", .transport),
            ("/help", .help), ("/quit", .quit), ("/exit", .quit), ("/nonsense", .unknown("/nonsense")),
            ("/clear the table", .unknown("/clear")), ("hello", nil), (" /help", nil), ("/etc/hosts is what?", nil),
            ("/system", .system(nil)), ("/system Be brief.", .system("Be brief.")), ("/template t", .template("t")),
            ("/file a b.txt", .file("a b.txt")), ("/image x.png", .image("x.png")), ("/paste", .paste),
            ("/resource", .resource(nil)), ("/resources", .resource(nil)), ("/resource a:b c", .resource("a:b c")),
            ("/prompt a:b x=1", .prompt("a:b x=1")), ("/prompts", .prompt(nil)),
            ("/paste x", .unknown("/paste")), ("/edit", .edit(nil)), ("/edit a draft", .edit("a draft")),
            ("/retry", .retry), ("/undo", .undo), ("/copy", .copy), ("/threads", .threads(nil)),
            ("/threads two words", .threads("two words")), ("/open 1a2b3c4d", .open("1a2b3c4d")), ("/open", .open(nil)),
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
        ("/x", "begin it with a blank"), ("/clear", "takes no argument"),
    ])
    func anUnknownCommandIsAnsweredWithASentence(_ name: String, _ says: String) {
        #expect(ChatCommand.correction(of: name).contains(says))
    }

    @Test(
        arguments: [
            ("/model g", ["/model gpt-6-sol", "/model gpt-6"]), ("/template ", ["/template t"]),
            ("/open 1", ["/open 1a2b3c4d"]), ("/resource f", ["/resource files:a"]), ("/prompt ", ["/prompt files:p"]),
            ("hello", []), ("/mo", nil),
        ] as [(String, [String]?)])
    func tabKnowsCommandsAndModels(_ text: String, _ expected: [String]?) {
        let known = ChatCommand.Known(
            models: { ["gpt-6-sol", "gpt-6"] }, templates: { ["t"] }, threads: { ["1a2b3c4d"] },
            resources: { ["files:a"] }, prompts: { ["files:p"] })
        let completions = ChatCommand.completions(of: text, known)
        #expect(
            completions == expected
                || expected == nil && completions.contains("/model ") && completions.contains("/help"))
    }
}

@Suite struct PathArgumentTests {
    private let folder = TemporaryFolder()

    private func make(_ name: String) -> String {
        let path = folder.path + "/" + name
        try? PrivateFile.replace(path, with: [1])
        return path
    }

    @Test func `paths that a terminal pastes for dropped files are recognised`() throws {
        let (plain, spaced, quoted) = (make("a.png"), make("two words.pdf"), make("it's.txt"))
        let escaped = spaced.replacing(" ", with: "\\ ")
        for (text, expected) in [
            (plain, [plain]), (" \(plain) ", [plain]), ("'\(spaced)'", [spaced]), (escaped, [spaced]),
            (spaced, [spaced]),
            ("\(plain) \(escaped)", [plain, spaced]), ("'\(folder.path)/it'\\''s.txt'", [quoted]),
            ("file://\(spaced.replacing(" ", with: "%20"))", [spaced]), ("\"\(spaced)\" '\(plain)'", [spaced, plain]),
        ] {
            #expect(PathArgument.dropped(text, home: nil) == expected, "\(text)")
        }
        for text in [
            "a.png", "\(plain) what is this?", "/nonexistent", "/", "", "'", String(repeating: "/", count: 9000),
        ] {
            #expect(PathArgument.dropped(text, home: nil) == (text == "/" ? ["/"] : nil), "\(text.prefix(50))")
        }
    }

    @Test func argumentsAreAsAShellReadsThem() {
        _ = make("b c")
        #expect(PathArgument.paths(in: "~/b c", home: folder.path) == [folder.path + "/b c"])
        #expect(PathArgument.paths(in: "a '' \"x y\"\\ z", home: nil) == ["a", "", "x y z"])
        #expect(PathArgument.completions(of: folder.path + "/b") == [folder.path + "/b c"])
        #expect(PathArgument.completions(of: folder.path + "/.").isEmpty)
    }
}

@Suite struct ChatHistoryTests {
    /// A store with a thread in which these messages were said, one a turn and a second.
    private static func add(
        _ messages: [ChappieJSON], to store: ChappieInMemoryThreadStore, as id: String, from start: Double
    ) throws {
        let records = messages.enumerated().map { index, message in
            ChappieThreadRecord(
                position: index, kind: .turnStarted, date: Date(timeIntervalSince1970: start + Double(index)),
                body: ["turn": .string("\(id)\(index)"), "messages": [["role": "developer"], message]])
        }
        let summary = try #require(ChappieThreadSummary(id: id, records: records))
        try store.append(records, to: summary, at: 0)
    }

    private static func user(_ text: String) -> ChappieJSON {
        ["role": "user", "content": [["type": "input_text", "text": .string(text)]]]
    }

    @Test func `history entries are the user's messages in the threads, in order`() async throws {
        let store = ChappieInMemoryThreadStore()
        try Self.add(["one", "three"].map(Self.user), to: store, as: "a", from: 1)
        try Self.add(["ä 漢字 \"quoted\"\nlines"].map(Self.user), to: store, as: "b", from: 1.5)
        let others = [
            " a secret", "", String(repeating: "x", count: 9000), "a\u{1B}[2Jb", "\u{202E}evil",
        ].map(Self.user)
        let foreign: ChappieJSON = ["role": "assistant", "content": [["type": "output_text", "text": "hi"]]]
        try Self.add(others + [foreign, ["role": "user"]], to: store, as: "c", from: 0)
        try Self.add([Self.user("said meanwhile")], to: store, as: "d", from: Date().timeIntervalSince1970 + 60)
        let history = ChatHistory(store: store)
        #expect(try await history.load() == ["one", "ä 漢字 \"quoted\"\nlines", "three"])
        var entries: [String]?
        // Other tests may hold every thread for longer than the editor waits.
        while entries == nil { entries = try await onThread { history.entries() } }
        #expect(entries?.count == 3)
        store.delete("a")
        #expect(try await history.load() == ["ä 漢字 \"quoted\"\nlines"])
    }

    @Test func theNewestThreadsAreEnough() async throws {
        let store = ChappieInMemoryThreadStore()
        for number in 0..<60 {
            try Self.add(
                (0..<20).map { Self.user("\(number) \($0)") }, to: store, as: "thread-\(number)",
                from: Double(number * 100))
        }
        let entries = try await ChatHistory(store: store).load()
        #expect(entries.count == ChatHistory.limit)
        #expect(entries.first == "35 0")
        #expect(entries.last == "59 19")
    }

    @Test func withoutThreadsThereAreNoEntries() async throws {
        #expect(try await ChatHistory(store: nil).load() == [])
    }

    @Test(arguments: ["y", " ", " y"]) func aLineAfterABlankIsNotRemembered(line: String) {
        #expect(ChatHistory.remembers(line) == (line == "y"))
    }
}

@Suite struct ChatTests {
    @Test(arguments: [
        (32, "m-漢字 · context 3 % · 5 h 12 %"), (31, "m-漢字 · context 3 %"), (21, "m-漢字 · context 3 %"),
        (20, "m-漢字"), (7, "m-漢字"), (6, "m-漢…"), (4, "m-…"), (3, ""), (0, ""),
    ]) func theStatusIsShorterThanTheWindowIsWide(columns: Int, expected: String) {
        let row = ChatStatus.row(["m-漢字", "context 3 %", "5 h 12 %"], columns: columns)
        #expect(row == expected && PlainText.columns(of: row) < max(columns, 1))
        #expect(ChatStatus.row([], columns: columns) == "")
    }

    @Test func aConversationIsSavedAsMarkdown() {
        #expect(ChatTranscript([]).isEmpty)
        let transcript = ChatTranscript(turns: [("a?\n", "# b\n\n", "gpt-6-sol"), ("c?", "d", "other")])
        #expect(
            transcript.markdown == "## You\n\na?\n\n## gpt-6-sol\n\n# b\n\n## You\n\nc?\n\n## other\n\nd\n")
    }

    @Test func whatIsSavedStaysInItsPlace() {
        let transcript = ChatTranscript(turns: [
            ("List<Int>?", "```\nnever closed\u{1B}[2J", "*m*"), ("and?", "`Array<Int>`", "m"),
        ])
        #expect(
            transcript.markdown == """
                ## You

                ```markdown
                List<Int>?
                ```

                ## \\*m\\*

                ````markdown
                ```
                never closed\u{FFFD}[2J
                ````

                ## You

                and?

                ## m

                `Array<Int>`

                """)
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

    @Test(arguments: [false, true]) func `an answer is drawn completely before the user is asked about a tool`(
        json: Bool
    ) async throws {
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
