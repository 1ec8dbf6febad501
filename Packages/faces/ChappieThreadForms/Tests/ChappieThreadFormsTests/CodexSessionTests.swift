import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import FoundationEssentials
import TestFixtures
import Testing

@testable import ChappieThreadForms

@Suite struct CodexSessionTests {
    private static let start: (String, ChappieJSON) = ("session_meta", ["id": "one"])

    private static func message(_ role: String, _ texts: String...) -> (String, ChappieJSON) {
        let type = role == "assistant" ? "output_text" : "input_text"
        return item(
            "message",
            ["role": .string(role), "content": .array(texts.map { ["type": .string(type), "text": .string($0)] })])
    }

    private static func item(_ type: String, _ members: ChappieJSONObject) -> (String, ChappieJSON) {
        var item = members
        item["type"] = .string(type)
        return ("response_item", .object(item))
    }

    private static func event(_ type: String, _ members: ChappieJSONObject = [:]) -> (String, ChappieJSON) {
        var event = members
        event["type"] = .string(type)
        return ("event_msg", .object(event))
    }

    private static func line(_ line: (String, ChappieJSON)) -> String {
        let json: ChappieJSON = ["timestamp": "2026-02-03T09:00:00.000Z", "type": .string(line.0), "payload": line.1]
        return json.serialized()
    }

    private func read(_ lines: [String]) throws -> ChappieThreadImport {
        try ChappieThreadImport(Array((lines.joined(separator: "\n") + "\n").utf8))
    }

    private func read(_ lines: (String, ChappieJSON)...) throws -> ChappieThreadImport {
        try read(([Self.start] + lines).map(Self.line))
    }

    private func questions(_ read: ChappieThreadImport) -> [String] {
        read.threads.flatMap { $0.turns.map { $0.messages.map(\.text).joined() } }
    }

    @Test func `turns that were taken back are left out`() throws {
        let read = try read(
            Self.message("user", "Which port is free?"), Self.message("assistant", "8080."),
            Self.event("task_complete"),
            Self.message("user", "Which prot?"), Self.message("assistant", "What?"), Self.event("task_complete"),
            Self.event("thread_rolled_back", ["num_turns": 1]),
            Self.message("user", "Which port?"), Self.message("assistant", "22."))
        #expect(questions(read) == ["Which port is free?", "Which port?"])
        #expect(read.leftOut == ["turn that was taken back": 1])
        #expect(read.threads.first?.context.items.count == 4)
    }

