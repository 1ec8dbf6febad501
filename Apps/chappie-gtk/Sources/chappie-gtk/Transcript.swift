import CGtk4

/// What was said, as text that can be selected. A piece of an answer is put at its end; GTK lays out the last paragraph anew.
@MainActor
final class Transcript {
    private let view: UnsafeMutablePointer<GtkTextView>
    private let buffer: UnsafeMutablePointer<GtkTextBuffer>
    private let end: UnsafeMutablePointer<GtkTextMark>
    private let scroll: UnsafeMutablePointer<GtkAdjustment>
    private var position = 0.0
    /// The end stays in sight until the user scrolls up to read.
    private var followsEnd = true

    init(_ view: UnsafeMutablePointer<GtkTextView>, in scroller: OpaquePointer) {
        (self.view, buffer) = (view, gtk_text_view_get_buffer(view))
        scroll = gtk_scrolled_window_get_vadjustment(scroller)
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        end = gtk_text_buffer_create_mark(buffer, nil, &last, 0)
    }

    /// Begins what `name` says.
    func begin(_ name: String) {
        followsEnd = true
        let isFirst = gtk_text_buffer_get_char_count(buffer) == 0
        append((isFirst ? "" : "\n") + name, tag: "speaker")
        append("\n")
    }

    func append(_ text: String, tag: String? = nil) {
        noticeScrolling()
        var (first, last) = (GtkTextIter(), GtkTextIter())
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
        gtk_text_buffer_set_text(buffer, "", 0)
        position = 0
    }

    /// Text that grows moves the view down: up is the user.
    private func noticeScrolling() {
        let value = gtk_adjustment_get_value(scroll)
        if value < position - 1 { followsEnd = false }
        if value + gtk_adjustment_get_page_size(scroll) >= gtk_adjustment_get_upper(scroll) - 1 { followsEnd = true }
        position = value
    }
}
