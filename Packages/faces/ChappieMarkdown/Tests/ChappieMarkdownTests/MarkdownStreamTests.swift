import Glibc
import Testing

@testable import ChappieMarkdown

/// The screen after the pieces have come.
private func shown(_ pieces: [String], width: Int = 40, height: Int? = 12) -> Screen {
    var screen = Screen(width: width, height: height ?? 12)
    var markdown = MarkdownStream(width: width, height: height)
    for piece in pieces { screen.write(markdown.append(piece)) }
    screen.write(markdown.finish())
    return screen
}

/// The bytes for a pipe: without movements, and with styles only on request.
private func bytes(_ source: String, width: Int = 40, isStyled: Bool = false) -> String {
    var markdown = MarkdownStream(width: width, height: nil, isStyled: isStyled)
    return markdown.append(source) + markdown.finish()
}

private let long = String(repeating: "word ", count: 60)

private let everything = """
    # Title of *it*

    A paragraph with **bold**, `code` and [a link](https://example.com/a), which is longer than a row.
    Second line

    - one
    - two with more text than fits into one row of it
      - nested
      - nested too
    - three

    1) first
    2) second

       with a paragraph
    ```swift
    let answer = 42  // a line of code that is longer than the row is wide

    print(answer)
    ```
    > quoted
    > text

    | Name | 数 |
    |:-----|--:|
    | a | 1 |
    | longer | 漢字 |

    Under
    =====

    ***
    [1]: https://example.com
    <b>html</b>

        indented

    The end
    """

@Suite struct MarkdownStreamTests {
    @Test(
        arguments: [
            ("# A *b*", "A b"), ("Under\n===", "Under"), ("Under\n---\nmore", "Under\n\nmore"),
            ("a **b** `c` ~~d~~", "a b c d"), ("~5 km~", "~5 km~"), ("one\ntwo", "one\ntwo"),
            ("[text](https://a.b)", "text (https://a.b)"), ("<https://a.b>", "https://a.b"),
            ("www.a.com.", "www.a.com."), ("me@a.com", "me@a.com"),
            ("![alt](https://a.b/c.png)", "image: alt (https://a.b/c.png)"), ("[](https://a.b)", "https://a.b"),
            ("- a\n- b", "• a\n• b"), ("- a\n\n- b", "• a\n\n• b"), ("3. a\n3. b", "3. a\n4. b"),
            ("8. a\n9. b\n10. c", "8. a\n9. b\n10. c"), ("- [x] a\n- [ ] b", "☑ a\n☐ b"),
            ("- a\n  - b\n    - c\n- d", "• a\n  ◦ b\n    ▪ c\n• d"), ("- a\n\n  b", "• a\n\n  b"),
            ("- a\nlazy", "• a\n  lazy"), ("Steps:\n- a\n- b", "Steps:\n\n• a\n• b"), ("- a\n1. b", "• a\n\n1. b"),
            ("1. a\n\n   ```\n   x\n   ```\n2. b", "1. a\n\n       x\n2. b"), ("In 1999\n1999. x", "In 1999\n1999. x"),
            ("> a\n> > b", "│ a\n│\n│ │ b"), ("> a\nlazy", "│ a\n│ lazy"), ("***", String(repeating: "─", count: 40)),
            ("```py\na = 1\n\n  b\n```\nx", "  py\n    a = 1\n\n      b\n\nx"), ("```\nopen", "    open"),
            ("~~~\n```\n~~~", "    ```"), ("    a\n\n    b", "    a\n\n    b"), ("``` not a fence ```", "not a fence"),
            ("[1]: https://a.b", "[1]: https://a.b"), ("a\n[1]: https://a.b", "a\n[1]: https://a.b"),
            ("<div>\n*a*\n</div>", "<div>\n*a*\n</div>"), ("a &amp; b \\* c", "a & b * c"), ("", ""), ("\n\n", ""),
            ("| a | b |\n|---|--:|\n| 1 | 22 |", "a │  b\n──┼───\n1 │ 22"),
            ("| a | b |\n|:-:|---|\n| 123 |", " a  │ b\n────┼──\n123 │"),
            ("| 漢 | b |\n|---|---|\n| x | y |", "漢 │ b\n───┼──\nx  │ y"), ("not | a table", "not | a table"),
            ("#hashtag", "#hashtag"), ("1\\. no list", "1. no list"), ("a\r\nb\r\n", "a\nb"),
        ] as [(String, String)])
    func aBlockIsDrawn(_ source: String, _ expected: String) {
        #expect(shown([source]).text == expected)
        let trimmed = bytes(source).split(separator: "\n", omittingEmptySubsequences: false).map { line in
            line.last == " " ? String(line.reversed().drop { $0 == " " }.reversed()) : String(line)
        }
        #expect(trimmed.joined(separator: "\n") == (expected.isEmpty ? "" : expected + "\n"))
    }

