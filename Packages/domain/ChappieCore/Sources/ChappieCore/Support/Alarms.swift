import Synchronization

/// The long sleeps of ``SystemClock``, which share one timer of the system.
///
/// The timer of a cancelled `Task.sleep` stays in memory until its time. A request sets about ten deadlines of up to
/// fifteen minutes, and nearly all of them are cancelled. On a busy server that would be several KiB for each request.
final class Alarms: Sendable {
    private struct State {
        var sleepers: [Int: (due: Duration, alarm: Promise<Void>)] = [:]
        var lastID = 0
        /// The running timer, and the time at which it ends.
        var timer: (end: Duration, task: Task<Void, Never>)?
    }

    private let state = Mutex(State())

    /// Sleeps until the ``SystemClock/elapsed`` time is `due`.
    ///
    /// - Throws: `CancellationError` as soon as the task is cancelled.
    func sleep(until due: Duration) async throws {
        let alarm = Promise<Void>()
        let id = state.withLock { state in
            state.lastID += 1
            state.sleepers[state.lastID] = (due, alarm)
            if state.timer.map({ due < $0.end }) ?? true { start(until: due, &state) }
            return state.lastID
        }
        defer { state.withLock { _ = $0.sleepers.removeValue(forKey: id) } }
        try await alarm.value()
    }

    /// Replaces the timer. One that is replaced stays in memory until its time, so only an earlier time replaces it.
    private func start(until end: Duration, _ state: inout State) {
        state.timer?.task.cancel()
        let pause = end - SystemClock().elapsed
        let task = Task.detached {
            guard (try? await Task.sleep(for: pause, clock: .continuous)) != nil else { return }
            self.ring()
        }
        state.timer = (end, task)
    }

    /// Wakes the sleepers that are due, and starts the timer for the next one.
    private func ring() {
        let due = state.withLock { state in
            let now = SystemClock().elapsed
            let due = state.sleepers.filter { $0.value.due <= now }
            for id in due.keys { state.sleepers[id] = nil }
            state.timer = nil
            if let next = state.sleepers.values.map(\.due).min() { start(until: next, &state) }
            return due.values.sorted { $0.due < $1.due }
        }
        for sleeper in due { sleeper.alarm.fulfil(.success(())) }
    }
}
