@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
import ChappieRuntime
import FoundationEssentials

/// A thread as a self-contained page. It has no script, needs no other file and fetches nothing. Text of the
/// conversation can only become text and its own formatting. The policy in the page's head is a second protection.
struct ThreadPage {
    private var html = ""

    static func text(of thread: ChappieThread) -> String {
        var page = ThreadPage()
        page.add(thread)
        // By now, character references have become characters.
        return UntrustedText.forTerminal(page.html)
    }

    private mutating func add(_ thread: ChappieThread) {
        let summary = thread.summary
        let days = [summary.createdAt, summary.updatedAt].map(Self.time)
        html += """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta http-equiv="Content-Security-Policy" content="\(Self.policy)">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="referrer" content="no-referrer">
            <meta name="color-scheme" content="light dark">
            <meta name="generator" content="chappie">
            <title>\(Self.escaped(summary.name))</title>
            <style>\(Self.style)</style>
            </head>
            <body>
            <header>
            <h1 lang="" dir="auto">\(Self.escaped(summary.name))</h1>
            <p>\(Self.word(summary.model))\(days[0]) – \(days[1])</p>
            </header>
            <main>

            """
        for entry in ThreadTranscript(of: thread).entries {
            switch entry {
            case .turn(let turn): add(turn)
            case .compaction(let summary): addCompaction(summary)
            }
        }
        html += "</main>\n<footer><p>\(Self.code(thread.id))</p></footer>\n</body>\n</html>\n"
    }

    // MARK: A turn

    private mutating func add(_ entry: ThreadTranscript.Turn) {
        let turn = entry.turn
        html += """
            <article id="turn-\(turn.number)">
            <h2><a href="#turn-\(turn.number)">\(turn.number)</a> \(Self.time(turn.startedAt))</h2>

            """
        for message in turn.messages { add(message) }
        for step in entry.steps {
            switch step {
            case .message(let message): add(message)
            case .answer(let text): addMarkdown(text)
            case .commentary(let text): addAside("Commentary", text)
            case .reasoning(let text): addAside("Reasoning", text)
            case .call(let call): add(call)
            case .picture(let picture): add(picture)
            case .search(let sentence): html += "<p class=\"note\" dir=\"auto\">\(Self.escaped(sentence))</p>\n"
            case .sources(let sources): addMarkdown(sources.markdown)
            case .other(let kind): html += "<p class=\"note\">\(Self.code(kind))</p>\n"
            }
        }
        if let remark = turn.remark {
            let kind = turn.status == .failed ? "error" : "note"
            html += "<p class=\"\(kind)\" dir=\"auto\">\(Self.escaped(remark))</p>\n"
        }
        let asked = turn.answeringModel == nil ? "" : "instead of \(Self.word(turn.model))"
        if let usage = turn.usage {
            html += """
                <p class="usage">\(Self.word(turn.answeringModel ?? turn.model))\(asked)<span>\(usage.inputTokens) tokens in</span> \
                <span>\(usage.outputTokens) tokens out</span></p>

                """
        }
        html += "</article>\n"
    }

    private mutating func add(_ message: ChappieInputMessage) {
        html += "<section class=\"question\" lang=\"\">\n"
        if message.role != .user { html += "<p class=\"role\">\(Self.escaped(message.role.rawValue))</p>\n" }
        for part in message.parts {
            switch part {
            case .text(let text): addPlain(text)
            case .image, .file, .other:
                if let picture = part.picture {
                    add(picture)
                } else {
                    html += "<p class=\"part\">\(Self.code(part.placeholder))</p>\n"
                }
            }
        }
        html += "</section>\n"
    }

    private mutating func add(_ call: ThreadTranscript.Call) {
        let remark = call.remark.map { " <span class=\"remark\">\(Self.escaped($0))</span>" } ?? ""
        html += "<details class=\"tool\"><summary>\(Self.code(call.name))\(remark)</summary>\n"
        addBlock(call.arguments)
        if let output = call.output { addBlock(output) }
        html += "</details>\n"
        for picture in call.pictures { add(picture) }
    }

    /// Adds a picture. Its address has nothing but the bytes and their kind, so it cannot end the attribute.
    private mutating func add(_ picture: ThreadPicture) {
        guard Self.isDrawn(picture.url) else { return }
        html += "<img class=\"picture\" src=\"\(picture.url)\" alt=\"\(picture.words)\">\n"
    }

    private mutating func addAside(_ title: String, _ text: String) {
        html += "<details class=\"aside\"><summary>\(title)</summary>\n"
        addMarkdown(text)
        html += "</details>\n"
    }

