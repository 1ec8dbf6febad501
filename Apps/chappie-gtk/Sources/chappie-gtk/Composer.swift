import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// The area in which the user writes. Return sends, Shift+Return begins a line, and files that are dropped on the
/// conversation are attached.
@MainActor
final class Composer {
    let attachments: Attachments
    private let entry, hint, search, draw: Widget
    private let buffer: UnsafeMutablePointer<GtkTextBuffer>

    /// - Parameters:
    ///   - send: is called when the user presses Return.
    ///   - refuse: shows the user why a file cannot be attached.
    init(
        _ layout: borrowing ChappieGTKLayout, send: @escaping @MainActor () -> Void,
        refuse: @escaping @MainActor (any ChappieError) -> Void
    ) {
        let (entry, hint) = (layout["entry"], layout["hint"])
        self.entry = entry
        self.hint = hint
        search = layout["search-web"]
        draw = layout["draw"]
        attachments = Attachments(layout["attachments"], refuse: refuse)
        buffer = gtk_text_view_get_buffer(entry.cast())
        let buffer = buffer
        ChappieGTKSignal.connect(UnsafeMutableRawPointer(buffer), "changed") {
            hint.setVisible(gtk_text_buffer_get_char_count(buffer) == 0)
            // The buffer must not change while it reports a change.
            if LongLines.mayOccur(in: buffer) { Task { LongLines.breakLines(of: buffer) } }
        }
        LongLines.leaveOutOfCopies(of: entry.cast())
        takeKeys(send)
        takePictures()
        takeFiles(on: layout["window"], while: layout["chat"], refuse)
        // The entry grows after GTK has scrolled to the caret, which must stay visible, with no empty rows below it.
        guard let scroll = gtk_scrollable_get_vadjustment(OpaquePointer(entry)) else { return }
        ChappieGTKSignal.connect(scroll, "changed") {
            MainLoop.whenIdle(for: entry) {
                gtk_text_view_scroll_mark_onscreen(entry.cast(), gtk_text_buffer_get_insert(buffer))
            }
        }
        ChappieGTKSignal.connect(scroll, "value-changed") {
            MainLoop.whenIdle(for: entry) {
                // With GTK 4.8 the view may still scroll by the height that it had before it grew.
                let isStale = gint(gtk_adjustment_get_page_size(scroll)) != gtk_widget_get_height(entry)
                if isStale { gtk_widget_queue_resize(entry) }
            }
        }
    }

    var draft: String {
        get {
            var (first, last) = (GtkTextIter(), GtkTextIter())
            gtk_text_buffer_get_bounds(buffer, &first, &last)
            guard let text = gtk_text_buffer_get_text(buffer, &first, &last, 0) else { return "" }
            defer { g_free(text) }
            return LongLines.joined(String(cString: text))
        }
        set { gtk_text_buffer_set_text(buffer, newValue, gint(newValue.utf8.count)) }
    }

    /// The service's tools that the user has switched on.
    var serviceTools: [ChappieServiceTool] {
        let switches: [(Widget, ChappieServiceTool)] = [(search, .webSearch()), (draw, .imageGeneration())]
        return switches.filter { gtk_toggle_button_get_active($0.0.cast()) != 0 }.map(\.1)
    }

    func focus() { if gtk_widget_get_mapped(entry) != 0 { gtk_widget_grab_focus(entry) } }

    private func takeKeys(_ send: @escaping @MainActor () -> Void) {
        guard let keys = gtk_event_controller_key_new() else { return }
        let entry = entry
        gtk_event_controller_set_propagation_phase(keys, GTK_PHASE_CAPTURE)
        ChappieGTKSignal.answer(UnsafeMutableRawPointer(keys), "key-pressed") {
            guard let event = gtk_event_controller_get_current_event(keys),
                [GDK_KEY_Return, GDK_KEY_KP_Enter, GDK_KEY_ISO_Enter].contains(
                    Int32(gdk_key_event_get_keyval(event))),
                // Shift, Control, Alt
                gdk_event_get_modifier_state(event).rawValue & (1 << 0 | 1 << 2 | 1 << 3) == 0
            else { return false }
            // An input method uses Return for the word that it is composing.
            if gtk_text_view_im_context_filter_keypress(entry.cast(), event) == 0 { send() }
            return true
        }
        gtk_widget_add_controller(entry, keys)
    }

