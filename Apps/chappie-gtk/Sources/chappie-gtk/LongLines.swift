import CGtk4
import ChappieSignInGTK
import FoundationEssentials

/// The pieces of lines that GTK can't draw as one, because a line would be wider than 2^31 units of Pango before it
/// is broken into rows. The character between two pieces begins a line for GTK, and copies leave it out.
@MainActor
enum LongLines {
    private static let mark = "\u{2029}"
    /// The length from which a line is broken at the next space, in characters. Without a space, it is broken at twice
    /// this length.
    private static let limit = 8000

    /// Returns text that follows `used` characters of a line, with long lines in pieces.
    static func broken(_ text: String, after used: Int) -> String {
        guard used + text.utf8.count > limit else { return text }
        var output = ""
        var length = used
        for character in text {
            output.append(character)
            length = character.isNewline ? 0 : length + 1
            guard length > limit, character == " " || length > 2 * limit else { continue }
            output += mark
            length = 0
        }
        return output
    }

    /// Breaks the long lines of text that the user has entered.
    static func breakLines(of buffer: UnsafeMutablePointer<GtkTextBuffer>) {
        var line = GtkTextIter()
        gtk_text_buffer_get_start_iter(buffer, &line)
        repeat {
            while gtk_text_iter_get_chars_in_line(&line) > gint(2 * limit) {
                gtk_text_iter_set_line_offset(&line, gint(limit))
                // The iterator is then at the next piece.
                gtk_text_buffer_insert(buffer, &line, mark, -1)
            }
        } while gtk_text_iter_forward_line(&line) != 0
    }

    /// Whether a text of this size may have lines that are too long.
    static func mayOccur(in buffer: UnsafeMutablePointer<GtkTextBuffer>) -> Bool {
        gtk_text_buffer_get_char_count(buffer) > gint(2 * limit)
    }

    static func joined(_ text: String) -> String { text.replacing(mark, with: "") }

    /// Lets the user copy text without the breaks.
    static func leaveOutOfCopies(of view: UnsafeMutablePointer<GtkTextView>) {
        let buffer = gtk_text_view_get_buffer(view)
        ChappieGTKSignal.connect(view, "copy-clipboard") {
            var (first, last) = (GtkTextIter(), GtkTextIter())
            guard gtk_text_buffer_get_selection_bounds(buffer, &first, &last) != 0,
                let text = gtk_text_buffer_get_text(buffer, &first, &last, 0)
            else { return }
            defer { g_free(text) }
            let copied = String(cString: text)
            guard copied.contains(mark) else { return }
            gdk_clipboard_set_text(gtk_widget_get_clipboard(OpaquePointer(view).widget), joined(copied))
            g_signal_stop_emission_by_name(view, "copy-clipboard")
        }
    }
}
