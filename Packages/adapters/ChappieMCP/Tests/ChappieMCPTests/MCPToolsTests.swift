import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieMCP

struct MCPToolsTests {
    @Test func toolsThatCantBeUsedAreSkippedWithAReason() {
        let schema: ChappieJSON = ["type": "object", "properties": ["a": ["type": "string"]]]
        let long = String(repeating: "x", count: 65)
        let (tools, skipped) = MCPTool.read([
            ["name": "good", "description": "Does it.", "inputSchema": schema],
            ["name": "titled", "title": "Its title", "inputSchema": ["type": "object"]],
            ["name": "has.dots", "inputSchema": schema], ["name": .string(long), "inputSchema": schema],
            ["name": "", "inputSchema": schema], ["inputSchema": schema], "words",
            ["name": "good", "inputSchema": schema], ["name": "none"], ["name": "text", "inputSchema": "x"],
            ["name": "array", "inputSchema": ["type": "array"]],
        ])
        #expect(
            tools == [
                MCPTool(name: "good", offeredName: "good", description: "Does it.", inputSchema: schema),
                MCPTool(
                    name: "titled", offeredName: "titled", description: "Its title", inputSchema: ["type": "object"]),
                MCPTool(name: "has.dots", offeredName: "has_dots", description: "", inputSchema: schema),
                MCPTool(
                    name: long, offeredName: String(long.prefix(47)) + "_" + FNV1a.hexadecimal([long]), description: "",
                    inputSchema: schema),
            ])
        let badName = "It has no name."
        #expect(
            skipped == [
                ChappieMCPSkippedTool(name: "", reason: badName),
                ChappieMCPSkippedTool(name: "", reason: badName), ChappieMCPSkippedTool(name: "", reason: badName),
                ChappieMCPSkippedTool(name: "good", reason: "The list has another tool of that name."),
                ChappieMCPSkippedTool(name: "none", reason: "Its inputSchema is not an object."),
                ChappieMCPSkippedTool(name: "text", reason: "Its inputSchema is not an object."),
                ChappieMCPSkippedTool(name: "array", reason: "Its inputSchema does not describe an object."),
            ])
    }

    @Test func `an entry that is listed again is one tool, without a note`() {
        let entry: ChappieJSON = ["name": "a", "inputSchema": ["type": "object"]]
        let (tools, skipped) = MCPTool.read([entry, ["name": "b", "inputSchema": ["type": "object"]], entry])
        #expect(tools.map(\.name) == ["a", "b"] && skipped.isEmpty)
    }

    /// All of it goes with each request.
    @Test func aServerSaysSoMuchAtMost() {
        let schema: ChappieJSON = ["type": "object"]
        let long = String(repeating: "x", count: 100_000)
        let (tools, skipped) = MCPTool.read(
            [
                ["name": "wordy", "description": .string(long), "inputSchema": schema],
                ["name": "complex", "inputSchema": ["type": "object", "description": .string(long)]],
            ] + (1...2100).map { ["name": "tool\($0)", "inputSchema": schema] })
        #expect(tools.count == 2048 && tools[0].description.utf8.count < 9_000 && tools[0].description.hasSuffix("x…"))
        #expect(skipped.count == 54 && skipped[0].reason == "Its inputSchema is longer than 64 KiB.")
        #expect(skipped.last?.reason == "The list has more than 2048 tools.")
    }

    @Test(
        arguments: [
            ([["type": "text", "text": "one"], ["type": "text", "text": "two"]], "one\ntwo", []),
            // The bytes count, not the label. An address and the other alphabet are accepted.
            (
                [["type": "image", "mimeType": "image/jpg", "data": "iVBO\nRw0KGgo="]], "",
                [["type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="]]
            ),
            (
                [["type": "image", "mimeType": "image/png", "data": "data:image/png;base64,_9j_"]], "",
                [["type": "input_image", "image_url": "data:image/jpeg;base64,/9j/"]]
            ),
            ([["type": "image", "mimeType": "image/png", "data": "AAAA"]], "[left out: an image, image/png]", []),
            ([["type": "image", "mimeType": "image/png", "data": "AA\"AA"]], "[left out: an image, image/png]", []),
            // The order is kept, and an empty text is none.
            (
                [
                    ["type": "text", "text": "a"], ["type": "text", "text": ""],
                    ["type": "image", "data": "iVBORw0KGgo="], ["type": "text", "text": "b"],
                ], "a",
                [
                    ["type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="],
                    ["type": "input_text", "text": "b"],
                ]
            ),
            ("words", "words", []), (["type": "text", "text": "one"], "one", []),
            ([["type": "text", "text": 42], ["type": "text", "text": nil], "x"], "42\nx", []),
            ([["type": "image"]], "[left out: an image, no type]", []),
            ([["type": "audio", "mimeType": "audio/wav", "data": "AAAA"]], "[left out: audio, audio/wav]", []),
            ([["type": "resource", "resource": ["uri": "file:///a", "text": "b"]]], "file:///a:\nb", []),
            (
                [["type": "resource", "resource": ["uri": "file:///a", "mimeType": "image/gif", "blob": "R0lGODlh"]]],
                "",
                [["type": "input_image", "image_url": "data:image/gif;base64,R0lGODlh"]]
            ),
            ([["type": "resource", "resource": ["uri": "u:x", "blob": "AAAA"]]], "[left out: u:x, no type]", []),
            ([["type": "resource_link", "name": "a", "uri": "u:a"]], "a · u:a", []),
            (
                [["type": "hologram"], [:], 3],
                "[left out: hologram]\n[left out: content without a type]\n[left out: content without a type]", []
            ),
        ] as [(ChappieJSON, String, [ChappieJSON])])
    func contentBecomesTextAndParts(content: ChappieJSON, output: String, parts: [ChappieJSON]) {
        #expect(MCPResult.convert(["content": content]) == ChappieToolResult(output: output, parts: parts))
    }

    @Test func errorsAndStructuredContentAreKept() {
        let failed: ChappieJSON = ["content": [["type": "text", "text": "no"]], "isError": true]
        #expect(MCPResult.convert(failed) == ChappieToolResult(output: "no", isError: true))
        #expect(MCPResult.convert(["structuredContent": ["a": 1]]) == ChappieToolResult(output: #"{"a":1}"#))
        #expect(MCPResult.convert([:]) == ChappieToolResult(output: ""))
        let failure = MCPResult.convert(["content": [], "isError": true])
        #expect(failure == ChappieToolResult(output: "The tool failed without a message.", isError: true))
        let task: ChappieJSON = ["task": ["taskId": "1"], "_meta": [:]]
        #expect(MCPResult.convert(task) == ChappieToolResult(output: #"{"task":{"taskId":"1"}}"#))
    }

    @Test(arguments: [
        ("Found 1 row.", "Found 1 row.\n{\"rows\":[17],\"total\":1}"), ("", #"{"rows":[17],"total":1}"#),
        // The same value in another order and layout.
        (#"{ "total": 1, "rows": [17] }"#, #"{ "total": 1, "rows": [17] }"#),
    ]) func `structured content is kept unless a text is the same JSON`(text: String, output: String) {
        let result: ChappieJSON = [
            "content": [["type": "text", "text": .string(text)]], "structuredContent": ["rows": [17], "total": 1],
        ]
        #expect(MCPResult.convert(result).output == output)
    }

    @Test(arguments: [("42", "42"), ("42", 42), ("true", true)] as [(String, ChappieJSON)])
    func `a value in the member result is the same as its text`(text: String, value: ChappieJSON) {
        let result: ChappieJSON = [
            "content": [["type": "text", "text": .string(text)]], "structuredContent": ["result": value],
        ]
        #expect(MCPResult.convert(result).output == text)
    }

    @Test func `names are mapped to accepted names, and no two to the same one`() {
        let names = [
            "a.b", "a/b", "a b", "a_b", "functions", "functions.", "ok-1", "é", String(repeating: "x", count: 100),
        ]
        let accepted = ToolName.accepted(names)
        #expect(Set(accepted.values).count == names.count && accepted.values.allSatisfy(ToolName.isValid))
        #expect(accepted["a_b"] == "a_b" && accepted["ok-1"] == "ok-1" && accepted["é"] == "__")
        #expect(ToolName.accepted(["a.b", "c"])["a.b"] == "a_b")
        // Another tool does not change a name that was unique.
        #expect(ToolName.accepted(names.reversed()) == accepted)
    }
}