    /// Attaches a picture that the user pastes.
    private func takePictures() {
        let entry = entry
        ChappieGTKSignal.connect(entry, "paste-clipboard") { [unowned self] in
            let clipboard = gtk_widget_get_clipboard(entry)
            let formats = gdk_clipboard_get_formats(clipboard)
            // G_TYPE_STRING
            guard gdk_content_formats_contain_gtype(formats, GType(16 << 2)) == 0,
                gdk_content_formats_contain_gtype(formats, gdk_texture_get_type()) != 0
            else { return }
            g_signal_stop_emission_by_name(entry, "paste-clipboard")
            gdk_clipboard_read_texture_async(
                clipboard, nil,
                { clipboard, result, data in
                    guard let data else { return }
                    let attachments = Unmanaged<Attachments>.fromOpaque(data).takeRetainedValue()
                    guard let texture = gdk_clipboard_read_texture_finish(OpaquePointer(clipboard), result, nil)
                    else { return }
                    defer { g_object_unref(UnsafeMutableRawPointer(texture)) }
                    guard let bytes = gdk_texture_save_to_png_bytes(texture) else { return }
                    defer { g_bytes_unref(bytes) }
                    var count: gsize = 0
                    let start = g_bytes_get_data(bytes, &count)
                    let picture = Array(UnsafeRawBufferPointer(start: start, count: Int(count)))
                    MainActor.assumeIsolated { attachments.add(picture) }
                }, Unmanaged.passRetained(attachments).toOpaque())
        }
    }

    /// Lets the user type a message while the conversation has the focus.
    func takeTyping(from view: Widget) {
        guard let keys = gtk_event_controller_key_new() else { return }
        let entry = entry
        gtk_event_controller_set_propagation_phase(keys, GTK_PHASE_CAPTURE)
        ChappieGTKSignal.answer(UnsafeMutableRawPointer(keys), "key-pressed") { [unowned self] in
            guard let event = gtk_event_controller_get_current_event(keys) else { return false }
            let key = gdk_key_event_get_keyval(event)
            // Control, Alt, Super
            let modifiers = gdk_event_get_modifier_state(event).rawValue & (1 << 2 | 1 << 3 | 1 << 26)
            if modifiers == 1 << 2, key == guint(GDK_KEY_v) {
                focus()
                return gtk_widget_activate_action_variant(entry, "clipboard.paste", nil) != 0
            }
            let character = gdk_keyval_to_unicode(key)
            guard modifiers == 0, character >= 0x20, character != 0x7F else { return false }
            focus()
            return gtk_event_controller_key_forward(keys, entry) != 0
        }
        gtk_widget_add_controller(view, keys)
    }

    private func takeFiles(
        on window: Widget, while page: Widget, _ refuse: @escaping @MainActor (any ChappieError) -> Void
    ) {
        guard let target = gtk_drop_target_new(gdk_file_list_get_type(), GDK_ACTION_COPY) else { return }
        // This target comes before the target of the text view, which would insert the addresses.
        gtk_event_controller_set_propagation_phase(target, GTK_PHASE_CAPTURE)
        ChappieGTKSignal.answer(UnsafeMutableRawPointer(target), "drop") { [unowned self] in
            guard gtk_widget_get_visible(page) != 0, let value = gtk_drop_target_get_value(target),
                let list = g_value_get_boxed(value)
            else {
                return false
            }
            let files = gdk_file_list_get_files(OpaquePointer(list))
            defer { g_slist_free(files) }
            var paths: [String] = []
            var next = files
            while let node = next {
                next = node.pointee.next
                guard let file = node.pointee.data, let path = g_file_get_path(OpaquePointer(file)) else {
                    refuse(WindowError("Only a file on this machine can be attached.", "Copy it here."))
                    continue
                }
                paths.append(String(cString: path))
                g_free(path)
            }
            attachments.add(paths)
            focus()
            return true
        }
        gtk_widget_add_controller(window, target)
    }
}
