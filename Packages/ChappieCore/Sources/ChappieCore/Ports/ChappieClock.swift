public import FoundationEssentials

/// Time as an adapter: what the wall says, how much has passed, and waiting.
///
/// The two readings differ on purpose: people set the wall clock, nothing sets ``elapsed``. Deadlines use `elapsed`;
/// token expiry uses `now`.
public protocol ChappieClock: Sendable {
    /// The wall clock.
    var now: Date { get }
    /// Time since some fixed start, running on while the machine sleeps, never backwards.
    var elapsed: Duration { get }
    /// Waits. - Throws: `CancellationError` at once when the task is cancelled.
    func sleep(for duration: Duration) async throws
}

/// The machine's clocks.
public struct SystemClock: ChappieClock {
    private static let start = ContinuousClock.now

    public init() {}

    public var now: Date { Date() }
    public var elapsed: Duration { ContinuousClock.now - Self.start }
    public func sleep(for duration: Duration) async throws { try await Task.sleep(for: duration, clock: .continuous) }
}
