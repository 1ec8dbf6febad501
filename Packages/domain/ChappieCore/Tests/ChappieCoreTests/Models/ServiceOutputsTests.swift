@_spi(ChappieInternals) import ChappieCore
import Foundation
import Testing

struct ServiceOutputsTests {
    private func search(_ pages: [(String, String?)], id: String = "c1") -> ChappieJSON {
        [
            "type": "function_call_output", "call_id": .string(id), "output": "text",
            "sources": .array(
                pages.enumerated().map { index, page in
                    [
                        "url": .string(page.0), "title": page.1.map { .string($0) } ?? .null,
                        "ref_id": .string("turn0search\(index)"),
                    ]
                }),
        ]
    }

    @Test func `pages are listed in the order of the answer's links`() {
        let outputs = ServiceOutputs(
            in: [
                search([("https://a.example/x", "A"), ("https://b.example/y_(z)", nil), ("ftp://c.example", "C")]),
                search([("https://a.example/x", "again"), ("https://d.example/?q=1", "D")], id: "c2"),
            ])
        let text = "As [b](https://b.example/y_(z)) says; see **https://a.example/x**, and <https://unknown.example>."
        #expect(outputs.sources(for: text).map(\.url) == ["https://b.example/y_(z)", "https://a.example/x"])
        #expect(outputs.sources(for: text).last?.title == "A")
        #expect(
            outputs.sources(for: "No link.").map(\.url) == [
                "https://a.example/x", "https://b.example/y_(z)", "https://d.example/?q=1",
            ])
        #expect(outputs.address(of: "turn0search1") == "https://d.example/?q=1")
        #expect(outputs.address(of: "turn9search9") == nil)
    }

    @Test func `a long answer with many pages takes little time`() {
        let outputs = ServiceOutputs(in: [search((0..<1000).map { ("https://a.example/\($0)", nil) })])
        let text = String(repeating: "[x](https://a.example/7) ", count: 20_000)
        #expect(outputs.sources(for: text).map(\.url) == ["https://a.example/7"])
    }

    @Test func `only pictures of the service's tool are the answer's`() throws {
        let url =
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        func output(_ id: String) -> ChappieJSON {
            [
                "type": "function_call_output", "call_id": .string(id),
                "output": [
                    ["type": "input_text", "text": "Picture 1"], ["type": "input_image", "image_url": .string(url)],
                ],
            ]
        }
        let drawing: ChappieJSON = ["type": "function_call", "call_id": "c1", "name": "image_generation"]
        let outputs = ServiceOutputs(in: [drawing, output("c1"), output("other")])
        #expect(outputs.images.count == 1)
        var response = ChappieResponse()
        response.toolOutputs = outputs
        let copy = try JSONDecoder().decode(ChappieResponse.self, from: JSONEncoder().encode(response))
        #expect(copy == response && copy.images == outputs.images)
    }
}
