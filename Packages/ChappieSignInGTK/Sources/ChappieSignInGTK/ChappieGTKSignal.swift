import CGtk4

/// Closures as handlers of GTK's signals; in C this is the macro `g_signal_connect`, which Swift does not import.
public enum ChappieGTKSignal {
    private final class Handler: Sendable {
        let body: @MainActor () -> Bool

        init(_ body: @escaping @MainActor () -> Bool) { self.body = body }
    }

    /// Calls `body` whenever `object` emits `signal`.
    ///
    /// ```swift
    /// ChappieGTKSignal.connect(button, "clicked") { print("clicked") }
    /// ```
    /// The object keeps the closure, and lets go of it when it is destroyed: capture the object itself as a pointer, which
    /// retains nothing. What the signal carries beside the object is not handed on.
    ///
    /// - Parameters:
    ///   - object: any GObject that belongs to the main thread.
    ///   - signal: its name, with a detail where wanted: `notify::visible`.
    public static func connect(
        _ object: UnsafeMutableRawPointer, _ signal: String, _ body: @escaping @MainActor () -> Void
    ) {
        answer(object, signal) {
            body()
            return false
        }
    }

    /// The same for a signal whose handler has an answer: `true` where the event has been dealt with, as for `close-request`.
    public static func answer(
        _ object: UnsafeMutableRawPointer, _ signal: String, _ body: @escaping @MainActor () -> Bool
    ) {
        // Swapped, the handler gets its data first, and may leave out whatever else the signal carries.
        let callback: @convention(c) (UnsafeMutableRawPointer) -> gboolean = { data in
            let handler = Unmanaged<Handler>.fromOpaque(data).takeUnretainedValue()
            return MainActor.assumeIsolated { handler.body() ? 1 : 0 }
        }
        g_signal_connect_data(
            object, signal, unsafeBitCast(callback, to: GCallback.self),
            Unmanaged.passRetained(Handler(body)).toOpaque(),
            { data, _ in data.map { Unmanaged<Handler>.fromOpaque($0).release() } }, G_CONNECT_SWAPPED)
    }
}
