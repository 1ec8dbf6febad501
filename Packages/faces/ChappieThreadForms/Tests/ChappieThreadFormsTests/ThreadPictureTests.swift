import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import FoundationEssentials
import TestFixtures
import Testing

@testable import ChappieThreadForms

/// Pictures in threads on their way out and in.
@Suite struct ThreadPictureTests {
    /// A picture of 10 by 10 pixels.
    static let digits =
        "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC"
    static let url = "data:image/png;base64," + digits
    static let bytes = Array(Data(base64Encoded: digits) ?? Data())
    private static let line = "*[picture: image/png, 10×10, 1 KB]*"

    private static func image(_ url: String) -> ChappieJSON {
        ["type": "input_image", "image_url": .string(url), "detail": "auto"]
    }

    /// Returns a thread with a picture of the user, one of a tool, and one of the service.
    private static func thread(user: String = url, tool: String = url, service: String = digits) throws -> ChappieThread
    {
        let call: ChappieJSON = ["name": "draw", "callID": "c", "arguments": "{}", "isCustom": false]
        let item: ChappieJSON = ["type": "function_call", "name": "draw", "call_id": "c", "arguments": "{}"]
        let result: ChappieJSON = ["output": "Done.", "parts": [image(tool)], "isError": false]
        let output: ChappieJSON = [
            "type": "function_call_output", "call_id": "c",
            "output": [["type": "input_text", "text": "Done."], ["type": "input_image", "image_url": 0]],
        ]
        let made: ChappieJSON = ["type": "image_generation_call", "id": "ig_1", "result": .string(service)]
        let question = ImportedThread.message("user", [image(user), ["type": "input_text", "text": "Like this."]])
        return try SampleThread.thread([
            (.turnStarted, ["turn": "t", "model": "m", "messages": [question]]),
            (.toolsCalled, ["turn": "t", "from": 1, "items": [item], "calls": [call]]),
            (.toolsStarted, ["turn": "t", "calls": [call]]),
            (.toolFinished, ["turn": "t", "result": ["call": call, "outcome": "succeeded", "result": result]]),
            (.turnFinished, ["turn": "t", "from": 2, "items": [output, made], "model": "m"]),
        ])
    }

    /// Returns the pictures of a thread that the backend gets.
    private func pictures(in thread: ChappieThread) -> [[UInt8]] {
        let items = thread.context.items.flatMap { $0["content"]?.array ?? $0["output"]?.array ?? [] }
        return items.compactMap { $0["image_url"]?.string }.compactMap { DataURL.bytes(of: $0, limit: 1 << 20) }
    }

    // MARK: Out

    @Test func `a picture is a line in Markdown and inside of a page`() throws {
        let thread = try Self.thread()
        let text = ChappieThreadFormat.markdown.text(of: thread)
        #expect(text.ranges(of: Self.line).count == 3)
        #expect(!text.contains(Self.digits) && text.contains("Done.") && !text.contains("input_image"))
        let page = ChappieThreadFormat.html.text(of: thread)
        let image = "<img class=\"picture\" src=\"\(Self.url)\" alt=\"picture: image/png, 10×10, 1 KB\">"
        #expect(page.ranges(of: image).count == 3)
    }

    @Test func `Markdown in a file has its pictures in files of their own`() throws {
        let (text, pictures) = ChappieThreadFormat.markdownWithPictures(of: try Self.thread())
        #expect(pictures.map(\.fileName) == (1...3).map { "0199-sample-\($0).png" })
        #expect(pictures.allSatisfy { $0.bytes == Self.bytes })
        #expect(text.contains("![picture: image/png, 10×10, 1 KB](0199-sample-2.png)") && !text.contains(Self.line))
    }

