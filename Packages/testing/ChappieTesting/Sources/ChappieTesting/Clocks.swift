@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// A clock whose time passes only when a test moves it.
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
        let deadline: Duration
        let alarm: Promise<Void>
    }

    private struct State {
        var now: Date
        var elapsed = Duration.zero
        /// The sleepers, in the order in which they began to sleep.
        var sleepers: [Sleeper] = []
        var watchers: [(count: Int, due: Duration?, promise: Promise<Void>)] = []

        func count(due: Duration?) -> Int {
            due.map { due in sleepers.count { $0.deadline == elapsed + due } } ?? sleepers.count
        }
    }

    private let state: Mutex<State>

    /// Creates a clock.
    ///
    /// - Parameter now: the wall clock's first reading. Default: 20 November 2026, 12:00 UTC.
    public init(now: Date = .scriptedStart) { state = Mutex(State(now: now)) }

    /// The time to which the wall clock was last set, and the time that has passed since.
    public var now: Date { state.withLock(\.now) }
    /// The sum of all advances.
    public var elapsed: Duration { state.withLock(\.elapsed) }
    /// The number of tasks that are asleep.
    public var sleeperCount: Int { state.withLock(\.sleepers.count) }

    /// Lets time pass on the wall clock and for sleepers. Sleepers whose deadline is reached resume in the order of
    /// their deadlines.
    public func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.elapsed += duration
            state.now += duration / .seconds(1)
            defer { state.sleepers.removeAll { [elapsed = state.elapsed] in $0.deadline <= elapsed } }
            return state.sleepers.filter { $0.deadline <= state.elapsed }
        }
        let inOrder = due.enumerated().sorted { ($0.element.deadline, $0.offset) < ($1.element.deadline, $1.offset) }
        for sleeper in inOrder { sleeper.element.alarm.fulfil(.success(())) }
    }

    /// Sets the wall clock, as a user or a time server does. No time passes.
    public func setWall(to date: Date) { state.withLock { $0.now = date } }

    /// Sleeps until the clock has been advanced by `duration`. A duration of zero or less ends at once.
    ///
    /// - Throws: `CancellationError` at once when the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        guard duration > .zero else { return }
        let alarm = Promise<Void>()
        let watchers = state.withLock { state in
            state.sleepers.append(Sleeper(deadline: state.elapsed + duration, alarm: alarm))
            return state.watchers.filter { $0.count <= state.count(due: $0.due) }
        }
        defer { state.withLock { $0.sleepers.removeAll { $0.alarm === alarm } } }
        for watcher in watchers { watcher.promise.fulfil(.success(())) }
        try await alarm.value()
    }

    /// Waits until at least `count` tasks are asleep, or until the waiting task is cancelled.
    ///
    /// - Parameters:
    ///   - count: The number of tasks.
    ///   - due: The time after which tasks wake up. Only tasks with exactly this time are counted. Default: all tasks.
    public func waitForSleepers(count: Int, due: Duration? = nil) async {
        let promise = Promise<Void>()
        state.withLock { state in
            if state.count(due: due) >= count {
                promise.fulfil(.success(()))
            } else {
                state.watchers.append((count, due, promise))
            }
        }
        try? await promise.value()
        state.withLock { $0.watchers.removeAll { $0.promise === promise } }
    }
}

/// A clock on which every sleep ends at once. Pauses take no time, and are added to the clock.
///
/// It is for tests of the behaviour after pauses. If a test must control the time, use ``ManualClock``.
public final class HastyClock: ChappieClock {
    private let start: Date
    private let slept = Mutex(Duration.zero)

    /// Creates a clock.
    ///
    /// - Parameter now: the wall clock's first reading. Default: 20 November 2026, 12:00 UTC.
    public init(now: Date = .scriptedStart) { start = now }

    /// The sum of all pauses.
    public var elapsed: Duration { slept.withLock { $0 } }
    /// The first reading plus all pauses.
    public var now: Date { start + elapsed / .seconds(1) }

    /// Adds `duration` to the clock, and returns at once.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        slept.withLock { $0 += duration }
    }
}

extension Date {
    /// 20 November 2026, 12:00 UTC.
    public static let scriptedStart = Date(timeIntervalSince1970: 1_795_176_000)
}
