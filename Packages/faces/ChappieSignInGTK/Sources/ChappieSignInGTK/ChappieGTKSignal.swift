import CGtk4

/// Connects closures to GTK's signals. In C this is the macro `g_signal_connect`, which Swift does not import.
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
    /// The object keeps the closure, and releases it when it is destroyed. Capture the object itself as a pointer,
    /// which does not retain it. The closure does not get the other arguments of the signal.
    ///
    /// - Parameters:
    ///   - object: any GObject that belongs to the main thread.
    ///   - signal: the signal's name, if needed with a detail: `notify::visible`.
    public static func connect(
        _ object: UnsafeMutableRawPointer, _ signal: String, _ body: @escaping @MainActor () -> Void
    ) {
        answer(object, signal) {
            body()
            return false
        }
    }

    /// Connects a handler that returns an answer, such as the handler of `close-request`: `true` if it has dealt with
    /// the event.
    public static func answer(
        _ object: UnsafeMutableRawPointer, _ signal: String, _ body: @escaping @MainActor () -> Bool
    ) {
        // With G_CONNECT_SWAPPED the handler gets its data first, and can ignore the other arguments of the signal.
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