    @Test func `the bytes determine the kind, and other content is only named`() throws {
        let renamed = "data:text/html\"><script>;base64," + Self.digits
        let page = ChappieThreadFormat.html.text(of: try Self.thread(user: renamed, tool: renamed))
        #expect(page.ranges(of: "src=\"\(Self.url)\"").count == 3 && !page.contains("<script"))
        let script = "data:image/png;base64,PHNjcmlwdD4="
        let thread = try Self.thread(user: script, tool: "https://host.invalid/a.png", service: "PHNjcmlwdD4=")
        for text in ChappieThreadFormat.allCases.suffix(2).map({ $0.text(of: thread) }) {
            #expect(!text.contains("<img") && !text.contains("PHNjcmlwdD4"))
            #expect(text.contains("image: image/png, 1 KB"))
            #expect(text.replacing("\\", with: "").contains("image_generation_call"))
        }
        #expect(ChappieThreadFormat.markdownWithPictures(of: thread).pictures.isEmpty)
    }

    @Test func `a source shows its address, and only pages of the web are links`() throws {
        let titles = ["<b>Title</b>\u{202E}[x](https://b.invalid)", "plain"]
        let pages: ChappieJSON = [
            ["url": "https://a.example/?q=1&r=2", "title": .string(titles[0])],
            ["url": "https://a.example/<script>", "title": .string(titles[1])], ["url": "javascript:alert(1)"],
        ]
        let items: ChappieJSON = [
            ["type": "function_call", "name": "web_search", "call_id": "c", "arguments": "{}"],
            ["type": "function_call_output", "call_id": "c", "output": "found", "sources": pages],
            ImportedThread.message("assistant", "Found."),
        ]
        let thread = try SampleThread.thread([
            (.turnStarted, ["turn": "t", "model": "m", "messages": [ImportedThread.message("user", "Search.")]]),
            (.turnFinished, ["turn": "t", "from": 1, "items": items, "model": "m", "output": [3]]),
        ])
        let page = ChappieThreadFormat.html.text(of: thread)
        #expect(page.contains("<a href=\"https://a.example/?q=1&amp;r=2\">https://a.example/?q=1&amp;r=2</a>"))
        #expect(!page.contains("<b>") && !page.contains("<script") && !page.contains("\u{202E}"))
        #expect(!page.contains(">x</a>") && !page.contains("javascript"))
        #expect(page.contains("<code>https://a.example/&lt;script&gt;</code>"))
    }

    @Test(arguments: [ChappieThreadFormat.json, .jsonl])
    func `an export of the complete forms keeps the pictures`(_ format: ChappieThreadFormat) throws {
        let thread = try Self.thread()
        let read = try ChappieThreadImport(Array(format.text(of: thread).utf8))
        #expect(read.threads == [thread] && pictures(in: thread) == [Self.bytes, Self.bytes])
    }

    // MARK: In

    @Test func `a session of the Codex CLI keeps its pictures`() throws {
        func line(_ payload: ChappieJSON, _ type: String = "response_item") -> String {
            let line: ChappieJSON = ["timestamp": "2026-11-28T07:00:00Z", "type": .string(type), "payload": payload]
            return line.serialized() + "\n"
        }
        let call: ChappieJSON = ["type": "function_call", "name": "look", "call_id": "c", "arguments": "{}"]
        let output: ChappieJSON = [
            "type": "function_call_output", "call_id": "c", "output": [Self.image(Self.url)],
        ]
        func made(_ result: String) -> ChappieJSON {
            [
                "type": "image_generation_call", "id": "ig_1", "status": "completed", "revised_prompt": "A fox.",
                "result": .string(result),
            ]
        }
        let question = ImportedThread.message("user", [Self.image(Self.url), ["type": "input_text", "text": "Draw."]])
        let session =
            line(["id": "0199-codex"], "session_meta") + line(question) + line(call) + line(output)
            + line(made("PHNjcmlwdD4=")) + line(made(Self.digits))
        let read = try ChappieThreadImport(Array(session.utf8))
        let thread = try #require(read.threads.first)
        #expect(pictures(in: thread) == [Self.bytes, Self.bytes, Self.bytes])
        #expect(read.leftOut == ["image_generation_call": 1])
        #expect(thread.context.items.last { $0["arguments"] != nil }?["arguments"] == #"{"prompt":"A fox."}"#)
        #expect(thread.turns.map(\.incompleteReason) == [nil])
        // Models get pictures only in this form, whatever the sign-in.
        #expect(!thread.context.items.contains { $0["type"] == "image_generation_call" })
    }

