import CCMark

/// Markdown that becomes a part of a larger text, and does not affect the text after it.
public enum EmbeddedMarkdown {
    /// Returns the text with its headings moved down, for a place below headings of the level before `headingLevel`,
    /// and with links instead of images. A reader's program would load images from any address that the text has.
    ///
    /// The result is `nil` if the text could affect the text after it, because it leaves a block of code open or has
    /// HTML. It is also `nil` if the text is too large to check.
    ///
    /// - Parameters:
    ///   - source: the text, whose lines end with line feeds.
    ///   - headingLevel: the new level of the text's first level. The sixth level is the deepest.
    public static func text(of source: String, headingLevel: Int) -> String? {
        var lines = source.split(separator: "\n", omittingEmptySubsequences: false).map { Array($0.utf8) }
        let found = withEnd(of: source) { document in
            let nodes = MarkdownParser.allNodes(below: document)
            return (
                headings: nodes.filter { $0.type == "heading" }.map(Heading.init),
                images: nodes.filter { $0.type == "image" }.map(linesOfBlock)
            )
        }
        guard let found else { return nil }
        for line in Set(found.images.joined()) where lines.indices.contains(line) { removeImageMarks(&lines[line]) }
        for heading in found.headings {
            guard heading.move(by: headingLevel - 1, in: &lines) else { return nil }
        }
        let text = lines.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n")
        let staysBelow = withEnd(of: text) { document in
            MarkdownParser.allNodes(below: document).allSatisfy { node in
                switch node.type {
                case "html_block", "html_inline", "image": false
                case "heading": cmark_node_get_heading_level(node) >= headingLevel
                default: true
                }
            }
        }
        return staysBelow == true ? text : nil
    }

    /// Returns the lines, from 0, of the block with this part of a line.
    private static func linesOfBlock(_ node: OpaquePointer) -> Range<Int> {
        var block = node
        while !["paragraph", "heading", "table"].contains(block.type), let parent = cmark_node_parent(block) {
            block = parent
        }
        let start = Int(cmark_node_get_start_line(block)) - 1
        return start..<max(Int(cmark_node_get_end_line(block)), start)
    }

    /// Replaces `![name](address)` by `[name](address)`.
    private static func removeImageMarks(_ line: inout [UInt8]) {
        var result: [UInt8] = []
        for (index, byte) in line.enumerated() {
            let isMark = byte == UInt8(ascii: "!") && index + 1 < line.count && line[index + 1] == UInt8(ascii: "[")
            if !isMark || result.last == UInt8(ascii: "\\") { result.append(byte) }
        }
        line = result
    }

    /// Calls `body` with the document of the text and a paragraph behind it. Returns `nil` if the parser does not see
    /// that paragraph as a separate one.
    private static func withEnd<Output: Sendable>(of source: String, _ body: (OpaquePointer) -> Output) -> Output? {
        let end = "end"
        let bytes = Array("\(source)\n\n\(end)\n".utf8)
        guard bytes.count <= MarkdownHTML.limit, !MarkdownBlock.isHugeTable(bytes) else { return nil }
        return MarkdownParser.withDocument(bytes, else: nil) { document in
            guard let last = cmark_node_last_child(document), last.type == "paragraph",
                let text = cmark_node_first_child(last)
            else { return nil }
            guard text.literal == end, cmark_node_next(text) == nil else { return nil }
            return body(document)
        }
    }

    /// The level of a heading and its place in the source.
    private struct Heading: Sendable {
        let level: Int
        /// The line and the column of the first character, both from 0. The column counts bytes.
        let line: Int
        let column: Int

        init(_ node: OpaquePointer) {
            level = Int(cmark_node_get_heading_level(node))
            line = Int(cmark_node_get_start_line(node)) - 1
            column = Int(cmark_node_get_start_column(node)) - 1
        }

        /// Changes the heading's level in the source.
        ///
        /// - Returns: `false` for a heading of several lines, which cannot be written at another level.
        func move(by levels: Int, in lines: inout [[UInt8]]) -> Bool {
            guard lines.indices.contains(line), lines[line].indices.contains(column) else { return false }
            let mark = UInt8(ascii: "#")
            let marks = Array(repeating: mark, count: min(level + levels, 6))
            let old = lines[line][column...].prefix { $0 == mark }.count
            if old == level {
                lines[line].replaceSubrange(column..<column + old, with: marks)
                return true
            }
            // An underlined heading (https://spec.commonmark.org/0.31.2/#setext-headings) has only the levels 1 and 2.
            let underline = UInt8(ascii: level == 1 ? "=" : "-")
            guard lines.indices.contains(line + 1) else { return false }
            while [underline, UInt8(ascii: " "), UInt8(ascii: "\t")].contains(lines[line + 1].last) {
                lines[line + 1].removeLast()
            }
            lines[line].insert(contentsOf: marks + [UInt8(ascii: " ")], at: column)
            return true
        }
    }
}
