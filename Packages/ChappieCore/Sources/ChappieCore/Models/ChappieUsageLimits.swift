public import HTTPTypes

/// The backend's last word on an account's limits.
public struct ChappieUsageLimitSnapshot: Sendable, Hashable, Codable {
    /// The family of limits, `codex` for the usual one.
    public var limitID: String
    /// A name for it, when the backend gives one.
    public var limitName: String?
    /// The short window, five hours at the time of writing.
    public var primary: ChappieUsageWindow?
    /// The long window, a week at the time of writing.
    public var secondary: ChappieUsageWindow?
    /// Credits beyond the windows.
    public var credits: ChappieUsageCredits?
    /// The account's plan.
    public var plan: ChappiePlan?

    /// A snapshot with the given properties.
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
}

@_spi(ChappieInternals) extension ChappieUsageLimitSnapshot {
    /// Reads a `codex.rate_limits` event.
    public init(rateLimitsEvent json: ChappieJSON) {
        let limits = json["rate_limits"]
        self.init(
            limitID: Self.normalized(json["metered_limit_name"]?.string ?? json["limit_name"]?.string ?? "codex"),
            limitName: json["limit_name"]?.string,
            primary: ChappieUsageWindow(limits?["primary"]), secondary: ChappieUsageWindow(limits?["secondary"]),
            credits: ChappieUsageCredits(json["credits"]), plan: json["plan_type"]?.string.map(ChappiePlan.init))
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
        func value(_ name: String) -> String? { HTTPField.Name("x-\(family)-\(name)").flatMap { headerFields[$0] } }
        func number(_ name: String) -> Double? {
            value(name).flatMap { Double($0.trimmingPrefix(while: \.isWhitespace)) }
        }
        func flag(_ name: String) -> Bool? {
            ["true": true, "1": true, "false": false, "0": false][value(name)?.lowercased() ?? ""]
        }
        func window(_ kind: String) -> ChappieUsageWindow? {
            guard let used = PeerNumber.percent(number("\(kind)-used-percent")) else { return nil }
            let minutes = number("\(kind)-window-minutes").flatMap { Int(exactly: $0) }
            let reset = PeerNumber.date(number("\(kind)-reset-at"))
            guard used != 0 || (minutes ?? 0) != 0 || reset != nil else { return nil }
            return ChappieUsageWindow(usedPercent: used, windowMinutes: minutes, resetsAt: reset)
        }
        let credits = flag("credits-has-credits").map {
            ChappieUsageCredits(
                hasCredits: $0, isUnlimited: flag("credits-unlimited") ?? false, balance: value("credits-balance"))
        }
        self.init(
            limitID: Self.normalized(family), limitName: value("limit-name"), primary: window("primary"),
            secondary: window("secondary"), credits: credits)
        if isEmpty { return nil }
    }

    private static func normalized(_ name: String) -> String { name.lowercased().replacing("-", with: "_") }
}

/// One window of a usage limit.
public struct ChappieUsageWindow: Sendable, Hashable, Codable {
    /// 0…100; more when the backend says so, up to a million.
    public var usedPercent: Double
    /// The window's length; `nil` when unknown.
    public var windowMinutes: Int?
    /// When the window starts anew, from 1970 to 9999; `nil` when unknown.
    public var resetsAt: Date?

    /// A window with the given properties.
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

/// Credits beyond the plan's windows.
public struct ChappieUsageCredits: Sendable, Hashable, Codable {
    /// Whether the account has any.
    public var hasCredits: Bool
    /// Whether they never run out.
    public var isUnlimited: Bool
    /// In the backend's spelling.
    public var balance: String?

    /// Credits with the given properties.
    public init(hasCredits: Bool, isUnlimited: Bool, balance: String? = nil) {
        self.hasCredits = hasCredits
        self.isUnlimited = isUnlimited
        self.balance = balance
    }

    init?(_ json: ChappieJSON?) {
        guard let json, let hasCredits = json["has_credits"]?.bool else { return nil }
        self.init(
            hasCredits: hasCredits, isUnlimited: json["unlimited"]?.bool ?? false, balance: json["balance"]?.string)
    }
}

/// A usage limit that was reached.
public struct ChappieUsageLimit: Sendable, Hashable, Codable {
    /// The backend's word for the error; typically `usage_limit_reached`.
    public var type: String
    /// Safe to show to a person: see ``ChappieResponseError/message``.
    public var message: String?
    /// The account's plan.
    public var plan: ChappiePlan?
    /// When the limit starts anew.
    public var resetsAt: Date?
    /// As the backend said when it answered; not a countdown.
    public var resetsInSeconds: TimeInterval?
    /// All limits, when the answer named them.
    public var rateLimit: ChappieUsageLimitSnapshot?

    /// A limit with the given properties.
    public init(
        type: String = "usage_limit_reached", message: String? = nil, plan: ChappiePlan? = nil, resetsAt: Date? = nil,
        resetsInSeconds: TimeInterval? = nil, rateLimit: ChappieUsageLimitSnapshot? = nil
    ) {
        self.type = type
        self.message = message
        self.plan = plan
        self.resetsAt = resetsAt
        self.resetsInSeconds = resetsInSeconds
        self.rateLimit = rateLimit
    }
}

/// Numbers of a peer, held to what can be shown, added to a date and turned into an integer.
enum PeerNumber {
    /// Where the year 10000 begins, in seconds after 1970 began.
    static let end = 253_402_300_800.0

    /// `seconds` after 1970 began; `nil` when that is not before the year 10000.
    static func date(_ seconds: Double?) -> Date? {
        seconds.flatMap { (0..<end).contains($0) ? Date(timeIntervalSince1970: $0) : nil }
    }

    /// A percentage; one beyond a million either way is cut there.
    static func percent(_ number: Double?) -> Double? {
        number.flatMap { $0.isNaN || $0.isInfinite ? nil : min(max($0, -1_000_000), 1_000_000) }
    }
}
