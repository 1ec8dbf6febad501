public import CGtk4

typealias Widget = UnsafeMutablePointer<GtkWidget>

extension UnsafeMutablePointer where Pointee == GtkWidget {
    /// Returns the widget as another type of its class, as macros such as `GTK_WINDOW(widget)` do in C. The caller must
    /// know the type.
    /// ```swift
    /// gtk_window_present(window.cast())
    /// ```
    public func cast<Kind>() -> UnsafeMutablePointer<Kind> {
        UnsafeMutableRawPointer(self).assumingMemoryBound(to: Kind.self)
    }

    /// Returns the widget as a type that is opaque in C.
    public func cast() -> OpaquePointer { OpaquePointer(self) }

    /// Shows or hides the widget.
    public func setVisible(_ isVisible: Bool) { gtk_widget_set_visible(self, isVisible ? 1 : 0) }

    /// Enables or disables the widget for the user.
    public func setSensitive(_ isSensitive: Bool) { gtk_widget_set_sensitive(self, isSensitive ? 1 : 0) }

    /// Sets a name or a description for screen readers.
    /// ```swift
    /// button.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, "Remove photo.jpg")
    /// ```
    public func tell(_ property: GtkAccessibleProperty, _ text: String) {
        var property = property
        var value = GValue()
        gtk_accessible_property_init_value(property, &value)
        g_value_set_string(&value, text)
        gtk_accessible_update_property_value(cast(), 1, &property, &value)
        g_value_unset(&value)
    }

    func tellBusy(_ isBusy: Bool) {
        var state = GTK_ACCESSIBLE_STATE_BUSY
        var value = GValue()
        gtk_accessible_state_init_value(state, &value)
        g_value_set_boolean(&value, isBusy ? 1 : 0)
        gtk_accessible_update_state_value(cast(), 1, &state, &value)
        g_value_unset(&value)
    }
}

/// The widgets created from GtkBuilder's XML.
/// ```swift
/// let layout = ChappieGTKLayout(xml)
/// gtk_window_present(layout["window"].cast())
/// ```
@MainActor
public struct ChappieGTKLayout: ~Copyable {
    private let builder: OpaquePointer

    /// Creates the widgets. The XML must be the program's own, because a mistake in it ends the process.
    public init(_ xml: String) { builder = gtk_builder_new_from_string(xml, -1) }

    deinit { g_object_unref(UnsafeMutableRawPointer(builder)) }

    /// The widget with this id, which the layout must have.
    public subscript(_ id: String) -> UnsafeMutablePointer<GtkWidget> {
        guard let object = gtk_builder_get_object(builder, id) else { preconditionFailure("no widget \(id)") }
        return UnsafeMutableRawPointer(object).assumingMemoryBound(to: GtkWidget.self)
    }

    /// Adds rules for the style classes of a layout, below the program's own rules and above the theme's.
    /// ```swift
    /// ChappieGTKLayout.useStyles(".card { padding: 12px; }", on: gtk_widget_get_display(window))
    /// ```
    public static func useStyles(_ css: String, on display: OpaquePointer) {
        let provider = gtk_css_provider_new()
        gtk_css_provider_load_from_data(provider, css, -1)
        gtk_style_context_add_provider_for_display(
            display, OpaquePointer(provider), guint(GTK_STYLE_PROVIDER_PRIORITY_APPLICATION - 1))
        g_object_unref(provider)
    }
}

/// A set of keys for Alt that gives each text of a window a key. The key is the first letter that no earlier text has.
struct Mnemonics {
    private var taken: Set<String> = []

    /// Returns `text` in the form for `gtk_label_set_text_with_mnemonic`, with its key marked.
    mutating func mark(_ text: String) -> String {
        let letter = text.indices.first { text[$0].isLetter && !taken.contains(text[$0].lowercased()) }
        if let letter { taken.insert(text[letter].lowercased()) }
        return text.indices.map { index in
            (index == letter ? "_" : text[index] == "_" ? "_" : "") + String(text[index])
        }.joined()
    }
}
