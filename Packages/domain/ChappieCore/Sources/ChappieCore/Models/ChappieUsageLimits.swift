public import HTTPTypes

/// The latest state of an account's limits, according to the backend.
public struct ChappieUsageLimitSnapshot: Sendable, Hashable, Codable {
    /// The family of limits; `codex` is the usual one.
    public var limitID: String
    /// A name of the family, if the backend sends one.
    public var limitName: String?
    /// The model for which these limits are a reserve; `nil` for other limits.
    public var normalModel: String?
    /// The short window, five hours at the time of writing.
    public var primary: ChappieUsageWindow?
    /// The long window, a week at the time of writing.
    public var secondary: ChappieUsageWindow?
    /// Credits beyond the windows.
    public var credits: ChappieUsageCredits?
    /// The account's plan.
    public var plan: ChappiePlan?
    /// Limits of other families, each with its own ``limitID``, for instance the limits of one feature.
    public var additional: [ChappieUsageLimitSnapshot]
    /// The user's spending limit in a workspace.
    public var spendControl: ChappieSpendControl?
    /// The limit that was reached; `nil` if none was.
    public var reachedType: ReachedType?
    /// The number of free resets of the windows; `nil` if the backend does not report it.
    public var availableResets: Int?
    /// The backend's sentence about additional quota, which is safe to show to the user.
    public var promotion: String?

    /// The kinds of limits that can be reached; unknown values survive.
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

    /// A snapshot with the given properties.
    public init(
        limitID: String = "codex", limitName: String? = nil, normalModel: String? = nil,
        primary: ChappieUsageWindow? = nil, secondary: ChappieUsageWindow? = nil, credits: ChappieUsageCredits? = nil,
        plan: ChappiePlan? = nil,
        additional: [ChappieUsageLimitSnapshot] = [], spendControl: ChappieSpendControl? = nil,
        reachedType: ReachedType? = nil, availableResets: Int? = nil, promotion: String? = nil
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
    }

    /// Decodes also the form that earlier versions wrote.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        func value<Value: Decodable>(_ key: CodingKeys) throws -> Value? {
            try values.decodeIfPresent(Value.self, forKey: key)
        }
        self.init(
            limitID: try values.decode(String.self, forKey: .limitID), limitName: try value(.limitName),
            normalModel: try value(.normalModel), primary: try value(.primary), secondary: try value(.secondary),
            credits: try value(.credits),
            plan: try value(.plan), additional: try value(.additional) ?? [], spendControl: try value(.spendControl),
            reachedType: try value(.reachedType), availableResets: try value(.availableResets),
            promotion: try value(.promotion))
    }

    /// Whether the snapshot has no limits at all.
    public var isEmpty: Bool { isSilent && additional.isEmpty && spendControl == nil && reachedType == nil }

    /// Whether the snapshot has no limits of its own family.
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
            credits: ChappieUsageCredits(json["credits"]), plan: json["plan_type"]?.string.map(ChappiePlan.init))
        let reviews = json["code_review_rate_limits"]
        let review = ChappieUsageLimitSnapshot(
            limitID: "code_review", primary: ChappieUsageWindow(reviews?["primary"]),
            secondary: ChappieUsageWindow(reviews?["secondary"]))
        if !review.isEmpty { additional = [review] }
    }

    /// Reads the body of the usage endpoint.
    ///
    /// - Returns: `nil` if it is not an object with a `plan_type` or a `rate_limit`.
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
        let reached = json["rate_limit_reached_type"]
        reachedType = (reached?["type"]?.string ?? reached?.string).map(ReachedType.init(rawValue:))
        availableResets = json["rate_limit_reset_credits"]?["available_count"]?.int
    }

    private init(limitID: String = "codex", limitName: String? = nil, rateLimit: ChappieJSON?) {
        self.init(
            limitID: limitID, limitName: limitName, primary: ChappieUsageWindow(rateLimit?["primary_window"]),
            secondary: ChappieUsageWindow(rateLimit?["secondary_window"]))
    }

    /// Reads the `x-codex-*` headers of a response.
    ///
    /// - Parameter family: `codex`, or another family in the headers, such as `codex-bengalfox`.
    /// - Returns: `nil` if the headers have no limits of that family. Other families in the headers become
    ///   ``additional``.
    public init?(headerFields: HTTPFields, family: String = "codex") {
        self.init(headerFields: headerFields, onlyFamily: family)
        if isSilent { return nil }
        let mark = "-primary-used-percent"
        for name in headerFields.map(\.name.canonicalName) where name.hasPrefix("x-") && name.hasSuffix(mark) {
            let other = String(name.dropFirst(2).dropLast(mark.count))
            guard Self.normalized(other) != limitID else { continue }
            let limits = ChappieUsageLimitSnapshot(headerFields: headerFields, onlyFamily: other)
            if !limits.isSilent, !additional.contains(where: { $0.limitID == limits.limitID }) {
                additional.append(limits)
            }
        }
        func value(_ name: String) -> String? { HTTPField.Name(name).flatMap { headerFields[$0] } }
        reachedType = value("x-codex-rate-limit-reached-type").map(ReachedType.init(rawValue:))
        promotion = UntrustedText.message(value("x-codex-promo-message"))
    }

    private init(headerFields: HTTPFields, onlyFamily family: String) {
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
    }

    private static func normalized(_ name: String) -> String { name.lowercased().replacing("-", with: "_") }
}

