import CSecret

/// A main context that belongs to one thread at a time.
///
/// Without it the library's signals would pile up in the process's main context, which nobody may be running.
///
/// What was subscribed to under a context is delivered to that one alone, and keeps it and the connection alive until it
/// has been run again: whoever leaves a connection for later has to come back with the same context.
final class ThreadContext {
    private let pointer = g_main_context_new()

    deinit { g_main_context_unref(pointer) }

    /// Runs `body` under the context, and then whatever was delivered to it.
    func run<Output, Failure>(_ body: () throws(Failure) -> Output) throws(Failure) -> Output {
        g_main_context_push_thread_default(pointer)
        defer {
            // What the library frees later, it frees from here.
            while g_main_context_iteration(pointer, 0) != 0 {}
            g_main_context_pop_thread_default(pointer)
        }
        return try body()
    }
}
