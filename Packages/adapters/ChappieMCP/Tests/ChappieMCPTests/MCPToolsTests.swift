import ChappieClient
import ChappieCore
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
                MCPTool(name: "good", description: "Does it.", inputSchema: schema),
                MCPTool(name: "titled", description: "Its title", inputSchema: ["type": "object"]),
            ])
        let badName = "Its name must consist of 1 to 64 letters, digits, _ and -."
        #expect(
            skipped == [
                ChappieMCPSkippedTool(name: "has.dots", reason: badName),
                ChappieMCPSkippedTool(name: long, reason: badName), ChappieMCPSkippedTool(name: "", reason: badName),
                ChappieMCPSkippedTool(name: "", reason: badName), ChappieMCPSkippedTool(name: "", reason: badName),
                ChappieMCPSkippedTool(name: "good", reason: "The list has another tool of that name."),
                ChappieMCPSkippedTool(name: "none", reason: "Its inputSchema is not an object."),
                ChappieMCPSkippedTool(name: "text", reason: "Its inputSchema is not an object."),
                ChappieMCPSkippedTool(name: "array", reason: "Its inputSchema does not describe an object."),
            ])
    }

    /// All of it goes with each request.
    @Test func aServerSaysSoMuchAtMost() {
        let schema: ChappieJSON = ["type": "object"]
        let long = String(repeating: "x", count: 100_000)
        let (tools, skipped) = MCPTool.read(
            [
                ["name": "wordy", "description": .string(long), "inputSchema": schema],
                ["name": "complex", "inputSchema": ["type": "object", "description": .string(long)]],
            ] + (1...300).map { ["name": "tool\($0)", "inputSchema": schema] })
        #expect(tools.count == 256 && tools[0].description.utf8.count < 9_000 && tools[0].description.hasSuffix("x…"))
        #expect(skipped.count == 46 && skipped[0].reason == "Its inputSchema is longer than 64 KiB.")
        #expect(skipped.last?.reason == "The list has more than 256 tools.")
    }

    @Test(
        arguments: [
            ([["type": "text", "text": "one"], ["type": "text", "text": "two"]], "one\ntwo", []),
            (
                [["type": "image", "mimeType": "image/png", "data": "AAAA"]], "",
                [["type": "input_image", "image_url": "data:image/png;base64,AAAA"]]
            ),
            // These are not images for the model, or would break out of the address.
            (
                [["type": "image", "mimeType": "image/svg+xml", "data": "AAAA"]], "[left out: an image, image/svg+xml]",
                []
            ),
            ([["type": "image", "mimeType": "image/png", "data": "AA\"AA"]], "[left out: an image, image/png]", []),
            ([["type": "image"]], "[left out: an image, no type]", []),
            ([["type": "audio", "mimeType": "audio/wav", "data": "AAAA"]], "[left out: audio, audio/wav]", []),
            ([["type": "resource", "resource": ["uri": "file:///a", "text": "b"]]], "file:///a:\nb", []),
            (
                [["type": "resource", "resource": ["uri": "file:///a", "mimeType": "image/gif", "blob": "AAAA"]]], "",
                [["type": "input_image", "image_url": "data:image/gif;base64,AAAA"]]
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
    }
}
