import CCMark
import Synchronization

/// Draws one block of Markdown as lines of a width.
struct BlockDrawing {
    /// The limit of a source for the parser, in bytes: the time of a few of its rules grows with the square of the
    /// length.
    static let limit = 16 << 10
    /// How deep lists and quotes are drawn. Deeper blocks are shown as their text.
    private static let depthLimit = 24
    /// The limit of a table's cells. Missing cells count too, because the parser fills up short rows below a wide head.
    private static let cellLimit = 20_000

    private let width: Int
    /// The number of a list's item, if the source has only this item of its list.
    private let number: Int?

    private init(width: Int, number: Int?) {
        self.width = width
        self.number = number
    }

    /// - Parameter number: the number of an ordered item at the outermost level; `nil` takes the source's number.
    static func lines(of source: [UInt8], width: Int, number: Int? = nil) -> [Line] {
        let width = max(8, width)
        guard source.count <= limit, !isHugeTable(source) else { return plain(source, width) }
        let lines = MarkdownParser.withDocument(source, else: []) { document in
            BlockDrawing(width: width, number: number).children(of: document, width, depth: 0)
        }
        // A definition draws no line, and an answer must not lose a line.
        return lines.isEmpty ? plain(source, width) : lines
    }

    /// The text as it is.
    static func plain(_ source: [UInt8], _ width: Int) -> [Line] {
        var text = String(decoding: source, as: UTF8.self)
        while text.last == "\n" { text.removeLast() }
        return TextFlow.lines(of: [Run(text: text)], width: width)
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

    // MARK: Blocks

    private func children(of node: OpaquePointer, _ width: Int, depth: Int, isTight: Bool = false) -> [Line] {
        var lines: [Line] = []
        for child in node.children {
            let block = self.block(child, width, depth: depth)
            if !lines.isEmpty, !block.isEmpty, !isTight { lines.append(Line()) }
            lines += block
        }
        return lines
    }

    private func block(_ node: OpaquePointer, _ width: Int, depth: Int) -> [Line] {
        guard depth < Self.depthLimit else { return TextFlow.lines(of: InlineText.runs(of: node), width: width) }
        switch node.type {
        case "heading":
            let style: Style = cmark_node_get_heading_level(node) == 1 ? [.bold, .underline] : .bold
            return TextFlow.lines(of: InlineText.runs(of: node, style), width: width)
        case "code_block": return code(node)
        case "thematic_break": return [Line.rule(width)]
        case "block_quote":
            return children(of: node, narrowed(width, 2), depth: depth + 1).map { $0.following("│ ", .dim) }
        case "list": return list(node, width, depth: depth)
        case "table": return Table(node).lines(width: width)
        case "html_block":
            return Self.plain(Array((node.literal ?? "").utf8), width)
        default: return TextFlow.lines(of: InlineText.runs(of: node), width: width)
        }
    }

    /// The width that an indent leaves for text: at least 4 columns.
    private func narrowed(_ width: Int, _ indent: Int) -> Int { max(4, width - indent) }

    /// Long lines of code stay whole, because the user may want to copy them; the terminal wraps them.
    private func code(_ node: OpaquePointer) -> [Line] {
        var text = node.literal ?? ""
        if text.last == "\n" { text.removeLast() }
        let info = cmark_node_get_fence_info(node).map { String(cString: $0) } ?? ""
        return Line.codeHead(info) + text.split(separator: "\n", omittingEmptySubsequences: false).map(Line.code)
    }

    private func list(_ node: OpaquePointer, _ width: Int, depth: Int) -> [Line] {
        let isOrdered = cmark_node_get_list_type(node) == CMARK_ORDERED_LIST
        let mark = cmark_node_get_list_delim(node) == CMARK_PAREN_DELIM ? ")" : "."
        let isTight = cmark_node_get_list_tight(node) != 0
        let first = (depth == 0 ? number : nil) ?? Int(cmark_node_get_list_start(node))
        let items = Array(node.children)
        // Numbers are aligned to the right.
        let widest = "\(first + items.count - 1)".count
        var lines: [Line] = []
        for (index, item) in items.enumerated() {
            let number = "\(first + index)"
            let head =
                switch (item.type, isOrdered) {
                case ("tasklist", _): cmark_gfm_extensions_get_tasklist_item_checked(item) ? "☑ " : "☐ "
                case (_, true): String(repeating: " ", count: max(0, widest - number.count)) + number + mark + " "
                default: ["•", "◦", "▪"][min(depth, 2)] + " "
                }
            let indent = head.columns
            if index > 0, !isTight { lines.append(Line()) }
            let content = children(of: item, narrowed(width, indent), depth: depth + 1, isTight: isTight)
            let blank = String(repeating: " ", count: indent)
            lines += (content.isEmpty ? [Line()] : content).enumerated().map { row, line in
                line.following(row == 0 ? head : blank, [])
            }
        }
        return lines
    }
}

extension Line {
    /// The same line behind an indent.
    func following(_ head: String, _ style: Style) -> Line {
        var line = Line(head, style)
        line.append(self)
        return line
    }

    static func rule(_ width: Int) -> Line { Line(String(repeating: "─", count: max(0, width)), .dim) }

    /// A line with the language of a block of code, if the block names it.
    static func codeHead(_ info: String) -> [Line] {
        let language = info.split(separator: " ").first.map { String($0).visible } ?? ""
        return language.isEmpty ? [] : [Line("  " + language, .dim)]
    }

    static func code(_ text: some StringProtocol) -> Line {
        var line = Line("    ")
        line.append(String(text).visible, .code, columns: 0)
        return text.isEmpty ? Line() : line
    }
}

enum MarkdownParser {
    /// The library keeps its extensions' special characters in global tables, which each parser changes and restores.
    private static let parsing = Mutex<Void>(())

    /// Calls `body` with the document and returns its value; returns `failure` if there is not enough memory.
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
