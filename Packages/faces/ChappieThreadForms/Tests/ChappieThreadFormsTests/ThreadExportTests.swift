@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
import ChappieRuntime
import FoundationEssentials
import Testing

@testable import ChappieThreadForms

/// Threads for the tests of export and import.
enum SampleThread {
    static let date = Date(timeIntervalSince1970: 1_795_350_000)

    /// A thread of turns, each a question, a call with its output, and an answer.
    static func thread(
        title: String? = nil, _ turns: [(question: String, output: String, answer: String)]
    ) throws -> ChappieThread {
        var events: [(ChappieThreadRecord.Kind, ChappieJSON)] = []
        for (index, turn) in turns.enumerated() {
            let id: ChappieJSON = .string("turn-\(index + 1)")
            let call: ChappieJSON = [
                "name": "look_up", "callID": .string("c\(index)"), "arguments": "{\"q\":1}", "isCustom": false,
            ]
            let item: ChappieJSON = [
                "type": "function_call", "name": "look_up", "call_id": .string("c\(index)"), "arguments": "{\"q\":1}",
            ]
            let output: ChappieJSON = [
                "type": "function_call_output", "call_id": .string("c\(index)"), "output": .string(turn.output),
            ]
            let answer: ChappieJSON = [
                "type": "message", "role": "assistant",
                "content": [["type": "output_text", "text": .string(turn.answer)]],
            ]
            events += [
                (
                    .turnStarted,
                    [
                        "turn": id, "model": "gpt-6-sol",
                        "messages": [
                            [
                                "type": "message", "role": "user",
                                "content": [["type": "input_text", "text": .string(turn.question)]],
                            ]
                        ],
                    ]
                ),
                (
                    .toolsCalled,
                    ["turn": id, "from": 1, "items": [item], "round": 1, "calls": [call], "frame": [:]]
                ),
                (.toolsStarted, ["turn": id, "calls": [call]]),
                (
                    .toolFinished,
                    [
                        "turn": id,
                        "result": [
                            "call": call, "outcome": "succeeded",
                            "result": ["output": .string(turn.output), "parts": [], "isError": false],
                        ],
                    ]
                ),
                (
                    .turnFinished,
                    [
                        "turn": id, "from": 2, "items": [output, answer], "model": "gpt-6-sol",
                        "text": .string(turn.answer), "output": [answer], "response": "resp_1",
                        "usage": [
                            "inputTokens": 1200, "cachedInputTokens": 0, "outputTokens": 345, "reasoningTokens": 0,
                            "totalTokens": 1545,
                        ], "unknown": ["kept": 1],
                    ]
                ),
            ]
        }
        if let title { events.append((.renamed, ["title": .string(title)])) }
        return try thread(events)
    }

    static func thread(_ events: [(ChappieThreadRecord.Kind, ChappieJSON)]) throws -> ChappieThread {
        let records = events.enumerated().map { index, event in
            ChappieThreadRecord(
                position: index, kind: event.0, date: date + Double(index) * 12.345, body: event.1)
        }
        return try ChappieThread(id: "0199-sample", records: records)
    }

    /// A thread whose one answer came after commentary, or is nothing else.
    static func commented(_ messages: [(text: String, phase: String)], answer: String) throws -> ChappieThread {
        let items = messages.map { message -> ChappieJSON in
            [
                "type": "message", "role": "assistant", "phase": .string(message.phase),
                "content": [["type": "output_text", "text": .string(message.text)]],
            ]
        }
        let question: ChappieJSON = [
            "type": "message", "role": "user", "content": [["type": "input_text", "text": "How many?"]],
        ]
        return try thread([
            (.turnStarted, ["turn": "t", "model": "gpt-6-sol", "messages": [question]]),
            (
                .turnFinished,
                [
                    "turn": "t", "from": 1, "items": .array(items), "model": "gpt-6-sol", "text": .string(answer),
                    "output": .array(items),
                ]
            ),
        ])
    }

