import CGtk4
import ChappieMarkdown
import ChappieSignInGTK
import FoundationEssentials

/// A writer that draws blocks of Markdown at the end of a text buffer. Text has tags, so that it can be selected and
/// read. Only tables, horizontal lines and the buttons that copy code are widgets.
@MainActor
final class BlockWriter {
    typealias Tag = UnsafeMutablePointer<GtkTextTag>

    private let view: UnsafeMutablePointer<GtkTextView>
    private let buffer: UnsafeMutablePointer<GtkTextBuffer>
    private let tags: TranscriptTags
    /// The browser, which decides whether the desktop may open an address, and asks it to.
    private let browser: ChappieGTKBrowser
    private let open: @MainActor (URL) -> Void

    private var links: [Tag: URL] = [:]
    /// The widgets that are at most as wide as the text, with code that fits one to a width.
    private var wide: [(widget: Widget, fit: @MainActor (_ room: Int) -> Void)] = []
    private var width = 600
    /// The end of the block of code that is still growing.
    private var code: UnsafeMutablePointer<GtkTextMark>?
    /// The starts and ends of all blocks of code.
    private var marks: [UnsafeMutablePointer<GtkTextMark>] = []
    private var codeIsEmpty = true
    private var codeMargin = 0
    private let frames: TextFrames

    init(
        _ view: UnsafeMutablePointer<GtkTextView>, _ browser: ChappieGTKBrowser,
        open: @escaping @MainActor (URL) -> Void
    ) {
        self.view = view
        self.browser = browser
        self.open = open
        buffer = gtk_text_view_get_buffer(view)
        tags = TranscriptTags(view)
        frames = TextFrames(view)
    }

    // MARK: Text

    /// The number of characters in the buffer.
    var end: gint { gtk_text_buffer_get_char_count(buffer) }