    @Test func `a session whose messages are events keeps their pictures`() throws {
        let lines = [
            #"{"timestamp":"2026-11-28T07:00:00Z","type":"session_meta","payload":{"id":"0199-codex"}}"#,
            #"{"timestamp":"2026-11-28T07:00:00Z","type":"event_msg","payload":{"type":"user_message","message":"Look.","#
                + "\"images\":[\"\(Self.url)\"]}}",
        ]
        let read = try ChappieThreadImport(Array(lines.joined(separator: "\n").utf8))
        let question = try #require(read.threads.first?.turns.first?.messages.first)
        #expect(question.text == "Look." && question.parts.count == 2)
    }

    /// The pictures of an export of ChatGPT are in the same archive or folder.
    @Test(arguments: [
        "sediment://file_00ab", "file-service://file-Ab12", "sediment://file_00ab#page", "file-service://../file-Ab12",
    ])
    func `ChatGPT's export keeps the pictures that it has`(pointer: String) throws {
        let folder = try TemporaryDirectory()
        func part(_ pointer: String) -> ChappieJSON {
            [
                "content_type": "image_asset_pointer", "asset_pointer": .string(pointer),
                "metadata": ["dalle": ["prompt": "A fox."]],
            ]
        }
        func message(_ role: String, _ parts: [ChappieJSON], _ more: ChappieJSONObject = [:]) -> ChappieJSON {
            var message: ChappieJSONObject = [
                "author": ["role": .string(role), "name": "dalle.text2im"], "create_time": 1_760_000_000,
                "content": ["content_type": "multimodal_text", "parts": .array(parts)],
            ]
            for member in more.members { message[member.name] = member.value }
            return .object(message)
        }
        let attached: ChappieJSON = [
            "attachments": [["id": "file-Ab12", "name": "fox.png"], ["id": "file-Zz", "name": "plan.pdf"]]
        ]
        let messages = [
            message("user", [part("file-service://file-Ab12"), "Like this."], ["metadata": attached]),
            message("assistant", [#"{"prompt":"A fox."}"#], ["recipient": "dalle.text2im", "id": "m1"]),
            message("tool", [part(pointer)]), message("assistant", [part(pointer)]),
            message("assistant", [part("sediment://file_missing"), "Here."]),
        ]
        let nodes = messages.enumerated().map { index, message in
            ("n\(index)", ["parent": index == 0 ? .null : .string("n\(index - 1)"), "message": message] as ChappieJSON)
        }
        let export: ChappieJSON = [
            ["conversation_id": "one", "current_node": "n4", "mapping": .object(ChappieJSONObject(nodes))]
        ]
        let files = [
            ("file-Ab12-11111111.png", Self.bytes), ("conversations.json", export.serializedBytes()),
            ("user-1/file_00ab-sanitized.dat", Self.bytes),
        ]
        for (name, bytes) in files {
            let place = URL(filePath: folder.path + "/folder/" + name)
            let parent = place.deletingLastPathComponent()
            try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
            try Data(bytes).write(to: place)
        }
        let archive = SeveralFilesTests.archive(files.map { ($0.0, 0, 0, $0.1) })
        try Data(archive).write(to: URL(filePath: folder.path + "/export.zip"))
        for path in ["folder", "export.zip"] {
            let read = try ChappieThreadImport(path: folder.path + "/" + path)
            let thread = try #require(read.threads.first)
            #expect(pictures(in: thread) == [Self.bytes, Self.bytes, Self.bytes])
            #expect(thread.turns.first?.messages.first?.text == "[plan.pdf]\nLike this.")
            #expect(thread.turns.map(\.outputText) == ["Here."])
            #expect(read.leftOut == ["attachment": 1, "image_asset_pointer": 1])
        }
        // The conversation alone has no picture.
        let alone = try ChappieThreadImport(export.serializedBytes())
        #expect(alone.leftOut["image_asset_pointer"] == 4 && alone.leftOut["attachment"] == 2)
        #expect(alone.threads.map { pictures(in: $0) } == [[]])
    }
}