    @Test(arguments: [
        ("# A", "\u{1B}[0;1;4mA\u{1B}[0m"), ("## A", "\u{1B}[0;1mA\u{1B}[0m"), ("a *b*", "a \u{1B}[0;3mb\u{1B}[0m"),
        ("***b***", "\u{1B}[0;1;3mb\u{1B}[0m"), ("`c` d", "\u{1B}[0;36mc\u{1B}[0m d"),
        ("~~a~~", "\u{1B}[0;9ma\u{1B}[0m"), ("> a", "\u{1B}[0;2m│ \u{1B}[0ma"),
        ("[a](b)", "\u{1B}[0;4ma\u{1B}[0;2m (b)\u{1B}[0m"), ("*a\nb*", "\u{1B}[0;3ma\u{1B}[0m\n\u{1B}[0;3mb\u{1B}[0m"),
    ])
    func stylesEndWithTheirLine(_ source: String, _ expected: String) {
        #expect(bytes(source, isStyled: true) == expected + "\n")
        #expect(!bytes(source).contains("\u{1B}"))
    }

    /// The property that streaming rests on.
    @Test(arguments: [20, 40, 200]) func howTheTextIsCutDoesNotShow(width: Int) {
        let whole = shown([everything], width: width)
        let characters = everything.map(String.init)
        #expect(shown(characters, width: width).text == whole.text)
        #expect(shown([everything], width: width, height: nil).text == whole.text)
        #expect(whole.surprises.isEmpty)
        for cut in stride(from: 1, to: characters.count, by: 3) {
            let pieces = [characters[..<cut].joined(), characters[cut...].joined()]
            #expect(shown(pieces, width: width).text == whole.text, "cut at \(cut)")
        }
    }

    @Test func theUnfinishedBlockIsShownAsItGrows() {
        var screen = Screen()
        var markdown = MarkdownStream(width: 40, height: 12)
        let steps = [
            ("A **bo", "A"), ("ld** word ", "A **bold** word"), ("and", "A **bold** word"),
            ("\n\n", "A bold word and"), ("- it", "A bold word and\n\n-"), ("em\n", "A bold word and\n\n- item"),
            ("- n", "A bold word and\n\n• item\n-"), ("ext\n```", "A bold word and\n\n• item\n- next"),
            ("\ncode", "A bold word and\n\n• item\n• next"), ("\n", "A bold word and\n\n• item\n• next\n\n    code"),
        ]
        for (piece, expected) in steps {
            screen.write(markdown.append(piece))
            #expect(screen.text == expected, "after \(piece)")
        }
    }

    @Test func `words wait until they are complete, and wide characters do not`() {
        var markdown = MarkdownStream(width: 40, height: 12)
        #expect(markdown.append("hel").isEmpty && markdown.isAtLineStart)
        #expect(markdown.append("lo ") == "hello" && !markdown.isAtLineStart)
        #expect(markdown.append("漢字") == " 漢字")
    }

    @Test func whatHasScrolledAwayIsNeverWrittenAgain() {
        // 60 words of 5 columns are 8 rows; the screen has 6.
        var screen = Screen(width: 40, height: 6)
        var markdown = MarkdownStream(width: 40, height: 6)
        screen.write(markdown.append("above\n\n"))
        for word in long.split(separator: " ") { screen.write(markdown.append(word + " ")) }
        #expect(screen.text.split(separator: "\n").count == 4)
        screen.write(markdown.append("\n\nbelow\n") + markdown.finish())
        let rows = screen.text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(rows.count == 12 && rows[0] == "above" && rows[1] == "" && rows[11] == "below")
        #expect(rows[2...9].joined(separator: " ") + " " == long)
    }

    @Test(arguments: [(20, 3), (80, 1)]) func `a terminal of another width is erased by its own number of rows`(
        _ width: Int, _ rows: Int
    ) {
        var markdown = MarkdownStream(width: 40, height: 24)
        #expect(markdown.append("a\n" + String(repeating: "x", count: 40) + " \n") != "")
        markdown.resize(width: width, height: 24)
        #expect(markdown.finish().hasPrefix("\r\u{1B}[\(rows == 3 ? 2 : 1)A\u{1B}[J"))
    }

