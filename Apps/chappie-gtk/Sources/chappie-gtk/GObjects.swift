import CGtk4

typealias Widget = UnsafeMutablePointer<GtkWidget>

/// The value of a GObject's property. In C it is set by the variadic `g_object_set`, which Swift does not import.
enum Property {
    case int(Int)
    case bool(Bool)
    case double(Double)
    case string(String)
    case colour(GdkRGBA)

    @MainActor
    func set(_ name: String, of object: UnsafeMutableRawPointer) {
        var value = GValue()
        switch self {
        case .int(let number):
            g_value_init(&value, GType(6 << 2))
            g_value_set_int(&value, gint(number))
        case .bool(let isSo):
            g_value_init(&value, GType(5 << 2))
            g_value_set_boolean(&value, isSo ? 1 : 0)
        case .double(let number):
            g_value_init(&value, GType(15 << 2))
            g_value_set_double(&value, number)
        case .string(let text):
            g_value_init(&value, GType(16 << 2))
            g_value_set_string(&value, text)
        case .colour(var colour):
            g_value_init(&value, gdk_rgba_get_type())
            g_value_set_boxed(&value, &colour)
        }
        g_object_set_property(object.assumingMemoryBound(to: GObject.self), name, &value)
        g_value_unset(&value)
    }
}

/// The files that a program is started with. They are the arguments of the signal `open`, which ChappieGTKSignal does
/// not support.
@MainActor
enum OpenedFiles {
    private final class Handler: Sendable {
        let body: @MainActor ([String]) -> Void

        init(_ body: @escaping @MainActor ([String]) -> Void) { self.body = body }
    }

    /// Calls `body` with the paths of files. Another start of the program may have named them.
    static func connect(
        _ application: UnsafeMutablePointer<GtkApplication>, _ body: @escaping @MainActor ([String]) -> Void
    ) {
        let callback:
            @convention(c) (
                UnsafeMutableRawPointer, UnsafeMutablePointer<OpaquePointer?>, gint, UnsafePointer<CChar>,
                UnsafeMutableRawPointer
            ) -> Void = { _, files, count, _, data in
                let handler = Unmanaged<Handler>.fromOpaque(data).takeUnretainedValue()
                let paths = (0..<Int(count)).compactMap { index -> String? in
                    guard let path = files[index].flatMap({ g_file_get_path($0) }) else { return nil }
                    defer { g_free(path) }
                    return String(cString: path)
                }
                MainActor.assumeIsolated { handler.body(paths) }
            }
        g_signal_connect_data(
            application, "open", unsafeBitCast(callback, to: GCallback.self),
            Unmanaged.passRetained(Handler(body)).toOpaque(),
            { data, _ in data.map { Unmanaged<Handler>.fromOpaque($0).release() } }, GConnectFlags(0))
    }
}

/// GLib's main loop.
@MainActor
enum MainLoop {
    private final class Work: Sendable {
        let body: @MainActor () -> Void

        init(_ body: @escaping @MainActor () -> Void) { self.body = body }
    }

    /// Runs `body` when nothing else is to be done, for instance when GTK has laid out all text. Does nothing if the
    /// widget has left its window in the meantime.
    static func whenIdle(for widget: Widget, _ body: @escaping @MainActor () -> Void) {
        g_object_ref(widget)
        let work = Work {
            if gtk_widget_get_root(widget) != nil { body() }
            g_object_unref(widget)
        }
        g_idle_add_full(
            G_PRIORITY_LOW,
            { data in
                guard let data else { return 0 }
                let work = Unmanaged<Work>.fromOpaque(data).takeUnretainedValue()
                MainActor.assumeIsolated { work.body() }
                return 0
            }, Unmanaged.passRetained(work).toOpaque(), { $0.map { Unmanaged<Work>.fromOpaque($0).release() } })
    }
}
