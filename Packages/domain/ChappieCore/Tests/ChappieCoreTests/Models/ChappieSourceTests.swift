@_spi(ChappieInternals) import ChappieCore
import Testing

@Suite struct ChappieSourceTests {
    private func message(_ annotations: [ChappieJSON]) -> ChappieOutputItem {
        ChappieOutputItem([
            "type": "message", "role": "assistant",
            "content": [["type": "output_text", "text": "x", "annotations": .array(annotations)]],
        ])
    }

    private func citation(_ url: String, _ title: ChappieJSON = nil) -> ChappieJSON {
        ["type": "url_citation", "url": .string(url), "title": title]
    }

    @Test func eachPageIsListedOnceInTheOrderOfTheText() {
        let items = [
            message([citation("https://b.example/", "B"), citation("https://a.example/", "")]),
            message([citation("https://b.example/", "again"), ["type": "file_citation", "url": "https://c.example/"]]),
        ]
        #expect(
            ChappieResponse(items: items).sources == [
                ChappieSource(url: "https://b.example/", title: "B"), ChappieSource(url: "https://a.example/"),
            ])
    }

    @Test(arguments: [
        "javascript:alert(1)", "file:///etc/passwd", "https://x.example/\u{1B}[2J", "https://x.example/a b", "",
        "https://" + String(repeating: "x", count: 9000),
    ])
    func whatIsNoAddressOfTheWebIsLeftOut(url: String) {
        #expect(ChappieResponse(items: [message([citation(url)])]).sources.isEmpty)
    }

    @Test func aFloodOfCitationsIsBounded() {
        let many = (0..<5000).map { citation("https://x.example/\($0)") }
        #expect(ChappieResponse(items: [message(many)]).sources.count == 1000)
    }

    @Test(
        arguments: [
            (["type": "search", "query": "a"], .search(queries: ["a"]), "Searched the web: a"),
            (["type": "search", "queries": ["a", "b"]], .search(queries: ["a", "b"]), "Searched the web: a; b"),
            (
                ["type": "open_page", "url": "https://x.example"], .openPage(url: "https://x.example"),
                "Opened https://x.example"
            ),
            (
                ["type": "find_in_page", "url": "u", "pattern": "p"], .findInPage(url: "u", pattern: "p"),
                "Looked for p in u"
            ), (["type": "new"], .other("new"), "Used the web"), (nil, .other(""), "Used the web"),
        ] as [(ChappieJSON, ChappieWebSearch.Action, String)])
    func whatWasDoneOnTheWebIsAValue(_ json: ChappieJSON, _ action: ChappieWebSearch.Action, _ words: String) throws {
        let item = ChappieOutputItem(["type": "web_search_call", "status": "completed", "action": json])
        let search = try #require(item.webSearch)
        #expect(search.action == action)
        #expect(search.status == "completed")
        #expect(search.sentence == words)
        #expect(message([]).webSearch == nil)
    }
}
