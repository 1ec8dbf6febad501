import CSQLite
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import FoundationEssentials
import Glibc
import TestFixtures
import Testing

@testable import ChappieThreadForms

@Suite struct ThreadImportTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func lines(_ lines: [String]) -> [UInt8] { Array((lines.joined(separator: "\n") + "\n").utf8) }

    // MARK: The Codex CLI

    private func line(_ second: Int, _ type: String, _ payload: String) -> String {
        #"{"timestamp":"2026-11-22T12:17:\#(second).250Z","ordinal":1,"type":"\#(type)","payload":\#(payload)}"#
    }

    private func message(_ role: String, _ text: String, kinds: String? = nil) -> String {
        let part = role == "assistant" ? "output_text" : "input_text"
        let mark =
            kinds.map { #","internal_chat_message_metadata_passthrough":{"content_item_kinds":["\#($0)"]}"# } ?? ""
        return
            #"{"type":"message","id":"msg_1","role":"\#(role)","content":[{"type":"\#(part)","text":"\#(text)"}]\#(mark)}"#
    }

    private var session: [String] {
        [
            line(10, "session_meta", #"{"id":"01a2-session","cli_version":"0.163.0"}"#),
            line(10, "event_msg", #"{"type":"task_started","turn_id":"turn-a"}"#),
            line(10, "response_item", message("developer", "Be good.")),
            line(
                10, "response_item", message("user", "<environment_context>", kinds: "environments.environment_context")
            ),
            line(11, "world_state", "{}"),
            line(11, "turn_context", #"{"turn_id":"turn-a","model":"gpt-6-sol"}"#),
            line(12, "response_item", message("user", "Run it.", kinds: "user.text")),
            line(13, "response_item", #"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#),
            line(
                13, "response_item",
                #"{"type":"function_call","id":"fc_1","name":"exec","arguments":"{\"cmd\":\"ls\"}","call_id":"c1"}"#),
            line(14, "response_item", #"{"type":"function_call_output","call_id":"c1","output":"files"}"#),
            line(15, "event_msg", #"{"type":"item_completed","item":{"type":"AgentMessage"}}"#),
            line(15, "response_item", message("assistant", "Done.")),
            line(
                15, "token_usage_record",
                #"{"turn_token_usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}"#),
            line(16, "event_msg", #"{"type":"task_complete","turn_id":"turn-a"}"#),
            line(20, "event_msg", #"{"type":"task_started","turn_id":"turn-b"}"#),
            line(20, "turn_context", #"{"turn_id":"turn-b","model":"gpt-6-luna"}"#),
            line(21, "response_item", message("user", "And <b>then</b>?", kinds: "user.text")),
            line(22, "response_item", message("assistant", "That was all.")),
        ]
    }

    @Test(arguments: [("", "turn.started"), ("a", String(repeating: "k", count: 101))])
    func `a damaged export is not reported as damage of the store`(_ id: String, _ kind: String) throws {
        let json = """
            {"format":"chappie.thread","id":"\(id)","records":[{"position":0,"kind":"\(kind)",\
            "date":"2026-11-22T12:20:00.000Z","body":{}}]}
            """
        let error = #expect(throws: ChappieThreadImportError.self) { try ChappieThreadImport(Array(json.utf8)) }
        #expect(error?.code == .damaged && error?.reason.hasPrefix("The thread in it is damaged: ") == true)
    }

    @Test func commentaryOfACodexSessionKeepsItsPhase() throws {
        let phased = message("assistant", "I'll look.").replacing(
            #""role""#, with: #""phase":"commentary","role""#)
        let said = session.map {
            $0.replacing(#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#, with: phased)
        }
        let turn = try #require(try ChappieThreadImport(lines(said)).threads.first?.turns.first)
        #expect(turn.commentary == "I'll look." && turn.outputText == "Done.")
    }

    @Test func aCodexSessionBecomesAThread() throws {
        let read = try ChappieThreadImport(lines(session))
        let thread = try #require(read.threads.first)
        #expect(read.source == .codex)
        #expect(read.threads.count == 1)
        #expect(thread.id == "01a2-session")
        #expect(read.leftOut == ["instruction of the program": 2, "reasoning": 1])
        #expect(thread.turns.map(\.id) == ["turn-a", "turn-b"])
        #expect(thread.turns.map(\.model) == ["gpt-6-sol", "gpt-6-luna"])
        #expect(thread.turns.map { $0.messages.map(\.text) } == [["Run it."], ["And <b>then</b>?"]])
        #expect(thread.turns.map(\.outputText) == ["Done.", "That was all."])
        #expect(thread.turns.map(\.status) == [.finished, .finished])
        #expect(thread.turns[0].startedAt == ImportedThread.date("2026-11-22T12:17:12.250Z"))
        #expect(thread.turns[0].usage == ChappieTokenUsage(inputTokens: 7, outputTokens: 3, totalTokens: 10))
        #expect(
            thread.context.items.map { $0["type"]?.string } == [
                "message", "function_call", "function_call_output", "message", "message", "message",
            ])
        #expect(
            ChappieThreadFormat.markdown.text(of: thread).contains(
                "### Tool `exec`\n\n```json\n{\"cmd\":\"ls\"}\n```\n\n```\nfiles\n```"))
        #expect(thread == (try ChappieThreadImport(lines(session)).threads.first), "a second import has other ids")
    }

    @Test func anOlderSessionHasTurnsByItsMessages() throws {
        let old = [
            session[0], line(11, "response_item", message("user", "<user_instructions> Be good.")),
            line(12, "response_item", message("user", "one")), line(12, "turn_context", #"{"model":"gpt-6-luna"}"#),
            line(13, "response_item", message("assistant", "1")), line(14, "response_item", message("user", "two")),
            line(15, "response_item", message("assistant", "2")), line(16, "response_item", message("assistant", "2b")),
        ]
        let thread = try #require(try ChappieThreadImport(lines(old)).threads.first)
        #expect(thread.turns.map(\.id) == ["01a2-session-1", "01a2-session-2"])
        #expect(thread.turns.map(\.outputText) == ["1", "2b"])
        #expect(thread.turns.map(\.model) == ["gpt-6-luna", "gpt-6-luna"])
    }

    @Test func `cut turns are reported, and calls without a result are left out`() throws {
        let cut = Array(session.prefix(9)) + [line(14, "event_msg", #"{"type":"turn_aborted"}"#)]
        let read = try ChappieThreadImport(lines(cut))
        #expect(read.threads.first?.turns.map(\.status) == [.interrupted])
        #expect(read.leftOut["tool call without its result"] == 1)
        let failed = Array(session.prefix(7)) + [line(14, "event_msg", #"{"type":"error","message":"Over."}"#)]
        #expect(try ChappieThreadImport(lines(failed)).threads.first?.turns.map(\.error) == ["Over."])
        let torn = try ChappieThreadImport(lines(session).dropLast(30) + [])
        #expect(torn.threads.first?.turns.map(\.outputText) == ["Done.", ""])
        #expect(torn.leftOut["half a line at the end"] == 1)
    }

    @Test func aCompactionIsKept() throws {
        let read = try ChappieThreadImport(
            lines(session.prefix(14) + [line(17, "compacted", #"{"message":"In short."}"#)] + session.suffix(4)))
        let thread = try #require(read.threads.first)
        #expect(thread.compactionSummaries == ["In short."])
        #expect(thread.context.items.count == 3)
    }

    // MARK: llm

    private func database(_ statements: [String]) throws -> String {
        let path = folder.path + "/logs.db"
        var handle: OpaquePointer?
        #expect(sqlite3_open(path, &handle) == SQLITE_OK)
        defer { sqlite3_close(handle) }
        for statement in statements {
            #expect(sqlite3_exec(handle, statement, nil, nil, nil) == SQLITE_OK, "\(statement)")
        }
        return path
    }

    private static let conversations = [
        "CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT)",
        """
        CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT, options_json TEXT,
        response TEXT, response_json TEXT, conversation_id TEXT, duration_ms INTEGER, datetime_utc TEXT, input_tokens INTEGER,
        output_tokens INTEGER)
        """,
        "CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, name TEXT, arguments TEXT, tool_call_id TEXT)",
        "CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, name TEXT, output TEXT, tool_call_id TEXT)",
        "CREATE TABLE prompt_attachments (response_id TEXT, attachment_id TEXT)",
        "INSERT INTO conversations VALUES ('01aa', 'add', 'mock')",
        """
        INSERT INTO responses VALUES
        ('r1', 'mock', 'please add', 'be brief', NULL, NULL, 'let me see', NULL, '01aa', 1500, '2026-11-22T12:24:34.622911', 5, 6),
        ('r2', 'mock', '', '', NULL, NULL, 'It is 3', NULL, '01aa', 0, '2026-11-22T12:24:37.545026+00:00', NULL, NULL),
        ('r3', 'mock', 'and now?', 'be brief', NULL, NULL, 'Still 3', NULL, '01aa', 0, '2026-11-22T13:24:40+01:00', NULL, NULL),
        ('r4', 'other', 'alone', NULL, NULL, NULL, 'yes', NULL, '01bb', 0, '2026-11-22T12:25:00', NULL, NULL)
        """,
        "INSERT INTO tool_calls VALUES (1, 'r1', 'add', '{\"a\": 1}', 'tc1')",
        "INSERT INTO tool_results VALUES (1, 'r2', 'add', '3', 'tc1')",
        "INSERT INTO prompt_attachments VALUES ('r4', 'x')",
    ]

    private static let messageTree = [
        "CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT)",
        """
        CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT,
        payload TEXT)
        """,
        """
        CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT,
        input_tokens INTEGER, output_tokens INTEGER, duration_ms INTEGER, datetime_utc TEXT)
        """,
        """
        INSERT INTO messages VALUES ('s', NULL, 'system', NULL), ('u1', 's', 'user', NULL), ('a1', 'u1', 'assistant', NULL),
        ('t1', 'a1', 'tool', NULL), ('a2', 't1', 'assistant', NULL), ('u2', 'a2', 'user', NULL), ('a3', 'u2', 'assistant', NULL)
        """,
        """
        INSERT INTO parts VALUES (1, 's', 0, 'text', NULL, 'be brief', NULL), (2, 'u1', 0, 'text', NULL, 'please add', NULL),
        (3, 'a1', 0, 'text', NULL, 'let me see', NULL),
        (4, 'a1', 1, 'tool_call', 'add', NULL, '{"name": "add", "arguments": {"a": 1}, "tool_call_id": "tc1"}'),
        (5, 't1', 0, 'tool_result', 'add', NULL, '{"name": "add", "output": "3", "tool_call_id": "tc1"}'),
        (6, 'a2', 0, 'text', NULL, 'It is 3', NULL), (7, 'u2', 0, 'text', NULL, 'and now?', NULL),
        (8, 'u2', 1, 'attachment', NULL, NULL, '{}'), (9, 'a3', 0, 'text', NULL, 'Still 3', NULL)
        """,
        """
        INSERT INTO turns VALUES ('r1', '01aa', 'u1', 'a1', 'mock', 5, 6, 0, '2026-11-22 12:24:34.622911+00:00'),
        ('r2', '01aa', 't1', 'a2', 'mock', NULL, NULL, 0, '2026-11-22T12:24:37.545026+00:00'),
        ('r3', '01aa', 'u2', 'a3', 'mock', NULL, NULL, 0, '2026-11-22T12:24:40+00:00')
        """,
    ]

    @Test(arguments: [conversations, messageTree, conversations + messageTree])
    func aLogBecomesThreads(_ statements: [String]) throws {
        let read = try ChappieThreadImport(path: try database(statements))
        let thread = try #require(read.threads.first)
        #expect(read.source == .llm && thread.id == "01aa")
        #expect(thread.turns.map(\.id) == ["r1", "r3"])
        #expect(
            thread.turns.map { $0.messages.map(\.parts.last) } == [
                [.text("be brief"), .text("please add")], [.text("and now?")],
            ])
        #expect(thread.turns.map(\.outputText) == ["It is 3", "Still 3"])
        #expect(thread.turns.map(\.status) == [.finished, .finished])
        #expect(thread.turns[1].startedAt == ImportedThread.date("2026-11-22T12:24:40Z"))
        #expect(
            thread.context.items.compactMap { $0["type"]?.string } == [
                "message", "message", "message", "function_call", "function_call_output", "message", "message",
                "message",
            ])
        #expect(!read.leftOut.isEmpty)
        if statements == Self.conversations {
            #expect(read.threads.map(\.id) == ["01aa", "01bb"] && read.threads[1].turns[0].model == "other")
        }
    }

    /// What version 0.36 adds when it continues a conversation of an older version, or forks one: the first turn of the
    /// tree has all messages before it.
    private static func continued(as thread: String) -> [String] {
        Array(messageTree.prefix(3)) + [
            """
            INSERT INTO messages VALUES ('u1', NULL, 'user', NULL), ('a1', 'u1', 'assistant', NULL),
            ('u2', 'a1', 'user', NULL), ('a2', 'u2', 'assistant', NULL), ('u3', 'a2', 'user', NULL),
            ('a3', 'u3', 'assistant', NULL)
            """,
            """
            INSERT INTO parts VALUES (1, 'u1', 0, 'text', NULL, 'please add', NULL), (2, 'a1', 0, 'text', NULL, 'It is 3', NULL),
            (3, 'u2', 0, 'text', NULL, 'and now?', NULL), (4, 'a2', 0, 'text', NULL, 'Still 3', NULL),
            (5, 'u3', 0, 'text', NULL, 'since the upgrade', NULL), (6, 'a3', 0, 'text', NULL, 'Yes', NULL)
            """,
            "INSERT INTO turns VALUES ('t3', '\(thread)', 'u3', 'a3', 'new', 1, 1, 0, '2026-11-23T08:00:00+00:00')",
        ]
    }

    @Test func `a conversation continued after llm's upgrade is complete and in order`() throws {
        let read = try ChappieThreadImport(path: try database(Self.conversations + Self.continued(as: "01aa")))
        let thread = try #require(read.threads.first { $0.id == "01aa" })
        #expect(thread.turns.map(\.id) == ["r1", "r3", "t3"])
        #expect(
            thread.turns.map { $0.messages.last?.text } == ["please add", "and now?", "since the upgrade"])
        #expect(thread.turns.map(\.outputText) == ["It is 3", "Still 3", "Yes"])
        #expect(thread.turns.map(\.model) == ["mock", "mock", "new"])
        #expect(read.threads.map(\.id) == ["01aa", "01bb"])
    }

    @Test func aForkOfLlmIsCutIntoTurns() throws {
        let read = try ChappieThreadImport(path: try database(Self.continued(as: "01ff")))
        let thread = try #require(read.threads.first)
        #expect(thread.turns.map { $0.messages.map(\.text) } == [["please add"], ["and now?"], ["since the upgrade"]])
        #expect(thread.turns.map(\.outputText) == ["It is 3", "Still 3", "Yes"])
        #expect(
            thread.context.items.map { $0["role"]?.string } == [
                "user", "assistant", "user", "assistant", "user", "assistant",
            ])
    }

    @Test func `a tree without the older messages continues the list`() throws {
        let tree = Self.continued(as: "01aa") + ["UPDATE messages SET parent_hash = NULL WHERE hash = 'u3'"]
        let thread = try #require(
            try ChappieThreadImport(path: try database(Self.conversations + tree)).threads.first { $0.id == "01aa" })
        #expect(thread.turns.map(\.outputText) == ["It is 3", "Still 3", "Yes"])
    }

    @Test func `a question with fragments is whole, and a conversation has its name`() throws {
        let reference = #"{"text_ref":[{"fragment":1},{"literal":"How many columns?"},{"fragment":9}]}"#
        let statements =
            Array(Self.messageTree.prefix(3)) + [
                "CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT)",
                "CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT)",
                "INSERT INTO threads VALUES ('one', 'A table')",
                "INSERT INTO fragments VALUES (1, 'f', 'a,b')",
                "INSERT INTO messages VALUES ('u', NULL, 'user', NULL), ('a', 'u', 'assistant', NULL)",
                "INSERT INTO parts VALUES (1, 'u', 0, 'text', NULL, NULL, '\(reference)'), (2, 'a', 0, 'text', NULL, 'Two', NULL)",
                "INSERT INTO turns VALUES ('t', 'one', 'u', 'a', 'new', 1, 1, 0, NULL)",
            ]
        let read = try ChappieThreadImport(path: try database(statements))
        let thread = try #require(read.threads.first)
        #expect(thread.summary.name == "A table" && thread.summary.preview == "How many columns?")
        #expect(thread.turns.map(\.outputText) == ["Two"] && read.leftOut == ["missing fragment": 1])
        #expect(thread.turns.first?.items.first?["content"]?.array?.count == 2)
    }

    @Test func `fragments of older versions precede the question, and a response may have no time`() throws {
        let statements = [
            Self.conversations[1],
            "CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT)",
            "CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, \"order\" INTEGER)",
            "CREATE TABLE system_fragments (response_id TEXT, fragment_id INTEGER, \"order\" INTEGER)",
            "INSERT INTO fragments VALUES (1, 'f', 'first'), (2, 'g', 'second'), (3, 'h', 'be brief')",
            "INSERT INTO prompt_fragments VALUES ('r', 2, 1), ('r', 1, 0)",
            "INSERT INTO system_fragments VALUES ('r', 3, 0)",
            """
            INSERT INTO responses VALUES
            ('r', 'mock', 'which?', NULL, NULL, NULL, 'this', NULL, 'one', 5, NULL, NULL, NULL),
            ('s', 'mock', 'alone', NULL, NULL, NULL, 'yes', NULL, NULL, 5, '2026-11-22T12:25:00', NULL, NULL)
            """,
        ]
        let read = try ChappieThreadImport(path: try database(statements))
        #expect(Set(read.threads.map(\.id)) == ["one", "s"] && read.leftOut.isEmpty)
        let items = try #require(read.threads.first { $0.id == "one" }).context.items
        #expect(
            items.map { ($0["content"]?.array ?? []).map { $0["text"]?.string } } == [
                ["be brief"], ["first", "second", "which?"], ["this"],
            ])
    }

    @Test func `an attached picture is named before the question`() throws {
        let attachment = ["INSERT INTO attachments VALUES ('x', 'image/png', '/home/me/cat.png', NULL, x'00')"]
        let table = ["CREATE TABLE attachments (id TEXT, type TEXT, path TEXT, url TEXT, content BLOB)"]
        let payload = #"{"attachment_id":"x"}"#
        let tree = ["UPDATE parts SET payload = '\(payload)' WHERE type = 'attachment'"]
        let lists = try ChappieThreadImport(path: try database(Self.conversations + table + attachment))
        #expect(lists.threads.last?.turns.first?.messages.last?.text == "[cat.png]\nalone")
        #expect(lists.threads.last?.summary.name == "alone" && lists.leftOut["attachment"] == 1)
        try FileManager.default.removeItem(atPath: folder.path + "/logs.db")
        let trees = try ChappieThreadImport(path: try database(Self.messageTree + table + attachment + tree))
        #expect(trees.threads.first?.turns.last?.messages.last?.text == "[cat.png]\nand now?")
        #expect(trees.leftOut["attachment"] == 1)
    }

    @Test func `an attached picture that the log has is kept`() throws {
        let hex = ThreadPictureTests.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        let table = [
            "CREATE TABLE attachments (id TEXT, type TEXT, path TEXT, url TEXT, content BLOB)",
            "INSERT INTO attachments VALUES ('x', 'image/png', NULL, NULL, x'\(hex)')",
        ]
        let tree = [#"UPDATE parts SET payload = '{"attachment_id":"x"}' WHERE type = 'attachment'"#]
        func pictures(_ statements: [String]) throws -> (first: ChappieInputMessage.Part?, leftOut: Int?) {
            try? FileManager.default.removeItem(atPath: folder.path + "/logs.db")
            let read = try ChappieThreadImport(path: try database(statements + table))
            let messages = read.threads.flatMap { $0.turns.flatMap(\.messages) }
            return (messages.last { $0.parts.count == 2 }?.parts.first, read.leftOut["attachment"])
        }
        for found in [try pictures(Self.conversations), try pictures(Self.messageTree + tree)] {
            #expect(found.first == .image(ChappieImage(source: .url(ThreadPictureTests.url), detail: .auto)))
            #expect(found.leftOut == nil)
        }
    }

    @Test func `an upgraded log keeps the responses of the older table`() throws {
        let older = [
            "CREATE TABLE logs (id INTEGER PRIMARY KEY, model TEXT, prompt TEXT, response TEXT, reply_to_id INTEGER)",
            "INSERT INTO logs VALUES (1, 'mock', 'a', '1', NULL), (2, 'mock', 'b', '2', 1), (3, 'mock', 'c', '3', 2)",
        ]
        let read = try ChappieThreadImport(path: try database(older + Self.conversations))
        #expect(read.threads.map(\.id) == ["llm-log-1", "01aa", "01bb"])
        #expect(read.threads.first?.turns.map(\.outputText) == ["1", "2", "3"])
    }

    @Test func `a log of the first versions is read`() throws {
        let read = try ChappieThreadImport(
            path: try database([
                "CREATE TABLE logs (id INTEGER PRIMARY KEY, model TEXT, timestamp TEXT, system TEXT, prompt TEXT, response TEXT, chat_id INTEGER)",
                """
                INSERT INTO logs VALUES (1, 'mock', '2023-05-01 10:00:00', NULL, 'a', '1', NULL),
                (2, 'mock', '2023-05-01 10:01:00', NULL, 'b', '2', 1), (3, 'mock', '2023-05-01 10:02:00', NULL, 'c', '3', NULL)
                """,
            ]))
        #expect(read.threads.map { $0.turns.map(\.outputText) } == [["1", "2"], ["3"]])
    }

    // MARK: ChatGPT's export

    private static func node(
        _ id: String, _ parent: String?, _ role: String, _ content: String, more: String = ""
    ) -> String {
        let parent = parent.map { "\"\($0)\"" } ?? "null"
        return """
            "\(id)":{"id":"\(id)","parent":\(parent),"children":[],"message":{"id":"\(id)","author":{"role":"\(role)"},
            "create_time":1790000000.5,"content":\(content),"recipient":"all","metadata":{"model_slug":"gpt-4o"}\(more)}}
            """
    }

    private static func said(_ text: String) -> String { #"{"content_type":"text","parts":["\#(text)"]}"# }

    private static let chatGPT = """
        [{"title":"Birds \\"[{ and trees","create_time":1790000000.25,"update_time":1790000009,"mapping":{
        "root":{"id":"root","parent":null,"message":null},
        \(node("s", "root", "system", said(""))),
        \(node("u1", "s", "user", #"{"content_type":"multimodal_text","parts":[{"content_type":"image_asset_pointer"},"Which?"]}"#)),
        \(node("old", "u1", "assistant", said("The first answer"))),
        \(node("think", "u1", "assistant", #"{"content_type":"thoughts","thoughts":[]}"#)),
        \(node("a1", "think", "assistant", said("A wren"))),
        \(node("u2", "a1", "user", said("Sure?"))),
        \(node("a2", "u2", "assistant", said("Yes")))
        },"current_node":"a2","conversation_id":"67a0-aa"},
        {"title":null,"create_time":1790000100,"mapping":{"u":{"id":"u","parent":null,"message":null}},"current_node":"u",
        "conversation_id":"67a0-bb"}]
        """

    @Test func `the current branch of a ChatGPT conversation becomes a thread`() throws {
        let path = folder.path + "/conversations.json"
        try Data(Self.chatGPT.utf8).write(to: URL(filePath: path))
        let read = try ChappieThreadImport(path: path)
        let thread = try #require(read.threads.first)
        #expect(read.source == .chatGPT && read.threads.map(\.id) == ["67a0-aa"])
        #expect(thread.summary.name == "Birds \"[{ and trees")
        #expect(thread.turns.map { $0.messages.map(\.text) } == [["Which?"], ["Sure?"]])
        #expect(thread.turns.map(\.outputText) == ["A wren", "Yes"])
        #expect(thread.turns.map(\.model) == ["gpt-4o", "gpt-4o"])
        #expect(thread.summary.createdAt == Date(timeIntervalSince1970: 1_790_000_000.25))
        #expect(
            read.leftOut == [
                "message of another branch": 1, "image_asset_pointer": 1, "thoughts": 1,
                "conversation without messages": 1,
            ])
    }

    /// In the time of this thread's own processor, which other work hardly changes.
    @Test func `a long conversation costs time in proportion to its length`() throws {
        func cost(of count: Int) throws -> Double {
            let nodes = (1...count).map { Self.node("n\($0)", "n\($0 - 1)", "user", Self.said("a")) }
            let text = """
                [{"title":"Long","mapping":{"n0":{"id":"n0","parent":null,"message":null},\(nodes.joined(separator: ","))},
                "current_node":"n\(count)","conversation_id":"long"}]
                """
            let bytes = Array(text.utf8)
            let start = processorSeconds
            #expect(try ChappieThreadImport(bytes).threads.count == 1)
            return processorSeconds - start
        }
        let short = try cost(of: 1000)
        let long = try cost(of: 30_000)
        print("measured: a conversation of 30,000 messages costs \(long / short) times one of 1,000")
        #expect(long < 90 * short)
    }

    private var processorSeconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    @Test(arguments: [
        (chatGPT.dropLast(40) + "", "damaged conversation 2, because it is not complete"),
        (chatGPT.replacing("\"u1\",\"parent\":\"s\"", with: "\"u1\",\"parent\":\"gone\""), "earlier messages"),
    ])
    func `damage of a conversation costs no other one`(_ text: String, _ what: String) throws {
        let read = try ChappieThreadImport(Array(text.utf8))
        #expect(read.threads.map(\.id) == ["67a0-aa"])
        #expect(read.leftOut.keys.contains { $0.hasPrefix(what) }, "\(read.leftOut)")
    }

    // MARK: What cannot be kept

    @Test func `a session that is nested too deep is named`() throws {
        let deep = String(repeating: "[", count: 249) + String(repeating: "]", count: 249)
        let item = #"{"type":"function_call_output","call_id":"c1","output":\#(deep)}"#
        let said = session.map { $0.contains("function_call_output") ? line(14, "response_item", item) : $0 }
        let path = folder.path + "/rollout-2.jsonl"
        try Data(lines(said)).write(to: URL(filePath: path))
        let error = #expect(throws: ChappieThreadImportError.self) { try ChappieThreadImport(path: path) }
        #expect(error?.path == path && error?.reason.contains("too deep") == true, "\(error?.reason ?? "")")
    }

    // MARK: What has grown since

    @Test func aSessionThatHasGrownIsBroughtUpToDate() async throws {
        let store = ChappieInMemoryThreadStore()
        func update(_ count: Int) async throws -> ChappieThreadUpdate {
            let thread = try #require(try ChappieThreadImport(lines(Array(session.prefix(count)))).threads.first)
            return try await store.update(thread)
        }
        #expect(try await update(10) == .added)
        #expect(try await store.thread("01a2-session").turns.map(\.outputText) == [""])
        #expect(try await update(10) == .unchanged)
        // The turn that was under way is whole now, and there is another one.
        #expect(try await update(14) == .continued)
        #expect(try await update(18) == .continued)
        #expect(try await store.thread("01a2-session").turns.map(\.outputText) == ["Done.", "That was all."])
        #expect(try await update(14) == .unchanged, "an older copy of the session")
        let more = session + [line(30, "response_item", message("user", "More", kinds: "user.text"))]
        try await store.rename("01a2-session", to: "Mine")
        let grown = try #require(try ChappieThreadImport(lines(more)).threads.first)
        #expect(try await store.update(grown) == .continued)
        #expect(try await store.thread("01a2-session").turns.count == 3)
        #expect(try await store.summary(of: "01a2-session")?.title == "Mine")
    }

    @Test func aDocumentMayHaveItsLineFeedsAnywhere() throws {
        let thread = try #require(try ChappieThreadImport(lines(session)).threads.first)
        let text = ChappieThreadFormat.json.text(of: thread).replacing(",\"", with: ",\n\"")
        let path = folder.path + "/export.json"
        try Data(text.utf8).write(to: URL(filePath: path))
        #expect(try ChappieThreadImport(path: path).threads == [thread])
        // Lines of any length, read in pieces.
        let long = String(repeating: "word ", count: 50_000)
        let lines = lines(session.map { $0.replacing("That was all.", with: long) })
        try Data(lines).write(to: URL(filePath: path))
        #expect(try ChappieThreadImport(path: path).threads == ChappieThreadImport(lines).threads)
    }

    @Test(arguments: ["9e999", "-1e999", "'inf'", "'nan'", "-5", "1e300"])
    func aDurationThatNoneHasIsLeftOut(_ duration: String) throws {
        for (table, statements) in [("responses", Self.conversations), ("turns", Self.messageTree)] {
            let path = try database(statements + ["UPDATE \(table) SET duration_ms = \(duration)"])
            let thread = try #require(try ChappieThreadImport(path: path).threads.first)
            #expect(thread.summary.updatedAt == ImportedThread.date("2026-11-22T12:24:40Z"))
            try FileManager.default.removeItem(atPath: path)
        }
    }

    @Test(arguments: [
        "CREATE VIEW responses AS SELECT * FROM conversations",
        "CREATE TABLE responses (id TEXT, conversation_id TEXT, datetime_utc TEXT, prompt TEXT AS (hex(id)))",
    ])
    func whatIsNoPlainTableIsNotRead(_ statement: String) throws {
        let path = try database([Self.conversations[0], statement])
        let error = #expect(throws: ChappieThreadImportError.self) { try ChappieThreadImport(path: path) }
        #expect(error?.reason.contains("it is neither a thread") == true)
    }

    // MARK: What can't be read

    @Test(arguments: [
        ("", "it is neither a thread"), ("hello", "it is neither a thread"), ("{}", "it is neither a thread"),
        ("[1]\n[2]", "it is neither a thread"),
        ("{\"format\":\"chappie.thread\",\"version\":2,\"id\":\"a\",\"records\":[]}", "newer"),
        ("{\"format\":\"chappie.thread\",\"version\":1,\"id\":\"a\"}\n{\"position\":0}\n", "records[0]"),
        ("{\"format\":\"chappie.thread\",\"version\":1,\"id\":\"a\"}\n\n{\"pos\n{}\n", "records[0]"),
        ("{\"format\":\"chappie.thread\",\"version\":1,\"id\":\"a\"}\n{\"pos", "no records"),
        ("{\"format\":\"chappie.thread\",\"version\":1,\"id\":\"a\",\"records\":[]}", "no records"),
        ("{\"format\":\"chappie.thread\",\"version\":1,\"id\":\"a\"}\n", "no records"),
        ("{\"format\":\"chappie.thread\",\"version\":1,\"id\":\"../a\",\"records\":[]}", "no thread can have"),
    ])
    func aDamagedFileIsRefusedWithItsPlace(_ text: String, _ sentence: String) throws {
        let path = folder.path + "/file"
        try Data(text.utf8).write(to: URL(filePath: path))
        let error = #expect(throws: ChappieThreadImportError.self) { try ChappieThreadImport(path: path) }
        #expect(
            error?.code != .unreadable && error?.path == path && error?.reason.contains(sentence) == true,
            "\(error?.reason ?? "")")
        #expect((error?.code == .tooNew) == (sentence == "newer"))
    }

    @Test func `a message that is missing in a database is counted`() throws {
        let path = try database(Self.messageTree + ["UPDATE turns SET tip_message_hash = 'gone' WHERE id = 'r3'"])
        let read = try ChappieThreadImport(path: path)
        #expect(read.leftOut["missing message"] == 1 && read.threads.first?.turns.map(\.id) == ["r1"])
        var bytes = Array(try Data(contentsOf: URL(filePath: path)))
        for place in bytes.indices.dropFirst(100) { bytes[place] = 0xA5 }
        try Data(bytes).write(to: URL(filePath: path))
        #expect(throws: ChappieThreadImportError.self) { try ChappieThreadImport(path: path) }
        #expect(throws: ChappieThreadImportError.self) { try ChappieThreadImport(path: folder.path + "/missing") }
    }

    @Test(arguments: [
        ("2026-11-22T12:17:34Z", 1_795_349_854.0), ("2026-11-22T12:17:34.25Z", 1_795_349_854.25),
        ("2026-11-22 12:17:34.250000+00:00", 1_795_349_854.25), ("2026-11-22T13:17:34+01:00", 1_795_349_854),
        ("2026-11-22T10:47:34-01:30", 1_795_349_854), ("2026-11-22T12:17:34", 1_795_349_854),
    ])
    func datesAreReadAsOtherProgramsWriteThem(_ text: String, _ seconds: Double) {
        #expect(ImportedThread.date(text) == Date(timeIntervalSince1970: seconds))
    }

    @Test(arguments: [
        "", "yesterday", "2026-11-22", "2026-11-22T12:17:34+999999999999999999:00", "2026-11-22T12:17:34+0a:00",
    ])
    func otherTextIsNoDate(_ text: String) { #expect(ImportedThread.date(text) == nil) }
}
