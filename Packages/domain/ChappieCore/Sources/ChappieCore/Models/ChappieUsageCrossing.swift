/// A window whose use has reached a threshold.
public struct ChappieUsageCrossing: Sendable, Hashable, Codable {
    /// The family of the limit.
    public var limitID: String
    /// A name of the family, if the backend sends one.
    public var limitName: String?
    /// Whether it is the snapshot's first window. The window is named after its length.
    public var isPrimary: Bool
    /// The window in its current state.
    public var window: ChappieUsageWindow
    /// The highest threshold that the window has reached, in percent.
    public var threshold: Double

    /// Creates a crossing with the given properties.
    public init(
        limitID: String, limitName: String? = nil, isPrimary: Bool, window: ChappieUsageWindow, threshold: Double
    ) {
        self.limitID = limitID
        self.limitName = limitName
        self.isPrimary = isPrimary
        self.window = window
        self.threshold = threshold
    }
}

extension ChappieUsageLimitSnapshot {
    /// The thresholds for a warning to the user: 80 and 95 percent.
    public static let warningThresholds: [Double] = [80, 95]

    /// Returns the windows that have reached a threshold, each with the highest one. Additional limits are included.
    ///
    /// - Parameters:
    ///   - earlier: The snapshot that was shown before. A window that had already reached the threshold in it is left
    ///     out. Default `nil`, which leaves no window out.
    ///   - thresholds: The thresholds, in percent. Default ``warningThresholds``.
    public func crossings(
        since earlier: ChappieUsageLimitSnapshot? = nil, thresholds: [Double] = warningThresholds
    ) -> [ChappieUsageCrossing] {
        func highest(_ window: ChappieUsageWindow?) -> Double? {
            window.flatMap { window in thresholds.filter { $0 <= window.usedPercent }.max() }
        }
        let known = earlier.map { [$0] + $0.additional } ?? []
        var crossings: [ChappieUsageCrossing] = []
        for limits in [self] + additional {
            let before = known.first { $0.limitID == limits.limitID }
            let windows = [(true, limits.primary, before?.primary), (false, limits.secondary, before?.secondary)]
            for (isPrimary, window, before) in windows {
                guard let window, let threshold = highest(window), highest(before) ?? 0 < threshold else { continue }
                crossings.append(
                    ChappieUsageCrossing(
                        limitID: limits.limitID, limitName: limits.limitName, isPrimary: isPrimary, window: window,
                        threshold: threshold))
            }
        }
        return crossings
    }
}