    /// Texts that try to break out of their place in the page.
    static let hostile = [
        "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">",
        "</pre></code></details></section></article><h2>2</h2><style>*{display:none}</style>",
        "```\nfence\n````\n~~~\n# heading\n\n## 9. heading\n\n---",
        "<!-- never closed", "<pre>\n\n## 9. heading", "text\n===\n\n    code",
        "> quote\n\n## 9. heading\r## 9. heading",
        "![pixel](https://tracker.invalid/pixel.png) [go](javascript:document.title='taken') <https://ok.example>",
        "![x](data:image/svg+xml;base64,PHN2Zz4=) [y](data:text/html,<script>1</script>) ![](https://tracker.invalid/b.png)",
        "\u{1B}]0;taken\u{7}\u{1B}[2J\u{9B}31m\u{0} \u{202E}gnp.exe\u{2066} &#27;[31m &#x202E;abc &#0; \u{E0041}",
        "\"' onmouseover='document.title=1' x=\"&lt;b&gt;", "| a | b |\n|---|--:|\n| <b>x</b> | `<i>` |",
        "[link\n](<jav\tascript:alert(1)> \"t\\\" onclick=\\\"x\")", "```````\u{7}```", "`````` \n```html\n<b>",
        "``\u{200E}`", "``\u{200E}`\n\n## 9. heading", "```\n``\u{61C}`\n\n## 9. heading", "```\nfoo\r```",
        "text <!-- and <details>",
    ]
}

@Suite struct ThreadExportTests {
    private func parsed(_ format: ChappieThreadFormat, _ thread: ChappieThread) throws -> ChappieThreadImport {
        try ChappieThreadImport(Array(format.text(of: thread).utf8))
    }

    @Test(arguments: [ChappieThreadFormat.json, .jsonl])
    func completeFormsComeBackWhole(_ format: ChappieThreadFormat) throws {
        for text in SampleThread.hostile + ["\u{2028}\u{85}\r\n", ""] {
            let thread = try SampleThread.thread(title: text, [(text, text, text), ("more", text, "done")])
            let back = try parsed(format, thread)
            #expect(back.source == .chappie && back.leftOut.isEmpty)
            #expect(back.threads == [thread])
        }
    }

    @Test func eachRecordIsALine() throws {
        let thread = try SampleThread.thread([("line\nbreak", "a\r\nb", "c\u{2028}d")])
        let lines = ChappieThreadFormat.jsonl.text(of: thread).utf8.split(separator: UInt8(ascii: "\n"))
        #expect(lines.count == 1 + thread.records.count)
        let head = try ChappieJSON(parsing: Array(lines[0]))
        #expect(head["id"]?.string == thread.id && head["records"] == nil)
    }

    // MARK: Markdown

