public import FoundationEssentials

/// One window of a usage limit.
public struct ChappieUsageWindow: Sendable, Hashable, Codable {
    /// 0…100; more when the backend says so, up to a million.
    public var usedPercent: Double
    /// The window's length; `nil` when unknown.
    public var windowMinutes: Int?
    /// When the window starts anew, from 1970 to 9999; `nil` when unknown.
    public var resetsAt: Date?

    public init(usedPercent: Double, windowMinutes: Int? = nil, resetsAt: Date? = nil) {
        self.usedPercent = usedPercent
        self.windowMinutes = windowMinutes
        self.resetsAt = resetsAt
    }

    /// Reads a window of the `codex.rate_limits` event or of the usage endpoint.
    init?(_ json: ChappieJSON?) {
        guard let json, let used = PeerNumber.percent(json["used_percent"]?.double) else { return nil }
        let seconds = json["limit_window_seconds"]?.int
        self.init(
            usedPercent: used,
            windowMinutes: json["window_minutes"]?.int ?? seconds.map { $0 / 60 + ($0 % 60 > 0 ? 1 : 0) },
            resetsAt: PeerNumber.date(json["reset_at"]?.double))
    }
}
