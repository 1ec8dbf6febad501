import CCMark

/// Markdown for a web page. The HTML runs no code and loads nothing, whatever the source contains.
public enum MarkdownHTML {
    /// The limit of a source in bytes. The time of a few of the parser's rules grows with the square of the length.
    public static let limit = 64 << 10

    /// Returns the HTML of a text, or `nil` if the text is too large, is a table of too many cells, or draws nothing.
    /// Show such a text unchanged.
    ///
    /// HTML in the source is shown as text. An image becomes a link, unless its `data:` address holds it and browsers
    /// draw its type without running code. A link to `javascript:` and other dangerous addresses has no target.
    ///
    /// - Parameters:
    ///   - source: The Markdown.
    ///   - headingLevel: The new level of the source's first level, if the page has headings above the text.
    public static func html(of source: String, headingLevel: Int = 1) -> String? {
        let bytes = Array(source.utf8)
        guard bytes.count <= limit, !MarkdownBlock.isHugeTable(bytes) else { return nil }
        return MarkdownParser.withDocument(bytes, else: nil) { document in
            for node in MarkdownParser.allNodes(below: document) { makeHarmless(node, headingLevel) }
            // Without CMARK_OPT_UNSAFE the renderer also leaves out dangerous links.
            guard let html = cmark_render_html(document, CMARK_OPT_DEFAULT, nil) else { return nil }
            defer { cmark_get_default_mem_allocator().pointee.free(html) }
            // A text that has only definitions draws nothing, and an answer must not be lost.
            let text = String(cString: html)
            return text.isEmpty ? nil : text
        }
    }

    private static func makeHarmless(_ node: OpaquePointer, _ headingLevel: Int) {
        switch node.type {
        case "heading":
            let level = Int(cmark_node_get_heading_level(node)) + headingLevel - 1
            cmark_node_set_heading_level(node, CInt(min(max(level, 1), 6)))
        case "html_block": replace(node, by: cmark_node_new(CMARK_NODE_CODE_BLOCK), literal: node.literal)
        case "html_inline": replace(node, by: cmark_node_new(CMARK_NODE_TEXT), literal: node.literal)
        case "image":
            let url = cmark_node_get_url(node).map { String(cString: $0) } ?? ""
            let drawn = ["png", "jpeg", "gif", "webp"].contains { url.hasPrefix("data:image/\($0);base64,") }
            guard !drawn, let link = cmark_node_new(CMARK_NODE_LINK) else { return }
            cmark_node_set_url(link, url)
            cmark_node_set_title(link, cmark_node_get_title(node))
            if cmark_node_first_child(node) == nil, let name = cmark_node_new(CMARK_NODE_TEXT) {
                cmark_node_set_literal(name, url)
                cmark_node_append_child(link, name)
            }
            while let child = cmark_node_first_child(node) {
                // A link accepts the same children as an image, except links.
                guard cmark_node_append_child(link, child) != 0 else { break }
            }
            exchange(node, for: link)
        default: break
        }
    }

    private static func replace(_ node: OpaquePointer, by new: OpaquePointer?, literal: String?) {
        guard let new else { return }
        cmark_node_set_literal(new, literal ?? "")
        exchange(node, for: new)
    }

    private static func exchange(_ node: OpaquePointer, for new: OpaquePointer) {
        if cmark_node_replace(node, new) != 0 { cmark_node_free(node) } else { cmark_node_free(new) }
    }
}