    /// Begins a new line, unless one has begun.
    func startLine() {
        var iter = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &iter)
        if gtk_text_iter_starts_line(&iter) == 0 { insert("\n", []) }
    }

    /// Adds text. GTK does not take text with a U+0000.
    func insert(_ text: String, _ tags: [Tag]) {
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        let start = gtk_text_iter_get_offset(&last)
        let text = LongLines.broken(
            text.contains("\0") ? text.replacing("\0", with: "\u{FFFD}") : text,
            after: Int(gtk_text_iter_get_line_offset(&last)))
        gtk_text_buffer_insert(buffer, &last, text, gint(text.utf8.count))
        apply(tags, from: start)
    }

    /// Inserts text about a step at a place inside the buffer.
    func insert(_ text: String, at place: inout GtkTextIter) {
        gtk_text_buffer_insert(buffer, &place, text, gint(text.utf8.count))
        var first = place
        gtk_text_iter_backward_chars(&first, gint(text.unicodeScalars.count))
        gtk_text_buffer_apply_tag(buffer, tags[.dim], &first, &place)
    }

    func tagged(_ names: [TranscriptTags.Name]) -> [Tag] { names.map { tags[$0] } }

    private func apply(_ tags: [Tag], from start: gint) {
        var (first, last) = (GtkTextIter(), GtkTextIter())
        gtk_text_buffer_get_iter_at_offset(buffer, &first, start)
        gtk_text_buffer_get_end_iter(buffer, &last)
        for tag in tags { gtk_text_buffer_apply_tag(buffer, tag, &first, &last) }
    }

    /// Adds a paragraph in one style.
    func paragraph(_ text: String, _ names: [TranscriptTags.Name] = [], above: Int = 8) {
        startLine()
        let start = end
        insert(text, names.map { tags[$0] })
        setGap(above, from: start)
    }

    /// Sets the gap above the first line only.
    private func setGap(_ pixels: Int, from start: gint) {
        var (first, last) = (GtkTextIter(), GtkTextIter())
        gtk_text_buffer_get_iter_at_offset(buffer, &first, start)
        last = first
        if gtk_text_iter_ends_line(&last) == 0 { gtk_text_iter_forward_to_line_end(&last) }
        gtk_text_buffer_apply_tag(buffer, tags.gap(pixels), &first, &last)
    }

    // MARK: Blocks

    func write(_ block: MarkdownBlock, isDim: Bool = false) { write(block, Place(isDim: isDim)) }

    /// The surroundings of a block.
    private struct Place {
        var margin = 0
        var depth = 0
        /// The mark of the list item that begins with the block.
        var head = ""
        var gap = 8
        var isDim = false

        func inside(_ margin: Int, isDim: Bool = false) -> Place {
            Place(margin: self.margin + margin, depth: depth + 1, isDim: self.isDim || isDim)
        }
    }

    private func write(_ block: MarkdownBlock, _ place: Place) {
        switch block {
        case .paragraph(let runs): write(runs, place)
        case .heading(let level, let runs):
            var place = place
            place.gap = 16
            write(runs, place, tags.heading(level))
        case .verbatim(let text): write([MarkdownRun(text: text)], place)
        case .code(let language, let text):
            beginCode(language, margin: place.margin)
            addCode(text)
            endCode()
        case .quote(let blocks):
            startLine()
            let first = mark()
            for block in blocks { write(block, place.inside(20, isDim: true)) }
            frames.add(.quote, from: first, to: mark(), margin: place.margin + 6, gap: 8)
        case .list(let list): write(list, place)
        case .table(let table): write(table, place)
        case .rule:
            guard let line = gtk_separator_new(GTK_ORIENTATION_HORIZONTAL) else { return }
            put(line, place) { gtk_widget_set_size_request(line, gint($0), -1) }
        }
    }

    private func write(_ runs: [MarkdownRun], _ place: Place, _ more: [Tag] = []) {
        startLine()
        let start = end
        let hanging = place.head.isEmpty ? 0 : widthInPixels(of: place.head)
        if !place.head.isEmpty { insert(place.head, []) }
        for run in runs { insert(run.text, tags.style(run.style) + (run.link.flatMap(link).map { [$0] } ?? [])) }
        apply([tags.margin(place.margin, hanging: hanging)] + more + (place.isDim ? [tags[.dim]] : []), from: start)
        setGap(place.gap, from: start)
    }

    private func write(_ list: MarkdownList, _ place: Place) {
        for (index, (head, item)) in zip(list.heads(depth: place.depth), list.items).enumerated() {
            let indent = widthInPixels(of: head)
            var inside = place.inside(indent)
            var first = inside
            first.margin = place.margin
            first.head = head
            first.gap = index == 0 || !list.isTight ? 6 : 2
            inside.gap = 4
            var rest = item.blocks[...]
            // A block that is not text is below the mark of its item.
            if let text = rest.first, text.isText { write(rest.removeFirst(), first) } else { write([], first) }
            for block in rest { write(block, inside) }
        }
    }

    private func widthInPixels(of text: String) -> Int {
        guard
            let layout = gtk_widget_create_pango_layout(
                UnsafeMutableRawPointer(view).assumingMemoryBound(to: GtkWidget.self), text)
        else { return 0 }
        defer { g_object_unref(UnsafeMutableRawPointer(layout)) }
        var (width, height): (gint, gint) = (0, 0)
        pango_layout_get_pixel_size(layout, &width, &height)
        return Int(width)
    }

    // MARK: Code

    /// Begins a block of code with its language and a button that copies it. The lines follow.
    func beginCode(_ language: String, margin: Int = 0) {
        startLine()
        let start = end
        let head = mark()
        // The model may write a language of any length.
        let short = String(language.prefix(24))
        guard let row = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 6), let name = gtk_label_new(short),
            let button = gtk_button_new(), let label = gtk_label_new("Copy code")
        else { return }
        name.setVisible(!language.isEmpty)
        gtk_widget_add_css_class(name, "chappie-detail")
        gtk_button_set_child(button.cast(), label)
        gtk_widget_add_css_class(button, "flat")
        button.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, "Copy code")
        gtk_widget_add_css_class(button, "chappie-copy")
        gtk_box_append(row.cast(), name)
        gtk_box_append(row.cast(), button)
        anchor(row)
        insert("\n", [])
        apply([tags.margin(margin, hanging: 0)], from: start)
        setGap(14, from: start)
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        let first = gtk_text_buffer_create_mark(buffer, nil, &last, 1)
        let final = gtk_text_buffer_create_mark(buffer, nil, &last, 0)
        code = final
        codeIsEmpty = true
        let (buffer, view) = (buffer, view)
        guard let first, let final else { return }
        codeMargin = margin
        frames.add(.code, from: head, to: final, margin: margin, gap: 14)
        ChappieGTKSignal.connect(button, "clicked") {
            var (from, to) = (GtkTextIter(), GtkTextIter())
            gtk_text_buffer_get_iter_at_mark(buffer, &from, first)
            gtk_text_buffer_get_iter_at_mark(buffer, &to, final)
            guard let text = gtk_text_buffer_get_text(buffer, &from, &to, 0) else { return }
            defer { g_free(text) }
            let code = LongLines.joined(String(cString: text))
            gdk_clipboard_set_text(gtk_widget_get_clipboard(OpaquePointer(view).widget), code)
            gtk_label_set_text(label.cast(), "Copied")
            button.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, "Copied")
        }
        marks += [first, final]
    }

    /// Adds lines to the block of code.
    func addCode(_ text: String) {
        insert((codeIsEmpty ? "" : "\n") + text, [tags[.codeBlock], tags.margin(codeMargin, hanging: 0)])
        codeIsEmpty = false
    }

    /// Ends the block of code. The text that follows does not belong to it.
    func endCode() {
        guard let code else { return }
        self.code = nil
        // The mark would move with text that is added at its place.
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        insert("\n", [])
        gtk_text_buffer_get_iter_at_offset(buffer, &last, end - 1)
        gtk_text_buffer_move_mark(buffer, code, &last)
    }

    // MARK: Links

    /// The maximum number of links in a conversation. The time in which GTK removes a tag grows with their number.
    private static let linkLimit = 2000

    /// Returns a tag for an address that the desktop may open, or `nil` for any other address, which stays text.
    private func link(_ address: String) -> Tag? {
        guard links.count < Self.linkLimit, let url = URL(string: address), browser.opens(url) else { return nil }
        let tag = tags.makeLink()
        links[tag] = url
        return tag
    }

    /// Returns the page of the link at this place.
    func url(at iter: GtkTextIter) -> URL? {
        var iter = iter
        var url: URL?
        let list = gtk_text_iter_get_tags(&iter)
        var next = list
        while let node = next {
            if let tag = node.pointee.data?.assumingMemoryBound(to: GtkTextTag.self), let found = links[tag] {
                url = found
            }
            next = node.pointee.next
        }
        g_slist_free(list)
        return url
    }

    // MARK: Widgets

    private func write(_ table: MarkdownTable, _ place: Place) {
        guard table.rows.count * table.alignments.count <= TableGrid.cellLimit else {
            for row in table.rows { write(row.joinedCells, place) }
            return
        }
        let scroller = TableGrid.scroller(TableGrid.make(table, browser, open))
        put(scroller.widget, place, scroller.fit)
    }

    /// Adds a widget on a separate line.
    ///
    /// - Parameter fit: fits the widget to the width of the text.
    func add(_ widget: Widget, _ fit: @escaping @MainActor (_ room: Int) -> Void) { put(widget, Place(), fit) }

    /// Puts a widget on a separate line.
    ///
    /// - Parameter fit: fits the widget to the width of the text.
    private func put(_ widget: Widget, _ place: Place, _ fit: @escaping @MainActor (_ room: Int) -> Void) {
        startLine()
        let start = end
        let margin = place.margin
        let fitted = { @MainActor in fit(max($0 - margin, 40)) }
        wide.append((widget, fitted))
        ChappieGTKSignal.connect(widget, "destroy") { [weak self] in self?.wide.removeAll { $0.widget == widget } }
        anchor(widget)
        fitted(width)
        apply([tags.margin(place.margin, hanging: 0)], from: start)
        setGap(place.gap, from: start)
    }

    /// Adds a button on a separate line.
    func button(_ text: String, _ press: @escaping @MainActor () -> Void) -> Widget? {
        guard let button = gtk_button_new_with_label(text) else { return nil }
        startLine()
        let start = end
        anchor(button)
        setGap(6, from: start)
        ChappieGTKSignal.connect(button, "clicked", press)
        return button
    }

    /// Moves the frames to their text, which GTK has laid out again.
    func followLayout() { frames.placeLater() }

    /// Returns a mark at the end, which stays there when text is added.
    private func mark() -> UnsafeMutablePointer<GtkTextMark> {
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        guard let mark = gtk_text_buffer_create_mark(buffer, nil, &last, 1) else {
            preconditionFailure("GTK has no memory for a mark")
        }
        marks.append(mark)
        return mark
    }

    private func anchor(_ widget: Widget) {
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        let anchor = gtk_text_buffer_create_child_anchor(buffer, &last)
        gtk_text_view_add_child_at_anchor(view, widget, anchor)
    }

    /// Adapts the widgets to a new width of the text.
    func setWidth(_ width: Int) {
        frames.width = width
        frames.placeLater()
        guard width != self.width else { return }
        self.width = width
        for (_, fit) in wide { fit(width) }
    }

    // MARK: Taking away

    func remove(from start: gint) {
        frames.remove(from: start)
        var (first, last) = (GtkTextIter(), GtkTextIter())
        gtk_text_buffer_get_iter_at_offset(buffer, &first, start)
        gtk_text_buffer_get_end_iter(buffer, &last)
        gtk_text_buffer_delete(buffer, &first, &last)
    }

    func clear() {
        frames.remove(from: 0)
        wide = []
        code = nil
        for mark in marks { gtk_text_buffer_delete_mark(buffer, mark) }
        marks = []
        gtk_text_buffer_set_text(buffer, "", 0)
        tags.forget(Array(links.keys))
        links = [:]
    }
}

extension MarkdownBlock {
    fileprivate var isText: Bool {
        switch self {
        case .paragraph, .heading, .verbatim: true
        default: false
        }
    }
}

extension OpaquePointer {
    var widget: Widget { UnsafeMutableRawPointer(self).assumingMemoryBound(to: GtkWidget.self) }
}

extension [[MarkdownRun]] {
    /// The cells of a row in one line.
    fileprivate var joinedCells: [MarkdownRun] {
        Array<[MarkdownRun]>(self).enumerated().flatMap { index, cell in
            (index == 0 ? [] : [MarkdownRun(text: " │ ", style: .dim)]) + cell
        }
    }
}
