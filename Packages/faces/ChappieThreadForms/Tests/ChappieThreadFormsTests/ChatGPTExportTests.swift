import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import FoundationEssentials
import Testing

@testable import ChappieThreadForms

@Suite struct ChatGPTExportTests {
    // MARK: Conversations

    /// Returns a message of an export. Each message is the parent of the next one.
    private static func message(
        _ role: String, _ parts: [ChappieJSON], to recipient: String = "all", at time: ChappieJSON = 1_760_000_000,
        metadata: ChappieJSON = [:]
    ) -> ChappieJSON {
        content(role, ["content_type": "text", "parts": .array(parts)], to: recipient, at: time, metadata: metadata)
    }

    private static func content(
        _ role: String, _ content: ChappieJSON, to recipient: String = "all", at time: ChappieJSON = 1_760_000_000,
        metadata: ChappieJSON = [:]
    ) -> ChappieJSON {
        [
            "author": ["role": .string(role)], "create_time": time, "content": content,
            "recipient": .string(recipient), "metadata": metadata,
        ]
    }

    private static func conversation(
        _ id: ChappieJSON = "one", title: ChappieJSON = "Colours", at time: ChappieJSON = 1_760_000_000,
        current: ChappieJSON? = nil,
        of messages: [ChappieJSON] = [message("user", ["Name a colour."]), message("assistant", ["Blue."])]
    ) -> ChappieJSON {
        var mapping: ChappieJSONObject = ["n0": ["id": "n0", "parent": .null, "message": .null]]
        for (index, message) in messages.enumerated() {
            mapping["n\(index + 1)"] = ["parent": .string("n\(index)"), "message": message]
        }
        return [
            "conversation_id": id, "title": title, "create_time": time, "update_time": time,
            "current_node": current ?? .string("n\(messages.count)"), "mapping": .object(mapping),
        ]
    }

    private func read(_ conversations: ChappieJSON...) throws -> ChappieThreadImport {
        try ChappieThreadImport(ChappieJSON.array(conversations).serializedBytes())
    }

    /// Returns the questions and answers of the only conversation.
    private func said(_ messages: [ChappieJSON]) throws -> (
        questions: [String], answers: [String], leftOut: [String: Int]
    ) {
        let read = try read(Self.conversation(of: messages))
        let turns = try #require(read.threads.first).turns
        return (turns.map { $0.messages.map(\.text).joined() }, turns.map(\.outputText), read.leftOut)
    }

    @Test(arguments: [
        conversation("broken", current: "missing"), ["conversation_id": "broken", "title": "Empty"],
        ["conversation_id": "broken", "mapping": 1],
    ])
    func `a damaged conversation is named and costs no other one`(_ damaged: ChappieJSON) throws {
        for place in 0...2 {
            var all = [Self.conversation("first"), Self.conversation("third")]
            all.insert(damaged, at: place)
            let read = try ChappieThreadImport(ChappieJSON.array(all).serializedBytes())
            #expect(read.threads.map(\.id) == ["first", "third"])
            #expect(read.leftOut.keys.contains { $0.hasPrefix("damaged conversation broken, because ") })
        }
    }

    @Test func `an entry that is no conversation costs no other one`() throws {
        let read = try read(.null, "x", Self.conversation("first"), 1)
        #expect(read.threads.map(\.id) == ["first"] && read.leftOut.count == 3)
    }

    @Test(arguments: ["WEB:1f00/2", "", "../a", "\u{1F600}", .null] as [ChappieJSON])
    func `an id that no thread can have is replaced by a stable one`(_ id: ChappieJSON) throws {
        let first = try read(Self.conversation(id)).threads
        let again = try read(Self.conversation("other"), Self.conversation(id, title: "Later")).threads
        #expect(first.count == 1 && first[0].id == again[1].id && first[0].id != "other")
        #expect(ChappieThread.canHaveID(first[0].id))
    }

    @Test func `different conversations with the same id are both read`() throws {
        let other = Self.conversation(
            "one", of: [Self.message("user", ["Name a shape."]), Self.message("assistant", ["A square."])])
        let read = try read(Self.conversation("one"), other, other)
        #expect(read.threads.map { $0.turns.map(\.outputText) } == [["Blue."], ["A square."]])
        #expect(Set(read.threads.map(\.id)).count == 2 && read.leftOut == ["repeated conversation": 1])
    }

