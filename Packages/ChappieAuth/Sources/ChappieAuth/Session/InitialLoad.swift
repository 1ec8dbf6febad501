import Dispatch

/// Waits for the store from where nothing can suspend.
enum InitialLoad {
    /// The first thing that is known about the manager's slot; status `unknown` when `deadline` passes before.
    ///
    /// Blocks the calling thread. The work runs on the global executor's own threads and needs nothing of the caller's,
    /// so it can't wait for the caller in turn.
    static func snapshot(of manager: CredentialManager, within deadline: Duration) -> StatusBoard.Snapshot {
        let done = DispatchSemaphore(value: 0)
        Task.detached(priority: .userInitiated) {
            _ = try? await manager.current()
            done.signal()
        }
        let milliseconds = min(max(deadline.seconds * 1000, 0), 3_600_000)
        _ = done.wait(timeout: .now() + .milliseconds(Int(milliseconds)))
        return manager.board.snapshot
    }
}