    @Test func aTranscriptShowsEverythingInOrder() throws {
        let thread = try SampleThread.thread(
            title: "All *about* it", [("What is\nit?", "a `tick` and ``` three", "It **is**.")])
        #expect(
            ChappieThreadFormat.markdown.text(of: thread) == """
                # All \\*about\\* it

                - Thread: `0199-sample`
                - Model: `gpt-6-sol`
                - Begun: \(thread.summary.createdAt.minute)
                - Last change: \(thread.summary.updatedAt.minute)

                ---

                ## 1. \(thread.summary.createdAt.minute)

                > What is
                > it?

                ### Tool `look_up`

                ```json
                {"q":1}
                ```

                ````
                a `tick` and ``` three
                ````

                ### Answer

                It **is**.

                *`gpt-6-sol`, 1200 tokens in, 345 tokens out*

                """)
    }

    @Test func commentaryStandsBesideTheAnswer() throws {
        let thread = try SampleThread.commented(
            [("I'll look.", "commentary"), ("Four.", "final_answer")], answer: "Four.")
        let markdown = ChappieThreadFormat.markdown.text(of: thread)
        #expect(markdown.contains("### Commentary\n\n> I'll look.\n\n### Answer\n\nFour.\n"))
        #expect(markdown.ranges(of: "Four.").count == 1)
        let page = ChappieThreadFormat.html.text(of: thread)
        #expect(page.contains("<details class=\"aside\"><summary>Commentary</summary>"))
        #expect(ChappieThreadFormat.json.text(of: thread).contains(#""phase":"commentary""#))
        // An answer may be nothing but commentary, and come in several messages.
        let only = ChappieThreadFormat.markdown.text(
            of: try SampleThread.commented([("Done.", "commentary")], answer: "Done."))
        #expect(only.contains("### Answer\n\nDone.") && !only.contains("### Commentary"))
        let parts = ChappieThreadFormat.markdown.text(
            of: try SampleThread.commented([("Fo", "partial_answer"), ("ur", "final_answer")], answer: "Four"))
        #expect(parts.ranges(of: "### Answer").count == 2)
    }

    @Test func theEndOfATurnIsTold() throws {
        let id: ChappieJSON = "t"
        let started: ChappieJSON = ["turn": id, "messages": [], "model": "m"]
        let ends: [(ChappieThreadRecord.Kind, ChappieJSON, String)] = [
            (.turnFailed, ["turn": id, "error": "The *network* is gone."], "**The \\*network\\* is gone.**"),
            (.turnInterrupted, ["turn": id], "**It was interrupted.**"),
            (.approvalPending, ["turn": id, "approvals": []], "**It waits for an approval.**"),
            (
                .turnFinished, ["turn": id, "from": 0, "items": [], "incompleteReason": "max_output_tokens"],
                "**The answer ended early: max\\_output\\_tokens.**"
            ),
            (
                .turnFinished, ["turn": id, "from": 0, "items": [], "incompleteReason": "interrupted"],
                "**The answer was interrupted.**"
            ),
        ]
        for (kind, body, sentence) in ends {
            let thread = try SampleThread.thread([(.turnStarted, started), (kind, body)])
            #expect(ChappieThreadFormat.markdown.text(of: thread).contains(sentence))
        }
    }

    @Test func aCompactionStandsWhereItWas() throws {
        let turn = { (id: String, text: String) -> [(ChappieThreadRecord.Kind, ChappieJSON)] in
            let items: ChappieJSON = [
                ["type": "message", "role": "user", "content": [["type": "input_text", "text": .string(text)]]]
            ]
            return [
                (.turnStarted, ["turn": .string(id), "messages": items, "model": "m"]),
                (.turnFinished, ["turn": .string(id), "from": 1, "items": [], "text": .string("re " + text)]),
            ]
        }
        let compaction: (ChappieThreadRecord.Kind, ChappieJSON) = (
            .compacted, ["context": ["items": [], "summary": "in short"]]
        )
        let between = turn("a", "first") + [compaction] + turn("b", "second")
        var within = turn("a", "first") + turn("b", "second")
        within.insert(compaction, at: 3)
        for events in [between, within] {
            let text = ChappieThreadFormat.markdown.text(of: try SampleThread.thread(events))
            let places = ["re first", "> in short", "> second", "re second"].map { text.firstRange(of: $0)?.lowerBound }
            #expect(!places.contains(nil))
            #expect(places.compactMap { $0 } == places.compactMap { $0 }.sorted())
        }
    }

    @Test func `a message during a turn is shown where it came in, and an unsent one at the end`() throws {
        let said = { (role: String, text: String) -> ChappieJSON in
            [
                "type": "message", "role": .string(role),
                "content": [["type": role == "user" ? "input_text" : "output_text", "text": .string(text)]],
            ]
        }
        let thread = try SampleThread.thread([
            (.turnStarted, ["turn": "t", "model": "gpt-6-sol", "messages": [said("user", "question")]]),
            (.turnSteered, ["turn": "t", "message": said("user", "correction")]),
            (.turnSteered, ["turn": "t", "message": said("user", "never sent")]),
            (
                .turnInterrupted,
                [
                    "turn": "t", "from": 1,
                    "items": [said("assistant", "first"), said("user", "correction"), said("assistant", "second")],
                ]
            ),
        ])
        for format in [ChappieThreadFormat.markdown, .html] {
            let text = format.text(of: thread)
            let shown = ["question", "first", "correction", "second", "never sent"]
            let places = shown.map { text.firstRange(of: $0)?.lowerBound }
            #expect(!places.contains(nil))
            #expect(places.compactMap(\.self) == places.compactMap(\.self).sorted())
            #expect(text.components(separatedBy: "correction").count == 2)
        }
    }

    @Test(arguments: SampleThread.hostile)
    func nothingBreaksTheTranscript(_ text: String) throws {
        for turn in [(text, "o", "a"), ("q", text, "a"), ("q", "o", text)] {
            let thread = try SampleThread.thread(title: text, [turn, ("last question", "o", "last answer")])
            let markdown = ChappieThreadFormat.markdown.text(of: thread)
            let html = try #require(MarkdownHTML.html(of: markdown))
            #expect(html.components(separatedBy: "<h2>1. 2026").count == 2)
            #expect(html.components(separatedBy: "<h2>2. 2026").count == 2)
            #expect(html.contains("<blockquote>\n<p>last question</p>\n</blockquote>"))
            #expect(
                html.hasSuffix(
                    "<p>last answer</p>\n<p><em><code>gpt-6-sol</code>, 1200 tokens in, 345 tokens out</em></p>\n"))
            #expect(Self.isHarmless(markdown))
        }
    }

    @Test(arguments: ["![x](https://example.com/p?c=1)", "<img src=x onerror=alert(1)>", "<iframe src=//x></iframe>"])
    func `no part of a thread loads or runs anything`(_ text: String) throws {
        func message(_ role: String, _ text: String, phase: String? = nil) -> ChappieJSON {
            let part = role == "assistant" ? "output_text" : "input_text"
            var message: ChappieJSONObject = [
                "type": "message", "role": .string(role), "content": [["type": .string(part), "text": .string(text)]],
            ]
            if let phase { message["phase"] = .string(phase) }
            return .object(message)
        }
        let items: [ChappieJSON] = [
            message("assistant", text, phase: "commentary"),
            ["type": "reasoning", "summary": [["type": "summary_text", "text": .string(text)]]],
            ["type": "function_call", "name": .string(text), "arguments": .string(text), "call_id": "c"],
            ["type": "function_call_output", "output": .string(text), "call_id": "c"],
            ["type": .string(text)], message("assistant", text),
        ]
        let bodies: [(ChappieThreadRecord.Kind, ChappieJSON)] = [
            (.renamed, ["title": .string(text)]),
            (
                .turnStarted,
                ["turn": "t", "model": .string(text), "messages": [message("user", text), message("developer", text)]]
            ),
            (
                .turnFinished,
                [
                    "turn": "t", "from": 2, "items": .array(items), "model": .string(text),
                    "incompleteReason": .string(text),
                ]
            ),
            (.compacted, ["context": ["items": [message("user", text)], "summary": .string(text)]]),
            (.turnStarted, ["turn": "u", "messages": [message("user", text)]]),
            (.turnFailed, ["turn": "u", "error": .string(text)]),
        ]
        let thread = try ChappieThread(
            id: "a",
            records: bodies.enumerated().map { index, record in
                ChappieThreadRecord(position: index, kind: record.0, date: SampleThread.date, body: record.1)
            })
        let markdown = ChappieThreadFormat.markdown.text(of: thread)
        #expect(markdown.contains("### Commentary") && markdown.contains("### Reasoning"))
        // This would be nil with HTML, and without the marks of images.
        #expect(EmbeddedMarkdown.text(of: markdown, headingLevel: 1) == markdown)
        let page = ChappieThreadFormat.html.text(of: thread)
        #expect(!page.contains("<img") && !page.contains("<iframe"))
    }

    @Test func `an answer's headings are Markdown headings below the transcript's`() throws {
        let answer = "# You asked\n\n- Words: 4\n\nPlain\n=====\n\n> Quoted\n> ---\n\n```text\n# code\n```"
        let text = ChappieThreadFormat.markdown.text(of: try SampleThread.thread([("q", "o", answer)]))
        let moved = "#### You asked\n\n- Words: 4\n\n#### Plain\n\n\n> ##### Quoted\n>\n\n```text\n# code\n```"
        #expect(text.contains("\n### Answer\n\n\(moved)\n\n"))
    }

    @Test(arguments: [
        ("# x", "#### x"), ("## x", "##### x"), ("###### x", "###### x"), ("#", "####"), ("x\n---", "##### x\n"),
        ("   x #\n  ===", "   #### x #\n"), ("- ## é", "- ##### é"), ("1. x\n   ===  ", "1. #### x\n"),
        ("# a\n# b", "#### a\n#### b"), ("", ""), ("x", "x"), ("`<b>`", "`<b>`"),
        ("```\n# x\n<b>\n```", "```\n# x\n<b>\n```"), ("- x\n\n---", "- x\n\n---"),
        ("[x](https://a.example)", "[x](https://a.example)"), ("\\# x", "\\# x"),
    ])
    func headingsMoveDown(_ source: String, _ text: String) {
        #expect(EmbeddedMarkdown.text(of: source, headingLevel: 4) == text)
    }

    @Test(arguments: [
        ("![x](https://a.example/?q=secret)", "[x](https://a.example/?q=secret)"),
        (
            "One ![a][r] and\n![b](http://b.example \"t\").\n\n[r]: https://a.example",
            "One [a][r] and\n[b](http://b.example \"t\").\n\n[r]: https://a.example"
        ),
        ("> - ![x](//a.example/p.png)", "> - [x](//a.example/p.png)"),
        ("[![x](https://a.example/p)](https://b.example)", "[[x](https://a.example/p)](https://b.example)"),
        ("| a |\n| - |\n| ![x](https://a.example) |", "| a |\n| - |\n| [x](https://a.example) |"),
        ("# ![x](https://a.example)", "#### [x](https://a.example)"),
        ("Not one: `![x](https://a.example)`, \\![x](y)", "Not one: `![x](https://a.example)`, \\![x](y)"),
    ])
    func imagesAreLinksThatLoadNothing(_ source: String, _ text: String) {
        #expect(EmbeddedMarkdown.text(of: source, headingLevel: 4) == text)
    }

    @Test(arguments: ["two\nlines\n===", "<!-- x -->", "a <details> b", "<pre>", "```", "~~~\n# x"])
    func whatDoesNotStayInItsPlaceIsLeftToAFence(_ source: String) {
        #expect(EmbeddedMarkdown.text(of: source, headingLevel: 4) == nil)
    }

    // MARK: The page

    @Test(arguments: SampleThread.hostile)
    func aPageHasNoElementsButItsOwn(_ text: String) throws {
        let page = ChappieThreadFormat.html.text(of: try SampleThread.thread(title: text, [(text, text, text)]))
        let tags = page.split(separator: "<").dropFirst().map { $0.prefix { $0 != ">" } }
        let elements: Set = [
            "!DOCTYPE", "a", "article", "blockquote", "body", "code", "del", "details", "div", "em", "footer", "h1",
            "h2",
            "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "img", "li", "main", "meta", "ol", "p", "pre",
            "section",
            "span", "strong", "style", "summary", "table", "tbody", "td", "th", "thead", "time", "title", "tr", "ul",
            "br",
        ]
        let attributes: Set = [
            "align", "alt", "charset", "class", "content", "datetime", "dir", "href", "html", "http-equiv", "id",
            "lang",
            "name", "src", "tabindex", "title",
        ]
        for tag in tags {
            let name = tag.drop { $0 == "/" }.prefix { $0 != " " && $0 != "\n" }
            #expect(elements.contains(String(name)), "<\(tag)>")
            // Outside of quotes there are names alone.
            let outside = tag.dropFirst(tag.prefix { $0 == "/" }.count + name.count)
                .split(separator: "\"", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 0 }
            for (_, piece) in outside {
                let names = piece.split { $0 == " " || $0 == "=" || $0 == "/" || $0 == "\n" }.map(String.init)
                #expect(attributes.isSuperset(of: names), "<\(tag)>")
            }
            #expect(!tag.lowercased().contains("href=\"javascript:") && !tag.contains("href=\"data:"), "<\(tag)>")
            #expect(name != "img" || tag.contains("src=\"data:image/"), "<\(tag)>")
        }
        #expect(tags.filter { $0.hasPrefix("style") }.count == 1)
        #expect(Self.isHarmless(page))
    }

    @Test func whatIsDrawnIsAnImageOfAKnownKind() {
        let drawn = ["png", "jpeg", "gif", "webp"].map { "data:image/\($0);base64,aGVsbG8=" }
        let others = [
            "data:image/svg+xml;base64,aGk=", "data:image/png,abc", "https://host.example/a.png",
            "data:text/html;base64,aGk=",
            "data:image/png;base64,a\" onerror=\"x", "DATA:image/png;base64,aGk=",
        ]
        #expect(drawn.allSatisfy(ThreadPage.isDrawn))
        #expect(!others.contains(where: ThreadPage.isDrawn))
    }

    @Test func imagesOfMessagesAreShownAndOthersNamed() throws {
        let parts: ChappieJSON = [
            ["type": "input_image", "image_url": .string(ThreadPictureTests.url), "detail": "high"],
            ["type": "input_image", "image_url": "data:image/png;base64,aGVsbG8=", "detail": "high"],
            ["type": "input_image", "image_url": "https://host.example/a.png?b&c", "detail": "high"],
            ["type": "input_file", "filename": "<b>.pdf", "file_data": "data:application/pdf;base64,aGVsbG8="],
        ]
        let messages: ChappieJSON = [["type": "message", "role": "user", "content": parts]]
        let thread = try SampleThread.thread([(.turnStarted, ["turn": "t", "messages": messages, "model": "m"])])
        let page = ChappieThreadFormat.html.text(of: thread)
        #expect(page.contains("<img class=\"picture\" src=\"\(ThreadPictureTests.url)\""))
        #expect(page.contains("image: image/png, 1 KB") && !page.contains("aGVsbG8"))
        #expect(page.contains("image: https://host.example/a.png?b&amp;c"))
        #expect(page.contains("file: &lt;b&gt;.pdf, application/pdf, 1 KB"))
        let text = ChappieThreadFormat.markdown.text(of: thread)
        #expect(text.contains("*[image: image/png, 1 KB]*") && !text.contains("aGVsbG8"))
    }

    @Test(arguments: [ChappieThreadFormat.markdown, .html])
    func aMegabyteIsOneMessageLikeAnother(_ format: ChappieThreadFormat) throws {
        let long = String(repeating: "\u{202E}word ", count: 1_000_000 / 8) + "the end"
        let text = format.text(of: try SampleThread.thread([(long, "o", long)]))
        #expect(text.utf8.count > 2_000_000 && text.components(separatedBy: "the end").count == 3)
    }

    /// Texts that make parsers slow, up to the size at which a text is shown as it is.
    @Test(
        .timeLimit(.minutes(5)),
        arguments: ["[", "<", "`\n", "> ", "- ", "*a_", "![](", "&#", "|a", "<!--", "~~", "http://a.b/("])
    func nothingTakesLong(_ text: String) {
        let long = String(repeating: text, count: (MarkdownHTML.limit - 100) / text.utf8.count)
        #expect(MarkdownHTML.html(of: long)?.isEmpty != true)
    }

    /// Nothing that a terminal obeys, or that turns text around.
    private static func isHarmless(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { scalar in
            switch scalar.value {
            case 0x09, 0x0A, 0x20..<0x7F: true
            case ..<0xA0, 0x202A...0x202E, 0x2066...0x2069, 0xE0000...0xE007F: false
            default: true
            }
        }
    }
}