/// One window of a usage limit.
public struct ChappieUsageWindow: Sendable, Hashable, Codable {
    /// 0…100; more if the backend sends more, up to a million.
    public var usedPercent: Double
    /// The window's length; `nil` if it is unknown.
    public var windowMinutes: Int?
    /// The time when the window resets, from 1970 to 9999; `nil` if it is unknown.
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
    /// Whether the account has credits.
    public var hasCredits: Bool
    /// Whether the credits never run out.
    public var isUnlimited: Bool
    /// The balance in the backend's spelling.
    public var balance: String?
    /// The lowest and the highest number of messages on the user's machine that they pay for; `nil` if the backend does
    /// not report it.
    public var approximateLocalMessages: [Int]?
    /// The lowest and the highest number of messages in the cloud that they pay for; `nil` if the backend does not
    /// report it.
    public var approximateCloudMessages: [Int]?

    /// Credits with the given properties.
    public init(
        hasCredits: Bool, isUnlimited: Bool, balance: String? = nil, approximateLocalMessages: [Int]? = nil,
        approximateCloudMessages: [Int]? = nil
    ) {
        self.hasCredits = hasCredits
        self.isUnlimited = isUnlimited
        self.balance = balance
        self.approximateLocalMessages = approximateLocalMessages
        self.approximateCloudMessages = approximateCloudMessages
    }

    init?(_ json: ChappieJSON?) {
        guard let json, let hasCredits = json["has_credits"]?.bool else { return nil }
        func range(_ name: String) -> [Int]? { json[name]?.array?.compactMap(\.int) }
        self.init(
            hasCredits: hasCredits, isUnlimited: json["unlimited"]?.bool ?? false,
            balance: PeerNumber.text(json["balance"]), approximateLocalMessages: range("approx_local_messages"),
            approximateCloudMessages: range("approx_cloud_messages"))
    }
}

/// The spending limit of one user in a workspace. Amounts are in the backend's spelling.
public struct ChappieSpendControl: Sendable, Hashable, Codable {
    /// Whether the limit is reached.
    public var isReached: Bool
    /// The amount that the user may spend.
    public var limit: String?
    /// The amount that is spent.
    public var used: String?
    /// The amount that is left.
    public var remaining: String?
    /// 0…100, as in ``ChappieUsageWindow/usedPercent``.
    public var usedPercent: Double?
    /// The time when the limit resets.
    public var resetsAt: Date?

    /// Spending with the given properties.
    public init(
        isReached: Bool, limit: String? = nil, used: String? = nil, remaining: String? = nil,
        usedPercent: Double? = nil, resetsAt: Date? = nil
    ) {
        self.isReached = isReached
        self.limit = limit
        self.used = used
        self.remaining = remaining
        self.usedPercent = usedPercent
        self.resetsAt = resetsAt
    }

    init?(_ json: ChappieJSON?) {
        guard let json, json.object != nil else { return nil }
        let own = json["individual_limit"]
        self.init(
            isReached: json["reached"]?.bool ?? false, limit: PeerNumber.text(own?["limit"]),
            used: PeerNumber.text(own?["used"]), remaining: PeerNumber.text(own?["remaining"]),
            usedPercent: PeerNumber.percent(own?["used_percent"]?.double),
            resetsAt: PeerNumber.date(own?["reset_at"]?.double))
    }
}

/// A usage limit that was reached.
public struct ChappieUsageLimit: Sendable, Hashable, Codable {
    /// The backend's name for the error; usually `usage_limit_reached`.
    public var type: String
    /// Safe to show to the user: see ``ChappieResponseError/message``.
    public var message: String?
    /// The account's plan.
    public var plan: ChappiePlan?
    /// The time when the limit resets.
    public var resetsAt: Date?
    /// The time until the reset, from the moment of the backend's answer; not a countdown.
    public var resetsInSeconds: TimeInterval?
    /// All limits, if the answer contained them.
    public var rateLimit: ChappieUsageLimitSnapshot?
    /// See ``ChappieResponse/requestID``.
    public var requestID: String?
    /// The page on which the user manages usage; `nil` if the backend has none.
    public var usagePage: URL?

    /// A limit with the given properties.
    public init(
        type: String = "usage_limit_reached", message: String? = nil, plan: ChappiePlan? = nil, resetsAt: Date? = nil,
        resetsInSeconds: TimeInterval? = nil, rateLimit: ChappieUsageLimitSnapshot? = nil, requestID: String? = nil,
        usagePage: URL? = nil
    ) {
        self.type = type
        self.message = message
        self.plan = plan
        self.resetsAt = resetsAt
        self.resetsInSeconds = resetsInSeconds
        self.rateLimit = rateLimit
        self.requestID = requestID
        self.usagePage = usagePage
    }
}
