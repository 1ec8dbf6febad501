import CGtk4
import ChappieSignInGTK

/// The frames of blocks of code, and the bars of quotations. GTK's tags have neither, so these are widgets over the text
/// that take no input. They follow the text whenever GTK has laid it out.
@MainActor
final class TextFrames {
    typealias Mark = UnsafeMutablePointer<GtkTextMark>

    enum Style: String {
        case code = "chappie-code"
        case quote = "chappie-quote"
    }

    private struct Frame {
        let widget: Widget
        let style: Style
        let first, last: Mark
        /// The distances of the text from the column, and of its first line from the block above.
        let margin, gap: Int
    }

    private struct Area: Equatable {
        var x, y, width, height: Int
    }

    private let view: UnsafeMutablePointer<GtkTextView>
    private let buffer: UnsafeMutablePointer<GtkTextBuffer>
    private var frames: [Frame] = []
    /// The widgets of removed frames, which GTK 4.8 can't remove from a text.
    private var unused: [Style: [Widget]] = [:]
    private var isWaiting = false
    private var placed: [Area] = []
    private var placedScroll = 0.0
    /// The width of the column of text.
    var width = 600

    init(_ view: UnsafeMutablePointer<GtkTextView>) {
        self.view = view
        buffer = gtk_text_view_get_buffer(view)
    }

    /// Adds a frame from the line of the first mark to that of the last one.
    func add(_ style: Style, from first: Mark, to last: Mark, margin: Int, gap: Int) {
        guard let widget = unused[style, default: []].popLast() ?? make(style) else { return }
        widget.setVisible(true)
        frames.append(Frame(widget: widget, style: style, first: first, last: last, margin: margin, gap: gap))
        placeLater()
    }

    private func make(_ style: Style) -> Widget? {
        guard let widget = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0) else { return nil }
        gtk_widget_add_css_class(widget, style.rawValue)
        gtk_widget_set_can_target(widget, 0)
        gtk_text_view_add_overlay(view, widget, 0, 0)
        return widget
    }

    /// Moves the frames to their text when GTK has laid out everything.
    func placeLater() {
        guard !isWaiting, !frames.isEmpty else { return }
        isWaiting = true
        MainLoop.whenIdle(for: OpaquePointer(view).widget) { [weak self] in
            self?.isWaiting = false
            self?.place()
        }
    }

    private func place() {
        let left = Int(gtk_text_view_get_left_margin(view))
        let scroll = gtk_adjustment_get_value(gtk_scrollable_get_vadjustment(OpaquePointer(view)))
        let areas = frames.map { frame in
            let (top, _) = rows(frame.first)
            let (lastTop, lastHeight) = rows(frame.last)
            let (x, y, height) = (left + frame.margin, top + frame.gap, lastTop + lastHeight - top - frame.gap)
            return switch frame.style {
            case .code: Area(x: x - 6, y: y - 4, width: width - frame.margin + 12, height: height + 8)
            case .quote: Area(x: x, y: y, width: 3, height: max(height, 1))
            }
        }
        guard areas != placed || scroll != placedScroll else { return }
        placed = areas
        placedScroll = scroll
        for (frame, area) in zip(frames, areas) {
            gtk_widget_set_size_request(frame.widget, gint(area.width), gint(area.height))
            gtk_text_view_move_overlay(view, frame.widget, gint(area.x), gint(area.y))
        }
        // GTK moves them with the text only when it allocates the view.
        gtk_widget_queue_allocate(OpaquePointer(view).widget)
    }

    /// Returns the top and the height of the line with a mark.
    private func rows(_ mark: Mark) -> (top: Int, height: Int) {
        var iter = GtkTextIter()
        gtk_text_buffer_get_iter_at_mark(buffer, &iter, mark)
        var top: gint = 0
        var height: gint = 0
        gtk_text_view_get_line_yrange(view, &iter, &top, &height)
        return (Int(top), Int(height))
    }

    /// Removes the frames of text from this place on.
    func remove(from start: gint) {
        frames.removeAll { frame in
            var iter = GtkTextIter()
            gtk_text_buffer_get_iter_at_mark(buffer, &iter, frame.first)
            guard gtk_text_iter_get_offset(&iter) >= start else { return false }
            frame.widget.setVisible(false)
            unused[frame.style, default: []].append(frame.widget)
            return true
        }
    }
}
