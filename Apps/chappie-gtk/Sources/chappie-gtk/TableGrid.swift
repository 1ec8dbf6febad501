import CGtk4
import ChappieMarkdown
import ChappieSignInGTK
import FoundationEssentials

/// A table as a grid of labels.
@MainActor
enum TableGrid {
    /// The maximum number of cells in a grid. A larger table is drawn as text because each label costs time and memory.
    static let cellLimit = 400

    /// Returns the grid of a table.
    ///
    /// - Parameter open: asks the desktop to open a page.
    static func make(
        _ table: MarkdownTable, _ browser: ChappieGTKBrowser, _ open: @escaping @MainActor (URL) -> Void
    ) -> Widget {
        guard let grid = gtk_grid_new() else { preconditionFailure("GTK has no memory for a grid") }
        gtk_grid_set_column_spacing(grid.cast(), 18)
        gtk_grid_set_row_spacing(grid.cast(), 6)
        gtk_widget_add_css_class(grid, "chappie-table")
        for (number, row) in table.rows.enumerated() {
            for (column, alignment) in table.alignments.enumerated() {
                let label = label(column < row.count ? row[column] : [], alignment, browser, open)
                gtk_grid_attach(grid.cast(), label, gint(column), gint(number == 0 ? 0 : number + 1), 1, 1)
            }
        }
        if let line = gtk_separator_new(GTK_ORIENTATION_HORIZONTAL) {
            gtk_grid_attach(grid.cast(), line, 0, 1, gint(max(table.alignments.count, 1)), 1)
        }
        return grid
    }

    /// Returns a part that scrolls the grid if its columns do not fit, and code that fits it to a width. GTK reserves no
    /// room for a scroll bar that it may need, and measures the rows at the least width of the columns.
    static func scroller(_ grid: Widget) -> (widget: Widget, fit: @MainActor (_ room: Int) -> Void) {
        guard let scroller = gtk_scrolled_window_new() else { preconditionFailure("GTK has no memory for a table") }
        gtk_scrolled_window_set_overlay_scrolling(scroller.cast(), 0)
        gtk_scrolled_window_set_child(scroller.cast(), grid)
        return (
            scroller,
            { room in
                var least: gint = 0
                var natural: gint = 0
                var height: gint = 0
                var bar: gint = 0
                gtk_widget_measure(grid, GTK_ORIENTATION_HORIZONTAL, -1, &least, &natural, nil, nil)
                let width = min(natural, gint(room))
                gtk_widget_measure(grid, GTK_ORIENTATION_VERTICAL, max(width, least), nil, &height, nil, nil)
                let policy = least > width ? GTK_POLICY_ALWAYS : GTK_POLICY_NEVER
                gtk_scrolled_window_set_policy(scroller.cast(), policy, GTK_POLICY_NEVER)
                if least > width {
                    let scrollbar = gtk_scrolled_window_get_hscrollbar(scroller.cast())
                    gtk_widget_measure(scrollbar, GTK_ORIENTATION_VERTICAL, -1, nil, &bar, nil, nil)
                }
                gtk_widget_set_size_request(scroller, width, height + bar)
            }
        )
    }

    private static func label(
        _ runs: [MarkdownRun], _ alignment: MarkdownTable.Alignment, _ browser: ChappieGTKBrowser,
        _ open: @escaping @MainActor (URL) -> Void
    ) -> Widget {
        guard let label = gtk_label_new(nil) else { preconditionFailure("GTK has no memory for a label") }
        gtk_label_set_markup(label.cast(), markup(runs, browser))
        gtk_label_set_wrap(label.cast(), 1)
        gtk_label_set_max_width_chars(label.cast(), 36)
        gtk_label_set_width_chars(label.cast(), gint(min(runs.reduce(0) { $0 + $1.text.count }, 24)))
        gtk_label_set_xalign(label.cast(), alignment == .left ? 0 : alignment == .right ? 1 : 0.5)
        gtk_widget_set_valign(label, GTK_ALIGN_START)
        ChappieGTKSignal.answer(label, "activate-link") {
            let address = gtk_label_get_current_uri(label.cast()).map { String(cString: $0) }
            if let url = address.flatMap({ URL(string: $0) }) { open(url) }
            // GTK would otherwise open the address itself.
            return true
        }
        return label
    }

    private static func markup(_ runs: [MarkdownRun], _ browser: ChappieGTKBrowser) -> String {
        runs.map { run in
            var text = escaped(run.text)
            for (style, mark) in [(MarkdownStyle.bold, "b"), (.italic, "i"), (.strike, "s"), (.code, "tt")]
            where run.style.contains(style) {
                text = "<\(mark)>\(text)</\(mark)>"
            }
            guard let link = run.link, let url = URL(string: link), browser.opens(url) else { return text }
            return "<a href=\"\(escaped(link))\">\(text)</a>"
        }.joined()
    }

    private static func escaped(_ text: String) -> String {
        guard let escaped = g_markup_escape_text(text, gssize(text.utf8.count)) else { return "" }
        defer { g_free(escaped) }
        return String(cString: escaped)
    }
}
