import CGtk4
import ChappieSignInGTK

/// The widths of the window's parts: in a wide window the text stays in a column of a readable width, and in a narrow one
/// the list of conversations takes the place of the conversation.
@MainActor
final class Columns {
    private let window, side, conversation, bar: Widget
    private let view: UnsafeMutablePointer<GtkTextView>
    private let transcript: Transcript

    init(_ layout: borrowing ChappieGTKLayout, _ view: UnsafeMutablePointer<GtkTextView>, _ transcript: Transcript) {
        window = layout["window"]
        side = layout["side"]
        conversation = layout["conversation"]
        bar = layout["bar"]
        self.view = view
        self.transcript = transcript
        ChappieGTKSignal.connect(window, "realize") { [unowned self] in
            guard let surface = gtk_native_get_surface(window.cast()) else { return }
            ChappieGTKSignal.connect(UnsafeMutableRawPointer(surface), "notify::width") { [weak self] in self?.fit() }
            fit()
        }
    }

    private var width: Int {
        guard let surface = gtk_native_get_surface(window.cast()) else { return 680 }
        return Int(gdk_surface_get_width(surface))
    }

    var isNarrow: Bool { width < 620 }

    func fit() {
        let hasSide = gtk_widget_get_visible(side) != 0
        conversation.setVisible(!(hasSide && isNarrow))
        gtk_widget_set_hexpand(side, hasSide && isNarrow ? 1 : 0)
        let room = width - (hasSide && !isNarrow ? 260 : 0)
        let margin = max(isNarrow ? 16 : 24, (room - 720) / 2)
        gtk_text_view_set_left_margin(view, gint(margin))
        gtk_text_view_set_right_margin(view, gint(margin))
        gtk_widget_set_margin_start(bar, gint(margin))
        gtk_widget_set_margin_end(bar, gint(margin))
        transcript.setWidth(room - 2 * margin)
    }
}
