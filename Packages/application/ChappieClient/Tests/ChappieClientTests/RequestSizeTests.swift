import ChappieCore
import ChappieJSONSchema
import Testing

@testable import ChappieClient

@Suite struct RequestSizeTests {
    private func frame(_ tools: [ChappieJSON] = []) -> RequestFrame {
        var frame = RequestFrame(model: "m")
        frame.tools = tools
        return frame
    }

    private func size(_ items: [ChappieJSON], _ frame: RequestFrame, window: Int?) throws -> ChappieInputSize {
        do throws(ChappieClientError) {
            try RequestSize(items, frame).check(window: window, items: items)
        } catch .inputTooLarge(let size) {
            return size
        }
        throw CancellationError()
    }

    @Test func `files that are too large together are refused with the largest`() throws {
        func file(_ name: String, _ count: Int) -> ChappieJSON {
            [
                "type": "input_file", "filename": .string(name),
                "file_data": .string(String(repeating: "A", count: count)),
            ]
        }
        let content: [ChappieJSON] = [
            file("a.pdf", 20_000_000), file("big.pdf", 31_000_000), ["type": "input_text", "text": "What is in them?"],
        ]
        let size = try size([["type": "message", "content": .array(content)]], frame(), window: nil)
        #expect(size.largestPart == "the file big.pdf with 31.0 MB" && size.pictureCount == 2)
        let error = ChappieClientError.inputTooLarge(size)
        #expect(error.explanation.contains("have 51.0 MB") && error.explanation.contains("big.pdf"), "\(error)")
        let one: ChappieJSON = ["type": "message", "content": [file("big.pdf", 31_000_000)]]
        #expect(throws: CancellationError.self) { try self.size([one], frame(), window: nil) }
    }

    @Test func `tools that fill the model's window are refused with the largest server`() throws {
        func tools(of name: String, _ count: Int) -> ChappieJSON {
            let tool: ChappieJSON = [
                "type": "function", "name": "t", "description": .string(String(repeating: "word ", count: 100)),
            ]
            return ["type": "namespace", "name": .string(name), "tools": .array(Array(repeating: tool, count: count))]
        }
        let frame = frame([tools(of: "small", 10), tools(of: "large", 5000)])
        let question: ChappieJSON = ["type": "message", "content": [["type": "input_text", "text": "Hi"]]]
        let size = try size([question], frame, window: 272_000)
        #expect(size.isMostlyTools && size.largestPart?.hasPrefix("the tools of large with 2.") == true, "\(size)")
        let text = ChappieClientError.inputTooLarge(size).explanation
        #expect(
            text.hasPrefix("The declarations of the tools have about") && text.hasSuffix("Offer fewer tools."),
            "\(text)")
        #expect(throws: CancellationError.self) { try self.size([question], frame, window: 1_000_000) }
    }

    @Test func `a schema without a strict form is refused before anything is sent`() async throws {
        let harness = ClientHarness(.serverSentEvents)
        let request = ChappieResponseRequest(
            messages: [.user("?")], outputSchema: ["type": "object", "properties": ["a": ["type": "object"]]])
        await #expect {
            try await harness.client.response(request)
        } throws: { error in
            guard case ChappieClientError.unsupportedInput(let words, _) = error else { return false }
            return words.contains("/properties/a")
        }
        #expect(try harness.requests.isEmpty)
    }

    @Test func `an optional member may be null in an answer, which is then removed`() async throws {
        struct Town: Decodable, Sendable, Equatable {
            var name: String?
            var size: Int?
        }
        let harness = ClientHarness(.serverSentEvents, [.answer(#"{"name":null,"size":7}"#)])
        let schema: ChappieJSONSchema = [
            "type": "object", "properties": ["name": ["type": "string"], "size": ["type": "integer"]],
            "required": ["size"],
        ]
        #expect(try await harness.client.send("?", as: Town.self, schema: schema) == Town(name: nil, size: 7))
        let sent = try #require(try harness.requests.first?["text"]?["format"])
        #expect(sent["strict"] == true && sent["schema"]?["required"] == ["name", "size"])
        #expect(sent["schema"]?["properties"]?["name"]?["anyOf"]?[1] == ["type": "null"])
    }
}
