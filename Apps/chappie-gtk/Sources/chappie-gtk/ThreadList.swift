import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// The list of kept conversations next to the current one, with a search. Nothing is read while the list is hidden.
@MainActor
final class ThreadList {
    private let side, search, list, status, archived, notice, noticeText, undo: Widget
    private var lines: [KeptLines.Line] = []
    private var reading: Task<Void, Never>?
    /// Takes back the change that the notice reports.
    private var takeBack: (@MainActor () -> Void)?
    private let openMenu: @MainActor (KeptLines.Line, Widget, (x: Double, y: Double)) -> Void
    var keeping: Keeping? { didSet { clear() } }

    /// - Parameters:
    ///   - open: is called when the user has chosen a conversation.
    ///   - openMenu: is called when the user asks for the menu of a conversation, at a place in its row.
    init(
        _ layout: borrowing ChappieGTKLayout, open: @escaping @MainActor (String) -> Void,
        openMenu: @escaping @MainActor (KeptLines.Line, Widget, (x: Double, y: Double)) -> Void
    ) {
        side = layout["side"]
        search = layout["search"]
        list = layout["threads"]
        status = layout["threads-status"]
        archived = layout["show-archived"]
        notice = layout["threads-notice"]
        noticeText = layout["threads-notice-text"]
        undo = layout["threads-undo"]
        self.openMenu = openMenu
        let list = list
        ChappieGTKSignal.connect(list, "row-activated") { [unowned self] in
            guard let row = gtk_list_box_get_selected_row(list.cast()) else { return }
            let index = Int(gtk_list_box_row_get_index(row))
            if lines.indices.contains(index) { open(lines[index].id) }
        }
        ChappieGTKSignal.connect(archived, "toggled") { [unowned self] in refresh() }
        ChappieGTKSignal.connect(undo, "clicked") { [unowned self] in takeBack?() }
        takeKeys()
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
            let includesArchived = gtk_check_button_get_active(archived.cast()) != 0
            let found = try? await keeping.use {
                await KeptLines.read($0, words, includesArchived: includesArchived)
            }
            guard let found else { return }
            guard !Task.isCancelled, isShown, keeping === self.keeping else { return }
            draw(found, keeping, isSearch: !words.isEmpty)
        }
    }

    private func clear() {
        reading?.cancel()
        lines = []
        removeRows()
        gtk_label_set_text(status.cast(), "")
        note(nil)
    }

    private func removeRows() {
        while let row = gtk_widget_get_first_child(list) { gtk_list_box_remove(list.cast(), row) }
    }

    private func draw(_ found: KeptLines, _ keeping: Keeping, isSearch: Bool) {
        removeRows()
        lines = found.lines
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

    private func row(_ kept: KeptLines.Line) -> Widget? {
        guard let box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 2), let row = gtk_list_box_row_new(),
            let line = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 4),
            let button = gtk_button_new_from_icon_name("view-more-symbolic"), let click = gtk_gesture_click_new()
        else { return nil }
        for (text, style) in [(kept.name, "body"), (kept.detail, "caption")] {
            guard let label = gtk_label_new(text) else { continue }
            gtk_label_set_xalign(label.cast(), 0)
            gtk_label_set_ellipsize(label.cast(), PANGO_ELLIPSIZE_END)
            gtk_widget_add_css_class(label, style)
            if style == "caption" { gtk_widget_add_css_class(label, "chappie-detail") }
            gtk_box_append(box.cast(), label)
        }
        gtk_widget_add_css_class(line, "chappie-thread")
        if kept.isArchived { gtk_widget_add_css_class(box, "chappie-detail") }
        gtk_widget_set_hexpand(box, 1)
        gtk_widget_add_css_class(button, "flat")
        gtk_widget_set_valign(button, GTK_ALIGN_CENTER)
        gtk_widget_set_tooltip_text(button, "Rename, archive, export or delete")
        button.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, "Menu of \(kept.name)")
        gtk_box_append(line.cast(), box)
        gtk_box_append(line.cast(), button)
        gtk_list_box_row_set_child(row.cast(), line)
        row.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, kept.name)
        let openMenu = openMenu
        ChappieGTKSignal.connect(button, "clicked") {
            openMenu(kept, button, (Double(gtk_widget_get_width(button)) / 2, Double(gtk_widget_get_height(button))))
        }
        gtk_gesture_single_set_button(click, guint(GDK_BUTTON_SECONDARY))
        ChappieGTKSignal.connect(UnsafeMutableRawPointer(click), "pressed") {
            var place = (x: 0.0, y: 0.0)
            gtk_gesture_get_point(click, nil, &place.x, &place.y)
            openMenu(kept, row, place)
        }
        gtk_widget_add_controller(row, click)
        return row
    }

    /// Opens the menu of the row that has the focus with the keys of a desktop.
    private func takeKeys() {
        guard let keys = gtk_event_controller_key_new() else { return }
        ChappieGTKSignal.answer(UnsafeMutableRawPointer(keys), "key-pressed") { [unowned self] in
            guard let event = gtk_event_controller_get_current_event(keys),
                let row = gtk_widget_get_focus_child(list)
            else { return false }
            let isShifted = gdk_event_get_modifier_state(event).rawValue & 1 != 0
            let key = Int32(gdk_key_event_get_keyval(event))
            let index = Int(gtk_list_box_row_get_index(row.cast()))
            guard key == GDK_KEY_Menu || key == GDK_KEY_F10 && isShifted, lines.indices.contains(index) else {
                return false
            }
            openMenu(lines[index], row, (24, Double(gtk_widget_get_height(row))))
            return true
        }
        gtk_widget_add_controller(list, keys)
    }

    /// Shows a sentence about the last change below the list, or hides it.
    ///
    /// - Parameter takeBack: takes the change back, or `nil` if that is not possible.
    func note(_ sentence: String?, _ takeBack: (@MainActor () -> Void)? = nil) {
        self.takeBack = takeBack
        gtk_label_set_text(noticeText.cast(), sentence ?? "")
        undo.setVisible(takeBack != nil)
        notice.setVisible(sentence != nil)
    }
}
