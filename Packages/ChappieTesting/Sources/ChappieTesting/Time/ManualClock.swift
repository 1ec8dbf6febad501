public import ChappieCore
public import FoundationEssentials
import Synchronization

/// A clock that stands still until a test moves it.
///
/// ```swift
/// let clock = ManualClock()
/// let task = Task { try await clock.sleep(for: .seconds(5)) }
/// await clock.waitForSleepers(count: 1)
/// clock.advance(by: .seconds(5))
/// try await task.value
/// ```
public final class ManualClock: ChappieClock {
    private struct Sleeper {
        let id: Int
        let deadline: Duration
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct Watcher {
        let id: Int
        let count: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var now: Date
        var elapsed = Duration.zero
        var nextID = 0
        var sleepers: [Sleeper] = []
        var watchers: [Watcher] = []
    }

    private let state: Mutex<State>

    /// - Parameter now: what the wall says at first. Default: 20 November 2026, 12:00 UTC.
    public init(now: Date = Date(timeIntervalSince1970: 1_795_176_000)) { state = Mutex(State(now: now)) }

    public var now: Date { state.withLock(\.now) }
    public var elapsed: Duration { state.withLock(\.elapsed) }
    /// How many tasks are asleep.
    public var sleeperCount: Int { state.withLock(\.sleepers.count) }

    /// Lets time pass, on the wall and for sleepers; those whose time has come resume, the earliest first.
    public func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.elapsed += duration
            state.now += Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
            let due = state.sleepers.filter { $0.deadline <= state.elapsed }
            state.sleepers.removeAll { $0.deadline <= state.elapsed }
            return due
        }
        for sleeper in due.sorted(by: { ($0.deadline, $0.id) < ($1.deadline, $1.id) }) { sleeper.continuation.resume() }
    }

    /// Sets the wall clock, as a person or a time server does; no time passes.
    public func setWall(to date: Date) { state.withLock { $0.now = date } }

    /// Sleeps until the clock has been advanced by `duration`; zero and less is no sleep.
    ///
    /// - Throws: `CancellationError` at once when the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        guard duration > .zero else { return }
        let id = newID()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { fallAsleep($0, as: id, for: duration) }
        } onCancel: {
            wake(id)
        }
    }

    /// Returns as soon as at least `count` tasks are asleep, or the waiting task is cancelled.
    public func waitForSleepers(count: Int) async {
        let id = newID()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.sleepers.count >= count || Task.isCancelled { return true }
                    state.watchers.append(Watcher(id: id, count: count, continuation: continuation))
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let watcher = state.withLock { state -> Watcher? in
                guard let index = state.watchers.firstIndex(where: { $0.id == id }) else { return nil }
                return state.watchers.remove(at: index)
            }
            watcher?.continuation.resume()
        }
    }

    private func newID() -> Int {
        state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
    }

    private func fallAsleep(_ continuation: CheckedContinuation<Void, any Error>, as id: Int, for duration: Duration) {
        // The cancelled flag is set before `wake` runs, and both look under the lock.
        let watchers = state.withLock { state -> [Watcher]? in
            if Task.isCancelled { return nil }
            state.sleepers.append(Sleeper(id: id, deadline: state.elapsed + duration, continuation: continuation))
            let content = state.watchers.filter { $0.count <= state.sleepers.count }
            state.watchers.removeAll { $0.count <= state.sleepers.count }
            return content
        }
        guard let watchers else { return continuation.resume(throwing: CancellationError()) }
        for watcher in watchers { watcher.continuation.resume() }
    }

    private func wake(_ id: Int) {
        let sleeper = state.withLock { state -> Sleeper? in
            guard let index = state.sleepers.firstIndex(where: { $0.id == id }) else { return nil }
            return state.sleepers.remove(at: index)
        }
        sleeper?.continuation.resume(throwing: CancellationError())
    }
}
