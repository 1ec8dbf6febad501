import CGtk4

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Serves Swift's main actor from GLib's main loop, so that `@MainActor` code and GTK take turns on one thread.
///
/// On Linux the main actor's executor is libdispatch's main queue, and `g_application_run` doesn't know of it. Without this
/// bridge no task on the main actor gets its turn once GTK's loop runs: an `await` there waits forever, and no state of a
/// session or a model arrives. Install it when GTK starts the program, before the first task is needed:
/// ```swift
/// import CGtk4
/// import ChappieSignInGTK
///
/// guard let application = gtk_application_new("com.example.hello", G_APPLICATION_DEFAULT_FLAGS) else {
///     fatalError("GTK could not be started.")
/// }
/// ChappieGTKSignal.connect(application, "activate") {
///     ChappieGTKMainLoop.install()
///     guard let window = gtk_application_window_new(application) else { return }
///     gtk_window_present(window.cast())
/// }
/// let program = UnsafeMutableRawPointer(application).assumingMemoryBound(to: GApplication.self)
/// g_application_run(program, CommandLine.argc, CommandLine.unsafeArgv)
/// ```
/// Make a window before the first task: GTK ends a program that has none when the handler of `activate` returns.
///
/// `main` has to be synchronous: no `await` in `main.swift`, no `static func main() async`. After a suspension there, the rest
/// runs as a job of the main queue, and GTK's loop inside of it keeps the queue from serving any other.
///
/// The queue has a descriptor, an eventfd, that is readable while there is work. A source of the loop waits for it, takes what
/// it counts (left there, it would keep the loop busy) and has the queue run what it holds. No thread polls, and an idle
/// program stays idle. The two functions are libdispatch's own, the ones by which CoreFoundation's run loop does the same;
/// they are in every release for Linux and in none of its public headers, and CGtk4.h declares them.
///
/// A loop that runs inside of a job (`g_main_loop_run` for a modal dialogue, for instance) gets no further jobs until it ends.
@MainActor
public enum ChappieGTKMainLoop {
    private static var source: guint = 0

    /// Begins. Nothing happens where it has begun already.
    public static func install() {
        guard source == 0 else { return }
        let descriptor = _dispatch_get_main_queue_handle_4CF()
        source = g_unix_fd_add_full(
            // As GTK's own layout and drawing, which a busy main actor would otherwise keep from their turn.
            G_PRIORITY_HIGH_IDLE + 20, descriptor, G_IO_IN,
            { descriptor, _, _ in
                var count: UInt64 = 0
                _ = read(descriptor, &count, MemoryLayout.size(ofValue: count))
                _dispatch_main_queue_callback_4CF(nil)
                return gboolean(1)
            }, nil, nil)
    }
}