    @Test(
        arguments: [
            "\u{1B}]0;title\u{7}x", "\u{9B}2J", "a\u{8}\u{7F}b", "`\u{1B}[2J`", "```\n\u{1B}c\n```",
            "&#27;[2J &#x9b;1m",
            "[a](https://x/\u{1B}[2J)", "| \u{1B}[A | b |\n|---|---|\n| &#x1b;[A | c |", "> \u{1B}[31m", "# &#27;c",
            "```\u{1B}[1m\nx\n```", "<b \u{1B}[1m>", "- &#13;x", "\u{202E}evil\u{2066}", "a &#x202e;b", "\u{E0041}tag",
        ])
    func nothingThatATerminalObeysComesThrough(_ hostile: String) {
        for height in [nil, 12] {
            for isStyled in [true, false] {
                var markdown = MarkdownStream(width: 40, height: height, isStyled: isStyled)
                var output = markdown.append(hostile) + markdown.append("\n") + markdown.finish()
                // Our own: styles, and the three that take a preview away.
                output.replace(#/\u{1B}\[0(;\d+)*m/#, with: "")
                output.replace(#/\r(\u{1B}\[\d+A)?\u{1B}\[J/#, with: "")
                let isBad = { (scalar: Unicode.Scalar) in
                    scalar != "\n" && scalar.properties.generalCategory == .control
                        || [0x202E, 0x2066, 0xE0041].contains(scalar.value)
                }
                #expect(!output.unicodeScalars.contains(where: isBad), "\(output.debugDescription)")
            }
        }
    }

    @Test(arguments: [
        ("![[]()", 20), ("a@", 20), ("> ", 20), ("*a **a ", 20), ("[", 20), ("|a", 20), ("|\n", 10), ("- ", 10),
        ("漢", 10), ("x", 20), ("<", 20), ("`a``b```", 20), ("1. \n", 4), ("\n", 10), ("# a\n", 4), ("[a]: b\n", 4),
    ])
    func anAnswerMeantToBeSlowIsNot(_ unit: String, _ kilobytes: Int) {
        func seconds(_ count: Int) -> Double {
            let source = String(repeating: unit, count: (count << 10) / unit.utf8.count)
            var length = 0
            let before = processorSeconds
            length = shownLength(source)
            #expect(length > 0 || unit == "\n")
            return processorSeconds - before
        }
        // Four times as much may take four times as long; ten leaves room for a busy cache.
        let short = max(seconds(kilobytes), 0.02)
        #expect(seconds(4 * kilobytes) < 10 * short + 1)
    }

    @Test(arguments: [nil, 24]) func `a line in many deltas takes time in proportion to its length`(height: Int?) {
        func seconds(_ count: Int) -> Double {
            var markdown = MarkdownStream(width: 80, height: height)
            let before = processorSeconds
            var length = 0
            for _ in 0..<count { length += markdown.append("ab cd").utf8.count }
            #expect(length <= 7 * count)
            return processorSeconds - before
        }
        let short = max(seconds(2000), 0.005)
        #expect(seconds(20_000) < 40 * short)
    }

    /// Of this thread alone: tests run beside each other.
    private var processorSeconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    private func shownLength(_ source: String) -> Int {
        var markdown = MarkdownStream(width: 80, height: 24)
        return markdown.append(source).utf8.count + markdown.finish().utf8.count
    }

    @Test func aTableThatFillsItselfUpIsShownAsText() {
        let head = String(repeating: "|a", count: 3000)
        let source = head + "\n" + String(repeating: "|-", count: 3000) + "\n" + String(repeating: "|\n", count: 1000)
        #expect(bytes(source).hasPrefix("|a|a"))
    }

    @Test func aTextNestedWithoutEndIsDrawn() {
        #expect(bytes(String(repeating: "> ", count: 4000) + "deep").contains("deep"))
        #expect(bytes(String(repeating: "**a ", count: 2000)).contains("a"))
    }

    @Test func `a table shrinks to the screen and then becomes records`() {
        let table = "| Name | What it is about |\n|---|---|\n| one | \(long.prefix(50)) |\n"
        let rows = bytes(table, width: 30).split(separator: "\n").map(String.init)
        #expect(rows.allSatisfy { $0.columns <= 30 } && rows[0].hasPrefix("Name │ What it is about"))
        #expect(rows.count == 5 && rows.dropFirst(3).allSatisfy { $0.hasPrefix("     │ word") })
        #expect(
            bytes("| Name | Text |\n|---|---|\n| number one | some words |", width: 12)
                == "Name: number\none\nText: some\nwords\n")
    }

    @Test(arguments: [8, 11, 40]) func noLineButCodeIsWiderThanTheScreen(width: Int) {
        let lines = bytes(everything.replacing("    let answer = 42  //", with: "//"), width: width)
        let wide = lines.split(separator: "\n").filter { $0.reduce(0) { $0 + String($1).columns } > width }
        #expect(wide.allSatisfy { $0.hasPrefix("    ") }, "\(wide)")
    }
}
