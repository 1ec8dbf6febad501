import Testing

@testable import ChappieMarkdown

/// The blocks, and the text of the unfinished one, after the pieces have come.
private struct Page: Equatable {
    var blocks: [MarkdownBlock] = []
    var unfinished = ""

    init(_ pieces: [String], isFinished: Bool = true) {
        var reader = MarkdownReader()
        for piece in pieces { take(reader.append(piece)) }
        if isFinished { take(reader.finish()) }
    }

    private mutating func take(_ events: [MarkdownReader.Event]) {
        for event in events {
            switch event {
            case .grew(let text): unfinished += text
            case .block(let block):
                blocks.append(block)
                unfinished = ""
            case .codeBegan(let language):
                blocks.append(.code(language: language, text: ""))
                unfinished = ""
            case .code(let line):
                guard case .code(let language, let text)? = blocks.popLast() else { return }
                blocks.append(.code(language: language, text: text + line + "\n"))
            case .codeEnded: break
            }
        }
    }
}

private func text(_ text: String, _ style: MarkdownStyle = [], link: String? = nil) -> MarkdownRun {
    MarkdownRun(text: text, style: style, link: link)
}

private func list(_ mark: MarkdownList.Mark, _ blocks: [MarkdownBlock]) -> MarkdownBlock {
    .list(MarkdownList(items: [.init(mark: mark, blocks: blocks)], isTight: true))
}

@Suite struct MarkdownReaderTests {
    @Test(
        arguments: [
            (
                "# A *b*",
                [.heading(level: 1, [text("A ", [.bold, .underline]), text("b", [.bold, .underline, .italic])])]
            ),
            ("one\ntwo", [.paragraph([text("one"), text("\n"), text("two")])]),
            ("a `b`\n\n***", [.paragraph([text("a "), text("b", .code)]), .rule]),
            ("```swift\nlet a = 1\n```", [.code(language: "swift", text: "let a = 1\n")]),
            ("> a", [.quote([.paragraph([text("a")])])]), ("<b>\n", [.verbatim("<b>")]),
            (
                "3. a\n3. b",
                [
                    list(.number(3, "."), [.paragraph([text("a")])]), list(.number(4, "."), [.paragraph([text("b")])]),
                ]
            ),
            ("- [x] a", [list(.task(isDone: true), [.paragraph([text("a")])])]),
            (
                "| a | b |\n|---|--:|\n| 1 | 2 |",
                [
                    .table(
                        MarkdownTable(
                            rows: [[[text("a", .bold)], [text("b", .bold)]], [[text("1")], [text("2")]]],
                            alignments: [.left, .right]))
                ]
            ),
        ] as [(String, [MarkdownBlock])])
    func aTextIsBlocks(_ source: String, _ expected: [MarkdownBlock]) {
        for pieces in [[source], source.map(String.init)] { #expect(Page(pieces).blocks == expected) }
    }

    @Test func `a link is followed by its address unless its text is the address`() {
        #expect(
            MarkdownBlock.blocks(of: "[name](https://a.b) <https://c.d>") == [
                .paragraph([
                    text("name", .underline, link: "https://a.b"), text(" (https://a.b)", .dim, link: "https://a.b"),
                    text(" "), text("https://c.d", .underline, link: "https://c.d"),
                ])
            ])
    }

    @Test func theUnfinishedBlockGrowsUntilItIsReplaced() {
        #expect(Page(["A **bo"], isFinished: false).unfinished == "A **bo")
        #expect(Page(["A **bo", "ld**\nmore"], isFinished: false).unfinished == "A **bold**\nmore")
        let page = Page(["A **bo", "ld**\n\n", "next"], isFinished: false)
        #expect(page.blocks == [.paragraph([text("A "), text("bold", .bold)])] && page.unfinished == "next")
    }

    @Test func howTheTextIsCutDoesNotShow() {
        let source = "# T\n\ntext\n- a\n  - b\n\n1. c\n```\nx\n\ny\n```\n> q\n\n|a|\n|-|\n|b|\n\n    z\n\n[1]: u\nend"
        let whole = Page([source])
        for cut in source.indices {
            #expect(Page([String(source[..<cut]), String(source[cut...])]) == whole)
        }
        #expect(whole.unfinished.isEmpty && whole.blocks.count == 10)
    }

    @Test(arguments: ["a\0b", "`a\u{1B}b`", "```\na\u{202E}b\n```", "<a\u{9B}b>"])
    func noControlComesThrough(_ hostile: String) {
        let written = "\(MarkdownBlock.blocks(of: hostile))"
        #expect(written.contains("a\u{FFFD}b"), "\(written)")
    }

    @Test func aLongParagraphIsShownAsItIs() {
        let long = String(repeating: "word ", count: 8000)
        #expect(MarkdownBlock.blocks(of: long) == [.verbatim(long)])
    }
}
