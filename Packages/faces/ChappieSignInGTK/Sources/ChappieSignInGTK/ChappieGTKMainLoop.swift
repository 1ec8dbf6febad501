import CGtk4

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A bridge that runs the jobs of Swift's main actor in GLib's main loop, so that `@MainActor` code and GTK take turns
/// on one thread.
///
/// On Linux, the main actor's executor is libdispatch's main queue, which `g_application_run` does not serve. Without
/// this bridge, no task on the main actor runs while GTK's loop runs. An `await` there waits forever, and the state of
/// a session or a model never arrives. Install it when GTK starts the program, before the first task:
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
/// Create a window before the first task, because GTK ends a program that has no window when the handler of `activate`
/// returns.
///
/// `main` must be synchronous. There must be no `await` in `main.swift`, and no `static func main() async`. After a
/// suspension there, the rest runs as a job of the main queue, and GTK's loop in that job prevents the queue from
/// running another job.
///
/// The queue has a descriptor, an eventfd, which is readable while there is work. A source of the loop waits for it,
/// reads its count (otherwise it would keep the loop busy), and lets the queue run its jobs. No thread polls, and an
/// idle program stays idle. The two functions are part of libdispatch, and CoreFoundation's run loop uses them for the
/// same purpose. Every release for Linux has them, but none of its public headers declares them. CGtk4.h does.
///
/// While a loop runs inside a job (for instance, `g_main_loop_run` for a modal dialogue), no further jobs run.
@MainActor
public enum ChappieGTKMainLoop {
    private static var source: guint = 0

    /// Installs the bridge. A second call does nothing.
    public static func install() {
        guard source == 0 else { return }
        let descriptor = _dispatch_get_main_queue_handle_4CF()
        source = g_unix_fd_add_full(
            // This is the priority of GTK's layout and drawing, so that a busy main actor does not block them.
            G_PRIORITY_HIGH_IDLE + 20, descriptor, G_IO_IN,
            { descriptor, _, _ in
                var count: UInt64 = 0
                _ = read(descriptor, &count, MemoryLayout.size(ofValue: count))
                _dispatch_main_queue_callback_4CF(nil)
                return gboolean(1)
            }, nil, nil)
    }
}
