public import HTTPTypes

/// The latest state of an account's limits, according to the backend.
public struct ChappieUsageLimitSnapshot: Sendable, Hashable, Codable {
    /// The family of limits. `codex` is the usual one.
    public var limitID: String
    /// A name of the family, if the backend sends one.
    public var limitName: String?
    /// The model for which these limits are a reserve. `nil` for other limits.
    public var normalModel: String?
    /// The first window that the backend reports, which is the short one if the account has two. It is named after its
    /// length.
    public var primary: ChappieUsageWindow?
    /// The second window, if the account has two.
    public var secondary: ChappieUsageWindow?
    /// Credits beyond the windows.
    public var credits: ChappieUsageCredits?
    /// The account's plan.
    public var plan: ChappiePlan?
    /// Limits of other families, each with its own ``limitID``, for instance the limits of one feature.
    public var additional: [ChappieUsageLimitSnapshot]
    /// The user's spending limit in a workspace.
    public var spendControl: ChappieSpendControl?
    /// The limit that was reached, or `nil` if none was.
    public var reachedType: ReachedType?
    /// The number of free resets that apply to the current windows, or `nil` if the backend does not report it.
    public var availableResets: Int?
    /// The backend's sentence about additional quota, which is safe to show to the user.
    public var promotion: String?
    /// The models that have separate limits.
    public var models: [ChappieModelUsage]

    /// The kinds of limits that can be reached. Unknown values are kept.
    public struct ReachedType: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A window of the plan.
        public static let rateLimit = ReachedType(rawValue: "rate_limit_reached")
        /// The workspace of this owner has no credits left.
        public static let workspaceOwnerCredits = ReachedType(rawValue: "workspace_owner_credits_depleted")
        /// The workspace of this member has no credits left.
        public static let workspaceMemberCredits = ReachedType(rawValue: "workspace_member_credits_depleted")
        /// The limit of this owner's workspace.
        public static let workspaceOwnerLimit = ReachedType(rawValue: "workspace_owner_usage_limit_reached")
        /// The limit of this member's workspace.
        public static let workspaceMemberLimit = ReachedType(rawValue: "workspace_member_usage_limit_reached")
    }

    /// Creates a snapshot with the given properties.
    public init(
        limitID: String = "codex", limitName: String? = nil, normalModel: String? = nil,
        primary: ChappieUsageWindow? = nil, secondary: ChappieUsageWindow? = nil, credits: ChappieUsageCredits? = nil,
        plan: ChappiePlan? = nil,
        additional: [ChappieUsageLimitSnapshot] = [], spendControl: ChappieSpendControl? = nil,
        reachedType: ReachedType? = nil, availableResets: Int? = nil, promotion: String? = nil,
        models: [ChappieModelUsage] = []
    ) {
        self.limitID = limitID
        self.limitName = limitName
        self.normalModel = normalModel
        self.primary = primary
        self.secondary = secondary
        self.credits = credits
        self.plan = plan
        self.additional = additional
        self.spendControl = spendControl
        self.reachedType = reachedType
        self.availableResets = availableResets
        self.promotion = promotion
        self.models = models
    }

    /// Whether the snapshot has no limits at all.
    public var isEmpty: Bool {
        isSilent && additional.isEmpty && spendControl == nil && reachedType == nil && models.isEmpty
    }

    /// Whether the snapshot has no limits of the family ``limitID``.
    private var isSilent: Bool { primary == nil && secondary == nil && credits == nil }
}

@_spi(ChappieInternals) extension ChappieUsageLimitSnapshot {
    /// Reads a `codex.rate_limits` event.
    public init(rateLimitsEvent json: ChappieJSON) {
        let limits = json["rate_limits"]
        self.init(
            limitID: Self.normalized(json["metered_limit_name"]?.string ?? json["limit_name"]?.string ?? "codex"),
            limitName: json["limit_name"]?.string,
            primary: ChappieUsageWindow(limits?["primary"]), secondary: ChappieUsageWindow(limits?["secondary"]),
            credits: ChappieUsageCredits(json["credits"]), plan: json["plan_type"]?.string.map(ChappiePlan.init),
            reachedType: ReachedType(json))
        let reviews = json["code_review_rate_limits"]
        let review = ChappieUsageLimitSnapshot(
            limitID: "code_review", primary: ChappieUsageWindow(reviews?["primary"]),
            secondary: ChappieUsageWindow(reviews?["secondary"]))
        if !review.isEmpty { additional = [review] }
    }

