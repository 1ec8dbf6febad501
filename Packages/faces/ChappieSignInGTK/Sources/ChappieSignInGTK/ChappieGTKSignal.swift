import CGtk4

/// Functions that connect closures to GTK's signals. In C this is the macro `g_signal_connect`, which Swift does not
/// import.
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
    /// The object keeps the closure, and releases it when the object is destroyed. Capture the object itself as a
    /// pointer, which does not retain it. The closure does not receive the other arguments of the signal.
    ///
    /// - Parameters:
    ///   - object: Any GObject that belongs to the main thread.
    ///   - signal: The signal's name, with a detail if needed, such as `notify::visible`.
    ///   - body: The code to run on the main thread.
    public static func connect(
        _ object: UnsafeMutableRawPointer, _ signal: String, _ body: @escaping @MainActor () -> Void
    ) {
        answer(object, signal) {
            body()
            return false
        }
    }

    /// Connects a handler that returns an answer, such as the handler of `close-request`. The answer is `true` if the
    /// handler has dealt with the event.
    public static func answer(
        _ object: UnsafeMutableRawPointer, _ signal: String, _ body: @escaping @MainActor () -> Bool
    ) {
        // With G_CONNECT_SWAPPED, the data is the first argument of the handler, which can ignore the other arguments
        // of the signal.
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
