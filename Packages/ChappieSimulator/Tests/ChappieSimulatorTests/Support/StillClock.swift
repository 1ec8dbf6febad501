import ChappieCore
import FoundationEssentials
import Synchronization

/// A clock that goes on when it is told to.
final class StillClock: ChappieClock {
    private let seconds = Mutex(1_795_000_000.0)

    var now: Date { Date(timeIntervalSince1970: seconds.withLock { $0 }) }
    var elapsed: Duration { .zero }
    func sleep(for duration: Duration) async throws { try Task.checkCancellation() }
    func advance(seconds count: Double) { seconds.withLock { $0 += count } }
}
