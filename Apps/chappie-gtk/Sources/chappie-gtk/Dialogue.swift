import CGtk4
import ChappieSignInGTK

/// The dialogues of GTK over the window, as functions that return the user's answer.
@MainActor
enum Dialogue {
    /// Asks a question.
    ///
    /// - Parameters:
    ///   - button: The label of the button that means yes.
    ///   - entry: The text that the user can change, or `nil` if the question needs none. Default `nil`.
    ///   - isDestructive: Whether Return means no. Default `false`.
    /// - Returns: The text of the entry, or `nil` if the user has not agreed.
    static func ask(
        _ question: String, _ details: String, button: String, entry text: String? = nil, isDestructive: Bool = false,
        over parent: Widget
    ) async -> String? {
        let layout = ChappieGTKLayout(
            """
            <interface><object class="GtkMessageDialog" id="dialogue"><property name="message-type">question</property>
              <property name="modal">1</property><property name="destroy-with-parent">1</property></object>
              <object class="GtkEntry" id="entry"><property name="activates-default">1</property></object></interface>
            """)
        let (dialogue, entry) = (layout["dialogue"], layout["entry"])
        Property.string(question).set("text", of: dialogue)
        Property.string(details).set("secondary-text", of: dialogue)
        gtk_window_set_title(dialogue.cast(), question)
        gtk_window_set_transient_for(dialogue.cast(), parent.cast())
        // A screen reader reads the name of a button twice that `gtk_dialog_add_button` makes with GTK 4.8.
        for (label, response) in [("Cancel", GTK_RESPONSE_CANCEL), (button, GTK_RESPONSE_ACCEPT)] {
            guard let widget = gtk_button_new_with_label(label) else { continue }
            gtk_dialog_add_action_widget(dialogue.cast(), widget, response.rawValue)
            guard response == GTK_RESPONSE_ACCEPT else { continue }
            gtk_widget_add_css_class(widget, isDestructive ? "destructive-action" : "suggested-action")
        }
        let usual = isDestructive ? GTK_RESPONSE_CANCEL : GTK_RESPONSE_ACCEPT
        gtk_dialog_set_default_response(dialogue.cast(), usual.rawValue)
        if let text {
            gtk_editable_set_text(OpaquePointer(entry), text)
            entry.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, question)
            gtk_box_append(gtk_message_dialog_get_message_area(dialogue.cast()).cast(), entry)
            gtk_widget_grab_focus(entry)
        }
        let response = await response(of: dialogue) { gtk_window_present(dialogue.cast()) }
        // A dialogue that was destroyed with its window has no entry.
        guard response != GTK_RESPONSE_NONE.rawValue else { return nil }
        defer { gtk_window_destroy(dialogue.cast()) }
        guard response == GTK_RESPONSE_ACCEPT.rawValue else { return nil }
        return text == nil ? "" : String(cString: gtk_editable_get_text(OpaquePointer(entry)))
    }

    /// Lets the user choose files.
    ///
    /// - Parameters:
    ///   - saving: The name for a new file, or `nil` to choose existing files.
    /// - Returns: The paths, which are empty if the user has chosen none.
    static func chooseFiles(_ title: String, saving name: String? = nil, over parent: Widget) async -> [String] {
        let action = name == nil ? GTK_FILE_CHOOSER_ACTION_OPEN : GTK_FILE_CHOOSER_ACTION_SAVE
        let button = name == nil ? "Attach" : "Save"
        guard let chooser = gtk_file_chooser_native_new(title, parent.cast(), action, button, "Cancel") else {
            return []
        }
        defer { g_object_unref(UnsafeMutableRawPointer(chooser)) }
        let native = UnsafeMutableRawPointer(chooser).assumingMemoryBound(to: GtkNativeDialog.self)
        gtk_native_dialog_set_modal(native, 1)
        if let name {
            gtk_file_chooser_set_current_name(chooser, name)
        } else {
            gtk_file_chooser_set_select_multiple(chooser, 1)
        }
        let response = await response(of: native) { gtk_native_dialog_show(native) }
        guard response == GTK_RESPONSE_ACCEPT.rawValue, let files = gtk_file_chooser_get_files(chooser) else {
            return []
        }
        defer { g_object_unref(UnsafeMutableRawPointer(files)) }
        return (0..<g_list_model_get_n_items(files)).compactMap { index in
            guard let file = g_list_model_get_item(files, index) else { return nil }
            defer { g_object_unref(file) }
            guard let path = g_file_get_path(OpaquePointer(file)) else { return nil }
            defer { g_free(path) }
            return String(cString: path)
        }
    }

    /// The first answer of a dialogue. A dialogue that is destroyed without one answers `GTK_RESPONSE_NONE`.
    private final class Answer {
        private var continuation: CheckedContinuation<Int32, Never>?

        init(_ continuation: CheckedContinuation<Int32, Never>) { self.continuation = continuation }

        func give(_ response: Int32) {
            continuation?.resume(returning: response)
            continuation = nil
        }

        deinit { continuation?.resume(returning: GTK_RESPONSE_NONE.rawValue) }
    }

    /// Returns the answer of a dialogue. It is the argument of the signal `response`, which ChappieGTKSignal drops.
    private static func response(of dialogue: UnsafeMutableRawPointer, _ show: () -> Void) async -> Int32 {
        await withCheckedContinuation { continuation in
            let callback: @convention(c) (UnsafeMutableRawPointer, gint, UnsafeMutableRawPointer) -> Void = {
                Unmanaged<Answer>.fromOpaque($2).takeUnretainedValue().give($1)
            }
            g_signal_connect_data(
                dialogue, "response", unsafeBitCast(callback, to: GCallback.self),
                Unmanaged.passRetained(Answer(continuation)).toOpaque(),
                { data, _ in data.map { Unmanaged<Answer>.fromOpaque($0).release() } }, GConnectFlags(0))
            show()
        }
    }
}