    @Test(arguments: [.null, "", 1] as [ChappieJSON])
    func `without a current message the newest branch is read`(_ current: ChappieJSON) throws {
        var conversation = try #require(Self.conversation(current: current).object)
        var mapping = try #require(conversation["mapping"]?.object)
        mapping["old"] = ["parent": "n1", "message": Self.message("assistant", ["Red."], at: 1_750_000_000)]
        conversation["mapping"] = .object(mapping)
        let read = try read(.object(conversation))
        #expect(read.threads.first?.turns.map(\.outputText) == ["Blue."])
        #expect(read.leftOut == ["message of another branch": 1])
    }

    @Test func `a tree may name only the children of a message`() throws {
        let mapping: ChappieJSON = [
            "a": ["message": Self.message("assistant", ["Blue."], at: 3), "children": ["q2"]],
            "q2": ["message": Self.message("user", ["Another one?"], at: 4), "children": ["a2", 1], "parent": .null],
            "a2": ["message": Self.message("assistant", ["Red."], at: 5)],
            "q": ["message": Self.message("user", ["Name a colour."], at: 2), "children": ["a"]],
            "other": ["message": Self.message("user", ["Another root"], at: 1)], "odd": 1,
        ]
        for end: ChappieJSON in ["a2", .null] {
            let read = try read(["id": "one", "mapping": mapping, "current_node": end])
            #expect(read.threads.first?.turns.map(\.outputText) == ["Blue.", "Red."])
            #expect(read.leftOut == ["message of another branch": 1])
        }
    }

    @Test func `a circle of messages is damage, and what can be read is kept`() throws {
        let mapping: ChappieJSON = [
            "q": ["parent": "a", "message": Self.message("user", ["Name a colour."])],
            "a": ["parent": "q", "message": Self.message("assistant", ["Blue."])],
        ]
        for end: ChappieJSON in ["a", .null] {
            var reader = try ChappieThreadReader(
                ChappieJSON.array([["id": "one", "mapping": mapping, "current_node": end]]).serializedBytes())
            #expect(try reader.next()?.turns.map(\.outputText) == ["Blue."] && reader.hasDamage)
            #expect(reader.leftOut == ["earlier messages of a conversation, which can't be found": 1])
        }
    }

    @Test(arguments: ["2025-10-09T08:53:20Z", 1_760_000_000, 1_760_000_000_000, "1760000000"] as [ChappieJSON])
    func `times have several forms`(_ time: ChappieJSON) throws {
        let messages = [Self.message("user", ["a"], at: time), Self.message("assistant", ["b"], at: time)]
        for time in [time, .null] {
            let summary = try #require(try read(Self.conversation(at: time, of: messages)).threads.first?.summary)
            #expect(summary.createdAt == Date(timeIntervalSince1970: 1_760_000_000))
        }
    }

    @Test func `the file may be a list in an object, one conversation, or begin with a byte order mark`() throws {
        let one = Self.conversation()
        for document: ChappieJSON in [one, ["conversations": [one]], [one]] {
            for mark in [[], [0xEF, 0xBB, 0xBF]] as [[UInt8]] {
                #expect(try ChappieThreadImport(mark + document.serializedBytes()).threads.map(\.id) == ["one"])
            }
        }
        #expect(try ChappieThreadImport(Array("[]".utf8)).threads.isEmpty)
    }

    // MARK: Words

    @Test func `spoken words are kept`() throws {
        let heard: ChappieJSON = ["content_type": "audio_transcription", "text": "What day follows Monday?"]
        let spoken: ChappieJSON = ["content_type": "audio_transcription", "text": "Tuesday."]
        let sound: ChappieJSON = ["content_type": "audio_asset_pointer"]
        let (questions, answers, leftOut) = try said([
            Self.message("user", [heard, sound]), Self.message("assistant", [spoken]),
        ])
        #expect(questions == ["What day follows Monday?"] && answers == ["Tuesday."])
        #expect(leftOut == ["audio_asset_pointer": 1])
    }

