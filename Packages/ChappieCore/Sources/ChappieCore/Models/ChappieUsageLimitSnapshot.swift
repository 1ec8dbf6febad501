import FoundationEssentials
public import HTTPTypes

/// What the backend last said about an account's limits.
public struct ChappieUsageLimitSnapshot: Sendable, Hashable, Codable {
    /// The family of limits, `codex` for the usual one.
    public var limitID: String
    /// A name for it, when the backend gives one.
    public var limitName: String?
    /// The short window, five hours at the time of writing.
    public var primary: ChappieUsageWindow?
    /// The long window, a week at the time of writing.
    public var secondary: ChappieUsageWindow?
    public var credits: ChappieUsageCredits?
    public var plan: ChappiePlan?

    public init(
        limitID: String = "codex", limitName: String? = nil, primary: ChappieUsageWindow? = nil,
        secondary: ChappieUsageWindow? = nil, credits: ChappieUsageCredits? = nil, plan: ChappiePlan? = nil
    ) {
        self.limitID = limitID
        self.limitName = limitName
        self.primary = primary
        self.secondary = secondary
        self.credits = credits
        self.plan = plan
    }

    /// Whether it says nothing at all.
    public var isEmpty: Bool { primary == nil && secondary == nil && credits == nil }

    // MARK: Where snapshots come from

    /// Reads a `codex.rate_limits` event.
    public init(rateLimitsEvent json: ChappieJSON) {
        let limits = json["rate_limits"]
        self.init(
            limitID: Self.normalized(json["metered_limit_name"]?.string ?? json["limit_name"]?.string ?? "codex"),
            limitName: json["limit_name"]?.string,
            primary: ChappieUsageWindow(limits?["primary"]), secondary: ChappieUsageWindow(limits?["secondary"]),
            credits: ChappieUsageCredits(json["credits"]),
            plan: json["plan_type"]?.string.map(ChappiePlan.init(rawValue:)))
    }

    /// Reads the body of the usage endpoint.
    ///
    /// - Returns: `nil` when it is not an object with a `plan_type`.
    public init?(usageBody json: ChappieJSON) {
        guard let plan = json["plan_type"]?.string else { return nil }
        let limit = json["rate_limit"]
        self.init(
            primary: ChappieUsageWindow(limit?["primary_window"]),
            secondary: ChappieUsageWindow(limit?["secondary_window"]),
            credits: ChappieUsageCredits(json["credits"]), plan: ChappiePlan(rawValue: plan))
    }

    /// Reads the `x-codex-*` headers of a response.
    ///
    /// - Parameter family: `codex`, or another that the headers name, such as `codex-bengalfox`.
    /// - Returns: `nil` when the headers say nothing about that family.
    public init?(headerFields: HTTPFields, family: String = "codex") {
        func value(_ name: String) -> String? {
            HTTPField.Name("x-\(family)-\(name)").flatMap { headerFields[$0] }?
                .trimmingPrefix(while: { $0 == " " }).description
        }
        func window(_ kind: String) -> ChappieUsageWindow? {
            guard let used = PeerNumber.percent(value("\(kind)-used-percent").flatMap(Double.init)) else { return nil }
            let minutes = value("\(kind)-window-minutes").flatMap(Int.init)
            let reset = PeerNumber.date(value("\(kind)-reset-at").flatMap(Double.init))
            guard used != 0 || (minutes ?? 0) != 0 || reset != nil else { return nil }
            return ChappieUsageWindow(usedPercent: used, windowMinutes: minutes, resetsAt: reset)
        }
        let hasCredits = value("credits-has-credits").flatMap(Self.flag)
        self.init(
            limitID: Self.normalized(family), limitName: value("limit-name"),
            primary: window("primary"), secondary: window("secondary"),
            credits: hasCredits.map {
                ChappieUsageCredits(
                    hasCredits: $0, isUnlimited: value("credits-unlimited").flatMap(Self.flag) ?? false,
                    balance: value("credits-balance"))
            })
        if isEmpty { return nil }
    }

    private static func normalized(_ name: String) -> String {
        name.lowercased().split(separator: "-", omittingEmptySubsequences: false).joined(separator: "_")
    }

    private static func flag(_ text: String) -> Bool? {
        switch text.lowercased() {
        case "true", "1": true
        case "false", "0": false
        default: nil
        }
    }
}
