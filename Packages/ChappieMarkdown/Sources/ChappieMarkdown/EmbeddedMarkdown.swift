import CCMark

/// Markdown that becomes a part of a larger text, and stays a part of it.
public enum EmbeddedMarkdown {
    /// The text with its headings moved down, for a place below headings of the level before `headingLevel`.
    ///
    /// `nil` for a text that does not stay in its place: it leaves a block of code open, or has HTML, so that what follows
    /// could be taken for a part of it. So does one that is too large to tell.
    ///
    /// - Parameters:
    ///   - source: its lines end with line feeds.
    ///   - headingLevel: what the text's first level becomes. The sixth is the deepest that there is.
    public static func text(of source: String, headingLevel: Int) -> String? {
        var lines = source.split(separator: "\n", omittingEmptySubsequences: false).map { Array($0.utf8) }
        let headings = withEnd(of: source) { document in
            MarkdownParser.allNodes(below: document).filter { $0.type == "heading" }.map(Heading.init)
        }
        guard let headings else { return nil }
        for heading in headings {
            guard heading.move(by: headingLevel - 1, in: &lines) else { return nil }
        }
        let text = lines.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n")
        let staysBelow = withEnd(of: text) { document in
            MarkdownParser.allNodes(below: document).allSatisfy { node in
                switch node.type {
                case "html_block", "html_inline": false
                case "heading": cmark_node_get_heading_level(node) >= headingLevel
                default: true
                }
            }
        }
        return staysBelow == true ? text : nil
    }

    /// The document of a text with a paragraph behind it; `nil` if the paragraph does not stand on its own there.
    private static func withEnd<Output: Sendable>(of source: String, _ body: (OpaquePointer) -> Output) -> Output? {
        let end = "end"
        let bytes = Array("\(source)\n\n\(end)\n".utf8)
        guard bytes.count <= MarkdownHTML.limit, !BlockDrawing.isHugeTable(bytes) else { return nil }
        return MarkdownParser.withDocument(bytes, else: nil) { document in
            guard let last = cmark_node_last_child(document), last.type == "paragraph",
                let text = cmark_node_first_child(last)
            else { return nil }
            guard text.literal == end, cmark_node_next(text) == nil else { return nil }
            return body(document)
        }
    }

    /// Where a heading stands in its source.
    private struct Heading: Sendable {
        let level: Int
        /// Of its first character, from 0, the column in bytes.
        let line: Int
        let column: Int

        init(_ node: OpaquePointer) {
            level = Int(cmark_node_get_heading_level(node))
            line = Int(cmark_node_get_start_line(node)) - 1
            column = Int(cmark_node_get_start_column(node)) - 1
        }

        /// Writes it as a heading of another level.
        ///
        /// - Returns: `false` for one of several lines, which has no such form.
        func move(by levels: Int, in lines: inout [[UInt8]]) -> Bool {
            guard lines.indices.contains(line), lines[line].indices.contains(column) else { return false }
            let mark = UInt8(ascii: "#")
            let marks = Array(repeating: mark, count: min(level + levels, 6))
            let old = lines[line][column...].prefix { $0 == mark }.count
            if old == level {
                lines[line].replaceSubrange(column..<column + old, with: marks)
                return true
            }
            // The other form (https://spec.commonmark.org/0.31.2/#setext-headings) has no level below the second.
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
