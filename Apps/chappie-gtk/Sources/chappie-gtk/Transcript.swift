import CGtk4

/// The conversation, as text that can be selected. The pieces of an answer are added together, once a frame: for each
/// piece, GTK would go through the whole last paragraph.
@MainActor
final class Transcript {
    private let view: UnsafeMutablePointer<GtkTextView>
    private let buffer: UnsafeMutablePointer<GtkTextBuffer>
    private let end: UnsafeMutablePointer<GtkTextMark>
    private let scroll: UnsafeMutablePointer<GtkAdjustment>
    private var gathered = ""
    private var position = 0.0
    private var height = 0.0
    private var page = 0.0
    /// Whether the end stays visible, which it does until the user scrolls up to read.
    private var followsEnd = true

    init(_ view: UnsafeMutablePointer<GtkTextView>, in scroller: OpaquePointer) {
        self.view = view
        buffer = gtk_text_view_get_buffer(view)
        scroll = gtk_scrolled_window_get_vadjustment(scroller)
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        end = gtk_text_buffer_create_mark(buffer, nil, &last, 0)
    }

    /// Begins a message of `name`.
    func begin(_ name: String) {
        insertGathered()
        followsEnd = true
        let isFirst = gtk_text_buffer_get_char_count(buffer) == 0
        insert((isFirst ? "" : "\n") + name, tag: "speaker")
        insert("\n")
    }

    /// Adds text, which shows with the next frame.
    func append(_ text: String) {
        let isWaiting = !gathered.isEmpty
        gathered += text
        guard !isWaiting else { return }
        // GTK releases the transcript after the frame, or with the widget.
        gtk_widget_add_tick_callback(
            UnsafeMutableRawPointer(view).assumingMemoryBound(to: GtkWidget.self),
            { _, _, data in
                guard let data else { return 0 }
                let transcript = Unmanaged<Transcript>.fromOpaque(data).takeUnretainedValue()
                MainActor.assumeIsolated { transcript.insertGathered() }
                return 0
            }, Unmanaged.passRetained(self).toOpaque(), { $0.map { Unmanaged<Transcript>.fromOpaque($0).release() } })
    }

    private func insertGathered() {
        guard !gathered.isEmpty else { return }
        noticeScrolling()
        // GTK does not take text with a U+0000.
        insert(gathered.replacing("\0", with: "\u{FFFD}"))
        gathered = ""
    }

    private func insert(_ text: String, tag: String? = nil) {
        var first = GtkTextIter()
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        let start = gtk_text_iter_get_offset(&last)
        gtk_text_buffer_insert(buffer, &last, text, gint(text.utf8.count))
        if let tag {
            gtk_text_buffer_get_iter_at_offset(buffer, &first, start)
            gtk_text_buffer_apply_tag_by_name(buffer, tag, &first, &last)
        }
        if followsEnd { gtk_text_view_scroll_mark_onscreen(view, end) }
    }

    func clear() {
        gathered = ""
        gtk_text_buffer_set_text(buffer, "", 0)
    }

    /// Notices whether the user has scrolled. Growing text moves the view down. If the view moved up, the user did it,
    /// unless the window has grown: then more text fits into it, or less text is above.
    private func noticeScrolling() {
        let before = (position, height, page)
        position = gtk_adjustment_get_value(scroll)
        height = gtk_adjustment_get_upper(scroll)
        page = gtk_adjustment_get_page_size(scroll)
        if position < before.0 - 1, height >= before.1, page == before.2 { followsEnd = false }
        if position + page >= height - 1 { followsEnd = true }
    }
}
