import CGtk4
import ChappieSignInGTK
import FoundationEssentials

/// The links of the conversation. A click opens one, and so does Return when the caret is on it. Tab moves from link to
/// link, and out of the text after the last one.
@MainActor
enum TranscriptLinks {
    /// Lets the user open the links of the text with the mouse and the keyboard.
    ///
    /// - Parameter open: asks the desktop to open a page.
    static func follow(
        _ view: UnsafeMutablePointer<GtkTextView>, _ writer: BlockWriter, _ open: @escaping @MainActor (URL) -> Void
    ) {
        let widget = OpaquePointer(view).widget
        guard let click = gtk_gesture_click_new() else { return }
        gtk_gesture_single_set_button(click, guint(GDK_BUTTON_PRIMARY))
        ChappieGTKSignal.connect(UnsafeMutableRawPointer(click), "released") {
            // The end of a selection does not count as a click.
            guard gtk_text_buffer_get_has_selection(gtk_text_view_get_buffer(view)) == 0 else { return }
            var (x, y) = (0.0, 0.0)
            guard gtk_gesture_get_point(click, nil, &x, &y) != 0, let place = place(view, x, y) else { return }
            if let url = writer.url(at: place) { open(url) }
        }
        gtk_widget_add_controller(widget, click)

        guard let motion = gtk_event_controller_motion_new() else { return }
        var isOverLink = false
        ChappieGTKSignal.connect(UnsafeMutableRawPointer(motion), "motion") {
            guard let event = gtk_event_controller_get_current_event(motion) else { return }
            var (x, y) = (0.0, 0.0)
            guard gdk_event_get_position(event, &x, &y) != 0 else { return }
            let isLink = pointed(widget, x, y).flatMap { place(view, $0.x, $0.y) }.flatMap { writer.url(at: $0) } != nil
            guard isLink != isOverLink else { return }
            isOverLink = isLink
            gtk_widget_set_cursor_from_name(widget, isLink ? "pointer" : "text")
        }
        gtk_widget_add_controller(widget, motion)

        guard let keys = gtk_event_controller_key_new() else { return }
        gtk_event_controller_set_propagation_phase(keys, GTK_PHASE_CAPTURE)
        ChappieGTKSignal.answer(UnsafeMutableRawPointer(keys), "key-pressed") {
            guard let event = gtk_event_controller_get_current_event(keys) else { return false }
            switch Int32(gdk_key_event_get_keyval(event)) {
            case GDK_KEY_Return, GDK_KEY_KP_Enter:
                guard let url = writer.url(at: caret(view)) else { return false }
                open(url)
                return true
            case GDK_KEY_Tab where gdk_event_get_modifier_state(event).rawValue & (1 << 0 | 1 << 2 | 1 << 3) == 0:
                return goToNextLink(view, writer)
            default: return false
            }
        }
        gtk_widget_add_controller(widget, keys)
    }

    /// Returns the place in the text below a point of the widget.
    private static func place(_ view: UnsafeMutablePointer<GtkTextView>, _ x: Double, _ y: Double) -> GtkTextIter? {
        var (column, row): (gint, gint) = (0, 0)
        gtk_text_view_window_to_buffer_coords(view, GTK_TEXT_WINDOW_WIDGET, gint(x), gint(y), &column, &row)
        var place = GtkTextIter()
        return gtk_text_view_get_iter_at_location(view, &place, column, row) != 0 ? place : nil
    }

    /// Returns a point of the window in the widget's coordinates.
    private static func pointed(_ widget: Widget, _ x: Double, _ y: Double) -> (x: Double, y: Double)? {
        guard let native = gtk_widget_get_native(widget) else { return nil }
        var (left, top) = (0.0, 0.0)
        gtk_native_get_surface_transform(native, &left, &top)
        var (inX, inY) = (0.0, 0.0)
        let root = UnsafeMutableRawPointer(native).assumingMemoryBound(to: GtkWidget.self)
        guard gtk_widget_translate_coordinates(root, widget, x - left, y - top, &inX, &inY) != 0 else { return nil }
        return (inX, inY)
    }

    private static func caret(_ view: UnsafeMutablePointer<GtkTextView>) -> GtkTextIter {
        let buffer = gtk_text_view_get_buffer(view)
        var place = GtkTextIter()
        gtk_text_buffer_get_iter_at_mark(buffer, &place, gtk_text_buffer_get_insert(buffer))
        return place
    }

    private static func goToNextLink(_ view: UnsafeMutablePointer<GtkTextView>, _ writer: BlockWriter) -> Bool {
        var place = caret(view)
        let current = writer.url(at: place)
        var hasLeft = current == nil
        while gtk_text_iter_forward_to_tag_toggle(&place, nil) != 0 {
            let url = writer.url(at: place)
            if url == nil { hasLeft = true }
            guard let url, hasLeft || url != current else { continue }
            gtk_text_buffer_place_cursor(gtk_text_view_get_buffer(view), &place)
            gtk_text_view_scroll_to_iter(view, &place, 0.1, 0, 0, 0)
            return true
        }
        return false
    }
}
