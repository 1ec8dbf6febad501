import CGtk4
import ChappieMarkdown
import ChappieSignInGTK

/// The tags of the conversation's text. Colours are mixed from the theme's own.
@MainActor
final class TranscriptTags {
    typealias Tag = UnsafeMutablePointer<GtkTextTag>

    enum Name: String, CaseIterable {
        case speaker, dim, bold, italic, strike, code, codeBlock
    }

    private struct Shape: Hashable {
        var margin = 0
        var hanging = 0
        var gap: Int?
    }

    private let view: UnsafeMutablePointer<GtkTextView>
    private let table: OpaquePointer
    private var named: [Name: Tag] = [:]
    private var shapes: [Shape: Tag] = [:]
    private var headings: [Int: Tag] = [:]
    private var links: Set<Tag> = []
    private var linkColour = GdkRGBA()

    init(_ view: UnsafeMutablePointer<GtkTextView>) {
        self.view = view
        table = gtk_text_buffer_get_tag_table(gtk_text_view_get_buffer(view))
        for name in Name.allCases { named[name] = add(Self.properties(of: name)) }
        let widget = OpaquePointer(view).widget
        ChappieGTKSignal.connect(widget, "realize") { [unowned self] in setColours() }
        for property in ["gtk-theme-name", "gtk-application-prefer-dark-theme"] {
            ChappieGTKSignal.connect(
                UnsafeMutableRawPointer(gtk_widget_get_settings(widget)), "notify::\(property)"
            ) { [weak self] in self?.setColours() }
        }
    }

    private static func properties(of name: Name) -> [(String, Property)] {
        switch name {
        case .speaker: [("weight", .int(700)), ("pixels-below-lines", .int(2))]
        case .dim: []
        case .bold: [("weight", .int(700))]
        case .italic: [("style", .int(Int(PANGO_STYLE_ITALIC.rawValue)))]
        case .strike: [("strikethrough", .bool(true))]
        case .code:
            [
                ("family", .string("monospace")),
                ("background-rgba", .colour(GdkRGBA(red: 0.5, green: 0.5, blue: 0.5, alpha: 0.16))),
            ]
        case .codeBlock: [("family", .string("monospace"))]
        }
    }

    private func add(_ properties: [(String, Property)]) -> Tag {
        guard let tag = gtk_text_tag_new(nil) else { preconditionFailure("GTK has no memory for a tag") }
        for (name, value) in properties { value.set(name, of: UnsafeMutableRawPointer(tag)) }
        gtk_text_tag_table_add(table, tag)
        g_object_unref(UnsafeMutableRawPointer(tag))
        return tag
    }

    /// Sets the colours. Text that is not part of the answer has a weaker form of the text's colour. Links have a
    /// colour that can be read on the theme's background.
    private func setColours() {
        var text = GdkRGBA()
        gtk_style_context_get_color(gtk_widget_get_style_context(OpaquePointer(view).widget), &text)
        let isDark = text.red + text.green + text.blue > 1.5
        linkColour =
            isDark
            ? GdkRGBA(red: 0.55, green: 0.75, blue: 1, alpha: 1) : GdkRGBA(red: 0.08, green: 0.35, blue: 0.7, alpha: 1)
        text.alpha *= 0.7
        Property.colour(text).set("foreground-rgba", of: UnsafeMutableRawPointer(self[.dim]))
        for link in links { Property.colour(linkColour).set("foreground-rgba", of: UnsafeMutableRawPointer(link)) }
    }

    subscript(_ name: Name) -> Tag {
        guard let tag = named[name] else { preconditionFailure("no tag \(name)") }
        return tag
    }

    func style(_ style: MarkdownStyle) -> [Tag] {
        let all: [(MarkdownStyle, Name)] = [
            (.bold, .bold), (.italic, .italic), (.strike, .strike), (.code, .code), (.dim, .dim),
        ]
        return all.filter { style.contains($0.0) }.map { self[$0.1] }
    }

    /// Returns a tag with a left margin inside the window's margin. The lines after the first begin `hanging` pixels
    /// further in.
    func margin(_ margin: Int, hanging: Int) -> Tag {
        tag(Shape(margin: margin, hanging: hanging)) {
            [
                ("accumulative-margin", .bool(true)), ("left-margin", .int(margin)), ("indent", .int(-hanging)),
            ]
        }
    }

    /// Returns a tag with the gap above a paragraph, in pixels.
    func gap(_ pixels: Int) -> Tag { tag(Shape(gap: pixels)) { [("pixels-above-lines", .int(pixels))] } }

    private func tag(_ shape: Shape, _ properties: () -> [(String, Property)]) -> Tag {
        if let tag = shapes[shape] { return tag }
        let tag = add(properties())
        shapes[shape] = tag
        return tag
    }

    func heading(_ level: Int) -> [Tag] {
        let scale = [1.5, 1.3, 1.15][min(max(level, 1), 3) - 1]
        guard level < 4 else { return [] }
        if let tag = headings[level] { return [tag] }
        let tag = add([("scale", .double(scale))])
        headings[level] = tag
        return [tag]
    }

    /// Returns a tag for one link.
    func makeLink() -> Tag {
        let tag = add([
            ("underline", .int(Int(PANGO_UNDERLINE_SINGLE.rawValue))), ("foreground-rgba", .colour(linkColour)),
        ])
        links.insert(tag)
        return tag
    }

    func forget(_ links: [Tag]) {
        for link in links {
            self.links.remove(link)
            gtk_text_tag_table_remove(table, link)
        }
    }
}
