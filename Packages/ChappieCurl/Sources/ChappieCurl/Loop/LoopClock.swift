/// The clock of loops and deadlines: never set back, and running on while the machine sleeps.
public enum LoopClock {
    private static let start = ContinuousClock.now

    public static var now: Duration { ContinuousClock.now - start }
}
