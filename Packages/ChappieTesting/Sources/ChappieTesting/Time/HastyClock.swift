public import ChappieCore
public import FoundationEssentials
import Synchronization

/// A clock on which whoever sleeps has slept: pauses pass at once, and are added to the time.
///
/// For tests of what happens after pauses. Where time must also stand still, use ``ManualClock``.
public final class HastyClock: ChappieClock {
    private let start: Date
    private let slept = Mutex(Duration.zero)

    /// - Parameter now: what the wall says at first. Default: 20 November 2026, 12:00 UTC.
    public init(now: Date = Date(timeIntervalSince1970: 1_795_176_000)) { start = now }

    public var elapsed: Duration { slept.withLock { $0 } }
    public var now: Date { start.addingTimeInterval(Double(elapsed.components.seconds)) }

    /// - Throws: `CancellationError` when the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        slept.withLock { $0 += duration }
    }
}
