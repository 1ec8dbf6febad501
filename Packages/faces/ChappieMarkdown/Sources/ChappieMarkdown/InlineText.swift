import CCMark

/// The text inside a block, in its styles.
enum InlineText {
    /// Returns all text below `node`. This method uses the parser's iterator and no recursion, because an answer can
    /// nest emphasis as deeply as its length allows.
    static func runs(of node: OpaquePointer, _ base: MarkdownStyle = []) -> [MarkdownRun] {
        guard let walk = cmark_iter_new(node) else { return [] }
        defer { cmark_iter_free(walk) }
        var runs: [MarkdownRun] = []
        var styles = [base]
        /// The address of each open link, and the index of its first run.
        var links: [(address: String, first: Int)] = []
        func add(_ text: String, _ style: MarkdownStyle? = nil) {
            runs.append(
                MarkdownRun(text: text.visible, style: style ?? styles.last ?? base, link: links.last?.address))
        }
        while true {
            let event = cmark_iter_next(walk)
            guard event != CMARK_EVENT_DONE, let current = cmark_iter_get_node(walk) else { return runs }
            if current == node { continue }
            let isEntered = event == CMARK_EVENT_ENTER
            let style = styles.last ?? base
            switch current.type {
            // A cell of a table has no other way to begin a line.
            case "html_inline" where ["<br>", "<br/>", "<br />"].contains(current.literal?.lowercased()):
                add("\n", [])
            case "text", "html_inline", "html_block": add(current.literal ?? "")
            case "code": add(current.literal ?? "", style.union(.code))
            case "code_block": add(current.literal ?? "", .code)
            // A line's end in a paragraph is nearly always intended: verses, addresses, "key: value".
            case "softbreak", "linebreak": add("\n", [])
            case "emph": change(&styles, isEntered, .italic)
            case "strong": change(&styles, isEntered, .bold)
            case "strikethrough": change(&styles, isEntered, .strike)
            case "link", "image":
                if isEntered {
                    links.append((cmark_node_get_url(current).map { String(cString: $0) } ?? "", runs.count))
                    if current.type == "image" { add("image: ", style.union(.dim)) }
                    change(&styles, true, .underline)
                } else if let link = links.last {
                    change(&styles, false, .underline)
                    let shown = runs[link.first...].map(\.text).joined()
                    let address = link.address.visible
                    if !address.isEmpty, ![shown, "mailto:" + shown, "http://" + shown].contains(address) {
                        add(shown.isEmpty ? address : " (\(address))", (styles.last ?? base).union(.dim))
                    }
                    links.removeLast()
                }
            // A block that is nested too deep is shown as its text.
            case "paragraph", "item", "heading", "tasklist":
                if !isEntered, runs.last?.text != "\n" { add("\n", []) }
            default: break
            }
        }
    }

    private static func change(_ styles: inout [MarkdownStyle], _ isEntered: Bool, _ style: MarkdownStyle) {
        if isEntered {
            styles.append((styles.last ?? []).union(style))
        } else if styles.count > 1 {
            styles.removeLast()
        }
    }
}