    private mutating func addCompaction(_ summary: String?) {
        guard let summary else {
            html += "<p class=\"compaction\">The conversation was made shorter here.</p>\n"
            return
        }
        html += "<details class=\"aside compaction\"><summary>The conversation was made shorter here.</summary>\n"
        addMarkdown(summary)
        html += "</details>\n"
    }

    // MARK: Text

    private mutating func addMarkdown(_ text: String) {
        guard let rendered = MarkdownHTML.html(of: text, headingLevel: 3) else {
            html += "<section class=\"answer\" lang=\"\">\n"
            addPlain(text)
            html += "</section>\n"
            return
        }
        html += "<section class=\"answer\" lang=\"\" dir=\"auto\">\n\(rendered)</section>\n"
    }

    /// Adds text in pieces, because browsers take long to lay out a block of many lines.
    private mutating func addPlain(_ text: String) {
        for piece in Self.pieces(of: text) {
            html += "<div class=\"plain\" dir=\"auto\">\(Self.escaped(piece))</div>\n"
        }
    }

    private mutating func addBlock(_ text: String) {
        html += "<pre lang=\"\" dir=\"auto\" tabindex=\"0\"><code>\(Self.escaped(text))</code></pre>\n"
    }

    /// Splits the text into pieces of complete lines.
    private static func pieces(of text: String) -> [String] {
        let limit = 32 << 10
        var pieces: [String] = []
        var rest = text.utf8[...]
        while rest.count > limit {
            let head = rest.prefix(limit)
            guard let end = head.lastIndex(of: UInt8(ascii: "\n")) ?? rest.firstIndex(of: UInt8(ascii: "\n")) else {
                break
            }
            pieces.append(String(Substring(rest[..<end])))
            rest = rest[rest.index(after: end)...]
        }
        return pieces + [String(Substring(rest))]
    }

    private static func word(_ text: String) -> String { text.isEmpty ? "" : code(text) + " " }

    private static func code(_ text: String) -> String { "<code dir=\"auto\">\(escaped(text))</code>" }

    private static func time(_ date: Date) -> String {
        "<time datetime=\"\(date.timestamp)\">\(date.minute)</time>"
    }