    /// Reads the body of the usage endpoint.
    ///
    /// - Returns: The snapshot, or `nil` if it is not an object with a `plan_type` or a `rate_limit`.
    public init?(usageBody json: ChappieJSON) {
        let plan = json["plan_type"]?.string
        guard plan != nil || json["rate_limit"]?.object != nil else { return nil }
        self.init(rateLimit: json["rate_limit"])
        self.plan = plan.map(ChappiePlan.init)
        credits = ChappieUsageCredits(json["credits"])
        additional = (json["additional_rate_limits"]?.array ?? []).compactMap { entry in
            guard let id = entry["metered_feature"]?.string ?? entry["limit_name"]?.string else { return nil }
            var limits = ChappieUsageLimitSnapshot(
                limitID: Self.normalized(id), limitName: entry["limit_name"]?.string, rateLimit: entry["rate_limit"])
            limits.normalModel = entry["normal_model_slug"]?.string
            return limits
        }
        spendControl = ChappieSpendControl(json["spend_control"])
        reachedType = ReachedType(json)
        let resets = json["rate_limit_reset_credits"]
        availableResets =
            PeerNumber.integer(resets?["applicable_available_count"]) ?? PeerNumber.integer(resets?["available_count"])
        models = (json["model_usage"]?.object?.members ?? []).compactMap { ChappieModelUsage($0.name, $0.value) }
    }

    private init(limitID: String = "codex", limitName: String? = nil, rateLimit: ChappieJSON?) {
        self.init(
            limitID: limitID, limitName: limitName, primary: ChappieUsageWindow(rateLimit?["primary_window"]),
            secondary: ChappieUsageWindow(rateLimit?["secondary_window"]))
    }

    /// Reads the `x-codex-*` headers of a response.
    ///
    /// - Parameter family: `codex`, or another family in the headers, such as `codex-bengalfox`.
    /// - Returns: `nil` if the headers have no limits of that family, and name no limit that was reached. Other
    ///   families in the headers become ``additional``.
    public init?(headerFields: HTTPFields, family: String = "codex") {
        self.init(headerFields: headerFields, onlyFamily: family)
        func value(_ name: String) -> String? { HTTPField.Name(name).flatMap { headerFields[$0] } }
        reachedType = value("x-codex-rate-limit-reached-type").map(ReachedType.init(rawValue:))
        if isSilent, reachedType == nil { return nil }
        let mark = "-primary-used-percent"
        for name in headerFields.map(\.name.canonicalName) where name.hasPrefix("x-") && name.hasSuffix(mark) {
            let other = String(name.dropFirst(2).dropLast(mark.count))
            guard Self.normalized(other) != limitID else { continue }
            let limits = ChappieUsageLimitSnapshot(headerFields: headerFields, onlyFamily: other)
            if !limits.isSilent, !additional.contains(where: { $0.limitID == limits.limitID }) {
                additional.append(limits)
            }
        }
        promotion = UntrustedText.message(value("x-codex-promo-message"))
    }

    private init(headerFields: HTTPFields, onlyFamily family: String) {
        func value(_ name: String) -> String? { HTTPField.Name("x-\(family)-\(name)").flatMap { headerFields[$0] } }
        func number(_ name: String) -> Double? {
            value(name).flatMap { Double($0.trimmingPrefix(while: \.isWhitespace)) }
        }
        func flag(_ name: String) -> Bool? { value(name).flatMap(PeerNumber.flag) }
        func window(_ kind: String) -> ChappieUsageWindow? {
            guard let used = PeerNumber.percent(number("\(kind)-used-percent")) else { return nil }
            let minutes = number("\(kind)-window-minutes").flatMap { Int(exactly: $0) }
            let reset = PeerNumber.reset(number("\(kind)-reset-at"))
            let seconds = PeerNumber.duration(number("\(kind)-reset-after-seconds"))
            guard used != 0 || (minutes ?? 0) != 0 || reset != nil || seconds != nil else { return nil }
            return ChappieUsageWindow(reported: used, minutes: minutes, resetsAt: reset, resetsInSeconds: seconds)
        }
        let credits = flag("credits-has-credits").map {
            ChappieUsageCredits(
                hasCredits: $0, isUnlimited: flag("credits-unlimited") ?? false, balance: value("credits-balance"))
        }
        self.init(
            limitID: Self.normalized(family), limitName: value("limit-name"), primary: window("primary"),
            secondary: window("secondary"), credits: credits)
    }

