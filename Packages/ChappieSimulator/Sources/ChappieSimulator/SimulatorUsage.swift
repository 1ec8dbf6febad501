/// How much of the plan is used up, as the header fields of every answer and the usage endpoint tell it.
public struct SimulatorUsage: Sendable, Hashable {
    /// Percent of the short window, 0 to 100.
    public var primaryUsedPercent: Double
    /// Length of the short window; default 5 hours.
    public var primaryWindowMinutes: Int
    /// Percent of the long window, 0 to 100.
    public var secondaryUsedPercent: Double
    /// Length of the long window; default 7 days.
    public var secondaryWindowMinutes: Int

    public init(
        primaryUsedPercent: Double = 12, primaryWindowMinutes: Int = 300, secondaryUsedPercent: Double = 3,
        secondaryWindowMinutes: Int = 10_080
    ) {
        self.primaryUsedPercent = primaryUsedPercent
        self.primaryWindowMinutes = primaryWindowMinutes
        self.secondaryUsedPercent = secondaryUsedPercent
        self.secondaryWindowMinutes = secondaryWindowMinutes
    }
}
