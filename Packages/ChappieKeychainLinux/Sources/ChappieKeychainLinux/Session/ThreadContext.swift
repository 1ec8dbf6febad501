import CSecret
import ChappieAuth

/// A main context of the current thread's own.
enum ThreadContext {
    /// Runs `body` under a fresh context, and throws the context away with whatever was delivered to it.
    ///
    /// Without it the library's signals would pile up in the process's main context, which nobody may be running.
    static func run<Output>(
        _ body: () throws(CredentialStoreError) -> Output
    ) throws(CredentialStoreError) -> Output {
        let context = g_main_context_new()
        g_main_context_push_thread_default(context)
        defer {
            // What the library frees later, it frees from here.
            while g_main_context_iteration(context, 0) != 0 {}
            g_main_context_pop_thread_default(context)
            g_main_context_unref(context)
        }
        return try body()
    }
}
