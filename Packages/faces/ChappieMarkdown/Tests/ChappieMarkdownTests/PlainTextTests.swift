import ChappieMarkdown
import Testing

@Suite struct PlainTextTests {
    @Test(arguments: [
        ("one two three", "one two\nthree"), ("  one two three", "  one two\n  three"), ("short", "short"),
        ("a: one two three", "a: one two\n   three"), ("a   one two three", "a   one\n    two\n    three"),
        ("one `two three`", "one\n`two three`"), ("one\ntwo three four", "one\ntwo three\nfour"),
        ("https://a.example/b", "https://a.example/b"), ("at https://a.example/b", "at\nhttps://a.example/b"),
        ("           one", "           one"), ("one two 日本語 x", "one two\n日本語 x"), ("question: ", "question: "),
        ("long question: ", "long\nquestion: "), ("", ""),
    ])
    func aLineIsBrokenBetweenWords(_ text: String, _ expected: String) {
        #expect(PlainText.wrapped(text, width: 10) == expected)
    }

    @Test func `every word of a long text is present, and no line is too long`() {
        let text = (0..<2000).map { "word\($0)" }.joined(separator: " ")
        for width in 10...40 {
            let lines = PlainText.wrapped(text, width: width).split(separator: "\n")
            #expect(lines.allSatisfy { $0.count <= width })
            #expect(lines.joined(separator: " ") == text)
        }
    }

    @Test(arguments: [
        ("name", 4, "name"), ("names", 4, "nam…"), ("日本語", 6, "日本語"), ("日本語", 5, "日本…"), ("日本語", 4, "日…"),
    ])
    func aNameIsCutToTheWidth(_ text: String, _ width: Int, _ expected: String) {
        #expect(PlainText.cut(text, to: width) == expected)
        #expect(PlainText.columns(of: expected) <= width)
    }
}
