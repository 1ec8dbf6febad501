import Testing

@_spi(ChappieInternals) @testable import ChappieCore

@Suite struct SourceMarksTests {
    private static let cite = "\u{E200}cite\u{E202}turn1view0\u{E202}turn1view1\u{E201}"
    private static let generic = ":codex-file-citation[codex-file-citation]"

    /// A text as the service writes it, and as it is shown.
    static let cases: [(written: String, shown: String)] = [
        ("", ""),
        ("No mark: none at all, 12:30.", "No mark: none at all, 12:30."),
        // Citations.
        ("The sea is salt.\(cite) It is wide.", "The sea is salt. It is wide."),
        ("The sea \(cite) is salt", "The sea is salt"),
        ("The sea is salt \(cite)\(cite). Yes.", "The sea is salt . Yes."),
        ("\(cite) First", "First"),
        ("Line one.\(cite)\nLine two.\(cite)", "Line one.\nLine two."),
        ("a\u{E200}filecite\u{E202}turn0file1\u{E202}L3-L9\u{E201}b", "ab"),
        // Marks with text of the sentence.
        ("In \u{E200}entity\u{E202}[\"place\",\"Bern\",\"city\"]\u{E201}.", "In Bern."),
        ("In \u{E200}entity\u{E202}[\"people\",\"Ren\u{e9} \\\"D\\\"\"]\u{E201}", "In Ren\u{e9} \"D\""),
        ("From \u{E200}entity\u{E202}Invincible\u{E201}.", "From Invincible."),
        (
            "See \u{E200}url\u{E202}the page\u{E202}https://example.com/a\u{E201}!",
            "See [the page](https://example.com/a)!"
        ),
        ("See \u{E200}url\u{E202}this\u{E202}javascript:x\u{E201}!", "See this!"),
        // Marks without an end.
        ("Salt.\u{E200}cite\u{E202}turn1vi", "Salt."),
        ("Salt.\u{E200}cite\u{E202}turn1view0 and water", "Salt. and water"),
        ("Salt.\u{E200}cite\u{E202}turn1view0\nWater.\(cite)", "Salt.\nWater."),
        ("Salt.\u{E200}cite\u{E202}turn1\(cite) Water.", "Salt. Water."),
        // The characters of somebody's icons.
        ("Icons: \u{E200} and \u{E201}, \u{E000}\u{EFFF}", "Icons: \u{E200} and \u{E201}, \u{E000}\u{EFFF}"),
        ("\u{E200}", "\u{E200}"),
        // Places in files.
        ("Look at :codex-file-citation[a.md]{path=/a.md line=3} please.", "Look at a.md:3 please."),
        (
            "Done.\(generic){line_range_start=3 line_range_end=9 path=a/b.md git_url=\"https://e.org/a#L3\"}",
            "Done. (a/b.md:3)"
        ),
        ("See :codex-file-citation{path=\"a b}.md\"}!", "See a b}.md!"),
        ("See :codex-file-citation[a.md] now", "See a.md now"),
        ("It passes.:codex-terminal-citation[codex-terminal-citation]{terminal_chunk_id=ab12}", "It passes."),
        ("See :codex-file-citation[a.md", "See "),
        ("The directive :codex-file-citation is one.", "The directive :codex-file-citation is one."),
        (":codex-", ":codex-"),
    ]

    @Test(arguments: cases.indices) func `marks of sources go away, whatever the pieces`(index: Int) {
        let (written, shown) = Self.cases[index]
        #expect(SourceMarks.removed(from: written) == shown)
        let scalars = Array(written.unicodeScalars)
        for size in 1...max(scalars.count, 1) {
            var marks = SourceMarks()
            var text = ""
            for start in stride(from: 0, to: scalars.count, by: size) {
                let piece = scalars[start..<min(start + size, scalars.count)]
                text += marks.append(String(String.UnicodeScalarView(piece)))
            }
            #expect(text + marks.finish() == shown, "pieces of \(size)")
        }
    }

    @Test func `only what may be a mark is held back, and not for long`() {
        var marks = SourceMarks()
        #expect(marks.append("The sea") == "The sea")
        #expect(marks.append(" is\u{E200}cite\u{E202}turn1") == " is")
        #expect(marks.append("view0\u{E201} wide") == " wide")
        #expect(marks.append(" and:") == " and")
        #expect(marks.append(" deep") == ": deep")
        let long = "\u{E200}list\u{E202}" + String(repeating: "a, ", count: SourceMarks.limit)
        #expect(marks.append(long).count > SourceMarks.limit)
        let endless = ":codex-file-citation[" + String(repeating: "a", count: SourceMarks.limit)
        #expect(marks.append(endless) == endless)
        #expect(marks.finish() == "")
    }

    @Test func `the text of a message has no marks, and the item keeps them`() {
        let item = ChappieOutputItem([
            "type": "message", "content": [["type": "output_text", "text": .string("Salt.\(Self.cite) Yes.")]],
        ])
        #expect(item.text == "Salt. Yes.")
        #expect(item.json["content"]?[0]?["text"]?.string == "Salt.\(Self.cite) Yes.")
        #expect(ChappieResponse(items: [item]).outputText == "Salt. Yes.")
    }
}
