import CGtk4
import ChappieSignInGTK

/// The widths of the window's parts. In a wide window the text stays in a column of a readable width. In a narrow
/// window the list of conversations is above the conversation.
@MainActor
final class Columns {
    private let window, parts, side, bar: Widget
    private let view: UnsafeMutablePointer<GtkTextView>
    private let transcript: TranscriptView
    private let adjustment: UnsafeMutablePointer<GtkAdjustment>
    private var isWaiting = false

    init(_ layout: borrowing ChappieGTKLayout, _ view: UnsafeMutablePointer<GtkTextView>, _ transcript: TranscriptView)
    {
        window = layout["window"]
        parts = layout["parts"]
        side = layout["side"]
        bar = layout["bar"]
        self.view = view
        self.transcript = transcript
        adjustment = gtk_scrolled_window_get_hadjustment(layout["scroller"].cast())
        ChappieGTKSignal.connect(adjustment, "notify::page-size") { [weak self] in self?.fitLater() }
        ChappieGTKSignal.connect(window, "realize") { [unowned self] in
            guard let surface = gtk_native_get_surface(window.cast()) else { return }
            ChappieGTKSignal.connect(UnsafeMutableRawPointer(surface), "notify::width") { [weak self] in
                self?.fitLater()
            }
            fit()
        }
    }

    private var width: Int {
        guard let surface = gtk_native_get_surface(window.cast()) else { return 680 }
        return Int(gdk_surface_get_width(surface))
    }

    var isNarrow: Bool { width < 620 }

    /// Changes the widths before the next frame. A new width arrives during GTK's layout, in which the window must not
    /// change.
    private func fitLater() {
        guard !isWaiting else { return }
        isWaiting = true
        gtk_widget_add_tick_callback(
            window,
            { _, _, data in
                guard let data else { return 0 }
                let columns = Unmanaged<Columns>.fromOpaque(data).takeUnretainedValue()
                MainActor.assumeIsolated {
                    columns.isWaiting = false
                    columns.fit()
                }
                return 0
            }, Unmanaged.passRetained(self).toOpaque(), { $0.map { Unmanaged<Columns>.fromOpaque($0).release() } })
    }

    func fit() {
        let isNarrow = isNarrow
        gtk_orientable_set_orientation(
            OpaquePointer(parts), isNarrow ? GTK_ORIENTATION_VERTICAL : GTK_ORIENTATION_HORIZONTAL)
        gtk_widget_set_size_request(side, isNarrow ? -1 : 260, isNarrow ? 230 : -1)
        gtk_widget_set_vexpand(side, isNarrow ? 0 : 1)
        gtk_widget_set_hexpand(side, isNarrow ? 1 : 0)
        if isNarrow {
            gtk_widget_add_css_class(side, "chappie-above")
        } else {
            gtk_widget_remove_css_class(side, "chappie-above")
        }
        // Before the first layout nothing has a width.
        let room = Int(gtk_adjustment_get_page_size(adjustment))
        guard room > 0 else { return }
        let margin = max(isNarrow ? 16 : 24, (room - 720) / 2)
        gtk_text_view_set_left_margin(view, gint(margin))
        gtk_text_view_set_right_margin(view, gint(margin))
        gtk_widget_set_margin_start(bar, gint(margin))
        gtk_widget_set_margin_end(bar, gint(margin))
        transcript.setWidth(room - 2 * margin)
    }
}