    /// Returns the snapshot with the time of each reset for which the backend has reported only the time until the
    /// reset.
    ///
    /// - Parameter now: The time of the backend's answer.
    public func dated(at now: Date) -> ChappieUsageLimitSnapshot {
        var dated = self
        dated.primary = primary?.dated(at: now)
        dated.secondary = secondary?.dated(at: now)
        if let seconds = spendControl?.resetsInSeconds, spendControl?.resetsAt == nil {
            dated.spendControl?.resetsAt = now.addingTimeInterval(seconds)
        }
        dated.additional = additional.map { $0.dated(at: now) }
        return dated
    }

    /// The time when all windows that are used up have reset, or `nil` if it is unknown, or if none is used up.
    public var resetOfUsedUp: Date? {
        let windows = [primary, secondary].compactMap(\.self).filter { $0.usedPercent >= 100 }
        return windows.compactMap(\.resetsAt).max()
    }

    private static func normalized(_ name: String) -> String { name.lowercased().replacing("-", with: "_") }
}

/// One window of a usage limit.
public struct ChappieUsageWindow: Sendable, Hashable, Codable {
    /// The used part of the window in percent, 0…100. It is more if the backend sends more, up to a million.
    public var usedPercent: Double
    /// The window's length, or `nil` if it is unknown.
    public var windowMinutes: Int?
    /// The time when the window resets, from 1970 to 9999, or `nil` if it is unknown.
    public var resetsAt: Date?
    /// The time until the reset, from the moment of the backend's answer. It is not a countdown. `nil` if the backend
    /// does not report it.
    public var resetsInSeconds: TimeInterval?

    /// Creates a window with the given properties.
    public init(
        usedPercent: Double, windowMinutes: Int? = nil, resetsAt: Date? = nil, resetsInSeconds: TimeInterval? = nil
    ) {
        self.usedPercent = usedPercent
        self.windowMinutes = windowMinutes
        self.resetsAt = resetsAt
        self.resetsInSeconds = resetsInSeconds
    }

    /// Creates the window that a backend reports, or returns `nil` if its length is 0, with which the backend fills an
    /// unused place.
    init?(reported used: Double, minutes: Int?, resetsAt: Date?, resetsInSeconds: TimeInterval?) {
        if let minutes, minutes <= 0 { return nil }
        self.init(usedPercent: used, windowMinutes: minutes, resetsAt: resetsAt, resetsInSeconds: resetsInSeconds)
    }

    fileprivate func dated(at now: Date) -> ChappieUsageWindow {
        var dated = self
        dated.resetsAt = resetsAt ?? resetsInSeconds.map { now.addingTimeInterval($0) }
        return dated
    }

    /// Reads a window of the `codex.rate_limits` event or of the usage endpoint.
    init?(_ json: ChappieJSON?) {
        guard let json, let used = PeerNumber.percent(PeerNumber.number(json["used_percent"])) else { return nil }
        let seconds = PeerNumber.integer(json["limit_window_seconds"])
        self.init(
            reported: used,
            minutes: PeerNumber.integer(json["window_minutes"])
                ?? seconds.map { $0 / 60 + ($0 % 60 > 0 ? 1 : 0) },
            resetsAt: PeerNumber.reset(PeerNumber.number(json["reset_at"])),
            resetsInSeconds: PeerNumber.duration(PeerNumber.number(json["reset_after_seconds"])))
    }
}

/// The availability of a model that has a separate limit.
public struct ChappieModelUsage: Sendable, Hashable, Codable {
    /// The model's name in requests.
    public var slug: String
    /// Whether the account may use it now.
    public var isAvailable: Bool
    /// The time from which it is available again, or `nil` if the backend does not report it.
    public var availableAt: Date?
    /// Whether credits would make it available now.
    public var creditsWouldEnable: Bool

    /// Creates an availability with the given properties.
    public init(slug: String, isAvailable: Bool, availableAt: Date? = nil, creditsWouldEnable: Bool = false) {
        self.slug = slug
        self.isAvailable = isAvailable
        self.availableAt = availableAt
        self.creditsWouldEnable = creditsWouldEnable
    }

    init?(_ slug: String, _ json: ChappieJSON) {
        guard let isAvailable = PeerNumber.flag(json["available"]) else { return nil }
        self.init(
            slug: slug, isAvailable: isAvailable,
            availableAt: PeerNumber.reset(PeerNumber.number(json["available_at"])),
            creditsWouldEnable: PeerNumber.flag(json["credits_would_enable"]) ?? false)
    }
}

extension ChappieUsageLimitSnapshot.ReachedType {
    /// Reads the limit that was reached, which is an object or a text.
    fileprivate init?(_ json: ChappieJSON) {
        let reached = json["rate_limit_reached_type"]
        guard let name = reached?["type"]?.string ?? reached?.string else { return nil }
        self.init(rawValue: name)
    }
}
