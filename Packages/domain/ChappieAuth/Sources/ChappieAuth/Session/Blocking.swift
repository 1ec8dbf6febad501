@_spi(ChappieInternals) import ChappieCore
import Dispatch

/// Blocks the calling thread until `work` has ended, for at most `limit`. Returns whether it has ended.
///
/// The work runs on the global executor's threads and doesn't need the caller's thread, so the two can't wait for each
/// other.
func blocking(within limit: Duration, _ work: @escaping @Sendable () async -> Void) -> Bool {
    let done = DispatchSemaphore(value: 0)
    Task.detached(priority: .userInitiated) {
        await work()
        done.signal()
    }
    let milliseconds = min(max(limit.inSeconds * 1000, 0), 3_600_000)
    return done.wait(timeout: .now() + .milliseconds(Int(milliseconds))) == .success
}
