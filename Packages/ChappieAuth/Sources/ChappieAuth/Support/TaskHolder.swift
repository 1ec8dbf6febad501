import Synchronization

/// Owns at most one running task and cancels it when it is replaced or when its owner goes.
final class TaskHolder: Sendable {
    private let task = Mutex<Task<Void, Never>?>(nil)

    deinit { task.withLock { $0?.cancel() } }

    /// Cancels the task held so far and holds `new` instead.
    func hold(_ new: Task<Void, Never>?) {
        let old = task.withLock { held in
            defer { held = new }
            return held
        }
        old?.cancel()
    }
}