    /// Returns the text in escaped form, so that it appears unchanged, even between the quotes of an attribute.
    static func escaped(_ text: String) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "&"): output += "&amp;".utf8
            case UInt8(ascii: "<"): output += "&lt;".utf8
            case UInt8(ascii: ">"): output += "&gt;".utf8
            case UInt8(ascii: "\""): output += "&quot;".utf8
            case UInt8(ascii: "'"): output += "&#39;".utf8
            default: output.append(byte)
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Returns whether the address contains an image of a kind that browsers draw without running anything, and nothing
    /// else.
    static func isDrawn(_ url: String) -> Bool {
        let kinds = ["png", "jpeg", "gif", "webp"].map { "data:image/\($0);base64," }
        guard let head = kinds.first(where: url.hasPrefix) else { return false }
        return url.utf8.dropFirst(head.utf8.count).allSatisfy { $0.isASCIIAlphanumeric || "+/=".utf8.contains($0) }
    }

    // MARK: The page

    private static let policy =
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

    private static let style = """

        :root {
          color-scheme: light dark;
          --ground: #fbfbf9; --ink: #1c1d21; --soft: #5d6068; --line: #e1e1dc; --tint: #eef1f6; --code: #f1f1ed;
          --accent: #2457a6; --error: #a3271f;
          --mono: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #16171a; --ink: #e4e4e1; --soft: #9b9ea6; --line: #303238; --tint: #22262e; --code: #1f2024;
            --accent: #8fb4f2; --error: #f2938b;
          }
        }
        * { box-sizing: border-box; }
        html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
        body {
          margin: 0 auto; padding: clamp(1.25rem, 5vw, 4rem) clamp(1rem, 4vw, 2rem); max-width: 50rem;
          background: var(--ground); color: var(--ink);
          font: 1.0625rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
          overflow-wrap: anywhere;
        }
        h1, h2, h3, h4, h5, h6 { line-height: 1.25; text-wrap: balance; margin: 1.6em 0 .6em; }
        h1 { font-size: clamp(1.5rem, 1.1rem + 1.8vw, 2.125rem); letter-spacing: -.015em; margin: 0 0 .5rem; }
        header { padding-bottom: 1.5rem; border-bottom: 1px solid var(--line); }
        header p, footer, h2, .usage, .role, .part, .note, .compaction { color: var(--soft); font-size: .875rem; }
        header p { margin: 0; }
        time { font-variant-numeric: tabular-nums; white-space: nowrap; }
        a { color: var(--accent); text-underline-offset: .15em; }
        a:focus-visible, summary:focus-visible, pre:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }

        article { padding: 2.25rem 0; border-bottom: 1px solid var(--line); }
        h2 { font-weight: 400; margin: 0 0 .75rem; }
        h2 a { color: inherit; font-weight: 600; text-decoration: none; margin-inline-end: .5rem; }
        h2 a:hover { text-decoration: underline; }
        .question { background: var(--tint); border-radius: .75rem; padding: .875rem 1.125rem; margin: 0 0 1.25rem; }
        .picture { display: block; max-height: 30rem; border-radius: .375rem; margin: .5rem 0; }
        .role { margin: 0 0 .25rem; }
        .part { margin: .25rem 0; }
        .plain { white-space: pre-wrap; }
        /* Of a long text, what is not in sight costs nothing. */
        .plain + .plain { content-visibility: auto; contain-intrinsic-size: auto 100rem; }
        .answer { margin: 1.25rem 0; }
        .answer > :first-child { margin-top: 0; }
        .answer > :last-child { margin-bottom: 0; }
        .usage { margin: 1.25rem 0 0; display: flex; flex-wrap: wrap; gap: 0 1rem; font-variant-numeric: tabular-nums; }

        .answer h3 { font-size: 1.375rem; }
        .answer h4 { font-size: 1.1875rem; }
        .answer h5, .answer h6 { font-size: 1.0625rem; }
        p, ul, ol, dl, table, pre, blockquote, details { margin: 0 0 1em; }
        ul, ol { padding-inline-start: 1.5em; }
        li + li { margin-top: .25em; }
        li > p { margin-bottom: .5em; }
        li > ul, li > ol { margin: .25em 0 0; }
        li:has(> input[type="checkbox"]) { list-style: none; }
        li > input[type="checkbox"] { margin: 0 .5em 0 -1.4em; }
        blockquote { margin-inline: 0; padding-inline-start: 1em; border-inline-start: 3px solid var(--line); color: var(--soft); }
        hr { border: 0; border-top: 1px solid var(--line); margin: 2em 0; }
        img { max-width: 100%; height: auto; }
        code, pre { font-family: var(--mono); font-size: .875em; }
        .answer :not(pre) > code { background: var(--code); border-radius: .3em; padding: .1em .35em; }
        header code { margin-inline-end: .75rem; }
        pre {
          background: var(--code); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem;
          overflow: auto; line-height: 1.5; overflow-wrap: normal; tab-size: 4;
        }
        pre code { font-size: 1em; }
        table { display: block; width: fit-content; max-width: 100%; overflow-x: auto; border-collapse: collapse; overflow-wrap: normal; }
        th, td { border: 1px solid var(--line); padding: .4rem .75rem; text-align: start; vertical-align: top; }
        th { background: var(--code); font-weight: 600; }
        th[align="center"], td[align="center"] { text-align: center; }
        th[align="right"], td[align="right"] { text-align: end; font-variant-numeric: tabular-nums; }

        details { border: 1px solid var(--line); border-radius: .5rem; font-size: .9375rem; }
        summary { cursor: pointer; padding: .5rem .875rem; color: var(--soft); }
        details[open] > summary { border-bottom: 1px solid var(--line); }
        details > .answer { margin: .875rem; }
        .tool > pre { border: 0; border-radius: 0; margin: 0; max-height: 32rem; white-space: pre-wrap; overflow-wrap: anywhere; }
        .tool > pre + pre { border-top: 1px solid var(--line); }
        .tool > pre:last-child { border-radius: 0 0 .5rem .5rem; }
        .tool summary code { color: var(--ink); }
        .remark, .error { color: var(--error); }
        .error { border-inline-start: 3px solid; padding-inline-start: .875rem; }
        p.compaction, details.compaction { margin: 1.5rem 0; }
        footer { padding-top: 1.5rem; }
        footer p { margin: 0; }

        @media print {
          :root {
            --ground: #fff; --ink: #000; --soft: #444; --line: #bbb; --tint: #f3f3f3; --code: #f6f6f6; --accent: #000;
            --error: #000; color-scheme: light;
          }
          @page { margin: 18mm 16mm; }
          body { max-width: none; padding: 0; font-size: 10.5pt; line-height: 1.45; print-color-adjust: exact; }
          article { padding: 14pt 0; }
          h2, h3, h4, h5, h6, summary { break-after: avoid; }
          tr, img { break-inside: avoid; }
          p, li { orphans: 3; widows: 3; }
          pre, .tool > pre { white-space: pre-wrap; overflow: visible; max-height: none; overflow-wrap: anywhere; }
          table { display: table; }
          .plain + .plain { content-visibility: visible; }
          /* Paper can't be opened: everything is shown. */
          details::details-content { content-visibility: visible; display: block; height: auto; }
          summary { list-style: none; }
          summary::-webkit-details-marker { display: none; }
          a[href^="http"]::after { content: " (" attr(href) ")"; font-size: .85em; }
        }

        """
}