    @Test(arguments: [#"{"timestamp":"2026-02-03T09:00:03.000Z","type":"respon"#, "[1]", "{}", "\u{0}"])
    func `a line that cannot be read costs no other one`(_ bad: String) throws {
        let before = [Self.start, Self.message("user", "Is it green?"), Self.message("assistant", "Yes.")].map(
            Self.line)
        let after = [Self.message("user", "And the tests?"), Self.message("assistant", "They pass.")].map(Self.line)
        let read = try read(before + [bad] + after)
        #expect(questions(read) == ["Is it green?", "And the tests?"] && read.leftOut == ["unreadable line": 1])
    }

    @Test(arguments: [#"{"timestamp":"2026-02-03T09:00:00.000Z","type":"session_meta","payl"#, #"tamp":"x"}"#])
    func `a session without its first line has the id of its file`(_ cut: String) throws {
        let folder = try TemporaryDirectory()
        let id = "11111111-0000-4000-8000-000000000009"
        let path = folder.path + "/.codex.d/rollout-2026-02-03T09-00-00-\(id).jsonl"
        try FileManager.default.createDirectory(atPath: folder.path + "/.codex.d", withIntermediateDirectories: true)
        let lines = [cut, Self.line(Self.message("user", "Hello")), Self.line(Self.message("assistant", "Hi."))]
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: path))
        var reader = try ChappieThreadReader(path: path)
        let thread = try #require(try reader.next())
        #expect(thread.id == id && thread.turns.map(\.outputText) == ["Hi."])
        #expect(try reader.next() == nil)
        #expect(reader.leftOut == ["unreadable line": 1] && reader.hasDamage)
    }

    @Test func `a line without a time belongs to the time before it`() throws {
        let late = #"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"text":"a"}]}}"#
        let thread = try #require(try read([Self.line(Self.start), late]).threads.first)
        #expect(thread.summary.createdAt == ImportedThread.date("2026-02-03T09:00:00Z"))
    }

    @Test func `the name of the session is the title`() throws {
        let read = try read(
            Self.event("thread_name_updated", ["thread_name": "Release checklist"]),
            Self.message("user", "What is left?"),
            Self.message("assistant", "The changelog."))
        #expect(read.threads.first?.summary.title == "Release checklist")
    }

    @Test func `a sub-agent's copy of its parent is left out`() throws {
        let lines: [(String, ChappieJSON)] = [
            ("session_meta", ["id": "one", "subagent_history_start_ordinal": 3]), Self.message("user", "Of the parent"),
            Self.message("assistant", "Answer"), Self.message("user", "Task"), Self.message("assistant", "Result"),
        ]
        let read = try read(lines.map(Self.line))
        #expect(questions(read) == ["Task"] && read.threads.first?.summary.name == "Task")
        #expect(read.leftOut == ["message of the parent session": 2])
    }

    @Test func `messages that are only in events are read`() throws {
        let read = try read(
            Self.event("user_message", ["message": "Which branch?"]), Self.event("agent_message", ["message": "main."]))
        #expect(questions(read) == ["Which branch?"] && read.threads.first?.turns.map(\.outputText) == ["main."])
        let window = try self.read(
            Self.event(
                "item_completed", ["item": ["type": "UserMessage", "content": [["type": "text", "text": "A?"]]]]),
            Self.event("item_completed", ["item": ["type": "CommandExecution", "command": "ls"]]),
            Self.event(
                "item_completed", ["item": ["type": "AgentMessage", "content": [["type": "Text", "text": "B."]]]]))
        #expect(questions(window) == ["A?"] && window.threads.first?.turns.map(\.outputText) == ["B."])
        let taken = try self.read(
            Self.event("user_message", ["message": "a"]), Self.event("agent_message", ["message": "1"]),
            Self.event("thread_rolled_back", ["num_turns": 1]), Self.event("user_message", ["message": "b"]),
            Self.event("token_count", ["info": ["total_token_usage": ["input_tokens": 5, "total_tokens": 5]]]),
            Self.event("agent_message", ["message": "2"]))
        #expect(questions(taken) == ["b"] && taken.leftOut == ["turn that was taken back": 1])
        let half = try self.read(
            Self.message("user", "Which branch?"), Self.event("user_message", ["message": "Which branch?"]),
            Self.event("agent_message", ["message": "main."]))
        #expect(half.leftOut == ["message in an event": 1])
    }

    @Test(
        arguments: [
            ("notes.txt", "notes.txt"), (["content": "notes.txt", "success": true], "notes.txt"),
            (["exit": 1], #"{"exit":1}"#),
            (["content": [["type": "input_text", "text": "notes.txt"]]], "notes.txt"), (.null, ""),
        ] as [(ChappieJSON, String)])
    func `the result of a tool has several forms`(_ output: ChappieJSON, _ text: String) throws {
        let read = try read(
            Self.message("user", "List."),
            Self.item("function_call", ["name": "shell", "arguments": "{}", "call_id": "c"]),
            Self.item("function_call_output", ["call_id": "c", "output": output]), Self.message("assistant", "One."))
        let found = try #require(read.threads.first).context.items[2]["output"]
        #expect((found?.string ?? found?[0]?["text"]?.string) == text && read.leftOut.isEmpty)
    }

    @Test func `a shell command is kept with its result`() throws {
        let read = try read(
            Self.message("user", "List."),
            Self.item("local_shell_call", ["call_id": "c", "action": ["command": ["ls"]]]),
            Self.item("function_call_output", ["call_id": "c", "output": "notes.txt"]),
            Self.message("assistant", "One."))
        #expect(read.threads.first?.context.items.count == 4 && read.leftOut.isEmpty)
    }

    @Test(arguments: [
        "<permissions instructions>\nx", "<user_shell_command>ls</user_shell_command>", "<skill name=\"a\">x</skill>",
        "<user_action>x</user_action>", "<subagent_notification>x", "<ENVIRONMENT_CONTEXT>x", "<new_kind>x</new_kind>",
        "# AGENTS.md instructions for /project",
    ])
    func `text of the program is no question`(_ text: String) throws {
        let read = try read(
            Self.message("user", text), Self.message("user", "Hello", text), Self.message("assistant", "Hi."))
        #expect(questions(read) == ["Hello"] && read.leftOut == ["instruction of the program": 2])
    }

    @Test(arguments: ["<div>What is this?</div>", "<b>then</b>", "<my_tag> is what?", "a <skill>"])
    func `a question may begin with a tag`(_ text: String) throws {
        #expect(questions(try read(Self.message("user", text), Self.message("assistant", "Hi."))) == [text])
    }

    @Test func `a question is read without what the program and an editor add to it`() throws {
        let picture: ChappieJSON = ["type": "input_image", "image_url": "data:image/png;base64,AA=="]
        let texts = ["<image name=[Image #1] path=\"/home/me/a.png\">", "</image>", "What is this?"]
        let parts = texts.map { ["type": "input_text", "text": .string($0)] as ChappieJSON }
        let read = try read(
            Self.item("message", ["role": "user", "content": [parts[0], picture, parts[1], parts[2]]]),
            Self.message("assistant", "A cat."),
            Self.message(
                "user",
                "# Context from my IDE setup:\n\n## Open tabs:\n- a.swift\n\n## My request for Codex:\nFix the bug\n"),
            Self.message("assistant", "Done."),
            Self.message(
                "user", "# Files mentioned by the user:\n\n## a.png: /a.png\n\n## My request for Codex:\nAnd it?"),
            Self.message("assistant", "Yes."),
            Self.message("user", "What does \"## My request for Codex:\" mean?"), Self.message("assistant", "A."))
        #expect(
            questions(read) == [
                "What is this?", "Fix the bug", "And it?", "What does \"## My request for Codex:\" mean?",
            ])
        #expect(read.threads.first?.turns.first?.items.first?["content"]?.array?.count == 2)
        #expect(read.leftOut == ["context of an editor": 2])
    }

    @Test func `a summary is between the turn before it and the turn after it`() async throws {
        let lines = [
            Self.message("user", "Name a metal."), Self.message("assistant", "Iron."),
            ("compacted", ["message": "A metal."]),
            Self.message("user", "Another one?"), Self.message("assistant", "Tin."),
        ]
        let short = try #require(try read(lines[0], lines[1]).threads.first)
        let long = try #require(try read(lines[0], lines[1], lines[2], lines[3], lines[4]).threads.first)
        #expect(long.records.map(\.kind) == [.turnStarted, .turnFinished, .compacted, .turnStarted, .turnFinished])
        let store = ChappieInMemoryThreadStore()
        #expect(try await store.update(short) == .added)
        #expect(try await store.update(long) == .continued)
        #expect(try await store.thread("one") == long)
        // A name before the first turn, and a summary after the last one.
        let name = Self.event("thread_name_updated", ["thread_name": "Metals"])
        let named = try read(name, lines[0], lines[1], lines[2], lines[3], lines[4], ("compacted", ["message": "Two."]))
        #expect(try await store.update(try #require(named.threads.first)) == .continued)
        #expect(try await store.thread("one").compactionSummaries == ["A metal.", "Two."])
        #expect(try await store.thread("one").summary.title == "Metals")
    }

    @Test func `a later session without the last turn takes it back`() async throws {
        func line(_ second: Int, _ line: (String, ChappieJSON)) -> String {
            Self.line(line).replacing("09:00:00", with: "09:00:0\(second)")
        }
        let lines = [
            line(0, Self.start), line(1, Self.message("user", "a")), line(2, Self.message("assistant", "1")),
            line(3, Self.message("user", "b")), line(4, Self.message("assistant", "2")),
        ]
        let store = ChappieInMemoryThreadStore()
        let back = lines + [line(5, Self.event("thread_rolled_back", ["num_turns": 1]))]
        for (lines, update, answers) in [
            (lines, .added, ["1", "2"]), (back, .changed, ["1"]), (back, .unchanged, ["1"]), (lines, .unchanged, ["1"]),
        ] as [([String], ChappieThreadUpdate, [String])] {
            #expect(try await store.update(try #require(try read(lines).threads.first)) == update)
            #expect(try await store.thread("one").turns.map(\.outputText) == answers)
        }
    }

    @Test func `tokens and a refusal are kept`() throws {
        func tokens(_ count: Int) -> (String, ChappieJSON) {
            Self.event(
                "token_count",
                ["info": ["total_token_usage": ["input_tokens": .integer(count), "total_tokens": .integer(count)]]])
        }
        let refusal = Self.item("message", ["role": "assistant", "content": [["type": "refusal", "refusal": "No."]]])
        let read = try read(
            Self.message("user", "a"), tokens(5), Self.message("assistant", "1"), Self.event("task_complete"),
            Self.message("user", "b"), refusal, tokens(12))
        let turns = try #require(read.threads.first).turns
        #expect(turns.map(\.usage?.inputTokens) == [5, 7])
        #expect(turns.last?.items.last?["content"]?[0]?["refusal"] == "No." && read.leftOut.isEmpty)
    }

    @Test func `what is unknown is counted`() throws {
        let odd = Self.item("message", ["role": "assistant", "content": [["type": "odd"]]])
        let read = try read(
            Self.message("user", "a"), odd, Self.item("odd_item", [:]), Self.event("odd_event"), ("odd_line", [:]))
        #expect(read.leftOut == ["odd": 1, "odd_item": 1, "event odd_event": 1, "odd_line": 1])
    }

    @Test func `sessions of the first versions are read`() throws {
        let head: ChappieJSON = ["id": "one", "timestamp": "2025-06-01T09:00:00Z", "instructions": .null]
        let items = [Self.message("user", "Hello"), Self.message("assistant", "Hi.")].map(\.1)
        let lines = try read([head.serialized(), #"{"record_type":"state"}"#] + items.map { $0.serialized() })
        let document: ChappieJSON = ["session": head, "items": .array(items)]
        for read in [lines, try ChappieThreadImport(document.serializedBytes())] {
            #expect(questions(read) == ["Hello"] && read.threads.first?.id == "one" && read.leftOut.isEmpty)
            #expect(read.threads.first?.summary.createdAt == ImportedThread.date("2025-06-01T09:00:00Z"))
        }
    }

    @Test func `a session without a usable id has a stable one`() throws {
        let lines = [("session_meta", ["id": "a/b"]), Self.message("user", "Hello"), Self.message("assistant", "Hi.")]
        let ids = try (0...1).map { _ in try read(lines.map(Self.line)).threads.map(\.id) }
        #expect(ids[0] == ids[1] && ids[0].first?.hasPrefix("a-b-") == true)
    }
}
