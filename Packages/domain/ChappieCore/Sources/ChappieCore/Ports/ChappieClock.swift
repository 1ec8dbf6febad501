#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Time as an adapter: the wall clock, the elapsed time, and waiting.
///
/// The two readings differ on purpose: users set the wall clock, but nothing sets ``elapsed``. Deadlines use `elapsed`;
/// token expiry uses `now`.
public protocol ChappieClock: Sendable {
    /// The wall clock.
    var now: Date { get }
    /// The time since a fixed start. It also runs while the machine sleeps, and never goes backwards.
    var elapsed: Duration { get }
    /// Waits. - Throws: `CancellationError` as soon as the task is cancelled.
    func sleep(for duration: Duration) async throws
}

/// The machine's clocks.
public struct SystemClock: ChappieClock {
    /// The clocks of this machine.
    public init() {}

    /// The machine's wall clock.
    public var now: Date { Date() }

    /// Time since the machine started.
    public var elapsed: Duration {
        var time = timespec()
        #if os(Linux)
            clock_gettime(CLOCK_BOOTTIME, &time)
        #else
            clock_gettime(CLOCK_MONOTONIC, &time)
        #endif
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// Waits on the machine's continuous clock.
    public func sleep(for duration: Duration) async throws { try await Task.sleep(for: duration, clock: .continuous) }
}
