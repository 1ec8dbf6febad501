import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// The list of kept conversations next to the current one, with a search. Nothing is read while the list is hidden.
@MainActor
final class ThreadList {
    private let side, search, list, status: Widget
    private var ids: [String] = []
    private var reading: Task<Void, Never>?
    var keeping: Keeping? { didSet { clear() } }

    /// - Parameter open: is called when the user has chosen a conversation.
    init(_ layout: borrowing ChappieGTKLayout, open: @escaping @MainActor (String) -> Void) {
        side = layout["side"]
        search = layout["search"]
        list = layout["threads"]
        status = layout["threads-status"]
        let list = list
        ChappieGTKSignal.connect(list, "row-activated") { [unowned self] in
            guard let row = gtk_list_box_get_selected_row(list.cast()) else { return }
            let index = Int(gtk_list_box_row_get_index(row))
            if ids.indices.contains(index) { open(ids[index]) }
        }
        ChappieGTKSignal.connect(search, "search-changed") { [unowned self] in refresh() }
    }

    var isShown: Bool { gtk_widget_get_visible(side) != 0 }

    func show(_ isShown: Bool) {
        side.setVisible(isShown)
        guard isShown else {
            gtk_editable_set_text(OpaquePointer(search), "")
            return clear()
        }
        refresh()
        gtk_widget_grab_focus(search)
    }

    /// Reads the list again in the background.
    func refresh() {
        guard isShown, let keeping else { return }
        let words = String(cString: gtk_editable_get_text(OpaquePointer(search)))
        reading?.cancel()
        reading = Task {
            let found = await keeping.lines(words)
            guard !Task.isCancelled, isShown, keeping === self.keeping else { return }
            draw(found, keeping, isSearch: !words.isEmpty)
        }
    }

    private func clear() {
        reading?.cancel()
        ids = []
        removeRows()
        gtk_label_set_text(status.cast(), "")
    }

    private func removeRows() {
        while let row = gtk_widget_get_first_child(list) { gtk_list_box_remove(list.cast(), row) }
    }

    private func draw(_ found: KeptLines, _ keeping: Keeping, isSearch: Bool) {
        removeRows()
        ids = found.lines.map(\.id)
        for line in found.lines { gtk_list_box_append(list.cast(), row(line)) }
        var sentences = found.problems
        if found.lines.isEmpty {
            sentences.insert(isSearch ? "No conversation contains these words." : "No conversations yet.", at: 0)
        }
        if found.left > 0 { sentences.insert("\(found.left) older ones: search for their words.", at: 0) }
        if let reason = keeping.reason { sentences.append("These conversations are private. \(reason)") }
        gtk_label_set_text(status.cast(), sentences.joined(separator: "\n"))
        status.setVisible(!sentences.isEmpty)
    }

    private func row(_ line: KeptLines.Line) -> Widget? {
        guard let box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 2), let row = gtk_list_box_row_new() else { return nil }
        for (text, style) in [(line.name, "body"), (line.detail, "caption")] {
            guard let label = gtk_label_new(text) else { continue }
            gtk_label_set_xalign(label.cast(), 0)
            gtk_label_set_ellipsize(label.cast(), PANGO_ELLIPSIZE_END)
            gtk_widget_add_css_class(label, style)
            if style == "caption" { gtk_widget_add_css_class(label, "chappie-detail") }
            gtk_box_append(box.cast(), label)
        }
        gtk_widget_add_css_class(box, "chappie-thread")
        gtk_list_box_row_set_child(row.cast(), box)
        row.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, line.name)
        return row
    }
}
