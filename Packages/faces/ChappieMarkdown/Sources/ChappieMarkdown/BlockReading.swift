import CCMark
import Synchronization

extension MarkdownBlock {
    /// The limit of a source for the parser, in bytes. The time of a few of its rules grows with the square of the
    /// length.
    static let limit = 16 << 10
    /// The depth to which lists and quotes are read. Deeper blocks are replaced by their text.
    private static let depthLimit = 24
    /// The limit of a table's cells. Missing cells also count, because the parser fills up short rows below a wide
    /// head.
    private static let cellLimit = 20_000

    /// Returns the blocks of a complete text. The time is linear in its size.
    public static func blocks(of text: String) -> [MarkdownBlock] {
        var reader = MarkdownReader()
        var blocks: [MarkdownBlock] = []
        var code: (language: String, lines: [String]) = ("", [])
        for event in reader.append(text) + reader.finish() {
            switch event {
            case .block(let block): blocks.append(block)
            case .codeBegan(let language): code = (language, [])
            case .code(let line): code.lines.append(line)
            case .codeEnded:
                blocks.append(.code(language: code.language, text: code.lines.joined(separator: "\n")))
            case .grew: break
            }
        }
        return blocks
    }

    /// Returns the blocks of one block's source.
    ///
    /// - Parameter number: the number of an ordered item at the outermost level, or `nil` for the source's number.
    static func blocks(of source: [UInt8], number: Int?) -> [MarkdownBlock] {
        guard source.count <= limit, !isHugeTable(source) else { return [verbatim(of: source)] }
        let blocks = MarkdownParser.withDocument(source, else: []) { document in
            document.children.map { read($0, number: number, depth: 0) }
        }
        // The parser makes no block of a definition, and an answer must not lose a line.
        return blocks.isEmpty ? [verbatim(of: source)] : blocks
    }

    private static func verbatim(of source: [UInt8]) -> MarkdownBlock {
        .verbatim(withoutLastFeeds(String(decoding: source, as: UTF8.self)))
    }

    private static func withoutLastFeeds(_ text: String) -> String {
        var text = text.visible
        while text.last == "\n" { text.removeLast() }
        return text
    }

    static func isHugeTable(_ source: [UInt8]) -> Bool {
        var widest = 0
        var columns = 0
        var rows = 1
        for byte in source {
            if byte == UInt8(ascii: "|") { columns += 1 }
            if byte == UInt8(ascii: "\n") {
                rows += 1
                widest = max(widest, columns)
                columns = 0
            }
        }
        return max(widest, columns) * rows > cellLimit
    }

    // MARK: The parser's nodes

    private static func read(_ node: OpaquePointer, number: Int?, depth: Int) -> MarkdownBlock {
        guard depth < depthLimit else { return .paragraph(InlineText.runs(of: node)) }
        let inside = { (node: OpaquePointer) in node.children.map { read($0, number: nil, depth: depth + 1) } }
        switch node.type {
        case "heading":
            let level = Int(cmark_node_get_heading_level(node))
            return .heading(level: level, InlineText.runs(of: node, level == 1 ? [.bold, .underline] : .bold))
        case "code_block":
            var text = node.literal ?? ""
            if text.last == "\n" { text.removeLast() }
            let info = cmark_node_get_fence_info(node).map { String(cString: $0) } ?? ""
            return .code(language: language(of: info), text: text.visible)
        case "thematic_break": return .rule
        case "block_quote": return .quote(inside(node))
        case "list":
            let isOrdered = cmark_node_get_list_type(node) == CMARK_ORDERED_LIST
            let first = number ?? Int(cmark_node_get_list_start(node))
            let delimiter = cmark_node_get_list_delim(node) == CMARK_PAREN_DELIM ? ")" : "."
            let items = node.children.enumerated().map { index, item in
                let mark: MarkdownList.Mark =
                    item.type == "tasklist"
                    ? .task(isDone: cmark_gfm_extensions_get_tasklist_item_checked(item))
                    : isOrdered ? .number(first + index, delimiter) : .bullet
                return MarkdownList.Item(mark: mark, blocks: inside(item))
            }
            return .list(MarkdownList(items: items, isTight: cmark_node_get_list_tight(node) != 0))
        case "table": return .table(MarkdownTable(node))
        case "html_block": return .verbatim(withoutLastFeeds(node.literal ?? ""))
        default: return .paragraph(InlineText.runs(of: node))
        }
    }

    /// Returns the language of a block of code, or an empty text if the text after its fence names none.
    static func language(of info: String) -> String {
        info.split(separator: " ").first.map { String($0).visible } ?? ""
    }
}

enum MarkdownParser {
    /// The lock for parsing. The library keeps its extensions' special characters in global tables, which each parser
    /// changes and restores.
    private static let parsing = Mutex<Void>(())

    /// Calls `body` with the document and returns its value, or returns `failure` if there is not enough memory.
    static func withDocument<Value: Sendable>(
        _ source: [UInt8], else failure: Value, _ body: (OpaquePointer) -> Value
    ) -> Value {
        parsing.withLock { _ in
            guard let parser = ccmark_parser_new() else { return failure }
            defer { cmark_parser_free(parser) }
            source.withUnsafeBytes { bytes in
                cmark_parser_feed(parser, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
            }
            guard let document = cmark_parser_finish(parser) else { return failure }
            defer { cmark_node_free(document) }
            return body(document)
        }
    }

    static func allNodes(below document: OpaquePointer) -> [OpaquePointer] {
        guard let iterator = cmark_iter_new(document) else { return [] }
        defer { cmark_iter_free(iterator) }
        var nodes: [OpaquePointer] = []
        while true {
            switch cmark_iter_next(iterator) {
            case CMARK_EVENT_ENTER: if let node = cmark_iter_get_node(iterator) { nodes.append(node) }
            case CMARK_EVENT_EXIT: continue
            default: return nodes
            }
        }
    }
}

extension OpaquePointer {
    /// The kind of a node. It is a text, because extensions have no constants for their kinds.
    var type: String { cmark_node_get_type_string(self).map { String(cString: $0) } ?? "" }

    var literal: String? { cmark_node_get_literal(self).map { String(cString: $0) } }

    var children: some Sequence<OpaquePointer> {
        sequence(state: cmark_node_first_child(self)) { next in
            defer { next = next.flatMap { cmark_node_next($0) } }
            return next
        }
    }
}
