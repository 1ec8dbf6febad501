/// The port for time: the wall clock, the elapsed time, and waiting.
///
/// The two readings differ on purpose. Users set the wall clock, but nothing sets ``elapsed``. Deadlines use `elapsed`.
/// Token expiry uses `now`.
public protocol ChappieClock: Sendable {
    /// The wall clock.
    var now: Date { get }
    /// The time since a fixed start. It also runs while the machine sleeps, and never goes backwards.
    var elapsed: Duration { get }
    /// Waits for `duration`.
    ///
    /// - Throws: `CancellationError` as soon as the task is cancelled.
    func sleep(for duration: Duration) async throws
}

/// The machine's clocks.
public struct SystemClock: ChappieClock {
    private static let start = ContinuousClock.now
    private static let alarms = Alarms()

    /// Creates the clocks of this machine.
    public init() {}

    /// The machine's wall clock.
    public var now: Date { Date() }

    /// The time on the machine's continuous clock, since a moment of this process.
    public var elapsed: Duration { Self.start.duration(to: .now) }

    /// Waits on the machine's continuous clock.
    public func sleep(for duration: Duration) async throws {
        if duration < .seconds(1) {
            try await Task.sleep(for: duration, clock: .continuous)
        } else {
            try await Self.alarms.sleep(until: elapsed + duration)
        }
    }
}
