import CCMark

/// The text inside a block, in its styles.
enum InlineText {
    /// All text below `node`. It uses the parser's iterator and no recursion: an answer can nest emphasis as deep as it
    /// is long.
    static func runs(of node: OpaquePointer, _ base: Style = []) -> [Run] {
        guard let walk = cmark_iter_new(node) else { return [] }
        defer { cmark_iter_free(walk) }
        var runs: [Run] = []
        var styles = [base]
        /// The index of the first run of each open link.
        var links: [Int] = []
        var style: Style { styles.last ?? base }
        while true {
            let event = cmark_iter_next(walk)
            guard event != CMARK_EVENT_DONE, let current = cmark_iter_get_node(walk) else { return runs }
            if current == node { continue }
            let isEntered = event == CMARK_EVENT_ENTER
            switch current.type {
            case "text", "html_inline", "html_block": runs.append(Run(text: current.literal ?? "", style: style))
            case "code": runs.append(Run(text: current.literal ?? "", style: style.union(.code)))
            case "code_block": runs.append(Run(text: current.literal ?? "", style: .code))
            // A line's end in a paragraph is nearly always intended: verses, addresses, "key: value".
            case "softbreak", "linebreak": runs.append(Run(text: "\n"))
            case "emph": change(&styles, isEntered, .italic)
            case "strong": change(&styles, isEntered, .bold)
            case "strikethrough": change(&styles, isEntered, .strike)
            case "link", "image":
                if isEntered {
                    links.append(runs.count)
                    if current.type == "image" { runs.append(Run(text: "image: ", style: style.union(.dim))) }
                    change(&styles, true, .underline)
                } else if let first = links.popLast() {
                    change(&styles, false, .underline)
                    let shown = runs[first...].map(\.text).joined()
                    let address = cmark_node_get_url(current).map { String(cString: $0) } ?? ""
                    if !address.isEmpty, ![shown, "mailto:" + shown, "http://" + shown].contains(address) {
                        runs.append(Run(text: shown.isEmpty ? address : " (\(address))", style: style.union(.dim)))
                    }
                }
            // A block that is nested too deep is shown as its text.
            case "paragraph", "item", "heading", "tasklist":
                if !isEntered, runs.last?.text != "\n" { runs.append(Run(text: "\n")) }
            default: break
            }
        }
    }

    private static func change(_ styles: inout [Style], _ isEntered: Bool, _ style: Style) {
        if isEntered {
            styles.append((styles.last ?? []).union(style))
        } else if styles.count > 1 {
            styles.removeLast()
        }
    }
}