    @Test(arguments: [
        (#"{"name":"note","type":"document","content":"The shop opens at nine.\n"}"#, "create_textdoc"),
        (#"{"updates":[{"pattern":".*","replacement":"The shop opens at nine."}]}"#, "update_textdoc"),
        (#"{"comments":[{"pattern":"shop","comment":"The shop opens at nine."}]}"#, "comment_textdoc"),
        ("The shop opens at nine.", "create_textdoc"),
    ])
    func `a document next to the conversation is kept`(_ arguments: String, _ function: String) throws {
        let read = try read(
            Self.conversation(of: [
                Self.message("user", ["Write a note."]),
                Self.content(
                    "assistant", ["content_type": "code", "text": .string(arguments)], to: "canmore.\(function)"),
                Self.message("tool", ["It was created."]), Self.message("assistant", ["It is in the document."]),
            ]))
        let thread = try #require(read.threads.first)
        #expect(thread.turns.map(\.outputText) == ["It is in the document."])
        let text = ChappieThreadFormat.markdown.text(of: thread)
        #expect(text.contains("The shop opens at nine.") && !text.contains("pattern"))
        #expect(read.leftOut == ["tool result": 1])
    }

    @Test func `a research report is an answer`() throws {
        let read = try read(
            Self.conversation(of: [
                Self.message("user", ["Write a report about paper."]),
                Self.message("assistant", ["{}"], to: "research.start"),
                Self.message("tool", ["Paper is made of fibres."], metadata: ["is_async_task_result_message": true]),
                Self.message("assistant", ["The report is ready."]),
            ]))
        let items = try #require(read.threads.first).context.items.map { $0["content"]?[0]?["text"]?.string }
        #expect(items == ["Write a report about paper.", "Paper is made of fibres.", "The report is ready."])
        #expect(read.leftOut == ["tool call without its result": 1])
    }

    @Test func `a research report in the data of a window is an answer`() throws {
        let report: ChappieJSON = ["report_message": ["content": ["parts": ["Paper is made of fibres."]]], "status": 1]
        for data in [report, .string(report.serialized()), ["state": .string(report.serialized())]] as [ChappieJSON] {
            let (questions, answers, leftOut) = try said([
                Self.message("user", ["Write a report about paper."]),
                Self.message(
                    "tool", [""],
                    metadata: [
                        "chatgpt_sdk": ["widget_state": data], "is_visually_hidden_from_conversation": true,
                    ]),
            ])
            #expect(questions == ["Write a report about paper."] && answers == ["Paper is made of fibres."])
            #expect(leftOut == ["tool result": 1])
        }
    }

    @Test func `a tool call is kept with its result`() throws {
        let read = try read(
            Self.conversation(of: [
                Self.message("user", ["What is 6 times 7?"]),
                Self.content("assistant", ["content_type": "code", "text": "print(6*7)"], to: "python.run"),
                Self.content("tool", ["content_type": "execution_output", "text": "42"]),
                Self.message("assistant", ["42."]),
            ]))
        let items = try #require(read.threads.first).context.items
        #expect(items.map { $0["type"]?.string } == ["message", "function_call", "function_call_output", "message"])
        let pages = ["A page.", "Another page."].map { text -> ChappieJSON in
            var result = Self.message("tool", [.string(text)]).object ?? [:]
            result["author"] = ["role": "tool", "name": "web.run"]
            return .object(result)
        }
        let search = Self.content("assistant", ["content_type": "code", "text": "{}"], to: "web.run")
        let found = try self.read(Self.conversation(of: [Self.message("user", ["?"]), search] + pages))
        #expect(found.threads.first?.turns.first?.items.last?["output"] == "A page.\nAnother page.")
        #expect(found.leftOut.isEmpty)
        #expect(items[1]["name"] == "python_run" && items[1]["arguments"] == "print(6*7)" && items[2]["output"] == "42")
        #expect(read.leftOut.isEmpty)
    }

    @Test func `a citation becomes a link`() throws {
        let mark = "\u{E200}cite\u{E202}turn0search1\u{E201}"
        let link: ChappieJSON = ["matched_text": .string(mark), "alt": "([example.com](https://example.com/tower))"]
        let item: ChappieJSON = [
            "matched_text": .string(mark), "items": [["title": "The tower", "url": "https://example.com/a(b)"]],
        ]
        let address: ChappieJSON = ["matched_text": .string(mark), "items": [], "safe_urls": ["https://example.com"]]
        #expect(
            try said([
                Self.message("user", ["How high is it?"]),
                Self.message("assistant", [.string("80 m. \(mark)")], metadata: ["content_references": [address]]),
            ]).answers == ["80 m. ([https://example.com](https://example.com))"])
        let answers = try [link, item].map { reference in
            try said([
                Self.message("user", ["How high is it?"]),
                Self.message("assistant", [.string("80 m. \(mark)")], metadata: ["content_references": [reference]]),
            ]).answers
        }
        #expect(
            answers == [
                ["80 m. ([example.com](https://example.com/tower))"],
                ["80 m. ([The tower](https://example.com/a%28b%29))"],
            ])
    }

    @Test func `an older citation becomes a link and a mark without a link is removed`() throws {
        let cited: ChappieJSON = ["start_ix": 6, "metadata": ["title": "Plan", "url": "https://example.com"]]
        let text =
            "80 m. 【4†source】 \u{E200}cite\u{E202}turn1\u{E201}【x】 \u{E200}entity\u{E202}[\"city\",\"Pisa\"]\u{E201}\u{E202}"
        let (_, answers, leftOut) = try said([
            Self.message("user", ["?"]), Self.message("assistant", [.string(text)], metadata: ["citations": [cited]]),
        ])
        #expect(answers == ["80 m. ([Plan](https://example.com)) 【x】 Pisa"])
        #expect(leftOut == ["citation without a link": 1])
    }

    @Test func `the name of a file and a quoted answer are in the question`() throws {
        let metadata: ChappieJSON = ["attachments": [["name": "plan.pdf"]], "targeted_reply": "A plan."]
        let (questions, _, leftOut) = try said([
            Self.message("user", ["What is in this?"], metadata: metadata), Self.message("assistant", ["A plan."]),
        ])
        #expect(questions == ["> A plan.\n\n[plan.pdf]\nWhat is in this?"] && leftOut == ["attachment": 1])
        let untitled = Self.conversation(
            title: .null, of: [Self.message("user", ["What is in this?"], metadata: metadata)])
        #expect(try read(untitled).threads.first?.summary.name == "What is in this?")
    }

    @Test func `a message that is only a picture is not empty`() throws {
        let picture: ChappieJSON = ["content_type": "image_asset_pointer"]
        let (questions, answers, leftOut) = try said([
            Self.message("user", [picture]), Self.message("assistant", [picture]),
        ])
        #expect(questions == ["[image]"] && answers == ["[image]"] && leftOut == ["image_asset_pointer": 2])
    }

    @Test func `a greeting before the first question is kept`() throws {
        let (questions, answers, leftOut) = try said([
            Self.message("assistant", ["Welcome."]), Self.message("user", ["Which plant?"]),
            Self.message("assistant", ["Mint."]),
        ])
        #expect(questions == ["", "Which plant?"] && answers == ["Welcome.", "Mint."] && leftOut.isEmpty)
    }

    @Test func `code and settings of the user are told apart`() throws {
        let (questions, answers, leftOut) = try said([
            Self.content("user", ["content_type": "user_editable_context", "user_profile": "A person"]),
            Self.content("user", ["content_type": "code", "language": "swift", "text": "let a = 1"]),
            Self.content("assistant", ["content_type": "thoughts", "thoughts": []]),
            Self.message("assistant", ["Yes."]),
        ])
        #expect(questions == ["```swift\nlet a = 1\n```"] && answers == ["Yes."])
        #expect(leftOut == ["instruction of the program": 1, "thoughts": 1])
    }

    // MARK: A later export

    @Test func `a grown conversation with another title is brought up to date`() async throws {
        let store = ChappieInMemoryThreadStore()
        func update(_ title: ChappieJSON, _ words: [String], at time: ChappieJSON = 1_760_000_000) async throws
            -> ChappieThreadUpdate
        {
            let messages = words.enumerated().map { index, text in
                Self.message(index % 2 == 0 ? "user" : "assistant", [.string(text)], at: time)
            }
            return try await store.update(
                try #require(try read(Self.conversation(title: title, at: time, of: messages)).threads.first))
        }
        func said() async throws -> [String] { try await store.thread("one").turns.map(\.outputText) }
        let (short, long) = (["Name a metal.", "Iron."], ["Name a metal.", "Iron.", "Another one?", "Tin."])
        #expect(try await update("First", short) == .added)
        #expect(try await update("Second", long) == .continued)
        #expect(try await said() == ["Iron.", "Tin."])
        #expect(try await store.summary(of: "one")?.title == "Second")
        #expect(try await update("Third", long) == .continued)
        #expect(try await store.summary(of: "one")?.title == "Third")
        #expect(try await update("First", short) == .unchanged)
        #expect(try await update("Third", long.dropLast() + ["Zinc."]) == .changed)
        #expect(try await said() == ["Iron.", "Zinc."])
        #expect(try await update("Third", long, at: 1_700_000_000) == .unchanged, "an older export")
        try await store.rename("one", to: "Mine")
        #expect(try await update("Fourth", long.dropLast() + ["Zinc.", "More?", "Lead."]) == .continued)
        #expect(try await store.summary(of: "one")?.title == "Mine")
        #expect(try await said() == ["Iron.", "Zinc.", "Lead."])
    }

    @Test func `an export with another branch, an answer or a list of its own replaces what was imported`() async throws
    {
        let store = ChappieInMemoryThreadStore()
        var all = try #require(Self.conversation().object)
        var mapping = try #require(all["mapping"]?.object)
        mapping["other"] = ["parent": "n1", "message": Self.message("assistant", ["Red."], at: 1_750_000_000)]
        all["mapping"] = .object(mapping)
        for (end, archived, update, answer) in [
            ("n2", false, .added, "Blue."), ("other", false, .changed, "Red."), ("other", false, .unchanged, "Red."),
            ("other", true, .continued, "Red."), ("other", true, .unchanged, "Red."),
            ("other", false, .continued, "Red."), ("other", false, .unchanged, "Red."),
        ] as [(String, Bool, ChappieThreadUpdate, String)] {
            all["current_node"] = .string(end)
            all["is_archived"] = .bool(archived)
            #expect(try await store.update(try #require(try read(.object(all)).threads.first)) == update)
            #expect(try await store.thread("one").turns.map(\.outputText) == [answer])
            #expect(try await store.summary(of: "one")?.isArchived == archived)
        }
    }

    @Test func `a model that was missing, or given to the conversation, is no change`() async throws {
        let store = ChappieInMemoryThreadStore()
        var named = try #require(Self.conversation().object)
        named["default_model_slug"] = "gpt-x"
        #expect(try await store.update(try #require(try read(Self.conversation()).threads.first)) == .added)
        let thread = try #require(try read(.object(named)).threads.first)
        #expect(thread.summary.model == "gpt-x")
        #expect(try await store.update(thread) == .unchanged)
    }

    @Test func `a conversation that was continued here is kept as a copy`() async throws {
        let store = ChappieInMemoryThreadStore()
        try await store.update(try #require(try read(Self.conversation()).threads.first))
        let count = try await store.thread("one").records.count
        let own = ChappieThreadRecord(
            position: count, kind: .turnStarted, date: Date(timeIntervalSince1970: 1_770_000_000),
            body: ["turn": "here", "messages": [ImportedThread.message("user", "Here?")]])
        let records = try await store.thread("one").records + [own]
        let summary = try #require(ChappieThreadSummary(id: "one", records: records))
        try store.append([own], to: summary, at: count)
        let grown = Self.conversation(of: [
            Self.message("user", ["Name a colour."]), Self.message("assistant", ["Blue."]),
            Self.message("user", ["Another one?"]), Self.message("assistant", ["Red."]),
        ])
        let thread = try #require(try read(grown).threads.first)
        #expect(try await store.update(thread) == .copied)
        #expect(try await store.update(thread) == .unchanged)
        #expect(try await store.thread("one").turns.map(\.outputText) == ["Blue.", "Red."])
        let summaries = store.summaries()
        let copy = try #require(summaries.first { $0.id != "one" })
        #expect(copy.title == "Colours (continued here)" && copy.turnCount == 2)
    }
}
