import CSecret

/// A GCancellable: ends the blocking calls that were given it.
///
/// Made only after ``SecretLibrary/require()``.
final class Cancellation: Sendable {
    // A GCancellable is safe to use from any thread, and this is its one reference.
    nonisolated(unsafe) let pointer: OpaquePointer?

    init() { pointer = g_cancellable_new() }

    deinit {
        if let pointer { g_object_unref(UnsafeMutableRawPointer(pointer)) }
    }

    var isCancelled: Bool { g_cancellable_is_cancelled(pointer) != 0 }

    func cancel() { g_cancellable_cancel(pointer) }
}
