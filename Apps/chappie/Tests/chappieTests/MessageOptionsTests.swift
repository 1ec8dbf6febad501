import ChappieSDK
import Foundation
import Testing

@testable import chappie

@Suite struct MessageOptionsTests {
    private let folder = TemporaryFolder()

    private func write(_ name: String, _ bytes: [UInt8]) throws {
        let path = folder.path + "/" + name
        try FileManager.default.createDirectory(
            atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        try Data(bytes).write(to: URL(fileURLWithPath: path))
    }

    @Test(
        arguments: [
            ("name, age int", ["name": ["type": "string"], "age": ["type": "integer"]]),
            (
                "name str: the full name, ok bool, size float",
                [
                    "name": ["type": "string", "description": "the full name"], "ok": ["type": "boolean"],
                    "size": ["type": "number"],
                ]
            ),
            (
                "name: first, then last\n\nage int",
                ["name": ["type": "string", "description": "first, then last"], "age": ["type": "integer"]]
            ),
            (
                "tags str[]: words, sizes int[]",
                [
                    "tags": ["type": "array", "items": ["type": "string"], "description": "words"],
                    "sizes": ["type": "array", "items": ["type": "integer"]],
                ]
            ),
        ] as [(String, ChappieJSON)])
    func aShortSchemaIsAnObjectWithAllItsFields(_ text: String, _ properties: ChappieJSON) throws {
        let json = try #require(try ShortSchema(text)).json
        #expect(json["properties"] == properties && json["additionalProperties"] == false)
        #expect(json["required"]?.array?.count == properties.object?.members.count)
        try MessageOptions.schema(text).check()
    }

    @Test(arguments: ["name text, b", "a b c, d", "a, a", "a int int", "!x, y", "a, : b", "a text[], b"])
    func aFieldThatMakesNoSenseIsNamed(_ text: String) throws {
        let error = try #require(throws: CommandLineError.self) { try ShortSchema(text) }
        #expect(error.status == .usage && error.suggestion?.contains("name str") == true)
    }

    @Test func aSchemaOfSeveralIsAListOfThem() throws {
        let list = try MessageOptions.schema("name, age int", ofList: true).json
        #expect(list["properties"]?["items"]?["items"]?["required"] == ["name", "age"])
        #expect(list["required"] == ["items"] && list["additionalProperties"] == false)
        let tree = ##"{"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"next":{"$ref":"#/$defs/t"}}}}}"##
        let trees = try MessageOptions.schema(tree, ofList: true)
        #expect(try trees.violations(in: ["items": [["next": [:]]]]).isEmpty)
        #expect(try trees.violations(in: ["items": [["next": 7]]]).map(\.path) == ["/items/0/next"])
        let root = ##"{"type":"object","properties":{"next":{"$ref":"#"}}}"##
        #expect(try MessageOptions.schema(root, ofList: true).violations(in: ["items": [["next": 7]]]).count == 1)
    }

    @Test(arguments: [
        #"{"name":"x","strict":true,"schema":{"type":"object","properties":{}}}"#,
        #"{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{}}}}"#,
        #"{"type":"json_schema","name":"x","schema":{"type":"object","properties":{}}}"#,
    ])
    func aSchemaMayBeInTheWrappingOfARequest(_ text: String) throws {
        #expect(try MessageOptions.schema(text).json == ["type": "object", "properties": [:]])
        try write("marked.json", [0xEF, 0xBB, 0xBF] + Array(text.utf8))
        #expect(try MessageOptions.schema(folder.path + "/marked.json").json == ["type": "object", "properties": [:]])
    }

    @Test func aSchemaWithoutAStrictFormIsAnError() throws {
        let error = try #require(throws: CommandLineError.self) {
            try MessageOptions.schema(#"{"type":"object","properties":{"a":{"type":"object"}}}"#)
        }
        #expect(error.status == .usage && error.message.contains("/properties/a"), "\(error)")
    }

    @Test func aFileOfThatNameIsNoShortSchema() throws {
        #expect(try ShortSchema("schema.json") == nil)
        try write("a schema.json", Array(#"{"type":"string"}"#.utf8))
        #expect(try ShortSchema(folder.path + "/a schema.json") == nil)
        #expect(try MessageOptions.schema(folder.path + "/a schema.json").json == ["type": "string"])
    }

    @Test func `a byte order mark is no part of a schema or a template`() throws {
        try write("schema.json", [0xEF, 0xBB, 0xBF] + Array(#"{"type":"string"}"#.utf8))
        try write("t.md", [0xEF, 0xBB, 0xBF] + Array("---\nsystem: Be brief.\n---\nTranslate: $input".utf8))
        #expect(try MessageOptions.schema(folder.path + "/schema.json").json == ["type": "string"])
        let template = try Template(named: folder.path + "/t.md", .process)
        #expect(template.prompt == "Translate: $input" && template.settings == ["system": "Be brief."])
    }

    @Test func `a thread is named after the question, and not after what the program adds`() throws {
        let template = try Template(parsing: "Review this: $input\n\nBriefly.", name: "review")
        #expect(MessageFrame(template: template).subject(of: "let q = 1") == "let q = 1")
        #expect(MessageFrame(attachments: [.text("a file")]).subject(of: "Who wrote this?") == "Who wrote this?")
        #expect(MessageFrame(prompt: [.user("Review this.")]).subject(of: "Briefly.") == "Briefly.")
        #expect(MessageFrame().subject(of: "What is X?") == nil)
        let files = MessageFrame(attachments: [.text("a file")], template: template, fileNames: ["notes.txt"])
        #expect(files.subject(of: " ") == "review notes.txt")
    }

    @Test func `a prompt precedes the question and is sent with only one message`() throws {
        let template = try Template(parsing: "Template: $input", name: "t")
        var frame = MessageFrame(attachments: [.text("a file")], template: template)
        frame.prompt = [.user("Hello."), .assistant("Hello?"), .user("Review this.")]
        let messages = try frame.messages(asking: "Briefly.", ChappieMessageOptions())
        #expect(messages.map(\.role) == [.user, .assistant, .user])
        #expect(messages.last?.text == "a fileReview this.\n\nBriefly.")
        #expect(try frame.messages(asking: "", ChappieMessageOptions()).last?.text == "a fileReview this.")
        #expect(try frame.next.messages(asking: "two", ChappieMessageOptions()).map(\.text) == ["Template: two"])
        // It may end with the model's words.
        let open = MessageFrame(prompt: [.user("Go on:"), .assistant("Once upon")])
        #expect(try open.messages(asking: "", ChappieMessageOptions()).map(\.role) == [.user, .assistant])
    }

    @Test func `a folder's text files are read in order, and the rest is counted`() throws {
        try write("b.txt", Array("two".utf8))
        try write("a/z.md", Array("one".utf8))
        try write("c.bin", [0xFF, 0xFE])
        try write(".hidden/x", Array("no".utf8))
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/loop", withDestinationPath: folder.path)
        for path in [folder.path, folder.path + "/"] {
            let found = try FolderText(path)
            #expect(found.files.map(\.name) == ["a/z.md", "b.txt"] && found.files.map(\.text) == ["one", "two"])
            #expect(found.sentence.contains("2 text files, 1 KiB") && found.sentence.hasSuffix("too large: 2"))
        }
    }

    @Test func aFolderWithTooMuchOrNothingIsAnError() throws {
        let error = try #require(throws: CommandLineError.self) { try FolderText(folder.path) }
        #expect(error.message.contains("no text files"))
        for number in 0..<3 { try write("\(number)", Array(repeating: 0x61, count: FolderText.limit / 2)) }
        let large = try #require(throws: CommandLineError.self) { try FolderText(folder.path) }
        #expect(large.message.contains("more than 1 MiB of text"))
    }

    @Test func aTemplatesInstructionsAreGivenOnce() throws {
        let template = try Template(parsing: "---\nsystem: Be brief.\n---\nTranslate: $input", name: "t")
        let first = MessageFrame(attachments: [.text("a file")], template: template)
        let messages = try first.messages(asking: "one", ChappieMessageOptions())
        #expect(messages.map(\.role) == [.developer, .user])
        #expect(messages.last?.parts == [.text("a file"), .text("Translate: one")])
        let second = try first.next.messages(asking: "two", ChappieMessageOptions())
        #expect(second.map(\.role) == [.user] && second.last?.parts == [.text("Translate: two")])
    }
}
